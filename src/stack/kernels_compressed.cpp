// DeepSeek-V4's attention: keys and values of single tokens and of windows of many, one tensor for both and all heads
// [transformers models/deepseek_v4/modeling_deepseek_v4.py].

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"
#include "stack/moe_parts.hpp"

namespace membudget::kernel {

namespace {

struct Tables {
    Ref cos, sin;
};

/// DeepseekV4RotaryEmbedding.forward, of so many positions.
Tables tables_of(Tape& tape, std::int64_t positions, std::int64_t pairs, const Dtype& type) {
    const std::int64_t numel = detail::checked_mul(positions, pairs);
    Ref angles;
    {
        const Ref wide = tape.fresh(positions, dtype::fp32, "positions in fp32");
        angles = tape.fresh(numel, dtype::fp32, "angles");
    }
    Tables made;
    made.cos = tape.mul_scalar(tape.fresh(numel, dtype::fp32, "cosine"));
    made.sin = tape.mul_scalar(tape.fresh(numel, dtype::fp32, "sine"));
    angles.reset();
    made.cos = tape.cast(std::move(made.cos), type);
    made.sin = tape.cast(std::move(made.sin), type);
    return made;
}

/// x[..., from:to] = part: in backward a copy of the whole gradient, and one of the slice
/// [torch/csrc/autograd/functions/tensor.cpp CopySlices::apply_impl].
Ref write_slice(Tape& tape, const Ref& x, const Ref& part) {
    Ref written = tape.alias_of_storage(x);
    Tape::NodeBuilder node(tape, "CopySlices", {&x, &part});
    node.grad(0, "copy of the gradient");
    node.grad(1, "slice of the gradient");
    node.finish(written);
    return written;
}

/// What a compressor reads and makes: sizes.
struct Windows {
    Windows(const KernelCall& call, std::int64_t of_entry)
        : batch(sequences_of(call, 0)), sequence(sequence_of(call, 0)), rate(call.attributes().rate),
          count(sequence / rate), entries(detail::checked_mul(batch, count)), width(of_entry) {}
    std::int64_t batch, sequence, rate;
    std::int64_t count;    ///< windows of each sequence
    std::int64_t entries;  ///< of all
    std::int64_t width;    ///< of an entry
};

/// The first half of a window's rows is the other series of the window before, where there is one.
Ref overlapped_before(Tape& tape, const Ref& target, const Ref& chunk, const Windows& w) {
    if (w.count <= 1) return target;
    const Ref before = tape.slice(chunk, chunk.numel() / w.count * (w.count - 1));
    return write_slice(tape, target, tape.slice(before, before.numel() / 2));
}

/// The locals of a compressor's function, beside what it returns.
struct Compressed {
    std::vector<Ref> locals;
    Ref entries;
};

/// The tokens of each window weighted by a softmax of their gates, normalised, rotated. Parameters from `first` on:
/// position bias, projections, norm.
Compressed compress_windows(KernelCall& call, const Windows& w, std::size_t first, bool overlaps) {
    Tape& tape = call.tape;
    const std::int64_t tokens = call.rows(call.input_tensor(0)), hidden = call.input_tensor(0).width;
    const std::int64_t width = overlaps ? 2 * w.width : w.width;
    Compressed made;
    const Ref kv = tape.linear(call.in(0), call.parameter(first + 1), Ref(), tokens, hidden, width);
    const Ref gate = tape.linear(call.in(0), call.parameter(first + 2), Ref(), tokens, hidden, width);
    const std::int64_t used = detail::checked_mul(detail::checked_mul(w.entries, w.rate), width);
    const Ref chunk_kv = used == kv.numel() ? kv : tape.slice(kv, used);
    Ref chunk_gate = used == gate.numel() ? gate : tape.slice(gate, used);
    chunk_gate = tape.add(std::move(chunk_gate), call.parameter(first));
    made.locals = {kv, gate, chunk_gate};
    Ref new_kv = chunk_kv, new_gate = chunk_gate;
    if (overlaps) {
        new_kv = tape.fresh(chunk_kv.numel(), chunk_kv.dtype(), "values of windows");
        new_gate = tape.fresh(chunk_gate.numel(), chunk_gate.dtype(), "gates of windows");
        new_kv = write_slice(tape, new_kv, tape.slice(chunk_kv, chunk_kv.numel() / 2));
        new_gate = write_slice(tape, new_gate, tape.slice(chunk_gate, chunk_gate.numel() / 2));
        new_kv = overlapped_before(tape, new_kv, chunk_kv, w);
        new_gate = overlapped_before(tape, new_gate, chunk_gate, w);
        made.locals.push_back(new_kv);
        made.locals.push_back(new_gate);
    }
    Ref sum;
    {
        Ref weights = tape.softmax(new_gate, dtype::fp32);
        weights = tape.cast(std::move(weights), new_kv.dtype());
        Ref product = tape.mul(new_kv, std::move(weights));
        sum = row_sum(tape, product, detail::checked_mul(w.entries, w.width));
    }
    sum = weighted_norm(tape, std::move(sum), call.parameter(first + 3), w.entries);
    {
        Ref positions = tape.fresh(w.count, dtype::int64, "windows");
        positions = tape.mul_scalar(std::move(positions));
        made.locals.push_back(tape.add_scalar(std::move(positions)));
    }
    const Tables tables = tables_of(tape, w.entries, call.attributes().rotary_dim / 2, sum.dtype());
    made.entries = rotate_trailing(tape, sum, tables.cos, tables.sin, w.width, call.attributes().rotary_dim);
    made.locals.push_back(tables.cos);
    made.locals.push_back(tables.sin);
    return made;
}

/// Scores of each query and entry: sum over heads of weight * relu(q @ k.T) (DeepseekV4IndexerScorer.forward).
Ref entry_scores(KernelCall& call, const Ref& q, const Ref& entries, const Windows& w, std::size_t weights_at) {
    Tape& tape = call.tape;
    const std::int64_t tokens = call.rows(call.input_tensor(0)), heads = call.attributes().heads;
    Ref scores;
    {
        const Ref wide_q = tape.cast(q, dtype::fp32), wide_k = tape.cast(entries, dtype::fp32);
        const std::int64_t each = detail::checked_mul(wide_k.numel(), w.sequence);
        Ref left = tape.autocast_input(wide_q);
        Ref right = tape.expand(tape.autocast_input(wide_k), each);
        if (w.batch > 1) {
            if (&left.dtype() == &wide_q.dtype()) left = tape.copy(std::move(left));
            right = tape.copy(std::move(right));
        }
        scores = tape.matmul(left, right, detail::checked_mul(detail::checked_mul(tokens, heads), w.count));
    }
    scores = tape.mul_scalar(tape.unary_saving_output(std::move(scores), "relu"));
    Ref weights = tape.linear(call.in(0), call.parameter(weights_at), Ref(), tokens, call.input_tensor(0).width, heads);
    weights = tape.mul_scalar(tape.cast(std::move(weights), dtype::fp32));
    const Ref product = tape.mul(scores, weights);
    return row_sum(tape, product, detail::checked_mul(tokens, w.count));
}

/// The entries of each query with the best scores (DeepseekV4Indexer.forward). Autograd records all of it, and nothing
/// refers to that once the ids are there.
Ref best_entries(KernelCall& call, const Windows& w, std::int64_t chosen) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const std::int64_t tokens = call.rows(call.input_tensor(0));
    const std::size_t recorded = tape.nodes();
    const std::int64_t count = detail::checked_mul(tokens, chosen);
    Ref ids;
    {
        const Compressed made = compress_windows(call, w, 0, true);
        const Tables tables = tables_of(tape, w.sequence, a.rotary_dim / 2, call.in(0).dtype());
        Ref q = tape.linear(call.in(1), call.parameter(4), Ref(), tokens, call.input_tensor(1).width, a.heads * a.head_dim);
        q = tape.view(std::move(q), transposed_gradient(a.heads));
        q = rotate_trailing(tape, q, tables.cos, tables.sin, a.head_dim, a.rotary_dim);
        Ref scores = entry_scores(call, q, made.entries, w, 5);
        Ref threshold = tape.add_scalar(tape.fresh(w.sequence, dtype::int64, "positions"));
        threshold = tape.fresh(w.sequence, dtype::int64, "entries before each query");
        const Ref numbers = tape.fresh(w.count, dtype::int64, "numbers of entries");
        const Ref later = tape.fresh(detail::checked_mul(w.sequence, w.count), dtype::boolean, "later entries");
        Ref masked = tape.fresh(scores.numel(), scores.dtype(), "masked scores");
        {
            Tape::NodeBuilder node(tape, "masked_fill", {&scores});
            node.save(later);
            node.grad(0);
            node.finish(masked);
        }
        scores = std::move(masked);
        Ref best;
        {
            const Ref values = tape.fresh(count, scores.dtype(), "best scores");
            best = tape.fresh(count, dtype::int64, "best entries");
        }
        const Ref invalid = tape.fresh(count, dtype::boolean, "entries of later tokens");
        const Ref none = tape.fresh(count, dtype::int64, "no entry");
        ids = tape.fresh(count, dtype::int64, "chosen entries");
    }
    tape.forget(recorded);
    return ids;
}

}  // namespace

Ref rotate_trailing(Tape& tape, const Ref& x, const Ref& cos, const Ref& sin, std::int64_t head_dim,
                    std::int64_t rotary_dim) {
    const Ref wide_cos = tape.fresh(2 * cos.numel(), cos.dtype(), "interleaved cosine");
    const Ref wide_sin = tape.fresh(2 * sin.numel(), sin.dtype(), "interleaved sine");
    const std::int64_t heads = x.numel() / head_dim;
    const Ref plain = tape.slice(x, heads * (head_dim - rotary_dim));
    const Ref rope = tape.slice(x, heads * rotary_dim);
    Ref rotated;
    {
        const Ref straight = tape.mul(tape.cast(rope, dtype::fp32), wide_cos);
        Ref crossed = cross_halves(tape, rope);
        crossed = tape.mul(tape.cast(std::move(crossed), dtype::fp32), wide_sin);
        rotated = tape.add(straight, crossed);
    }
    rotated = tape.cast(std::move(rotated), x.dtype());
    std::array<Ref, 2> parts{plain, rotated};
    return tape.cat(parts);
}

namespace {

/// A compressor whose windows are longer than the sequence: no key comes of its projections, which nothing refers to
/// when its function returns.
void compress_nothing(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t tokens = call.rows(call.input_tensor(0)), hidden = call.input_tensor(0).width;
    const std::size_t recorded = tape.nodes();
    const Dtype* type = nullptr;
    {
        const Ref kv = tape.linear(call.in(0), call.parameter(1), Ref(), tokens, hidden, call.attributes().head_dim);
        const Ref gate = tape.linear(call.in(0), call.parameter(2), Ref(), tokens, hidden, call.attributes().head_dim);
        type = &kv.dtype();
    }
    tape.forget(recorded);
    call.out(0, tape.fresh(0, *type, "no entries"));
}

}  // namespace

/// DeepseekV4HCACompressor.forward, DeepseekV4CSACompressor.forward up to its indexer, which is an op of its own.
void compress(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const Windows w(call, a.head_dim);
    if (call.op.reader == Reader::dropped) return compress_nothing(call);
    Compressed made = compress_windows(call, w, 0, a.overlaps);
    call.out(0, made.entries);
    if (a.overlaps) {
        for (Ref& local : made.locals) call.hold_local(std::move(local));
        return;
    }
    const Ref numbers = tape.fresh(w.count, dtype::int64, "numbers of entries");
    Ref threshold = tape.add_scalar(tape.fresh(w.sequence, dtype::int64, "positions"));
    threshold = tape.fresh(w.sequence, dtype::int64, "entries before each query");
    const std::int64_t pairs = detail::checked_mul(w.sequence, w.count);
    const Ref zeros = tape.fresh(detail::checked_mul(w.batch, pairs), made.entries.dtype(), "zeros");
    const Ref later = tape.fresh(pairs, dtype::boolean, "later entries");
    call.out(1, tape.fresh(detail::checked_mul(w.batch, pairs), made.entries.dtype(), "bias of entries"));
}

/// What the compressor makes of the indexer's choice.
void entry_bias(KernelCall& call) {
    Tape& tape = call.tape;
    const Windows w(call, call.attributes().head_dim);
    const std::int64_t tokens = call.rows(call.input_tensor(0));
    const std::int64_t chosen = std::min(call.attributes().chosen, w.count);
    const Ref ids = best_entries(call, w, chosen);
    const Ref valid = tape.fresh(ids.numel(), dtype::boolean, "valid entries");
    Ref safe;
    {
        const Ref beyond = tape.fresh(ids.numel(), dtype::int64, "beyond the entries");
        safe = tape.fresh(ids.numel(), dtype::int64, "safe entries");
    }
    call.out(0, tape.fresh(detail::checked_mul(tokens, w.count + 1), call.in(2).dtype(), "bias of entries"));
}

namespace {

/// softmax(q @ k.T) @ v, for all heads of the one key.
Ref attend(KernelCall& call, const Ref& query, const Ref& kv, const Ref& mask) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const Dtype* const autocast = tape.autocast();
    const auto narrow = [&](const Ref& x) { return autocast != nullptr ? tape.cast(x, *autocast) : x; };
    const std::int64_t all = detail::checked_mul(kv.numel(), a.heads);
    const Ref key = tape.expand(kv, all), value = tape.expand(kv, all);
    const std::int64_t rows = detail::checked_mul(call.rows(call.input_tensor(0)), a.heads);
    const std::int64_t keys = kv.numel() / a.head_dim / sequences_of(call, 0);
    const auto matrices = [&](const Ref& x) {
        Ref cast = narrow(x);
        const bool written = &cast.dtype() != &x.dtype();
        return flatten(call, std::move(cast), written);
    };
    Ref scores;
    {
        Ref right = matrices(key);
        scores = tape.matmul(narrow(query), std::move(right), detail::checked_mul(rows, keys));
    }
    scores = tape.mul_scalar(std::move(scores));
    if (mask) scores = tape.add(std::move(scores), mask);
    const Ref combined = less_row_maximum(tape, with_sinks(call, scores, rows), rows);
    const Ref probabilities = tape.softmax(combined, combined.dtype());
    Ref kept = tape.slice(probabilities, scores.numel());
    kept = drop_probabilities(call, std::move(kept));
    const Ref weights = tape.cast(std::move(kept), value.dtype());
    call.hold(weights);
    Ref right = matrices(value);
    Ref out = tape.matmul(narrow(weights), std::move(right), query.numel());
    return tape.copy(tape.view(std::move(out), Tape::ViewGradient::copy));
}

/// DeepseekV4GroupedLinear.forward: each group of heads has a matrix of its own.
Ref grouped_linear(KernelCall& call, Ref x) {
    Tape& tape = call.tape;
    Ref grouped = tape.copy(tape.view(std::move(x)));
    Ref weight = tape.view(call.parameter(1));
    Ref out = tape.matmul(std::move(grouped), std::move(weight), call.numel(call.output_tensor(0)));
    return tape.copy(tape.view(std::move(out), Tape::ViewGradient::copy));
}

}  // namespace

/// DeepseekV4Attention.forward behind the rotation of queries and keys. Inputs: queries, keys, mask, cosine, sine, and
/// entries of windows with their bias.
void compressed_attention(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    Ref mask = call.in(2);
    if (call.inputs() > 5) {
        const Ref entries = call.in(5), bias = call.in(6);
        std::array<Ref, 2> parts{call.in(1), entries};
        Ref both = tape.cat(parts);
        parts[0].reset();
        call.rebind_input(1, std::move(both));
        if (mask && bias) {
            const Ref cast = tape.cast(bias, mask.dtype());
            mask = tape.fresh(mask.numel() + cast.numel(), mask.dtype(), "mask with entries");
            call.hold_local(mask);
        }
        call.hold_local(entries);
        call.hold_local(bias);
    }
    Ref out = attend(call, call.in(0), call.in(1), mask);
    {
        const Ref sine = tape.neg(call.in(4));
        out = rotate_trailing(tape, out, call.in(3), sine, a.head_dim, a.rotary_dim);
    }
    call.hold_local(out);
    call.out(0, grouped_linear(call, out));
}

}  // namespace membudget::kernel
