#include "membudget/stack.hpp"

namespace membudget {

namespace {
std::size_t at(int index) { return static_cast<std::size_t>(index); }
}  // namespace

std::int64_t Extents::rows(Rows kind) const {
    switch (kind) {
        case Rows::one: return 1;
        case Rows::batch: return batch;
        case Rows::positions: return sequence;
        case Rows::tokens: return detail::checked_mul(batch, sequence);
        case Rows::target_tokens: return detail::checked_mul(batch, target_sequence);
        case Rows::target_positions: return target_sequence;
        case Rows::images: return images;
        case Rows::patches: return patches;
        case Rows::image_tokens: return image_tokens;
    }
    return 0;
}

Ref KernelCall::in(std::size_t input) const { return tensors_[at(op.inputs[input])]; }

void KernelCall::out(std::size_t output, Ref value) {
    tensors_[at(op.outputs[output])] = std::move(value);
}

void KernelCall::rebind_input(std::size_t input, Ref value) {
    tensors_[at(op.inputs[input])] = std::move(value);
}

Ref KernelCall::parameter(std::size_t i) { return tape.parameter(leaves_[at(op.parameters[i])]); }

bool KernelCall::accumulates(std::size_t i) const { return tape.leaf(leaves_[at(op.parameters[i])]).has_grad; }

const Parameter& KernelCall::shape_of_parameter(std::size_t i) const {
    return block.parameters[at(op.parameters[i])];
}

const Tensor& KernelCall::input_tensor(std::size_t i) const {
    return block.tensors[at(op.inputs[i])];
}

const Tensor& KernelCall::output_tensor(std::size_t i) const {
    return block.tensors[at(op.outputs[i])];
}

}  // namespace membudget
