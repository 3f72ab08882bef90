// Windows of image models (arXiv:2103.14030): a grid of patches is padded, shifted and cut into squares, each of
// which attends to itself under a trained bias [transformers models/swin/modeling_swin.py].

#include <cstdint>
#include <vector>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

/// A copy of another size, whose gradient is a copy too.
void moved(KernelCall& call, const char* what) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    Ref out = tape.fresh(call.numel(call.output_tensor(0)), x.dtype(), what);
    Tape::NodeBuilder node(tape, what, {&x});
    node.grad(0);
    node.finish(out);
    call.out(0, std::move(out));
}

/// Entries of a table for each pair of patches of a window: pairs x heads, then a copy of heads x pairs.
Ref of_pairs(KernelCall& call, const Ref& table, std::int64_t pairs) {
    Tape& tape = call.tape;
    const std::int64_t heads = call.attributes().heads;
    Ref indexed = tape.fresh(detail::checked_mul(pairs, heads), table.dtype(), "indexed bias");
    {
        Tape::NodeBuilder node(tape, "index", {&table});
        node.grad(0, "grad of the table");
        node.finish(indexed);
    }
    return tape.copy(tape.view(std::move(indexed), transposed_gradient(heads)));
}

/// x.clamp(...) of few numbers [derivatives.yaml: clamp].
Ref clamped(Tape& tape, const Ref& x) {
    Ref out = tape.fresh(x.numel(), x.dtype(), "clamped");
    Tape::NodeBuilder node(tape, "clamp", {&x});
    node.save(x);
    const std::int16_t inside = node.temp(x.numel(), "within the bounds");
    node.grad(0);
    node.drop(inside);
    node.finish(out);
    return out;
}

/// F.normalize(x, dim=-1): x over its norm, which is bounded and expanded [torch/nn/functional.py normalize].
Ref normalised(KernelCall& call, Ref x) {
    Tape& tape = call.tape;
    // Autocast runs norms in fp32 on CUDA [autocast_mode.h AT_FORALL_FP32].
    const bool wide = tape.autocast() != nullptr && tape.backend() == Backend::cuda;
    const Ref given = wide ? tape.cast(x, dtype::fp32) : x;
    const Ref norm = row_norm(tape, given, x.numel() / call.attributes().head_dim);
    const Ref divisor = tape.expand(clamped(tape, norm), x.numel());
    const Ref quotient = divide(tape, given, divisor);
    if (!wide) return quotient;
    // What is divided is x itself, which the quotient keeps.
    Ref out = tape.alias_of_storage(quotient);
    Tape::NodeBuilder node(tape, "promoted", {&quotient});
    node.save(x);
    node.pass(0);
    node.finish(out);
    return out;
}

/// The table of biases, 16 * sigmoid of a network of two layers over coordinates, as heads x pairs.
Ref computed_bias(KernelCall& call, std::int64_t pairs, Ref& table) {
    Tape& tape = call.tape;
    const std::int64_t inner = call.shape_of_parameter(1).shape[0];
    const std::int64_t entries = call.attributes().window;
    {
        const Ref coordinates = tape.borrow(2 * entries, call.parameter(1).dtype(), false);
        // Four dimensions: the bias is added in place to the product [aten/src/ATen/native/Linear.cpp linear].
        Ref hidden = tape.linear(coordinates, call.parameter(1), Ref(), entries, 2, inner);
        hidden = tape.add_in_place(std::move(hidden), tape.autocast_input(call.parameter(2)));
        Ref rectified = tape.alias_of_storage(hidden);
        {
            Tape::NodeBuilder node(tape, "relu_", {&hidden});
            node.save(rectified);
            node.grad(0);
            node.finish(rectified);
        }
        table = tape.linear(std::move(rectified), call.parameter(3), Ref(), entries, inner, call.attributes().heads);
    }
    Ref bias = of_pairs(call, table, pairs);
    return tape.mul_scalar(tape.unary_saving_output(std::move(bias), "sigmoid"));
}

}  // namespace

/// Swin v2 [models/swinv2/modeling_swinv2.py Swinv2SelfAttention.forward].
void cosine(KernelCall& call) {
    constexpr std::size_t kMask = 3;
    Tape& tape = call.tape;
    const auto [query, key, value] = untransposed_heads(call);
    Ref scores;
    {
        const Ref left = normalised(call, query);
        const Ref right = normalised(call, key);
        Ref keys = factor(call, right);
        Ref queries = factor(call, left);
        scores = tape.matmul(std::move(queries), std::move(keys), scores_numel(call));
    }
    const Ref scale = tape.unary_saving_output(clamped(tape, call.parameter(0)), "exp");
    scores = tape.mul(scores, scale);
    Ref table;
    const std::int64_t pairs = detail::checked_mul(sequence_of(call, 0), sequence_of(call, 1));
    const Ref bias = computed_bias(call, pairs, table);
    scores = tape.add(scores, bias);
    if (call.inputs() > kMask)
        for (int i = 0; i < 2; ++i) scores = tape.add(scores, call.in(kMask));  // the class adds it twice
    Ref weights = tape.softmax(scores, softmax_dtype(call, scores));
    weights = drop_probabilities(call, std::move(weights));
    Ref out;
    {
        Ref values = factor(call, value);
        Ref left = tape.autocast() != nullptr ? tape.cast(weights, *tape.autocast()) : weights;
        out = tape.matmul(std::move(left), std::move(values), call.numel(call.output_tensor(0)));
    }
    call.out(0, merge_heads(call, std::move(out)));
}

void pad(KernelCall& call) { moved(call, "padded"); }

void roll(KernelCall& call) { moved(call, "rolled"); }

void window_mask(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t numel = call.numel(call.output_tensor(0));
    const Ref x = call.in(0);
    const Dtype& type = x.dtype();
    const Ref differences = tape.fresh(numel, type, "differences of regions");
    Ref filled;
    {
        const Ref other = tape.fresh(numel, dtype::boolean, "other regions");
        filled = tape.fresh(numel, type, "filled mask");
    }
    const Ref same = tape.fresh(numel, dtype::boolean, "same region");
    call.out(0, tape.fresh(numel, type, "mask"));
}

void window_bias(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    Ref bias = of_pairs(call, call.parameter(0), call.output_tensor(0).width);
    if (call.inputs() == 0) return call.out(0, std::move(bias));
    const Ref mask = call.in(0);
    const std::int64_t all = detail::checked_mul(call.extents.images, mask.numel());
    const Ref expanded = call.extents.images > 1 ? tape.fresh(all, mask.dtype(), "mask of each image") : mask;
    Ref out = tape.fresh(detail::checked_mul(all, a.heads),
                         mask.dtype().bits > bias.dtype().bits ? mask.dtype() : bias.dtype(), "bias with mask");
    {
        Tape::NodeBuilder node(tape, "add", {&bias});
        node.grad(0, "reduced grad");
        node.finish(out);
    }
    for (const Ref& local : {bias, expanded}) call.hold_local(local);
    call.out(0, std::move(out));
}

void merge_patches(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = tape.view(call.in(0));
    const std::int64_t quarter = x.numel() / 4;
    std::vector<Ref> parts;
    for (int i = 0; i < 4; ++i) parts.push_back(tape.slice(tape.slice(x, 2 * quarter), quarter));  // rows, columns
    call.out(0, tape.cat(parts));
}

}  // namespace membudget::kernel
