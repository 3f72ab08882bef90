#include "model/blocks.hpp"

#include <algorithm>

namespace membudget {

std::string join(std::string_view path, std::string_view name) {
    std::string out(path);
    if (!path.empty() && !name.empty()) out += '.';
    out += name;
    return out;
}

BlockBuilder::ScopeGuard::ScopeGuard(BlockBuilder& builder)
    : builder_(builder), scope_(builder.block_.scopes.size()) {
    const int here = static_cast<int>(builder.block_.ops.size());
    builder.block_.scopes.push_back({here, here});
}

BlockBuilder::ScopeGuard::~ScopeGuard() {
    builder_.block_.scopes[scope_].end_op = static_cast<int>(builder_.block_.ops.size());
}

BlockBuilder::BlockBuilder(std::string name) {
    block_.name = std::move(name);
    block_.scopes.push_back({0, 0});
}

int BlockBuilder::input(std::int64_t width, Rows rows) {
    block_.input = hold(tensor("input", width, rows));
    return block_.input;
}

int BlockBuilder::shared(int index, const Tensor& tensor) {
    for (std::size_t i = 0; i < block_.tensors.size(); ++i)
        if (block_.tensors[i].shared == index) return static_cast<int>(i);
    block_.tensors.push_back(tensor);
    block_.tensors.back().shared = index;
    return static_cast<int>(block_.tensors.size()) - 1;
}

void BlockBuilder::share(int tensor, int index, const Tensor& as) {
    block_.tensors[static_cast<std::size_t>(tensor)] = as;
    block_.tensors[static_cast<std::size_t>(tensor)].shared = index;
}

int BlockBuilder::tensor(std::string name, std::int64_t width, Rows rows) {
    Tensor made;
    made.name = std::move(name);
    made.width = width;
    made.rows = rows;
    block_.tensors.push_back(std::move(made));
    return static_cast<int>(block_.tensors.size()) - 1;
}

int BlockBuilder::hold(int tensor) {
    block_.tensors[static_cast<std::size_t>(tensor)].held = Held::until_scope_end;
    return tensor;
}

int BlockBuilder::release(int tensor) {
    block_.tensors[static_cast<std::size_t>(tensor)].held = Held::until_last_read;
    return tensor;
}

int BlockBuilder::hold_until_return(int tensor) {
    block_.tensors[static_cast<std::size_t>(tensor)].held = Held::until_return;
    return tensor;
}

int BlockBuilder::hold_until_model_end(int tensor) {
    block_.tensors[static_cast<std::size_t>(tensor)].held = Held::until_model_end;
    return tensor;
}

void BlockBuilder::set_rows(int tensor, Rows rows) {
    block_.tensors[static_cast<std::size_t>(tensor)].rows = rows;
}

void BlockBuilder::set_times(int tensor, std::int64_t times) {
    block_.tensors[static_cast<std::size_t>(tensor)].times = times;
}

void BlockBuilder::set_most(int tensor, std::int64_t most) {
    block_.tensors[static_cast<std::size_t>(tensor)].most = most;
}

Parameter& BlockBuilder::parameter_named(std::string_view name) {
    for (Parameter& parameter : block_.parameters)
        if (parameter.name == name) return parameter;
    throw InternalError("no parameter '" + std::string(name) + "' in the block");
}

int BlockBuilder::parameter(std::string name, std::vector<std::int64_t> shape,
                            Component component) {
    for (std::size_t i = 0; i < block_.parameters.size(); ++i)
        if (block_.parameters[i].name == name) return static_cast<int>(i);
    Parameter made;
    made.name = std::move(name);
    made.shape = std::move(shape);
    made.component = component;
    block_.parameters.push_back(std::move(made));
    return static_cast<int>(block_.parameters.size()) - 1;
}

std::vector<int> BlockBuilder::linear_weights(std::string_view name, std::int64_t in,
                                              std::int64_t out, bool bias, Component component) {
    std::vector<std::int64_t> shape{out, in};
    if (transposed_) std::swap(shape[0], shape[1]);
    std::vector<int> made{parameter(join(name, "weight"), std::move(shape), component)};
    if (bias) made.push_back(parameter(join(name, "bias"), {out}, component));
    return made;
}

std::vector<int> BlockBuilder::norm_weights(std::string_view name, std::int64_t width,
                                            const Norm& norm, Component component) {
    std::vector<int> made;
    if (norm.weight) made.push_back(parameter(join(name, "weight"), {width}, component));
    if (norm.bias) made.push_back(parameter(join(name, "bias"), {width}, component));
    return made;
}

Op& BlockBuilder::op(OpKind kind, std::string name, Place place, std::vector<int> inputs,
                     std::vector<int> outputs, std::vector<int> parameters) {
    Op made;
    made.kind = kind;
    made.name = std::move(name);
    made.term = place.term;
    made.inputs = std::move(inputs);
    made.outputs = std::move(outputs);
    made.parameters = std::move(parameters);
    block_.ops.push_back(std::move(made));
    return block_.ops.back();
}

int BlockBuilder::unary(OpKind kind, int x, std::string_view name, Place place) {
    const int out = tensor(std::string(name), at(x).width, at(x).rows);
    set_times(out, at(x).times);
    set_most(out, at(x).most);
    op(kind, std::string(name), place, {x}, {out});
    return out;
}

int BlockBuilder::linear(int x, std::string_view name, std::int64_t out_width, bool bias,
                         Place place) {
    const int out = tensor(std::string(name), out_width, at(x).rows);
    set_times(out, at(x).times);
    set_most(out, at(x).most);
    std::vector<int> weights = linear_weights(name, at(x).width, out_width, bias, place.component);
    if (!written_out_) {
        op(OpKind::linear, std::string(name), place, {x}, {out}, std::move(weights));
        return out;
    }
    op(OpKind::linear, std::string(name), place, {x}, {out}, {weights[0]}).attributes.weight_copied =
        true;
    if (!bias) return out;
    const int sum = tensor(join(name, "bias"), out_width, at(x).rows);
    op(OpKind::add, join(name, "bias"), place, {out}, {sum}, {weights[1]});
    return sum;
}

int BlockBuilder::norm(int x, std::string_view name, const Norm& norm, Place place) {
    const int out = unary(norm.kind, x, name, place);
    block_.ops.back().parameters = norm_weights(name, at(x).width, norm);
    block_.ops.back().attributes.norm = norm.style;
    return out;
}

void BlockBuilder::normalise_heads(std::int64_t heads, std::vector<std::int64_t> shape) {
    Op& last = block_.ops.back();
    last.attributes.heads = heads;
    for (const int index : last.parameters)
        block_.parameters[static_cast<std::size_t>(index)].shape = shape;
}

int BlockBuilder::dropout(int x, std::string_view name, double probability, Place place) {
    const int out = unary(OpKind::dropout, x, name, place);
    block_.ops.back().attributes.dropout = probability;
    return out;
}

int BlockBuilder::activation(int x, std::string_view name, Act act, Place place) {
    const int out = unary(OpKind::activation, x, name, place);
    block_.ops.back().attributes.act = act;
    return out;
}

int BlockBuilder::gated_activation(int gate, int up, std::string_view name, Act act, Place place) {
    const int out = tensor(std::string(name), at(gate).width, at(gate).rows);
    op(OpKind::gated_activation, std::string(name), place, {gate, up}, {out}).attributes.act = act;
    return out;
}

int BlockBuilder::add(int a, int b, std::string_view name, Place place) {
    const int out = tensor(std::string(name), at(a).width, at(a).rows);
    set_times(out, at(a).times);
    op(OpKind::add, std::string(name), place, {a, b}, {out});
    return out;
}

int BlockBuilder::scale(int x, std::string_view name, Place place) {
    return unary(OpKind::scale, x, name, place);
}

int BlockBuilder::embedding(std::string_view name, std::int64_t rows, std::int64_t width,
                            OpKind kind) {
    const int weight = parameter(join(name, "weight"), {rows, width}, Component::embedding);
    // Position ids are [1, sequence]: their embeddings are shared by the batch.
    const int out = tensor(std::string(name), width,
                           kind == OpKind::position_embedding ? Rows::positions : Rows::tokens);
    op(kind, std::string(name), place::embedding, {}, {out}, {weight});
    return out;
}

std::vector<int> BlockBuilder::split(int x, std::string_view name,
                                     std::initializer_list<std::int64_t> widths, Place place) {
    std::vector<int> outputs;
    for (const std::int64_t width : widths)
        outputs.push_back(tensor(join(name, std::to_string(outputs.size())), width, at(x).rows));
    op(OpKind::split, std::string(name), place, {x}, outputs);
    return outputs;
}

Block BlockBuilder::finish(int output) && {
    block_.output = output;
    block_.scopes.front().end_op = static_cast<int>(block_.ops.size());
    return std::move(block_);
}

std::vector<Section> sections_of(const std::vector<int>& kinds, std::string_view prefix) {
    constexpr std::size_t kLongestPattern = 64;
    std::vector<Section> sections;
    const std::size_t n = kinds.size();
    for (std::size_t start = 0; start < n;) {
        std::size_t best_period = 1;
        std::size_t best_covered = 0;
        for (std::size_t period = 1; period <= std::min(kLongestPattern, n - start); ++period) {
            std::size_t end = start + period;
            while (end < n && kinds[end] == kinds[end - period]) ++end;
            // A pattern that never repeats is no pattern: only its first layer counts as covered.
            std::size_t copies = (end - start) / period;
            const std::size_t covered = copies > 1 ? copies * period : (period == 1 ? 1 : 0);
            if (covered > best_covered) {
                best_covered = covered;
                best_period = period;
            }
        }
        Section section;
        section.prefix = prefix;
        section.first_index = static_cast<std::int64_t>(start);
        section.pattern.assign(kinds.begin() + static_cast<std::ptrdiff_t>(start),
                               kinds.begin() + static_cast<std::ptrdiff_t>(start + best_period));
        section.count = static_cast<std::int64_t>(best_covered / best_period);
        sections.push_back(std::move(section));
        start += best_covered;
    }
    return sections;
}

void add_section(Model& model, std::string prefix, Block block, std::int64_t count) {
    model.sections.push_back({std::move(prefix), 0, {static_cast<int>(model.blocks.size())}, count});
    model.blocks.push_back(std::move(block));
}

int declare_tensor(std::vector<Tensor>& shared, std::string name, std::int64_t width, Rows rows) {
    Tensor made;
    made.name = std::move(name);
    made.width = width;
    made.rows = rows;
    made.shared = static_cast<int>(shared.size());
    shared.push_back(std::move(made));
    return shared.back().shared;
}

}  // namespace membudget
