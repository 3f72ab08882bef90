// The indexer of MiniMax-M3's sparse attention: which blocks of keys each token attends to, as a mask
// [transformers models/minimax_m3_vl/modeling_minimax_m3_vl.py].

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

/// An indexer being run: sizes in elements.
struct BlockIndexer {
    explicit BlockIndexer(KernelCall& with)
        : call(with), tape(with.tape), a(with.attributes()), tokens(with.rows(with.input_tensor(0))),
          keys(sequence_of(with, 0)), blocks(detail::ceil_div(keys, a.key_block)),
          pairs(detail::checked_mul(tokens, keys)), choices(detail::checked_mul(detail::checked_mul(tokens, a.heads),
                                                                                std::min(a.chosen, blocks))) {}

    KernelCall& call;
    Tape& tape;
    const OpAttributes& a;
    std::int64_t tokens, keys;
    std::int64_t blocks;   ///< of each sequence
    std::int64_t pairs;    ///< of a token and a key of its sequence
    std::int64_t choices;  ///< blocks that all heads of all tokens choose
};

/// norm(projection(x)), transposed: parameters `weight` and `norm`.
Ref projected(BlockIndexer& n, std::size_t weight, std::size_t norm, std::int64_t heads) {
    const std::int64_t hidden = n.call.input_tensor(0).width;
    const Ref x = inner_linear(n.call, n.call.in(0), weight, false, {n.tokens, hidden, heads * n.a.head_dim});
    return norm_one_plus(n.tape, x, n.call.parameter(norm), detail::checked_mul(n.tokens, heads));
}

/// The dimensions that rotate, rotated, and the rest (apply_rotary_pos_emb).
std::array<Ref, 2> rotated_parts(BlockIndexer& n, const Ref& x) {
    const std::int64_t part = x.numel() / n.a.head_dim * n.a.rotary_dim;
    const Ref sliced = n.a.rotary_dim == n.a.head_dim ? x : n.tape.slice(x, part);
    return {rotate(n.tape, sliced, n.call.in(1), n.call.in(2)), n.tape.slice(x, x.numel() - part)};
}

/// q @ k.T in fp32, keys of later tokens and those that fill the last block left out: [B, heads, queries, blocks *
/// key_block]. The one key of all heads is written out for each, where there are several sequences
/// [aten/src/ATen/native/LinearAlgebra.cpp _matmul_impl].
Ref key_scores(BlockIndexer& n, const Ref& q, const Ref& k, std::array<Ref, 2>& locals) {
    Tape& tape = n.tape;
    const std::int64_t all = detail::checked_mul(n.pairs, n.a.heads);
    Ref scores;
    {
        const Ref wide_q = tape.cast(q, dtype::fp32), wide_k = tape.cast(k, dtype::fp32);
        Ref left = tape.autocast_input(wide_q);
        Ref right = tape.autocast_input(wide_k);
        if (n.a.heads > 1) {
            right = tape.expand(std::move(right), detail::checked_mul(k.numel(), n.a.heads));
            if (sequences_of(n.call, 0) > 1) right = tape.copy(std::move(right));
        }
        scores = tape.matmul(std::move(left), std::move(right), all);
    }
    locals[0] = tape.fresh(n.keys, dtype::int64, "positions of keys");
    locals[1] = tape.fresh(n.pairs, dtype::boolean, "later keys");
    const auto rebind = [&](std::int64_t numel, const char* what, const Ref& saved) {
        Ref made = tape.fresh(numel, scores.dtype(), what);
        Tape::NodeBuilder node(tape, what, {&scores});
        if (saved) node.save(saved);
        node.grad(0);
        node.finish(made);
        scores = std::move(made);
    };
    rebind(all, "scores of earlier keys", locals[1]);
    const std::int64_t whole = n.blocks * n.a.key_block;
    if (whole != n.keys)
        rebind(detail::checked_mul(detail::checked_mul(n.tokens, n.a.heads), whole), "scores of whole blocks", Ref());
    return scores;
}

/// scores.amax(dim=-1).
Ref block_scores(BlockIndexer& n, const Ref& scores) {
    Tape& tape = n.tape;
    const std::int64_t heads = detail::checked_mul(n.tokens, n.a.heads);
    Ref best = tape.fresh(detail::checked_mul(heads, n.blocks), scores.dtype(), "best of each block");
    Tape::NodeBuilder node(tape, "amax", {&scores});
    node.save(scores);
    node.save(best);
    node.grad(0);
    node.finish(best);
    return best;
}

/// The blocks of each query and head with the best scores (MiniMaxM3VLIndexer.forward). Autograd records all of it, and
/// nothing refers to that once the ids are there.
Ref best_blocks(BlockIndexer& n) {
    Tape& tape = n.tape;
    const std::size_t recorded = tape.nodes();
    Ref ids;
    {
        Ref q = projected(n, 0, 2, n.a.heads);
        Ref k = projected(n, 1, 3, 1);
        {
            std::array<Ref, 2> q_parts = rotated_parts(n, q), k_parts = rotated_parts(n, k);
            q = tape.cat(q_parts);
            q_parts[0].reset();
            k = tape.cat(k_parts);
        }
        std::array<Ref, 2> locals;
        const Ref scores = key_scores(n, q, k, locals);
        const Ref best = block_scores(n, scores);
        const Ref block_of_query = tape.fresh(n.tokens, dtype::int64, "block of each query");
        Ref numbers, local;  // those are raised in place
        if (n.a.local_blocks > 0) {
            const std::int64_t count = detail::checked_mul(n.tokens, n.a.local_blocks);
            numbers = tape.fresh(n.a.local_blocks, dtype::int64, "numbers of local blocks");
            const Ref signed_local = tape.fresh(count, dtype::int64, "blocks before each query");
            local = tape.fresh(count, dtype::int64, "local blocks");
        }
        const Ref values = tape.fresh(n.choices, best.dtype(), "best scores");
        const Ref found = tape.fresh(n.choices, dtype::int64, "best blocks");
        const Ref empty = tape.fresh(n.choices, dtype::boolean, "blocks of later keys");
        ids = tape.fresh(n.choices, dtype::int64, "chosen blocks");
    }
    tape.forget(recorded);
    return ids;
}

/// A mask for all heads of what the indexer's heads choose (MiniMaxM3VLIndexer.build_block_mask).
Ref written_out(BlockIndexer& n) {
    Tape& tape = n.tape;
    const std::int64_t heads = detail::checked_mul(n.tokens, n.a.heads);
    const std::int64_t all = detail::checked_mul(n.pairs, n.a.kv_heads);
    const Dtype& type = n.call.in(4).dtype();
    Ref safe;
    {
        const Ref none = tape.fresh(n.choices, dtype::boolean, "no block");
        safe = tape.fresh(n.choices, dtype::int64, "safe blocks");
    }
    const Ref bias = tape.fresh(detail::checked_mul(heads, n.blocks + 1), type, "bias of blocks");
    Ref keep;
    {
        const Ref kept = tape.fresh(detail::checked_mul(heads, n.blocks), dtype::boolean, "kept blocks");
        keep = tape.fresh(detail::checked_mul(heads, n.blocks * n.a.key_block), dtype::boolean, "kept keys");
    }
    keep = tape.fresh(all, dtype::boolean, "kept keys of all heads");
    const Ref given = n.call.in(3);
    Ref positions, allowed;
    if (!given) {
        positions = tape.fresh(n.keys, dtype::int64, "positions of keys");
        allowed = tape.fresh(n.pairs, dtype::boolean, "later keys");
    } else if (&given.dtype() != &dtype::boolean) {
        allowed = tape.fresh(given.numel(), dtype::boolean, "what the mask allows");
    }
    Ref both;
    {
        const Ref earlier = given ? Ref() : tape.fresh(n.pairs, dtype::boolean, "earlier keys");
        both = tape.fresh(all, dtype::boolean, "kept and allowed keys");
    }
    const Ref zeros = tape.fresh(all, type, "zeros");
    const Ref forbidden = tape.fresh(all, dtype::boolean, "other keys");
    return tape.fresh(all, type, "mask");
}

}  // namespace

void block_mask(KernelCall& call) {
    BlockIndexer n(call);
    call.hold_local(best_blocks(n));
    call.out(0, written_out(n));
}

}  // namespace membudget::kernel
