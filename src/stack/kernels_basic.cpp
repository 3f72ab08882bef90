#include "stack/kernels.hpp"

#include <cstdint>
#include <vector>

namespace membudget::kernel {

namespace {

/// act(x), op by op [transformers activations.py].
Ref apply(Tape& tape, Act act, const Ref& x) {
    switch (act) {
        case Act::gelu: return tape.unary_saving_input(x, "gelu");
        case Act::gelu_tanh: return tape.unary_saving_input(x, "gelu");
        case Act::silu: return tape.unary_saving_input(x, "silu");
        case Act::relu: return tape.unary_saving_output(x, "relu");
        case Act::tanh: return tape.unary_saving_output(x, "tanh");
        case Act::sigmoid: return tape.unary_saving_output(x, "sigmoid");
        case Act::relu2: {
            Ref rectified = tape.unary_saving_output(x, "relu");
            return tape.square(rectified);
        }
        case Act::quick_gelu: {  // x * sigmoid(1.702 * x)
            Ref scaled = tape.mul_scalar(x);
            Ref gate = tape.unary_saving_output(scaled, "sigmoid");
            scaled.reset();
            return tape.mul(x, gate);
        }
        case Act::gelu_new: {  // 0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))
            const Ref half = tape.mul_scalar(x);
            Ref cube = tape.square(x);
            Ref scaled_cube = tape.mul_scalar(cube);
            cube.reset();
            Ref sum = tape.add(x, scaled_cube);
            scaled_cube.reset();
            Ref scaled = tape.mul_scalar(sum);
            sum.reset();
            Ref tanh = tape.unary_saving_output(scaled, "tanh");
            scaled.reset();
            const Ref shifted = tape.add_scalar(tanh);
            tanh.reset();
            return tape.mul(half, shifted);
        }
    }
    MEMBUDGET_ENSURE(false, "an activation without a rule");
    return {};
}

}  // namespace

void scale(KernelCall& call) { call.out(0, call.tape.mul_scalar(call.in(0))); }

void add(KernelCall& call) { call.out(0, call.tape.add(call.in(0), call.in(1))); }

void multiply(KernelCall& call) { call.out(0, call.tape.mul(call.in(0), call.in(1))); }

void split(KernelCall& call) {
    std::vector<std::int64_t> numels;
    for (std::size_t i = 0; i < call.op.outputs.size(); ++i)
        numels.push_back(call.numel(call.output_tensor(i)));
    std::vector<Ref> parts = call.tape.chunk(call.in(0), numels);
    for (std::size_t i = 0; i < parts.size(); ++i) call.out(i, std::move(parts[i]));
}

void dropout(KernelCall& call) {
    const double p = call.dropout >= 0 ? call.dropout : call.attributes().dropout;
    call.out(0, call.tape.dropout(call.in(0), p));
}

void activation(KernelCall& call) {
    call.out(0, apply(call.tape, call.attributes().act, call.in(0)));
}

Ref gate(KernelCall& call) { return apply(call.tape, call.attributes().act, call.in(0)); }

void gated_activation(KernelCall& call) {
    call.out(0, call.tape.mul(std::move(call.early), call.in(1)));
}

void fused_gated_activation(KernelCall& call) {
    // An upper figure: Liger's backward writes both gradients over the saved inputs
    // [Liger-Kernel ops/swiglu.py swiglu_backward], Megatron's and TE's allocate them.
    Tape& tape = call.tape;
    const Ref gate = call.in(0);
    const Ref up = call.in(1);
    Ref out = tape.fresh(gate.numel(), gate.dtype(), "output");
    Tape::NodeBuilder node(tape, "gated activation", {&gate, &up});
    node.save(gate);
    node.save(up);
    node.grad(0);
    node.grad(1);
    node.finish(out);
    call.out(0, std::move(out));
}

void softcap(KernelCall& call) {
    Ref scaled = call.tape.mul_scalar(call.in(0));
    Ref tanh = call.tape.unary_saving_output(scaled, "tanh");
    scaled.reset();
    call.out(0, call.tape.mul_scalar(tanh));
}

}  // namespace membudget::kernel
