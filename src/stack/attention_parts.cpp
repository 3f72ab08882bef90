#include "stack/attention_parts.hpp"

#include <algorithm>

namespace membudget::kernel {

bool rotated(const KernelCall& call, std::size_t input) {
    const int tensor = call.op.inputs[input];
    return std::any_of(call.block.ops.begin(), call.block.ops.end(), [&](const Op& op) {
        return op.kind == OpKind::rotary &&
               std::find(op.outputs.begin(), op.outputs.end(), tensor) != op.outputs.end();
    });
}

std::int64_t sequences_of(const KernelCall& call, std::size_t input) {
    if (call.attributes().packed) return 1;
    if (call.attributes().windows > 0) return detail::checked_mul(call.extents.images, call.attributes().windows);
    return call.input_tensor(input).rows == Rows::patches ? call.extents.images : call.extents.batch;
}

std::int64_t sequence_of(const KernelCall& call, std::size_t input) {
    return call.rows(call.input_tensor(input)) / sequences_of(call, input);
}

std::int64_t scores_numel(const KernelCall& call) {
    return detail::checked_mul(
        detail::checked_mul(sequences_of(call, 0), call.attributes().heads),
        detail::checked_mul(sequence_of(call, 0), sequence_of(call, 1)));
}

Ref flatten(KernelCall& call, Ref x, bool head_major) {
    return sequences_of(call, 0) > 1 && !head_major ? call.tape.copy(std::move(x)) : x;
}

Ref factor(KernelCall& call, const Ref& x, bool written) {
    Ref narrow = call.tape.autocast() != nullptr ? call.tape.cast(x, *call.tape.autocast()) : x;
    return flatten(call, std::move(narrow), written);
}

Tape::ViewGradient transposed_gradient(std::int64_t heads) {
    return heads == 1 ? Tape::ViewGradient::view : Tape::ViewGradient::copy;
}

Ref untransposed(KernelCall& call, std::size_t input) {
    const OpAttributes& a = call.attributes();
    // Falcon cuts its projection by indexing, which takes gradients of any layout.
    // What a cache holds is a tensor of its own.
    if (a.transposed || rotated(call, input) || a.form == AttentionForm::falcon || a.unbound ||
        (call.cached && input > 0))
        return call.in(input);
    const std::int64_t heads = input == 0 || a.kv_heads == 0 ? a.heads : a.kv_heads;
    return call.tape.view(call.in(input), transposed_gradient(heads));
}

Ref repeat_heads(KernelCall& call, Ref x) {
    const OpAttributes& a = call.attributes();
    if (!is_grouped(a)) return x;
    const std::int64_t numel = detail::checked_mul(x.numel() / a.kv_heads, a.heads);
    return a.kv_heads == 1 ? call.tape.expand(std::move(x), numel)
                           : call.tape.repeat(std::move(x), numel);
}

HeadTensors untransposed_heads(KernelCall& call) {
    return {untransposed(call, 0), untransposed(call, 1), untransposed(call, 2)};
}

HeadTensors repeated_heads(KernelCall& call) {
    HeadTensors out = untransposed_heads(call);
    out.key = repeat_heads(call, std::move(out.key));
    out.value = repeat_heads(call, std::move(out.value));
    return out;
}

bool has_mask(const KernelCall& call) { return call.inputs() > 3 && static_cast<bool>(call.in(3)); }

const Dtype& softmax_dtype(const KernelCall& call, const Ref& scores) {
    const bool wide = call.tape.autocast() != nullptr && call.tape.backend() == Backend::cuda;
    return wide ? dtype::fp32 : scores.dtype();
}

Ref drop_probabilities(KernelCall& call, Ref probabilities) {
    return call.tape.dropout(std::move(probabilities),
                             call.dropout >= 0 ? call.dropout : call.attributes().dropout);
}

Ref merge_heads(KernelCall& call, Ref out) {
    if (sequences_of(call, 0) == 1 && call.attributes().heads == 1) return out;
    // Of one sequence the gradient is viewed head by head as it lies.
    const auto gradient = sequences_of(call, 0) == 1 ? Tape::ViewGradient::view : Tape::ViewGradient::copy;
    return call.tape.copy(call.tape.view(std::move(out), gradient));
}

const Dtype& computed_dtype(const KernelCall& call) {
    return call.tape.autocast() != nullptr ? *call.tape.autocast() : call.in(0).dtype();
}

void finish_fused(KernelCall& call, Ref out) {
    call.out(0, call.attributes().head_major ? merge_heads(call, std::move(out)) : std::move(out));
}

}  // namespace membudget::kernel
