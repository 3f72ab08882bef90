#include "stack/kernels.hpp"

#include <cstdint>

namespace membudget::kernel {

namespace {

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
    return tape.cross_entropy(std::move(shifted), std::move(labels), rows, classes);
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
    call.out(0, tape.cross_entropy(logits, std::move(labels), rows, call.input_tensor(0).width));
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
    // `logits = logits.float()` [transformers loss/loss_utils.py ForMaskedLMLoss].
    if (call.attributes().widened) logits = call.tape.cast(std::move(logits), dtype::fp32);
    call.out(0, call.tape.cross_entropy(logits, Ref(), call.rows(call.input_tensor(0)),
                                        call.input_tensor(0).width));
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
