// The indexer of DeepSeek's sparse attention: which keys each token attends to, as a mask.

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

/// An indexer being run: sizes, and what it computes in.
struct Indexer {
    explicit Indexer(KernelCall& with)
        : call(with), tape(with.tape), a(with.attributes()), tokens(with.rows(with.input_tensor(0))),
          keys(sequence_of(with, 0)), pairs(detail::checked_mul(tokens, keys)), chosen(std::min(a.chosen, keys)) {}

    KernelCall& call;
    Tape& tape;
    const OpAttributes& a;
    std::int64_t tokens, keys;
    std::int64_t pairs;   ///< of a token and a key of its sequence
    std::int64_t chosen;  ///< keys of each token
};

/// The part of each head that rotates, rotated; then with the rest behind it.
Ref rotated_heads(Indexer& n, const Ref& x, const Ref& part) {
    const std::int64_t rest = x.numel() - part.numel();
    std::array<Ref, 2> joined{part, n.tape.slice(x, rest)};
    return n.tape.cat(joined);
}

Ref rotated_part(Indexer& n, const Ref& x) {
    const std::int64_t part = x.numel() / n.a.head_dim * n.a.rotary_dim;
    const Ref cos = n.call.in(2), sin = n.call.in(3);
    const Ref sliced = n.tape.slice(x, part);
    if (!n.a.interleaved) return rotate(n.tape, sliced, cos, sin);
    return rotate_even_odd(n.tape, n.tape.slice(sliced, part / 2), n.tape.slice(sliced, part / 2), cos, sin);
}

/// relu(q @ k.T * scale): the one key of all heads is written out for each query, where there are several
/// sequences [aten/src/ATen/native/LinearAlgebra.cpp _matmul_impl].
Ref index_scores(Indexer& n, const Ref& q, const Ref& k) {
    Tape& tape = n.tape;
    Ref scores;
    {
        const Ref wide_q = tape.cast(q, dtype::fp32), wide_k = tape.cast(k, dtype::fp32);
        const Ref left = tape.autocast_input(wide_q), right = tape.autocast_input(wide_k);
        Ref expanded;
        if (sequences_of(n.call, 0) > 1)
            expanded = tape.fresh(detail::checked_mul(n.pairs, n.a.head_dim), right.dtype(), "keys of each query");
        scores = tape.fresh(detail::checked_mul(n.pairs, n.a.heads), left.dtype(), "scores of the indexer");
    }
    scores = tape.mul_scalar(std::move(scores));
    return tape.unary_saving_output(std::move(scores), "relu");
}

/// The sum over heads, weighted by a projection, of what the mask allows.
Ref masked_scores(Indexer& n, const Ref& scores) {
    Tape& tape = n.tape;
    Ref weights = tape.linear(n.call.in(0), n.call.parameter(4), Ref(), n.tokens, n.call.input_tensor(0).width, n.a.heads);
    weights = tape.cast(std::move(weights), dtype::fp32);
    weights = tape.mul_scalar(std::move(weights));
    Ref sums = tape.matmul(weights, scores, n.pairs);
    const Ref mask = n.call.in(4);
    if (&mask.dtype() != &dtype::boolean)
        return tape.fresh(n.pairs, sums.dtype().bits < mask.dtype().bits ? mask.dtype() : sums.dtype(), "masked scores");
    const Ref forbidden = tape.fresh(n.pairs, dtype::boolean, "what is forbidden");
    return tape.fresh(n.pairs, sums.dtype(), "masked scores");
}

/// The keys of each token with the best scores, as int32 [models/deepseek_v32/modeling_deepseek_v32.py
/// DeepseekV32Indexer.forward, models/glm_moe_dsa/modeling_glm_moe_dsa.py GlmMoeDsaIndexer.forward].
Ref chosen_keys(Indexer& n) {
    Tape& tape = n.tape;
    KernelCall& call = n.call;
    const std::int64_t hidden = call.input_tensor(0).width, latent = call.input_tensor(1).width;
    const std::int64_t width = n.a.heads * n.a.head_dim;
    const Ref plain_q = tape.linear(call.in(1), call.parameter(0), Ref(), n.tokens, latent, width);
    Ref plain_k = tape.linear(call.in(0), call.parameter(1), Ref(), n.tokens, hidden, n.a.head_dim);
    if (tape.autocast() != nullptr && tape.backend() == Backend::cuda)
        plain_k = tape.cast(std::move(plain_k), dtype::fp32);
    plain_k = tape.layer_norm(std::move(plain_k), call.parameter(2), call.parameter(3), n.tokens);
    const Ref q_part = rotated_part(n, plain_q);
    const Ref k_part = rotated_part(n, plain_k);
    const Ref q = rotated_heads(n, plain_q, q_part);
    const Ref k = rotated_heads(n, plain_k, k_part);
    const Ref scores = index_scores(n, q, k);
    const Ref best = masked_scores(n, scores);
    const std::int64_t count = detail::checked_mul(n.tokens, n.chosen);
    const Ref values = tape.fresh(count, best.dtype(), "best scores");
    const Ref ids = tape.fresh(count, dtype::int64, "their keys");
    return tape.fresh(count, dtype::int32, "chosen keys");
}

}  // namespace

/// What the attention makes of them [DeepseekV32Attention.forward]: another mask, of each sequence its own.
void sparse_mask(KernelCall& call) {
    if (call.attributes().rate > 0) return entry_bias(call);
    if (call.attributes().key_block > 0) return block_mask(call);
    Indexer n(call);
    Tape& tape = call.tape;
    const bool before = call.attributes().chosen_before;
    const std::int64_t count = detail::checked_mul(n.tokens, n.chosen);
    const Ref keys = before ? Ref() : chosen_keys(n);
    Ref masked;
    {
        const Ref ones = tape.fresh(n.pairs, dtype::boolean, "ones");
        const Ref ids = tape.fresh(count, dtype::int64, "ids of keys");
        masked = tape.fresh(n.pairs, dtype::boolean, "keys that are not chosen");
    }
    const Ref given = call.in(4);
    const Dtype& type = given.dtype();
    Ref inverted = &type == &dtype::boolean ? tape.fresh(n.pairs, type, "chosen keys") : Ref();
    call.out(0, tape.fresh(n.pairs, type, "mask"));
    inverted.reset();
    call.hold_local(std::move(masked));
    if (before) return;
    if (call.attributes().passed_on)
        call.return_beside(keys);
    else
        call.hold_local(keys);
}

}  // namespace membudget::kernel
