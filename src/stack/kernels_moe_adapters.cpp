// Adapters in a mixture of experts: on linear modules that it runs, and on its own parameters, which are stacks of
// matrices and the router's matrix. To these PEFT's wrapper adds a low-rank product before the module runs [peft tuners/lora/layer.py ParamWrapper, 0.21].

#include <algorithm>
#include <cstdint>
#include <utility>

#include "stack/moe_parts.hpp"

namespace membudget::kernel {

namespace {

/// The gradient of a factor that the sum was scaled by: multiplied out of place unless the scale is 1
/// [torch/csrc/autograd/FunctionsManual.cpp maybe_multiply].
void scaled_gradient(Tape::NodeBuilder& node, std::size_t input, const Ref& factor, bool scaled) {
    if (!scaled || !node.needs(input)) return node.grad(input);
    const std::int16_t product = node.temp(byte_count(factor.numel(), factor.dtype()), "grad before its scale");
    node.grad(input);
    node.drop(product);
}

}  // namespace

std::size_t Mixture::own_parameters() const {
    int own = static_cast<int>(call.parameters());
    for (const Adapter& adapter : call.op.inner_adapters) own = std::min(own, adapter.a);
    for (const ParameterAdapter& adapter : call.op.parameter_adapters) own = std::min(own, adapter.a);
    return static_cast<std::size_t>(own);
}

Ref Mixture::next_linear(Ref x, std::int64_t in, std::int64_t out, bool biased) {
    const std::size_t weight = parameter;
    parameter += biased ? 2 : 1;
    return inner_linear(call, std::move(x), weight, biased, {tokens, in, out});
}

Adapted::Adapted(Mixture& mixture) : m_(mixture) {
    for (const ParameterAdapter& adapter : m_.call.op.parameter_adapters)
        if (adapter.parameter == static_cast<int>(m_.parameter)) adapter_ = &adapter;
    parameter_ = m_.next_parameter();
}

void Adapted::activate() {
    if (adapter_ == nullptr) return;
    Tape& tape = m_.tape;
    const Ref a = m_.call.parameter(static_cast<std::size_t>(adapter_->a));
    const Ref b = m_.call.parameter(static_cast<std::size_t>(adapter_->b));
    const bool stack = m_.call.shape_of_parameter(static_cast<std::size_t>(adapter_->parameter)).shape.size() == 3;
    if (stack) {
        // reshape and permute; where the matrices are in x out both factors are transposed too [get_delta_factors].
        const auto transposed = [&tape](const Ref& factor, bool is) {
            return tape.view(factor, is ? Tape::ViewGradient::copy : Tape::ViewGradient::view);
        };
        a_ = tape.cast(transposed(a, adapter_->in_out), parameter_.dtype());
        b_ = tape.cast(transposed(b, true), parameter_.dtype());
    } else {
        // [Linear.get_delta_weight]
        Ref product = tape.matmul(b, a, parameter_.numel());
        product = tape.mul_scalar(std::move(product));
        update_ = tape.cast(std::move(product), parameter_.dtype());
    }
    const Ref checked = fold();
}

const Ref& Adapted::get() {
    if (adapter_ == nullptr) return parameter_;
    if (!sum_) sum_ = fold();
    return sum_;
}

Ref Adapted::fold() const {
    Tape& tape = m_.tape;
    if (update_) return tape.add(parameter_, update_);
    // torch.baddbmm(W, lhs, rhs, alpha=scale), outside autocast [_LoraFactorsProxy].
    Ref out = tape.fresh(parameter_.numel(), parameter_.dtype(), "weights with adapters");
    Tape::NodeBuilder node(tape, "baddbmm", {&parameter_, &b_, &a_});
    node.save(b_);
    node.save(a_);
    node.pass(0);
    scaled_gradient(node, 1, b_, adapter_->scaled);
    scaled_gradient(node, 2, a_, adapter_->scaled);
    node.finish(out);
    return out;
}

}  // namespace membudget::kernel
