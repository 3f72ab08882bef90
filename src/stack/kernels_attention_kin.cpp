// More classes that write attention out by themselves, most of them older than the library's functions.

#include <cstdint>
#include <utility>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

/// query @ key, where the key is looked at first.
Ref scores_of(KernelCall& call, const Ref& query, const Ref& key, bool written = false) {
    Ref right = factor(call, key, written);
    Ref left = factor(call, query);
    return call.tape.matmul(std::move(left), std::move(right), scores_numel(call));
}

/// probabilities @ value, merged.
Ref context(KernelCall& call, const Ref& weights, const Ref& value, bool written = false) {
    Ref right = factor(call, value, written);
    Ref left = call.tape.autocast() != nullptr ? call.tape.cast(weights, *call.tape.autocast()) : weights;
    return call.tape.matmul(std::move(left), std::move(right), call.numel(call.output_tensor(0)));
}

/// log of the sum of exponentials of each row [derivatives.yaml: logsumexp].
Ref logsumexp(Tape& tape, const Ref& x, std::int64_t rows) {
    Ref out = tape.fresh(rows, x.dtype(), "log of the sum");
    Tape::NodeBuilder node(tape, "logsumexp", {&x});
    node.save(x);
    node.save(out);
    const std::int64_t bytes = byte_count(x.numel(), x.dtype());
    const std::int16_t difference = node.temp(bytes, "difference");
    const std::int16_t exponential = node.temp(bytes, "exponential");
    node.drop(difference);
    node.grad(0);
    node.drop(exponential);
    node.finish(out);
    return out;
}

}  // namespace

/// Granite with windows [models/granite_swa/modeling_granite_swa.py eager_attention_forward]: the result is
/// scaled by sigmoid(logsumexp(scores) - sink).
void granite_swa(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const auto [query, key, value] = repeated_heads(call);
    const bool grouped = a.kv_heads > 1 && a.kv_heads != a.heads;
    const std::int64_t rows = scores_numel(call) / sequence_of(call, 1);
    Ref scores = scores_of(call, query, key, grouped);
    scores = tape.mul_scalar(scores);
    if (has_mask(call)) scores = tape.add(scores, call.in(3));
    const Ref sum = logsumexp(tape, scores, rows);
    Ref scale;
    {
        Ref difference = tape.sub(sum, tape.view(call.parameter(0)));
        scale = tape.unary_saving_output(tape.cast(std::move(difference), dtype::fp32), "sigmoid");
    }
    Ref weights = tape.softmax(scores, dtype::fp32);
    weights = tape.cast(weights, query.dtype());
    weights = drop_probabilities(call, std::move(weights));
    call.hold(weights);
    Ref out = context(call, weights, value, grouped);
    out = tape.mul(out, tape.cast(scale, out.dtype()));
    call.out(0, merge_heads(call, std::move(out)));
}

/// GPT 1 [models/openai/modeling_openai.py Attention._attn]: w * b + -1e4 * (1 - b).
void openai_gpt(KernelCall& call) {
    Tape& tape = call.tape;
    const auto [query, key, value] = untransposed_heads(call);
    Ref scores = scores_of(call, query, key);
    scores = tape.mul_scalar(scores);
    {
        const std::int64_t pairs = detail::checked_mul(sequence_of(call, 0), sequence_of(call, 1));
        const Ref causal = tape.borrow(pairs, call.activation_dtype(), false);  // a buffer
        Ref kept = tape.mul(scores, causal);
        Ref others = tape.fresh(pairs, causal.dtype(), "what is not causal");
        others = tape.mul_scalar(others);
        scores = tape.add(std::move(kept), std::move(others));
    }
    if (has_mask(call)) scores = tape.add(scores, call.in(3));
    Ref weights = tape.softmax(scores, softmax_dtype(call, scores));
    scores.reset();
    weights = drop_probabilities(call, std::move(weights));
    Ref out = context(call, weights, value);
    call.out(0, merge_heads(call, std::move(out)));
}

/// XGLM [models/xglm/modeling_xglm.py XGLMAttention.forward]: heads of all sequences as one batch of matrices,
/// which copies each of them.
void xglm(KernelCall& call) {
    Tape& tape = call.tape;
    Ref query = flatten(call, untransposed(call, 0));
    Ref key = flatten(call, untransposed(call, 1));
    Ref value = flatten(call, untransposed(call, 2));
    if (sequences_of(call, 0) > 1)
        for (std::size_t i = 0; i < 3; ++i) call.rebind_input(i, {});
    Ref scores = tape.matmul(query, key, scores_numel(call));
    if (has_mask(call)) {
        scores = tape.add(scores, call.in(3));
        scores = bounded(tape, scores, "bounded scores");
    }
    const Ref weights = tape.softmax(scores, softmax_dtype(call, scores));
    scores.reset();
    call.hold(weights);
    const Ref kept = drop_probabilities(call, weights);
    for (const Ref& local : {query, key, value, kept}) call.hold_local(local);
    Ref out = tape.matmul(kept, value, call.numel(call.output_tensor(0)));
    call.out(0, merge_heads(call, std::move(out)));
}

/// MPNet [models/mpnet/modeling_mpnet.py MPNetSelfAttention.forward].
void mpnet(KernelCall& call) {
    constexpr std::size_t kBias = 4;
    Tape& tape = call.tape;
    const auto [query, key, value] = untransposed_heads(call);
    Ref scores = scores_of(call, query, key);
    scores = tape.mul_scalar(scores);
    scores = tape.add_in_place(std::move(scores), call.in(kBias));
    if (has_mask(call)) scores = tape.add(scores, call.in(3));
    Ref weights = tape.softmax(scores, softmax_dtype(call, scores));
    weights = drop_probabilities(call, std::move(weights));
    for (const Ref& local : {scores, weights}) call.hold_local(local);
    Ref out = context(call, weights, value);
    call.out(0, merge_heads(call, std::move(out)));
}

/// RoFormer [models/roformer/modeling_roformer.py RoFormerSelfAttention.forward], RemBERT; BLIP, whose layers keep the
/// probabilities [models/blip/modeling_blip_text.py BlipTextSelfAttention.forward].
void returned(KernelCall& call) {
    Tape& tape = call.tape;
    const auto [query, key, value] = untransposed_heads(call);
    Ref scores = scores_of(call, query, key);
    scores = tape.mul_scalar(scores);
    if (has_mask(call)) scores = tape.add(scores, call.in(3));
    Ref weights = tape.softmax(scores, softmax_dtype(call, scores));
    weights = drop_probabilities(call, std::move(weights));
    if (call.attributes().form == AttentionForm::blip)
        call.hold(weights);
    else
        call.return_beside(weights);
    Ref out = context(call, weights, value);
    call.out(0, merge_heads(call, std::move(out)));
}

}  // namespace membudget::kernel
