#include "model/modules.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace membudget {

namespace {

constexpr std::string_view kIndex = "{}";

/// Families whose routers are linear modules [models/{phimoe,dbrx,llama4}/modeling_*.py].
constexpr std::string_view kLinearRouters[] = {"phimoe", "dbrx", "llama4", "llama4_text", "gemma4", "gemma4_text"};

/// Modules whose weight is a matrix though they are no linear module: they hold a bare parameter.
bool is_bare_matrix(std::string_view path, const Parameter& weight, std::string_view family) {
    if (std::find(std::begin(kLinearRouters), std::end(kLinearRouters), family) != std::end(kLinearRouters))
        return false;
    // Routers of transformers 5 multiply with a parameter of their own; the gate of shared experts is
    // a linear module [models/qwen2_moe/modeling_qwen2_moe.py Qwen2MoeTopKRouter].
    return weight.component == Component::router && last_part(path) != "shared_expert_gate";
}

/// Whether a matrix that no op of the block multiplies with is a table of embeddings, by its name: linear
/// modules that project embeddings belong to the embeddings too.
bool is_table(std::string_view path, const Parameter& weight) {
    const std::string_view name = last_part(path);
    for (const std::string_view ending : {"embedding", "embeddings", "pos_embed", "relative_attention_bias"})
        if (name.ends_with(ending)) return true;
    return weight.component == Component::embedding && name.find("proj") == std::string_view::npos &&
           name.find("mapping") == std::string_view::npos;
}

/// The op of `block` that multiplies or looks up with parameter `index`; null: none says so.
const Op* user_of(const Block& block, std::size_t index) {
    for (const Op& op : block.ops)
        if (uses(op, index)) return &op;
    return nullptr;
}

/// Convolutions with groups. All of them have as many inputs as outputs.
constexpr std::string_view kGrouped[] = {
    "dwconv",  // ConvNeXt
    "conv1d",  // Mamba, Gated DeltaNet
    "conv",    // DeBERTa-v2's conv_groups; where a module of this name has one group, the rule says so too
};

void classify_convolution(const Parameter& weight, Module& module) {
    if (weight.component == Component::experts || weight.component == Component::norm) return;
    module.kind = ModuleKind::convolution;
    module.out = weight.shape[0];
    module.in = weight.shape[1];
    module.kernel.assign(weight.shape.begin() + 2, weight.shape.end());
    if (std::find(std::begin(kGrouped), std::end(kGrouped), last_part(module.path)) == std::end(kGrouped)) return;
    if (module.in == 0 || module.out % module.in != 0) return;
    module.groups = module.out / module.in;
    module.in = module.out;
}

void classify(const Block& block, Module& module, std::string_view family) {
    const Parameter& weight = block.parameters[module.weight];
    if (split_name(weight.name).second != "weight") return;
    if (weight.shape.size() > 2) return classify_convolution(weight, module);
    if (weight.shape.size() != 2) return;
    const Op* const op = user_of(block, module.weight);
    const bool looked_up = op != nullptr && (op->kind == OpKind::embedding || op->kind == OpKind::position_embedding ||
                                             op->kind == OpKind::linear)
                               ? op->kind != OpKind::linear
                               : is_table(module.path, weight);
    if (looked_up) {
        module.kind = ModuleKind::embedding;
        module.in = weight.shape[0];
        module.out = weight.shape[1];
        return;
    }
    if (is_bare_matrix(module.path, weight, family) || weight.component == Component::norm) return;
    module.kind = ModuleKind::linear;
    module.out = weight.shape[0];
    module.in = weight.shape[1];
    if (op == nullptr || op->kind != OpKind::linear) return;
    const std::int64_t reads = block.tensors[static_cast<std::size_t>(op->inputs.front())].width;
    const std::int64_t writes = block.tensors[static_cast<std::size_t>(op->outputs.front())].width;
    if (reads == module.in && writes == module.out) return;
    module.kind = ModuleKind::transposed;
    std::swap(module.in, module.out);
}

}  // namespace

std::pair<std::string_view, std::string_view> split_name(std::string_view name) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return {"", name};
    return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::vector<Module> modules_of(const Block& block, std::string_view family) {
    std::vector<Module> out;
    for (std::size_t i = 0; i < block.parameters.size(); ++i) {
        const auto [path, own] = split_name(block.parameters[i].name);
        auto module = std::find_if(out.begin(), out.end(), [&, wanted = path](const Module& m) { return m.path == wanted; });
        if (module == out.end()) {
            out.push_back({std::string(path), ModuleKind::other, {}, i, 0, 0, 1, {}});
            module = out.end() - 1;
        }
        module->parameters.push_back(i);
        if (own == "weight") module->weight = i;
    }
    for (Module& module : out) classify(block, module, family);
    return out;
}

std::string with_layer(std::string_view name, std::int64_t index) {
    std::string out(name);
    if (const auto at = out.find(kIndex); at != std::string::npos)
        out.replace(at, kIndex.size(), std::to_string(index));
    return out;
}

std::string output_embedding_of(const Model& model) {
    // The class around BLIP's decoder does not say that it has one [models/blip/modeling_blip.py].
    if (model.family == "blip") return {};
    // It shares the weight of the embeddings, or has as many outputs as these have entries: what else a
    // head holds (poolers, classifiers) is no output embedding.
    std::int64_t entries = 0;
    std::string found, tied;
    for (const Section& section : model.sections)
        for (const int index : section.pattern) {
            const Block& block = model.blocks[static_cast<std::size_t>(index)];
            for (const Module& module : modules_of(block, model.family)) {
                const Parameter& weight = block.parameters[module.weight];
                if (module.kind == ModuleKind::embedding && weight.component == Component::embedding)
                    entries = std::max(entries, module.in);
                if (module.kind != ModuleKind::linear) continue;
                if (!weight.tied_to.empty()) tied = section.prefix + module.path;
                if (weight.component == Component::head && entries > 0 && module.out >= entries)
                    found = section.prefix + module.path;
            }
        }
    return tied.empty() ? found : tied;
}

bool has_digit(std::string_view text) { return text.find_first_of("0123456789") != std::string_view::npos; }

namespace {

/// How often each block stands in a section: one that stands nowhere else can be moved.
std::vector<int> uses_of_blocks(const Model& model) {
    std::vector<int> uses(model.blocks.size());
    for (const Section& section : model.sections)
        for (const int index : section.pattern) ++uses[static_cast<std::size_t>(index)];
    return uses;
}

}  // namespace

void rewrite_layers(Model& model, Layers layers, const Decide& decide, const Change& change) {
    const std::vector<int> uses = uses_of_blocks(model);
    std::map<std::pair<int, Decision>, int> made;  // block as it was, decision -> block as it is
    std::vector<Block> blocks;
    std::vector<Section> sections;
    for (const Section& section : model.sections) {
        const auto length = static_cast<std::int64_t>(section.pattern.size());
        for (std::int64_t copy = 0; copy < section.count; ++copy) {
            Section unit{section.prefix, section.first_index + copy * length, {}, 1};
            for (std::int64_t i = 0; i < length; ++i) {
                const int old = section.pattern[static_cast<std::size_t>(i)];
                Block& block = model.blocks[static_cast<std::size_t>(old)];
                const bool last = uses[static_cast<std::size_t>(old)] == 1 &&
                                  (layers == Layers::alike || section.count == 1);
                Decision decision = decide(block, with_layer(section.prefix, unit.first_index + i));
                const auto [place, fresh] =
                    made.try_emplace({old, decision}, static_cast<int>(blocks.size()));
                if (fresh) {
                    if (last)
                        blocks.push_back(std::move(block));
                    else
                        blocks.push_back(block);
                    change(blocks.back(), section.prefix, decision);
                }
                unit.pattern.push_back(place->second);
            }
            if (copy > 0 && sections.back().pattern == unit.pattern)
                ++sections.back().count;
            else
                sections.push_back(std::move(unit));
            if (layers == Layers::alike) {
                sections.back().count = section.count;
                break;
            }
        }
    }
    model.blocks = std::move(blocks);
    model.sections = std::move(sections);
    model.adapted = true;
}

void settle_ties(Model& model, const std::vector<std::pair<std::string, std::string>>& renamed, TiedTraining rule) {
    const auto is_tied = [](const Parameter& parameter) { return !parameter.tied_to.empty(); };
    if (std::ranges::none_of(model.blocks, [&](const Block& block) {
            return std::ranges::any_of(block.parameters, is_tied);
        }))
        return;
    std::set<std::string> raised;  // owners that are trained under another name
    for (Block& block : model.blocks)
        for (Parameter& parameter : block.parameters) {
            if (parameter.tied_to.empty()) continue;
            for (const auto& [before, after] : renamed)
                if (parameter.tied_to == before) {
                    parameter.tied_to = after;
                    break;
                }
            if (parameter.trainable && rule == TiedTraining::as_any) raised.insert(parameter.tied_to);
        }
    std::map<std::string, bool> trainable;
    for (const Section& section : model.sections)
        for (const int index : section.pattern)
            for (Parameter& parameter : model.blocks[static_cast<std::size_t>(index)].parameters) {
                const std::string name = section.prefix + parameter.name;
                if (raised.count(name) > 0) parameter.trainable = true;
                if (name != parameter.tied_to) trainable.emplace(name, parameter.trainable);
            }
    for (Block& block : model.blocks)
        for (Parameter& parameter : block.parameters)
            if (const auto owner = trainable.find(parameter.tied_to);
                !parameter.tied_to.empty() && owner != trainable.end())
                parameter.trainable = owner->second;
}

}  // namespace membudget
