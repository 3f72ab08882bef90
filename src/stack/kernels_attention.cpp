#include "stack/kernels.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace membudget::kernel {

namespace {

using ViewGradient = Tape::ViewGradient;

/// cat((-x[..., d/2:], x[..., :d/2])).
Ref rotate_half(Tape& tape, const Ref& x) {
    const Ref first = tape.slice(x, x.numel() / 2);
    const Ref second = tape.slice(x, x.numel() - x.numel() / 2);
    std::array<Ref, 2> parts{tape.neg(second), first};
    return tape.cat(parts);
}

/// x * cos + rotate_half(x) * sin.
Ref rotate(Tape& tape, const Ref& x, const Ref& cos, const Ref& sin) {
    const Ref straight = tape.mul(x, cos);
    Ref half = rotate_half(tape, x);
    const Ref crossed = tape.mul(half, sin);
    half.reset();
    return tape.add(straight, crossed);
}

/// Rotates `rotary_dim` of the `head_dim` dimensions, or all of them.
Ref rotate_part(KernelCall& call, const Ref& x, const Ref& cos, const Ref& sin) {
    const OpAttributes& a = call.attributes();
    if (a.rotary_dim == 0) return rotate(call.tape, x, cos, sin);
    const Ref rotated = call.tape.slice(x, x.numel() / a.head_dim * a.rotary_dim);
    const Ref passed =
        call.tape.slice(x, x.numel() / a.head_dim * (a.head_dim - a.rotary_dim));
    std::array<Ref, 2> parts{rotate(call.tape, rotated, cos, sin), passed};
    return call.tape.cat(parts);
}

/// Whether an input of the attention comes from a rotation, whose gradient is copied there.
bool rotated(const KernelCall& call, std::size_t input) {
    const int tensor = call.op.inputs[input];
    return std::any_of(call.block.ops.begin(), call.block.ops.end(), [&](const Op& op) {
        return op.kind == OpKind::rotary &&
               std::find(op.outputs.begin(), op.outputs.end(), tensor) != op.outputs.end();
    });
}

std::int64_t sequence_of(const KernelCall& call, std::size_t input) {
    return call.rows(call.input_tensor(input)) / call.extents.batch;
}

/// Heads are transposed before the sequence, so a batch of more than one cannot be flattened into
/// batches of matrices without a copy.
Ref flatten(KernelCall& call, Ref x) {
    return call.extents.batch > 1 ? call.tape.copy(std::move(x)) : x;
}

/// The function of eager attention.
void eager(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const std::int64_t queries = sequence_of(call, 0);
    const std::int64_t keys = sequence_of(call, 1);
    const std::int64_t scores_numel =
        detail::checked_mul(detail::checked_mul(call.extents.batch, a.heads),
                            detail::checked_mul(queries, keys));
    const std::int64_t value_dim = a.value_dim > 0 ? a.value_dim : a.head_dim;
    const std::int64_t out_numel = call.numel(call.output_tensor(0));
    const bool grouped = a.kv_heads > 0 && a.kv_heads != a.heads;

    // Gradients arrive head by head; the projection before the transposition wants them contiguous.
    const auto untransposed = [&](std::size_t input) {
        return rotated(call, input) ? call.in(input)
                                    : tape.view(call.in(input), ViewGradient::copy);
    };
    const Ref query = untransposed(0);
    Ref key = untransposed(1);
    Ref value = untransposed(2);
    if (grouped) {  // repeat_kv
        key = tape.repeat(key, key.numel() / a.kv_heads * a.heads);
        value = tape.repeat(value, value.numel() / a.kv_heads * a.heads);
    }
    const auto factor = [&](const Ref& x, bool contiguous) {
        Ref cast = tape.autocast() != nullptr ? tape.cast(x, *tape.autocast()) : x;
        return contiguous ? cast : flatten(call, std::move(cast));
    };
    Ref scores;
    {
        Ref k = factor(key, grouped);
        Ref q = factor(query, false);
        scores = tape.matmul(std::move(q), std::move(k), scores_numel);
    }
    scores = tape.mul_scalar(scores);
    if (a.softcap > 0) {
        Ref scaled = tape.mul_scalar(scores);
        scaled = tape.unary_saving_output(scaled, "tanh");
        scores = tape.mul_scalar(scaled);
    }
    if (call.inputs() > 3 && call.in(3)) scores = tape.add(scores, call.in(3));
    const bool wide = !a.softmax_in_dtype || tape.autocast() != nullptr;
    Ref weights = tape.softmax(scores, wide ? dtype::fp32 : scores.dtype());
    scores.reset();
    weights = tape.cast(weights, tape.autocast() != nullptr ? *tape.autocast() : query.dtype());
    weights = tape.dropout(weights, call.dropout >= 0 ? call.dropout : a.dropout);
    call.hold(weights);
    Ref out;
    {
        Ref v = factor(value, grouped);
        out = tape.matmul(weights, std::move(v), out_numel / a.head_dim * value_dim);
    }
    if (call.extents.batch > 1 || a.heads > 1) {
        out = tape.view(out, ViewGradient::copy);
        out = tape.copy(out);
    }
    call.out(0, std::move(out));
}

/// scaled_dot_product_attention without a fused kernel: fp32 throughout, both factors scaled by the
/// square root of the scale [aten/src/ATen/native/transformers/attention.cpp
/// _scaled_dot_product_attention_math].
void math(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const Dtype& type = tape.autocast() != nullptr ? *tape.autocast() : call.in(0).dtype();
    const std::int64_t scores_numel =
        detail::checked_mul(detail::checked_mul(call.extents.batch, a.heads),
                            detail::checked_mul(sequence_of(call, 0), sequence_of(call, 1)));
    const auto wide = [&](std::size_t input) {
        Ref x = rotated(call, input) ? call.in(input) : tape.view(call.in(input), ViewGradient::copy);
        x = tape.cast(std::move(x), type);
        return tape.cast(std::move(x), dtype::fp32);
    };
    const bool grouped = a.kv_heads > 0 && a.kv_heads != a.heads;
    const Dtype* const autocast = tape.autocast();
    tape.set_autocast(nullptr);  // the casts above stand for it
    Ref q = wide(0);
    Ref k = wide(1);
    Ref v = wide(2);
    if (grouped) {
        k = tape.repeat(std::move(k), k.numel() / a.kv_heads * a.heads);
        v = tape.repeat(std::move(v), v.numel() / a.kv_heads * a.heads);
    }
    q = tape.mul_scalar(std::move(q));
    Ref scores;
    {
        Ref scaled = tape.mul_scalar(k);
        Ref left = flatten(call, q);
        Ref right = flatten(call, std::move(scaled));
        scores = tape.matmul(std::move(left), std::move(right), scores_numel);
    }
    if (call.inputs() > 3 && call.in(3)) scores = tape.add(scores, call.in(3));
    Ref weights = tape.softmax(std::move(scores), dtype::fp32);
    scores.reset();
    weights = tape.dropout(std::move(weights), call.dropout >= 0 ? call.dropout : a.dropout);
    const Ref returned = tape.cast(weights, type);
    Ref out;
    {
        Ref right = flatten(call, v);
        out = tape.matmul(std::move(weights), std::move(right), call.numel(call.output_tensor(0)));
    }
    out = tape.view(std::move(out), ViewGradient::copy);
    out = tape.cast(std::move(out), type);
    tape.set_autocast(autocast);
    call.out(0, tape.copy(std::move(out)));
}

bool has_mask(const KernelCall& call) { return call.inputs() > 3 && static_cast<bool>(call.in(3)); }

/// A fused kernel under a mask: keys and values are repeated for all query heads first
/// [transformers integrations/sdpa_attention.py use_gqa_in_sdpa], and the boolean mask becomes an
/// additive one in each call [attention.cpp convert_boolean_attn_mask]; all of them are saved.
void masked_attention(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    Ref k = call.in(1);
    Ref v = call.in(2);
    if (a.kv_heads > 0 && a.kv_heads != a.heads) {
        if (!rotated(call, 1)) k = tape.view(std::move(k), ViewGradient::copy);
        v = tape.view(std::move(v), ViewGradient::copy);
        k = tape.repeat(std::move(k), k.numel() / a.kv_heads * a.heads);
        v = tape.repeat(std::move(v), v.numel() / a.kv_heads * a.heads);
    }
    const Dtype& type = tape.autocast() != nullptr ? *tape.autocast() : call.in(0).dtype();
    const std::int64_t keys = sequence_of(call, 1);
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const Ref mask = tape.fresh(detail::checked_mul(rows, keys), type, "additive mask");
    Tape::FusedAttention how;
    how.lse_numel = detail::checked_mul(rows, a.heads);
    call.out(0, tape.fused_attention(call.in(0), std::move(k), std::move(v), mask,
                                     call.numel(call.output_tensor(0)), how));
}

}  // namespace

void math_attention(KernelCall& call) { math(call); }

void hf_rotary(KernelCall& call) {
    // The projections' outputs are viewed head by head and transposed; the gradient of a rotation is
    // contiguous the other way round, so it is copied on its way back.
    const Ref q = call.tape.view(call.in(0), ViewGradient::copy);
    const Ref k = call.tape.view(call.in(1), ViewGradient::copy);
    call.out(0, rotate_part(call, q, call.in(2), call.in(3)));
    call.out(1, rotate_part(call, k, call.in(2), call.in(3)));
}

void fused_rotary(KernelCall& call) {
    call.out(0, call.tape.view(call.in(0)));
    call.out(1, call.tape.view(call.in(1)));
}

void rotary_tables(KernelCall& call) {
    // emb = cat(freqs, freqs); cos = emb.cos() * scaling; sin likewise; both cast to the type of x.
    Tape& tape = call.tape;
    const std::int64_t numel = call.numel(call.output_tensor(0));
    const Dtype& type = call.activation_dtype();
    Ref half = tape.fresh(numel / 2, dtype::fp32, "frequencies");
    const Ref angles = tape.fresh(numel, dtype::fp32, "angles");
    Ref cosine = tape.fresh(numel, dtype::fp32, "cosine");
    const Ref scaled_cosine = tape.mul_scalar(cosine);
    cosine.reset();
    Ref sine = tape.fresh(numel, dtype::fp32, "sine");
    const Ref scaled_sine = tape.mul_scalar(sine);
    sine.reset();
    call.out(0, tape.cast(scaled_cosine, type));
    call.out(1, tape.cast(scaled_sine, type));
}

void no_mask(KernelCall& call) { (void)call; }

void additive_mask(KernelCall& call) {
    const std::int64_t s = call.extents.sequence;
    const std::int64_t numel = detail::checked_mul(call.extents.batch, detail::checked_mul(s, s));
    const Ref allowed = call.tape.fresh(detail::checked_mul(s, s), dtype::boolean, "allowed");
    call.out(0, call.tape.fresh(numel, call.activation_dtype(), "mask"));
}

void sdpa_mask(KernelCall& call) {
    // Skipped when is_causal says the same: no padding, and a window that covers the sequence.
    const std::int64_t s = call.extents.sequence;
    const bool windowed = call.attributes().window > 0 && call.attributes().window < s;
    if (!call.extents.padding_mask && !windowed) return;
    const std::int64_t rows = call.extents.padding_mask ? call.extents.batch : 1;
    const std::int64_t numel = detail::checked_mul(rows, detail::checked_mul(s, s));
    const Ref window = call.tape.fresh(detail::checked_mul(s, s), dtype::boolean, "window");
    const Ref causal = call.tape.fresh(detail::checked_mul(s, s), dtype::boolean, "causal");
    call.out(0, call.tape.fresh(numel, dtype::boolean, "mask"));
}

void flash_attention(KernelCall& call) {
    const OpAttributes& a = call.attributes();
    // A mask rules the flash kernel out: the memory-efficient one takes its place
    // [aten/src/ATen/native/transformers/cuda/sdp_utils.cpp check_for_attn_mask].
    if (has_mask(call)) return masked_attention(call);
    const std::int64_t batch = call.extents.batch;
    const std::int64_t queries = sequence_of(call, 0);
    const auto product = [](std::int64_t x, std::int64_t y, std::int64_t z) {
        return detail::checked_mul(x, detail::checked_mul(y, z));
    };
    const auto up = [](std::int64_t n, std::int64_t to) { return detail::ceil_div(n, to) * to; };
    Tape::FusedAttention how;
    how.lse_numel = product(batch, a.heads, queries);
    how.rng_bytes = 16;
    // fp32 accumulator of dq, rows padded to 128 and the head to 32 (64 beyond 128), and the row
    // sums of dout * out [flash_api.cpp mha_bwd: dq_accum, softmax_d].
    const std::int64_t padded_rows = up(queries, 128);
    const std::int64_t padded_dim = up(a.head_dim, a.head_dim > 128 ? 64 : 32);
    how.backward_workspace =
        4 * product(batch, a.heads, detail::checked_mul(padded_rows, padded_dim)) +
        4 * product(batch, a.heads, padded_rows);
    if (a.kv_heads > 0 && a.kv_heads != a.heads)
        how.expanded_kv_numel = call.input_tensor(1).width > 0
                                    ? call.numel(call.input_tensor(1)) / a.kv_heads * a.heads
                                    : 0;
    call.out(0, call.tape.fused_attention(call.in(0), call.in(1), call.in(2), Ref(),
                                          call.numel(call.output_tensor(0)), how));
}

void cpu_flash_attention(KernelCall& call) {
    const OpAttributes& a = call.attributes();
    // The CPU's fused kernel has no dropout [attention.cpp / sdp_utils_cpp.cpp check_for_dropout].
    if ((call.dropout >= 0 ? call.dropout : a.dropout) > 0) return math(call);
    Tape::FusedAttention how;
    how.lse_numel = detail::checked_mul(call.rows(call.input_tensor(0)), a.heads);
    if (has_mask(call)) return masked_attention(call);
    call.out(0, call.tape.fused_attention(call.in(0), call.in(1), call.in(2), Ref(),
                                          call.numel(call.output_tensor(0)), how));
}

void eager_attention(KernelCall& call) { eager(call); }

}  // namespace membudget::kernel
