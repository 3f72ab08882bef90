#include "stack/kernels.hpp"

#include <cstdint>

#include "stack/attention_parts.hpp"

namespace membudget::kernel {

namespace {

using ViewGradient = Tape::ViewGradient;

/// The function of eager attention.
void eager(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();

    const HeadTensors heads = repeated_heads(call);
    const bool grouped = a.kv_heads > 1 && a.kv_heads != a.heads;
    const auto factor = [&](const Ref& x, bool contiguous) {
        Ref cast = tape.autocast() != nullptr ? tape.cast(x, *tape.autocast()) : x;
        // One head that is expanded is no batch of matrices, unless a cast has written each element.
        const bool expanded = a.kv_heads == 1 && a.heads > 1 && &x != &heads.query;
        const bool written = expanded ? &cast.dtype() != &x.dtype() : contiguous;
        return flatten(call, std::move(cast), written);
    };
    Ref scores;
    {
        Ref k = factor(heads.key, grouped || a.head_major || call.cached);
        Ref q = factor(heads.query, a.head_major);
        scores = tape.matmul(std::move(q), std::move(k), scores_numel(call));
    }
    scores = tape.mul_scalar(scores);
    if (a.softcap > 0) scores = softcapped(tape, std::move(scores));
    for (std::size_t i = call.inputs(); i-- > 3;)  // a position bias, then the mask
        if (call.in(i)) scores = tape.add(scores, call.in(i));
    Ref weights =
        tape.softmax(scores, a.softmax_in_dtype ? softmax_dtype(call, scores) : dtype::fp32);
    if (a.cast_to_values) weights = tape.cast(weights, heads.value.dtype());
    if (!a.softmax_in_dtype) weights = tape.cast(weights, heads.query.dtype());
    scores.reset();
    weights = drop_probabilities(call, std::move(weights));
    call.hold(weights);
    Ref out;
    {
        Ref v = factor(heads.value, grouped || a.transposed || call.cached);
        out = tape.matmul(weights, std::move(v), call.numel(call.output_tensor(0)));
    }
    call.out(0, merge_heads(call, std::move(out)));
}

/// What is causal, as a mask of numbers.
Ref causal_mask_of_math(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t pairs = detail::checked_mul(sequence_of(call, 0), sequence_of(call, 1));
    Ref allowed = tape.fresh(pairs, dtype::boolean, "ones");
    allowed = tape.fresh(pairs, dtype::boolean, "lower triangle");
    return tape.fresh(pairs, dtype::fp32, "causal mask");
}

/// A boolean mask becomes an additive one in the type of the query [attention.cpp convert_boolean_attn_mask].
Ref mask_of_math(KernelCall& call) {
    if (!has_mask(call)) return {};
    if (&call.in(3).dtype() != &dtype::boolean) return call.tape.cast(call.in(3), computed_dtype(call));
    return call.tape.fresh(call.in(3).numel(), computed_dtype(call), "additive mask");
}

/// scaled_dot_product_attention without a fused kernel: fp32 throughout, both factors scaled by the
/// square root of the scale [aten/src/ATen/native/transformers/attention.cpp
/// _scaled_dot_product_attention_math].
void math(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const Dtype& type = computed_dtype(call);
    // With a mask keys and values are repeated for all query heads first [transformers
    // integrations/sdpa_attention.py use_gqa_in_sdpa], without one in here, from what was cast.
    const bool broadcast = broadcasts_heads(a);
    const bool repeated = broadcast || has_mask(call) || a.head_dim > kWidestGrouped || values_differ(a);
    const auto given = [&](std::size_t input) {
        Ref x = untransposed(call, input);
        return repeated && !broadcast ? repeat_heads(call, std::move(x)) : x;
    };
    const Ref key = given(1), value = given(2);
    // Arguments, as autocast passes them on.
    const Ref narrow_value = tape.cast(value, type);
    const Ref narrow_key = tape.cast(key, type);
    const Ref narrow_query = tape.cast(untransposed(call, 0), type);
    Ref mask = mask_of_math(call);
    const Dtype* const autocast = tape.autocast();
    tape.set_autocast(nullptr);  // the casts above stand for it
    const Ref query = tape.cast(narrow_query, dtype::fp32);
    const Ref wide_key = tape.cast(narrow_key, dtype::fp32);
    const Ref wide_value = tape.cast(narrow_value, dtype::fp32);
    const Ref q = tape.mul_scalar(query);
    // A causal mask of its own, where no other comes in; added in place.
    if (a.causal && !mask) mask = causal_mask_of_math(call);
    const Ref k = repeated ? wide_key : repeat_heads(call, wide_key);
    const Ref v = repeated ? wide_value : repeat_heads(call, wide_value);
    const bool copied = is_grouped(a) && a.kv_heads > 1;  // which leaves them head by head
    Ref scores;
    {
        Ref scaled = tape.mul_scalar(k);
        Ref left = flatten(call, q, a.head_major);
        Ref right = broadcast ? tape.repeat(std::move(scaled), detail::checked_mul(k.numel(), a.heads))
                              : flatten(call, std::move(scaled), a.head_major || call.cached || copied);
        scores = tape.matmul(std::move(left), std::move(right), scores_numel(call));
    }
    if (mask) scores = tape.add_in_place(std::move(scores), mask);
    Ref weights = tape.softmax(std::move(scores), dtype::fp32);
    scores.reset();
    weights = drop_probabilities(call, std::move(weights));
    const Ref returned = tape.cast(weights, type);
    Ref out;
    {
        Ref right = broadcast ? tape.repeat(v, detail::checked_mul(v.numel(), a.heads))
                              : flatten(call, v, a.transposed || copied);
        out = tape.matmul(std::move(weights), std::move(right), call.numel(call.output_tensor(0)));
    }
    out = tape.view(std::move(out), ViewGradient::copy);
    out = tape.cast(std::move(out), type);
    tape.set_autocast(autocast);
    call.out(0, tape.copy(std::move(out)));
}

/// A bias that is trained, for the memory-efficient kernel: its rows are padded to a multiple of 8, and its gradient,
/// of all heads of all sequences, to one of 16 [attention.cpp preprocess_mask, pad_bias;
/// cuda/attention_backward.cu _efficient_attention_backward].
Ref aligned_bias(KernelCall& call, Ref bias) {
    constexpr std::int64_t kForward = 8, kBackward = 16;
    const std::int64_t keys = sequence_of(call, 1);
    const auto aligned = [&](std::int64_t numel, std::int64_t to) {
        return detail::checked_mul(numel / keys, detail::checked_mul(detail::ceil_div(keys, to), to));
    };
    const std::int64_t padded = aligned(bias.numel(), kForward);
    if (padded > bias.numel()) bias = call.tape.repeat(std::move(bias), padded);
    return call.tape.expand(std::move(bias), aligned(scores_numel(call), kBackward));
}

/// A fused kernel under a mask, or one that knows no groups: keys and values are repeated for all query
/// heads first [transformers integrations/sdpa_attention.py use_gqa_in_sdpa], and the boolean mask becomes
/// an additive one in each call [attention.cpp convert_boolean_attn_mask]; all of them are saved.
void ungrouped_attention(KernelCall& call, const Tape::FusedAttention& how) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    Ref k = call.in(1);
    Ref v = call.in(2);
    if (is_grouped(a)) {
        k = untransposed(call, 1);
        v = untransposed(call, 2);
        k = repeat_heads(call, std::move(k));
        v = repeat_heads(call, std::move(v));
    }
    Ref mask;
    if (has_mask(call) && &call.in(3).dtype() == &dtype::boolean) {
        const std::int64_t pairs =
            detail::checked_mul(call.rows(call.input_tensor(0)), sequence_of(call, 1));
        mask = tape.fresh(pairs, computed_dtype(call), "additive mask");
    } else if (has_mask(call)) {
        mask = tape.cast(call.in(3), computed_dtype(call));
        if (mask.requires_grad()) mask = aligned_bias(call, std::move(mask));
    }
    finish_fused(call, tape.fused_attention(call.in(0), std::move(k), std::move(v), mask,
                                            call.numel(call.output_tensor(0)), how));
}

/// The memory-efficient kernel. It gathers outputs of heads wider than 128 in fp32 where it computes in
/// a half type [mem_eff_attention/kernel_forward.h kNeedsOutputAccumulatorBuffer].
void efficient(KernelCall& call) {
    const Dtype& type = computed_dtype(call);
    Ref accumulator;
    if (call.attributes().head_dim > 128 && type.bits <= 16)
        accumulator = call.tape.fresh(call.numel(call.output_tensor(0)), dtype::fp32, "output accumulator");
    ungrouped_attention(call, efficient_sizes(call, type));
}

/// Pairs of a query and a key of one sequence.
std::int64_t pairs_of_mask(const KernelCall& call) {
    const OpAttributes& a = call.attributes();
    return detail::checked_mul(call.extents.rows(a.queries), call.extents.rows(a.keys));
}

/// Which keys a token attends to on both sides, as booleans; nothing where that is all of them
/// [masking_utils.py create_bidirectional_mask, create_bidirectional_sliding_window_mask,
/// _ignore_bidirectional_mask_sdpa].
Ref bidirectional_mask(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t square = pairs_of_mask(call);
    const std::int64_t window = call.attributes().window;
    const bool padded = call.extents.padding_mask;
    Ref mask;
    if (window > 0 && (padded || call.extents.sequence >= window)) {
        // abs(q - k) <= window, of int64 positions, then and-ed with what allows everything.
        Ref distance = tape.fresh(square, dtype::int64, "signed distances");
        distance = tape.fresh(square, dtype::int64, "distances");
        mask = tape.fresh(square, dtype::boolean, "window");
        distance.reset();
        for (int i = 0; i < 2; ++i) mask = tape.fresh(square, dtype::boolean, "window");
    }
    if (padded) mask = tape.fresh(detail::checked_mul(call.extents.batch, square), dtype::boolean, "mask");
    return mask;
}

/// Causal, but for the tokens of an image, which see all of it; booleans of each sequence
/// [models/gemma3/modeling_gemma3.py create_masks_for_vision_model; masking_utils.py sdpa_mask].
Ref mask_of_image_blocks(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t pairs = pairs_of_mask(call);
    const std::int64_t whole = detail::checked_mul(call.extents.batch, pairs);
    const Ref causal = tape.fresh(pairs, dtype::boolean, "causal");
    Ref block = tape.fresh(whole, dtype::boolean, "same image");
    block = tape.fresh(whole, dtype::boolean, "same image, and one");
    return tape.fresh(whole, dtype::boolean, "mask");
}

/// Classes without a choice run their own function whatever is asked for.
bool run_form(KernelCall& call) {
    return has_no_choice(call.attributes().form) && run_eager_form(call);
}

}  // namespace

void math_attention(KernelCall& call) {
    if (run_image_by_image(call, math_attention)) return;
    if (!run_form(call)) math(call);
}

/// DeBERTa's mask, a product of the padding mask with itself, and the distances of all pairs
/// [transformers models/deberta_v2/modeling_deberta_v2.py DebertaV2Encoder.forward].
void mask_of_products(KernelCall& call) {
    const std::int64_t pairs = pairs_of_mask(call);
    // Ones are fp32, a padding mask is what the tokenizer makes.
    const Dtype& type = call.extents.padding_mask ? dtype::int64 : dtype::fp32;
    call.out(0, call.tape.fresh(detail::checked_mul(call.extents.batch, pairs), type, "mask"));
    if (call.op.outputs.size() > 1) call.out(1, call.tape.fresh(pairs, dtype::int64, "distances"));
}

namespace {

/// A number for each key of each sequence [modeling_utils.py get_extended_attention_mask], or none without
/// padding (GPT 1).
void mask_of_keys(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t numel = detail::checked_mul(call.extents.batch, call.extents.rows(call.attributes().keys));
    if (call.attributes().form == AttentionForm::openai_gpt && !call.extents.padding_mask) return;
    const Ref numbers = tape.fresh(numel, call.activation_dtype(), "mask as numbers");
    const Ref inverted = tape.fresh(numel, call.activation_dtype(), "inverted mask");
    call.out(0, tape.mul_scalar(inverted));
}

/// Falcon adds ALiBi to the mask, which is as large as the scores then
/// [models/falcon/modeling_falcon.py FalconModel.forward].
Ref mask_with_alibi(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const std::int64_t numel = detail::checked_mul(call.extents.batch, pairs_of_mask(call));
    const std::int64_t slopes = detail::checked_mul(detail::checked_mul(call.extents.batch, a.heads), call.extents.sequence);
    const Ref causal = tape.fresh(numel, call.activation_dtype(), "causal mask");
    const Ref scaled = tape.fresh(slopes, call.activation_dtype(), "scaled ALiBi");
    const Ref masked = tape.fresh(numel, dtype::boolean, "what is masked");
    return tape.fresh(detail::checked_mul(numel, a.heads), call.activation_dtype(), "mask with ALiBi");
}

/// Padding is of the tokens alone: the mask of a decoder that has an encoder is made without it
/// [models/bart/modeling_bart.py BartDecoder.forward].
bool padded(const KernelCall& call) {
    return call.extents.padding_mask && call.attributes().keys != Rows::target_positions;
}

}  // namespace

void additive_mask(KernelCall& call) {
    if (call.attributes().of_keys) return mask_of_keys(call);
    if (call.attributes().form == AttentionForm::disentangled ||
        call.attributes().form == AttentionForm::disentangled_joined)
        return mask_of_products(call);
    const std::int64_t pairs = pairs_of_mask(call);
    const std::int64_t numel = detail::checked_mul(call.extents.batch, pairs);
    if (call.attributes().packed)  // of all patches, whatever image they are of
        return call.out(0, call.tape.fresh(pairs, call.in(0).dtype(), "mask"));
    if (!call.attributes().causal) {
        const Ref allowed = bidirectional_mask(call);
        if (allowed) call.out(0, call.tape.fresh(numel, call.activation_dtype(), "mask"));
        return;
    }
    const Ref allowed = call.attributes().image_blocks ? mask_of_image_blocks(call)
                                                       : call.tape.fresh(pairs, dtype::boolean, "allowed");
    Ref mask = call.tape.fresh(numel, call.activation_dtype(), "mask");
    if (call.attributes().form == AttentionForm::falcon && call.attributes().bias) mask = mask_with_alibi(call);
    if (call.attributes().form == AttentionForm::mpt)
        mask = call.tape.fresh(numel, dtype::boolean, "boolean mask");
    call.out(0, std::move(mask));
}

void no_mask(KernelCall& call) {
    if (has_no_choice(call.attributes().form)) additive_mask(call);
}

void sdpa_mask(KernelCall& call) {
    if (has_no_choice(call.attributes().form) || call.attributes().packed || call.attributes().of_keys)
        return additive_mask(call);
    if (!call.attributes().causal) {
        if (Ref mask = bidirectional_mask(call)) call.out(0, std::move(mask));
        return;
    }
    if (call.attributes().image_blocks) return call.out(0, mask_of_image_blocks(call));
    // Skipped when is_causal says the same: no padding, and a window that covers the sequence.
    const bool windowed = call.attributes().window > 0 && call.attributes().window <= call.extents.sequence;
    const AttentionForm form = call.attributes().form;
    const bool always = form == AttentionForm::falcon || form == AttentionForm::indexed;
    if (!padded(call) && !windowed && !always) return;
    if (always && call.attributes().bias) return call.out(0, mask_with_alibi(call));
    // Chunks begin after the padding of each sequence [masking_utils.py chunked_overlay].
    const bool each = padded(call) || (windowed && call.attributes().chunked);
    const std::int64_t pairs = pairs_of_mask(call);
    const std::int64_t numel = detail::checked_mul(each ? call.extents.batch : 1, pairs);
    const Ref window = call.tape.fresh(pairs, dtype::boolean, "window");
    const Ref causal = call.tape.fresh(pairs, dtype::boolean, "causal");
    call.out(0, call.tape.fresh(numel, dtype::boolean, "mask"));
}

void flash_attention(KernelCall& call) {
    if (run_image_by_image(call, flash_attention)) return;
    if (run_form(call)) return;
    switch (sdpa_choice(call)) {
        case Sdpa::flash: return finish_flash(call);
        case Sdpa::efficient: return efficient(call);
        case Sdpa::math: return math(call);
    }
}

void flash_package_attention(KernelCall& call) {
    if (!run_form(call)) flash_package(call);
}

void efficient_attention(KernelCall& call) {
    if (run_image_by_image(call, efficient_attention)) return;
    if (!run_form(call)) efficient(call);
}

void cpu_flash_attention(KernelCall& call) {
    if (run_image_by_image(call, cpu_flash_attention)) return;
    if (run_form(call)) return;
    const OpAttributes& a = call.attributes();
    // The CPU's fused kernel has no dropout and one width of heads [sdp_utils_cpp.cpp use_flash_attention_cpp:
    // check_for_dropout, check_head_dim_size_cpp], and no gradient of a mask [check_attn_mask_shape].
    if (values_differ(a) || broadcasts_heads(a) || (call.dropout >= 0 ? call.dropout : a.dropout) > 0 ||
        (has_mask(call) && call.in(3).requires_grad()))
        return math(call);
    Tape::FusedAttention how;
    how.lse_numel = detail::checked_mul(call.rows(call.input_tensor(0)), a.heads);
    if (has_mask(call) || a.head_dim > kWidestGrouped) return ungrouped_attention(call, how);
    finish_fused(call, call.tape.fused_attention(call.in(0), call.in(1), call.in(2), Ref(),
                                                 call.numel(call.output_tensor(0)), how));
}

Ref early_scores(KernelCall& call) {
    switch (call.attributes().form) {
        case AttentionForm::disentangled: return disentangled_scores(call);
        case AttentionForm::disentangled_joined: return joined_scores(call);
        default: return {};
    }
}

void eager_attention(KernelCall& call) {
    if (run_image_by_image(call, eager_attention)) return;
    if (!run_eager_form(call)) eager(call);
}

}  // namespace membudget::kernel
