#include "stack/kernels.hpp"

#include <array>
#include <cstdint>
#include <vector>

#include "stack/attention_parts.hpp"

namespace membudget::kernel {

namespace {

/// Cross-entropy of smoothed labels: the mean of all log-probabilities beside that of the labels'
/// [aten/src/ATen/native/LossNLL.cpp cross_entropy_loss_label_smoothing].
Ref smoothed_cross_entropy(Tape& tape, Ref logits, Ref labels, std::int64_t rows) {
    const Ref probabilities = tape.log_softmax(std::move(logits));
    const Ref likelihood = tape.nll_loss(probabilities, std::move(labels), rows);
    Ref smooth = tape.neg(row_sum(tape, probabilities, rows));
    const Ref ignored = tape.fresh(rows, dtype::boolean, "ignored labels");
    {
        Ref masked = tape.alias_of_storage(smooth);
        Tape::NodeBuilder node(tape, "masked_fill_", {&smooth});
        node.save(ignored);
        node.grad(0, "masked grad");
        node.finish(masked);
        smooth = std::move(masked);
    }
    Ref mean = row_sum(tape, smooth, 1);
    {
        const Ref counted = tape.fresh(rows, dtype::boolean, "labels that count");
        const Ref count = tape.fresh(1, dtype::int64, "their number");
        mean = tape.mul_scalar(std::move(mean));
    }
    return tape.add(tape.mul_scalar(std::move(mean)), tape.mul_scalar(likelihood));
}

/// Cross-entropy of all positions but the last against labels moved by one: the logits are sliced,
/// and copied where the slice leaves gaps between sequences.
Ref shifted_cross_entropy(KernelCall& call, const Ref& logits) {
    Tape& tape = call.tape;
    const std::int64_t batch = call.extents.batch;
    const std::int64_t classes = call.input_tensor(0).width;
    const std::int64_t rows = call.rows(call.input_tensor(0)) - batch;
    Ref shifted = tape.slice(logits, rows * classes);
    if (batch > 1) shifted = tape.copy(std::move(shifted));
    Ref labels = batch > 1 ? tape.fresh(rows, dtype::int64, "shifted labels") : Ref();
    if (call.attributes().smoothed) return smoothed_cross_entropy(tape, std::move(shifted), std::move(labels), rows);
    return tape.cross_entropy(shifted, std::move(labels), rows, classes);
}

}  // namespace

namespace {

/// loss + coefficient * load_balancing_loss_func(routers' logits): layer by layer a softmax, which its gradient
/// wants, and sums over the tokens [models/mixtral/modeling_mixtral.py load_balancing_loss_func]. The gradients of
/// the logits wait for the backward pass of their layers.
Ref with_router_loss(KernelCall& call, const Ref& loss) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const std::int64_t tokens = call.rows(call.input_tensor(0));
    const std::int64_t numel = detail::checked_mul(tokens, a.experts);
    const std::int64_t chosen = detail::checked_mul(tokens, a.experts_per_token);
    const Ref logits = call.in(0);
    const Dtype& type = a.wide_routers ? dtype::fp32 : softmax_dtype(call, logits);
    Ref auxiliary = tape.fresh(a.experts, dtype::fp32, "sum of probabilities");
    Tape::NodeBuilder node(tape, "router loss", {&logits});
    std::vector<std::int16_t> gradients;
    for (std::int64_t router = 0; router < a.routers; ++router) {
        const Ref weights = tape.fresh(numel, type, "routing weights");
        node.save(weights);
        const Ref values = tape.fresh(chosen, type, "top weights");
        const Ref ids = tape.fresh(chosen, dtype::int64, "expert ids");
        if (tape.grad_enabled()) gradients.push_back(node.temp(byte_count(numel, type), "grad of router logits"));
    }
    for (const std::int16_t gradient : gradients) node.leave(gradient);
    node.finish(auxiliary);
    return tape.add(loss, tape.mul_scalar(tape.mean(std::move(auxiliary), 1)));
}

}  // namespace

void causal_lm_loss(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const std::int64_t batch = call.extents.batch;
    call.keep_as_output(call.in(0));
    // logits = logits.float(); labels padded by one column, then shifted into a copy.
    const Ref logits = tape.cast(call.in(0), dtype::fp32);
    const Ref padded = tape.fresh(rows + batch, dtype::int64, "padded labels");
    Ref labels = tape.fresh(rows, dtype::int64, "shifted labels");
    Ref loss = tape.cross_entropy(logits, std::move(labels), rows, call.input_tensor(0).width);
    call.out(0, call.attributes().routers > 0 ? with_router_loss(call, loss) : std::move(loss));
}

void shifted_logits_loss(KernelCall& call) {
    call.keep_as_output(call.in(0));
    const Ref logits = call.tape.cast(call.in(0), dtype::fp32);
    call.out(0, shifted_cross_entropy(call, logits));
}

void float_logits_loss(KernelCall& call) {
    const Ref logits = call.tape.cast(call.in(0), dtype::fp32);
    call.rebind_input(0, logits);
    call.keep_as_output(logits);
    call.out(0, shifted_cross_entropy(call, logits));
}

void masked_lm_loss(KernelCall& call) {
    call.keep_as_output(call.in(0));
    Ref logits = call.in(0);
    if (call.attributes().shifted) return call.out(0, shifted_cross_entropy(call, logits));
    // `logits = logits.float()` [transformers loss/loss_utils.py ForMaskedLMLoss].
    if (call.attributes().widened) logits = call.tape.cast(std::move(logits), dtype::fp32);
    call.out(0, call.tape.cross_entropy(logits, Ref(), call.rows(call.input_tensor(0)),
                                        call.input_tensor(0).width));
}

void span_loss(KernelCall& call) {
    Tape& tape = call.tape;
    const Extents& e = call.extents;
    const std::int64_t each = call.rows(call.input_tensor(0));
    const std::array<std::int64_t, 2> numels{each, each};
    std::array<Ref, 2> logits;
    {
        const std::vector<Ref> columns = tape.chunk(call.in(0), numels);
        for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = tape.copy(columns[i]);
    }
    std::array<Ref, 2> positions, losses;
    for (Ref& position : positions) position = tape.fresh(e.batch, dtype::int64, "clamped positions");
    for (std::size_t i = 0; i < logits.size(); ++i) {
        call.keep_as_output(logits[i]);
        losses[i] = tape.cross_entropy(logits[i], positions[i], e.batch, e.sequence);
    }
    call.out(0, tape.mul_scalar(tape.add(losses[0], losses[1])));
}

void classification_loss(KernelCall& call) {
    Tape& tape = call.tape;
    call.keep_as_output(call.in(0));
    Ref logits = call.in(0);
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const std::int64_t classes = call.input_tensor(0).width;
    if (call.attributes().problem == Problem::single_label)
        return call.out(0, tape.cross_entropy(std::move(logits), Ref(), rows, classes));
    // Both other losses run in fp32 under autocast [autocast_mode.h AT_FORALL_FP32], keep the logits, and
    // make one gradient [derivatives.yaml: mse_loss, binary_cross_entropy_with_logits].
    if (tape.autocast() != nullptr) logits = tape.cast(std::move(logits), dtype::fp32);
    Ref loss = tape.fresh(1, logits.dtype(), "loss");
    Tape::NodeBuilder node(tape, "loss", {&logits});
    node.save(logits);
    node.grad(0, "grad logits");
    node.finish(loss);
    call.out(0, std::move(loss));
}

void small_loss(KernelCall& call) {
    call.keep_as_output(call.in(0));
    call.out(0, call.tape.mean(call.in(0), 1));
}

}  // namespace membudget::kernel
