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

/// Scores of all relative positions against `content`, of which each pair takes its own.
Ref scores_of_positions(KernelCall& call, std::size_t content, const Ref& position, std::int64_t numel) {
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
    return gather(tape, scores, index, numel);
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
        Ref by_key, by_query;  // names of the function that computes the bias
        std::size_t next = positions;
        if (a.by_key) {
            by_key = scores_of_positions(call, query, call.in(next++), numel);
            Ref scaled = tape.mul_scalar(by_key);
            bias = tape.add_scalar(std::move(scaled));
        }
        if (a.by_query) {
            by_query = scores_of_positions(call, key, call.in(next++), numel);
            Ref scaled = tape.mul_scalar(by_query);
            bias = bias ? tape.add_in_place(std::move(bias), std::move(scaled))
                        : tape.add_scalar(std::move(scaled));
        }
    }
    if (bias) scores = tape.add(std::move(scores), bias);
    const std::int64_t mask_numel = call.in(mask).numel();
    const Ref attended = tape.fresh(mask_numel, dtype::boolean, "mask");
    {
        const Ref condition = tape.fresh(mask_numel, dtype::boolean, "inverted mask");
        scores = masked_fill(tape, scores, condition);
    }
    Ref weights = tape.softmax(scores, softmax_dtype(call, scores));
    weights = drop_probabilities(call, std::move(weights));
    Ref out = tape.matmul(std::move(weights), call.in(value), call.numel(call.output_tensor(0)));
    call.out(0, merge_heads(call, std::move(out)));
}

}  // namespace membudget::kernel
