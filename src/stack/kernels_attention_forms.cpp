// Attention of classes that write it out by themselves. Locals of the class's own function live until
// it returns, projection of the result included: `hold_local`.

#include <cstdint>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

using ViewGradient = Tape::ViewGradient;

/// query @ key.T: what a cache has concatenated lies head by head.
Ref product(KernelCall& call, const Ref& a, const Ref& b, std::int64_t numel) {
    Ref right = factor(call, b, call.cached);
    Ref left = factor(call, a);
    return call.tape.matmul(std::move(left), std::move(right), numel);
}

/// probabilities @ value: the probabilities are contiguous.
Ref context(KernelCall& call, const Ref& weights, const Ref& value) {
    Tape& tape = call.tape;
    Ref right = factor(call, value, call.cached);
    Ref left = tape.autocast() != nullptr ? tape.cast(weights, *tape.autocast()) : weights;
    return tape.matmul(std::move(left), std::move(right), call.numel(call.output_tensor(0)));
}

/// torch.where(buffer, x, number): the condition is a buffer; grad.masked_fill of the other branch.
Ref choose(Tape& tape, const Ref& x, const char* what) {
    Ref out = tape.fresh(x.numel(), x.dtype(), what);
    Tape::NodeBuilder node(tape, what, {&x});
    node.grad(0);
    node.finish(out);
    return out;
}

/// GPT-J [models/gptj/modeling_gptj.py eager_attention_forward]: scores in fp32, softmax in the
/// scores' type, which under autocast is fp32.
void gptj(KernelCall& call) {
    Tape& tape = call.tape;
    const auto [query, key, value] = untransposed_heads(call);
    Ref scores;
    {
        Ref q = tape.cast(query, dtype::fp32);
        Ref k = tape.cast(key, dtype::fp32);
        scores = product(call, q, k, scores_numel(call));
    }
    scores = tape.mul_scalar(scores);
    if (has_mask(call)) scores = tape.add(scores, call.in(3));
    Ref weights = tape.softmax(scores, softmax_dtype(call, scores));
    weights = tape.cast(weights, value.dtype());
    scores.reset();
    weights = drop_probabilities(call, std::move(weights));
    call.hold(weights);
    Ref out = context(call, weights, value);
    call.out(0, merge_heads(call, std::move(out)));
}

/// GPT-Neo [models/gpt_neo/modeling_gpt_neo.py GPTNeoSelfAttention._attn].
void gpt_neo(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref value = untransposed(call, 2);
    const Ref query = tape.cast(untransposed(call, 0), dtype::fp32);
    const Ref key = tape.cast(untransposed(call, 1), dtype::fp32);
    Ref scores = product(call, query, key, scores_numel(call));
    scores = choose(tape, scores, "causally masked");
    if (has_mask(call)) scores = tape.add(scores, call.in(3));
    Ref weights = tape.softmax(scores, softmax_dtype(call, scores));
    scores.reset();
    weights = tape.cast(weights, value.dtype());
    weights = drop_probabilities(call, std::move(weights));
    call.return_beside(weights);
    Ref out = context(call, weights, value);
    call.out(0, merge_heads(call, std::move(out)));
}

/// BLOOM [models/bloom/modeling_bloom.py BloomAttention.forward].
void bloom(KernelCall& call) {
    Tape& tape = call.tape;
    const Dtype& type = computed_dtype(call);
    const std::int64_t numel = scores_numel(call);
    const Ref query = flatten(call, untransposed(call, 0));
    const Ref key = flatten(call, untransposed(call, 1), call.cached);
    const Ref value = flatten(call, untransposed(call, 2), call.cached);
    // alibi.baddbmm(query, key, alpha): the gradients of the factors are products, then scaled
    // [derivatives.yaml: baddbmm].
    Ref scores = tape.fresh(numel, type, "scores with ALiBi");
    {
        Tape::NodeBuilder node(tape, "baddbmm", {&query, &key});
        node.save(query);
        node.save(key);
        for (std::size_t i : {std::size_t{0}, std::size_t{1}}) {
            const Ref& x = i == 0 ? query : key;
            const std::int16_t unscaled =
                node.temp(byte_count(x.numel(), x.dtype()), "unscaled grad");
            node.grad(i);
            node.drop(unscaled);
        }
        node.finish(scores);
    }
    const Ref masked = has_mask(call) ? tape.add(scores, call.in(3)) : scores;
    Ref weights = tape.softmax(masked, dtype::fp32);
    weights = tape.cast(weights, query.dtype());
    weights = drop_probabilities(call, std::move(weights));
    for (const Ref& local : {query, key, value, scores, masked}) call.hold_local(local);
    call.return_beside(weights);
    Ref out = tape.matmul(weights, value, call.numel(call.output_tensor(0)));
    call.out(0, merge_heads(call, std::move(out)));
}

/// MPT [models/mpt/modeling_mpt.py MptAttention.forward]: the bias, and so the scores, are fp32.
void mpt(KernelCall& call) {
    Tape& tape = call.tape;
    const auto [query, key, value] = untransposed_heads(call);
    Ref scores = product(call, query, key, scores_numel(call));
    scores = tape.mul_scalar(scores);
    {
        Ref biased = tape.fresh(scores.numel(), dtype::fp32, "scores with ALiBi");
        Tape::NodeBuilder node(tape, "add", {&scores});
        if (&scores.dtype() == &dtype::fp32)
            node.pass(0);
        else
            node.grad(0, "grad cast back");
        node.finish(biased);
        scores = std::move(biased);
    }
    if (has_mask(call)) {
        Ref filled = tape.fresh(scores.numel(), scores.dtype(), "masked scores");
        Tape::NodeBuilder node(tape, "masked_fill", {&scores});
        node.save(call.in(3));
        node.grad(0);
        node.finish(filled);
        scores = std::move(filled);
    }
    Ref weights = tape.softmax(scores, dtype::fp32);
    weights = tape.cast(weights, value.dtype());
    weights = drop_probabilities(call, std::move(weights));
    call.hold_local(scores);
    call.return_beside(weights);
    Ref out = context(call, weights, value);
    call.out(0, merge_heads(call, std::move(out)));
}

/// Falcon [models/falcon/modeling_falcon.py FalconAttention.forward].
void falcon(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const Ref query = call.in(0);
    const std::int64_t whole = query.numel();
    // One key for all heads is broadcast; a batch of more than one copies it for each of them.
    const auto widen = [&](const Ref& x) {
        const Ref narrow = tape.autocast() != nullptr ? tape.cast(x, *tape.autocast()) : x;
        if (a.kv_heads == a.heads) return flatten(call, narrow, call.cached);
        if (call.extents.batch > 1) return tape.repeat(narrow, whole);
        Ref out = tape.alias_of_storage(narrow);
        Tape::NodeBuilder node(tape, "expand", {&narrow});
        const std::int16_t each =
            node.temp(byte_count(whole, narrow.dtype()), "grad per head");
        node.grad(0, "summed grad");
        node.drop(each);
        node.finish(out);
        return out;
    };
    Ref scores;
    {
        Ref right = widen(call.in(1));
        Ref left = factor(call, query);
        scores = tape.matmul(std::move(left), std::move(right), scores_numel(call));
    }
    const auto scale_in_place = [&](Ref& x) {
        Ref scaled = tape.alias_of_storage(x);
        Tape::NodeBuilder node(tape, "div_", {&x});
        node.grad(0);
        node.finish(scaled);
        x = std::move(scaled);
    };
    if (a.bias) {  // ALiBi in fp32, though the mask holds it already
        const Ref product = scores;
        scores = tape.cast(scores, dtype::fp32);
        const Ref slopes = tape.borrow(scores.numel() / sequence_of(call, 0), call.activation_dtype(), false);
        Ref logits = tape.add(scores, slopes);
        scale_in_place(logits);
        for (const Ref& local : {product, scores, logits}) call.hold_local(local);
        const Ref masked = has_mask(call) ? tape.add(logits, call.in(3)) : logits;
        scores = tape.softmax(masked, call.activation_dtype());
        scores = drop_probabilities(call, std::move(scores));
    } else {
        scale_in_place(scores);
        const Ref masked = has_mask(call) ? tape.add(scores, call.in(3)) : scores;
        scores = tape.softmax(masked, call.activation_dtype());
    }
    call.return_beside(scores);
    Ref out;
    {
        Ref right = widen(call.in(2));
        Ref left = tape.autocast() != nullptr ? tape.cast(scores, *tape.autocast()) : scores;
        out = tape.matmul(std::move(left), std::move(right), call.numel(call.output_tensor(0)));
    }
    call.out(0, merge_heads(call, std::move(out)));
}

/// gpt-oss and, without sinks in layers that have none, MiMo-V2-Flash [models/gpt_oss/modeling_gpt_oss.py,
/// models/mimo_v2_flash/modeling_mimo_v2_flash.py eager_attention_forward]: the sinks are one more key;
/// the row's maximum is subtracted, and has a gradient.
void gpt_oss(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const auto [query, key, value] = repeated_heads(call);
    const std::int64_t numel = scores_numel(call);
    const std::int64_t rows = numel / sequence_of(call, 1);
    const Dtype* const autocast = tape.autocast();
    const auto narrow = [&](const Ref& x) { return autocast ? tape.cast(x, *autocast) : x; };
    // Repeated keys are written out; one expanded key is copied for a batch, unless it is cast.
    const auto matrices = [&](const Ref& x) {
        Ref cast = narrow(x);
        const bool written = a.kv_heads > 1 || &cast.dtype() != &x.dtype();
        return flatten(call, std::move(cast), written && a.kv_heads != a.heads);
    };
    Ref scores;
    {
        Ref right = a.kv_heads == a.heads ? flatten(call, narrow(key), a.head_major) : matrices(key);
        scores = tape.matmul(narrow(query), std::move(right), numel);
    }
    scores = tape.mul_scalar(scores);
    if (has_mask(call)) scores = tape.add(scores, call.in(3));
    const bool has_sinks = call.parameters() > 0;
    Ref combined = has_sinks ? with_sinks(call, scores, rows) : scores;
    if (a.form == AttentionForm::mimo) scores.reset();  // one name for all of them
    combined = less_row_maximum(tape, combined, rows);
    Ref probabilities = tape.softmax(combined, combined.dtype());
    Ref kept = has_sinks ? tape.slice(probabilities, numel) : probabilities;
    kept = drop_probabilities(call, std::move(kept));
    const Ref weights = tape.cast(kept, value.dtype());
    call.hold(weights);
    Ref out;
    {
        out = tape.matmul(narrow(weights), matrices(value), call.numel(call.output_tensor(0)));
    }
    call.out(0, merge_heads(call, std::move(out)));
}

}  // namespace

Ref with_sinks(KernelCall& call, const Ref& scores, std::int64_t rows) {
    Tape& tape = call.tape;
    const Ref sinks = tape.view(call.parameter(0));
    // cat promotes; the sinks' gradient is summed from its column.
    const Dtype& type = scores.dtype().bits < sinks.dtype().bits ? sinks.dtype() : scores.dtype();
    Ref combined = tape.fresh(scores.numel() + rows, type, "scores and sinks");
    Tape::NodeBuilder node(tape, "cat", {&scores, &sinks});
    if (&scores.dtype() == &type)
        node.pass_view(0);
    else
        node.grad(0, "grad cast back");
    node.grad(1, "grad of sinks");
    node.finish(combined);
    return combined;
}

Ref less_row_maximum(Tape& tape, const Ref& scores, std::int64_t rows) {
    const Ref ids = tape.fresh(rows, dtype::int64, "position of the maximum");
    Ref maximum = tape.fresh(rows, scores.dtype(), "maximum");
    {
        Tape::NodeBuilder node(tape, "max", {&scores});
        node.save(ids);
        node.grad(0, "scattered grad");
        node.finish(maximum);
    }
    return tape.sub(scores, std::move(maximum));
}

bool run_eager_form(KernelCall& call) {
    switch (call.attributes().form) {
        case AttentionForm::shared:
        case AttentionForm::indexed: return false;
        case AttentionForm::gptj: gptj(call); return true;
        case AttentionForm::gpt_neo: gpt_neo(call); return true;
        case AttentionForm::bloom: bloom(call); return true;
        case AttentionForm::mpt: mpt(call); return true;
        case AttentionForm::gpt_oss:
        case AttentionForm::mimo: gpt_oss(call); return true;
        case AttentionForm::falcon: falcon(call); return true;
        case AttentionForm::disentangled: disentangled(call); return true;
        case AttentionForm::disentangled_joined: disentangled_joined(call); return true;
        case AttentionForm::granite_swa: granite_swa(call); return true;
        case AttentionForm::openai_gpt: openai_gpt(call); return true;
        case AttentionForm::xglm: xglm(call); return true;
        case AttentionForm::blip:
        case AttentionForm::returned: returned(call); return true;
        case AttentionForm::cosine: cosine(call); return true;
        case AttentionForm::compressed: compressed_attention(call); return true;
        case AttentionForm::mpnet: mpnet(call); return true;
    }
    return false;
}

}  // namespace membudget::kernel
