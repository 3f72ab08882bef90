// DeBERTa's attention (arXiv:2006.03654): beside contents with contents, contents meet relative positions
// [transformers models/deberta_v2/modeling_deberta_v2.py DisentangledSelfAttention].

#include <cstdint>

#include "stack/attention_parts.hpp"

namespace membudget::kernel {

namespace {

enum Input : std::size_t { value, query, key, mask, positions };

/// torch.gather along the last dimension; backward makes zeros of the input's size and adds to them.
Ref gather(Tape& tape, const Ref& x, const Ref& index, std::int64_t numel) {
    Ref out = tape.fresh(numel, x.dtype(), "gathered scores");
    Tape::NodeBuilder node(tape, "gather", {&x});
    node.save(x);
    node.save(index);
    node.grad(0, "scattered grad");
    node.finish(out);
    return out;
}

/// Indices of the relative position of each pair, from 0 on.
Ref indices(KernelCall& call, std::int64_t pairs) {
    const Ref shifted = call.tape.fresh(pairs, dtype::int64, "shifted positions");
    return call.tape.fresh(pairs, dtype::int64, "clamped positions");
}

/// Names of the function that computes the bias: scores of each pair, and where they were found.
struct Chosen {
    Ref scores, index;
};

/// The function that computes the bias returns: its names for the projected positions go.
void drop_positions(KernelCall& call, std::size_t first) {
    for (std::size_t i = first; i < call.inputs(); ++i) call.rebind_input(i, {});
}

/// Scores of all relative positions against `content`, of which each pair takes its own.
Chosen scores_of_positions(KernelCall& call, std::size_t content, const Ref& position, std::int64_t numel) {
    Tape& tape = call.tape;
    const std::int64_t heads = call.attributes().heads;
    const std::int64_t pairs = detail::checked_mul(sequence_of(call, query), sequence_of(call, key));
    const std::int64_t span = position.numel() / (call.extents.batch * heads * call.attributes().head_dim);
    const std::int64_t all = detail::checked_mul(numel / sequence_of(call, key), span);
    Ref scores, index;
    if (content == query) {
        scores = tape.matmul(call.in(content), position, all);
        index = indices(call, pairs);
    } else {
        index = indices(call, pairs);
        scores = tape.matmul(call.in(content), position, all);
    }
    return {gather(tape, scores, index, numel), index};
}

Ref masked_fill(Tape& tape, const Ref& x, const Ref& condition) {
    Ref out = tape.fresh(x.numel(), x.dtype(), "masked scores");
    Tape::NodeBuilder node(tape, "masked_fill", {&x});
    node.save(condition);
    node.grad(0);
    node.finish(out);
    return out;
}

std::int64_t scores_size(const KernelCall& call) {
    return detail::checked_mul(
        detail::checked_mul(call.extents.batch, call.attributes().heads),
        detail::checked_mul(sequence_of(call, query), sequence_of(call, key)));
}

/// Probabilities under the mask, and what they make of the values.
void attend(KernelCall& call, Ref scores, std::size_t mask_input, std::size_t value_input) {
    Tape& tape = call.tape;
    const std::int64_t mask_numel = call.in(mask_input).numel();
    const Ref attended = tape.fresh(mask_numel, dtype::boolean, "mask");
    {
        const Ref condition = tape.fresh(mask_numel, dtype::boolean, "inverted mask");
        scores = masked_fill(tape, scores, condition);
    }
    Ref weights = tape.softmax(scores, softmax_dtype(call, scores));
    weights = drop_probabilities(call, std::move(weights));
    const Ref given = call.in(value_input);
    Ref values = call.attributes().head_major ? given : factor(call, given);
    Ref out = tape.matmul(std::move(weights), std::move(values), call.numel(call.output_tensor(0)));
    call.out(0, merge_heads(call, std::move(out)));
}

namespace joined {

enum Input : std::size_t { query, key, value, mask, positions };

/// Scores of all relative positions against `content`, of which each pair takes its own. The positions are those
/// of one sequence: of several they are expanded, which copies them.
Chosen scores_of_positions(KernelCall& call, std::size_t content, Ref position) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const std::int64_t pairs = detail::checked_mul(sequence_of(call, query), sequence_of(call, key));
    const std::int64_t span = position.numel() / (a.heads * a.head_dim);
    const std::int64_t numel = scores_numel(call);
    position = tape.view(std::move(position), transposed_gradient(a.heads));
    const auto product = [&] {
        Ref right = tape.autocast() != nullptr ? tape.cast(position, *tape.autocast()) : position;
        if (call.extents.batch > 1) right = tape.repeat(right, detail::checked_mul(right.numel(), call.extents.batch));
        Ref left = factor(call, call.in(content));
        return tape.matmul(std::move(left), std::move(right), detail::checked_mul(numel / sequence_of(call, key), span));
    };
    Ref scores = content == query ? product() : Ref();
    const Ref index = indices(call, pairs);
    if (content == key) scores = product();
    return {gather(tape, scores, index, numel), index};
}

/// `x /= number` on a view: backward makes a gradient of the base, clones it and writes the quotient into it; what
/// comes to the view is written into zeros of the base first [torch/csrc/autograd/functions/tensor.cpp
/// CopySlices::apply; FunctionsManual.cpp as_strided_backward].
Ref scaled_in_place(Tape& tape, const Ref& x) {
    Ref out = tape.alias_of_storage(x);
    Tape::NodeBuilder node(tape, "div_", {&x});
    node.grad(0, "gradient of the base");
    const std::int64_t bytes = byte_count(x.numel(), x.dtype());
    const std::int16_t clone = node.temp(bytes, "cloned grad");
    const std::int16_t quotient = node.temp(bytes, "quotient");
    node.drop(quotient);
    node.drop(clone);
    node.finish(out);
    return tape.view(std::move(out), Tape::ViewGradient::copy);
}

}  // namespace joined

}  // namespace

Ref disentangled_scores(KernelCall& call) {
    Ref scaled = call.tape.mul_scalar(call.in(key));
    return call.tape.matmul(call.in(query), std::move(scaled), scores_size(call));
}

void disentangled(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const std::int64_t numel = scores_size(call);
    Ref scores = std::move(call.early);
    Ref bias;
    {
        Chosen by_key, by_query;
        std::size_t next = positions;
        if (a.by_key) {
            by_key = scores_of_positions(call, query, call.in(next++), numel);
            Ref scaled = tape.mul_scalar(by_key.scores);
            bias = tape.add_scalar(std::move(scaled));
        }
        if (a.by_query) {
            by_query = scores_of_positions(call, key, call.in(next++), numel);
            Ref scaled = tape.mul_scalar(by_query.scores);
            bias = bias ? tape.add_in_place(std::move(bias), std::move(scaled))
                        : tape.add_scalar(std::move(scaled));
        }
    }
    drop_positions(call, positions);
    if (bias) scores = tape.add(std::move(scores), bias);
    attend(call, std::move(scores), mask, value);
}

Ref joined_scores(KernelCall& call) {
    Ref right = factor(call, call.in(joined::key));
    Ref left = factor(call, call.in(joined::query));
    return call.tape.matmul(std::move(left), std::move(right), scores_numel(call));
}

/// DeBERTa v1 [models/deberta/modeling_deberta.py DisentangledSelfAttention.forward, disentangled_att_bias].
void disentangled_joined(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    Ref scores = std::move(call.early);
    Ref bias;
    {
        Chosen by_key, by_query;
        std::size_t next = joined::positions;
        if (a.by_key) {
            by_key = joined::scores_of_positions(call, joined::query, call.in(next++));
            bias = tape.add_scalar(by_key.scores);
        }
        if (a.by_query) {
            by_query = joined::scores_of_positions(call, joined::key, joined::scaled_in_place(tape, call.in(next++)));
            bias = bias ? tape.add_in_place(std::move(bias), by_query.scores) : tape.add_scalar(by_query.scores);
        }
    }
    drop_positions(call, joined::positions);
    if (bias) scores = tape.add(std::move(scores), bias);
    attend(call, std::move(scores), joined::mask, joined::value);
}

}  // namespace membudget::kernel
