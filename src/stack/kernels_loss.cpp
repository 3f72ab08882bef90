#include "stack/kernels.hpp"

#include <cstdint>

namespace membudget::kernel {

void causal_lm_loss(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const std::int64_t batch = call.extents.batch;
    // logits = logits.float(); labels padded by one column, then shifted into a copy.
    const Ref logits = tape.cast(call.in(0), dtype::fp32);
    const Ref padded = tape.fresh(rows + batch, dtype::int64, "padded labels");
    Ref labels = tape.fresh(rows, dtype::int64, "shifted labels");
    call.out(0, tape.cross_entropy(logits, std::move(labels), rows, call.input_tensor(0).width));
}

void masked_lm_loss(KernelCall& call) {
    call.out(0, call.tape.cross_entropy(call.in(0), Ref(), call.rows(call.input_tensor(0)),
                                        call.input_tensor(0).width));
}

void small_loss(KernelCall& call) { call.out(0, call.tape.mean(call.in(0), 1)); }

}  // namespace membudget::kernel
