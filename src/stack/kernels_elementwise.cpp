// Functions of one tensor that a few classes write out by themselves.

#include <array>
#include <cstdint>

#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

/// Of a clamp: backward asks which elements were within the bounds [FunctionsManual.cpp clamp_backward].
void grad_within_bounds(Tape::NodeBuilder& node, std::int64_t numel, Bounds bounds) {
    if (bounds == Bounds::one) {
        const std::int16_t within = node.temp(numel, "within the bound");
        node.grad(0);
        node.drop(within);
        return;
    }
    // The second is and-ed into the first.
    const std::int16_t above = node.temp(numel, "above the lower bound");
    const std::int16_t below = node.temp(numel, "below the upper bound");
    node.grad(0);
    node.drop(below);
    node.drop(above);
}

}  // namespace

/// `x.clamp(-c, c)`, or `x.clamp_(-c, c)`: backward asks which elements were between the bounds, so autograd copies them before
/// they are overwritten [torch/csrc/autograd/generated/VariableType: clamp_; derivatives.yaml: clamp,
/// FunctionsManual.cpp clamp_backward].
void clip(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    if (!call.attributes().in_place) return call.out(0, clamp(tape, x, Bounds::both));
    Ref out = tape.alias_of_storage(x);
    Tape::NodeBuilder node(tape, "clamp_", {&x});
    if (node.active()) {
        const Ref original = tape.fresh(x.numel(), x.dtype(), "what is overwritten");
        node.save(original);
        grad_within_bounds(node, x.numel(), Bounds::both);
    }
    node.finish(out);
    call.out(0, std::move(out));
}

Ref clamp(Tape& tape, const Ref& x, Bounds bounds) {
    Ref out = tape.fresh(x.numel(), x.dtype(), "clamp");
    Tape::NodeBuilder node(tape, "clamp", {&x});
    node.save(x);
    grad_within_bounds(node, x.numel(), bounds);
    node.finish(out);
    return out;
}

Ref bounded(Tape& tape, const Ref& x, const char* what) {
    Ref out = tape.fresh(x.numel(), x.dtype(), what);
    Tape::NodeBuilder node(tape, what, {&x});
    node.save(x);
    const std::int16_t half = node.temp(byte_count(x.numel(), x.dtype()), "half of the gradient");
    const std::int16_t equal = node.temp(x.numel(), "ties");
    node.grad(0);
    const std::int16_t beyond = node.temp(x.numel(), "beyond the bound");
    for (const std::int16_t temp : {beyond, equal, half}) node.drop(temp);
    node.finish(out);
    return out;
}

Ref row_sum(Tape& tape, const Ref& x, std::int64_t rows) {
    Ref out = tape.fresh(rows, x.dtype(), "sum");
    Tape::NodeBuilder node(tape, "sum", {&x});
    node.pass_view(0);
    node.finish(out);
    return out;
}

/// [FunctionsManual.cpp linalg_vector_norm_backward]
Ref row_norm(Tape& tape, const Ref& x, std::int64_t rows) {
    Ref norm = tape.fresh(rows, x.dtype(), "norm");
    Tape::NodeBuilder node(tape, "norm", {&x});
    node.save(x);
    node.save(norm);
    const std::int16_t quotient = node.temp(byte_count(x.numel(), x.dtype()), "quotient");
    const std::int16_t zeros = node.temp(rows, "norms of zero");
    node.grad(0);
    node.drop(zeros);
    node.drop(quotient);
    node.finish(norm);
    return norm;
}

/// [derivatives.yaml: div.Tensor].
Ref divide(Tape& tape, const Ref& x, const Ref& y) {
    Ref out = tape.fresh(x.numel(), x.dtype(), "quotient");
    Tape::NodeBuilder node(tape, "div", {&x, &y});
    node.save(x);
    node.save(y);
    const std::int64_t bytes = byte_count(x.numel(), x.dtype());
    // -grad * ((x / y) / y), then summed for each row.
    const std::array<std::int16_t, 3> scratch{node.temp(bytes, "quotient"), node.temp(bytes, "quotient of quotient"),
                                              node.temp(bytes, "negated grad")};
    const std::int16_t product = node.temp(bytes, "grad product");
    for (const std::int16_t temp : scratch) node.drop(temp);
    node.grad(0);
    node.grad(1, "reduced grad");
    node.drop(product);
    node.finish(out);
    return out;
}

/// x.masked_fill_(mask, 0) of rows that are padding [derivatives.yaml: masked_fill]; the mask of padding is one
/// number per row, of which the inverse and its truth are made
/// [models/deberta_v2/modeling_deberta_v2.py ConvLayer.forward].
void zero_padding(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const std::int64_t rows = call.rows(call.input_tensor(0));
    Ref padding;
    {
        const Ref inverse = tape.fresh(rows, call.extents.padding_mask ? dtype::int64 : dtype::fp32, "inverted mask");
        padding = tape.fresh(rows, dtype::boolean, "padding");
    }
    Ref out = tape.alias_of_storage(x);
    Tape::NodeBuilder node(tape, "masked_fill_", {&x});
    node.save(padding);
    node.grad(0, "masked grad");
    node.finish(out);
    call.hold_local(std::move(padding));
    call.out(0, std::move(out));
}

void drop_path(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const Rows rows = call.input_tensor(0).rows;
    const bool of_images = rows == Rows::patches || rows == Rows::images;
    const std::int64_t samples = of_images ? call.extents.images : call.extents.batch;
    const Ref kept = tape.fresh(samples, x.dtype(), "kept samples");
    Ref scaled = tape.mul_scalar(x);
    call.out(0, tape.mul(std::move(scaled), kept));
}

namespace {

/// torch.where(condition, a, b).
Ref where(Tape& tape, const Ref& condition, const Ref& a, const Ref& b) {
    Ref out = tape.fresh(a.numel(), a.dtype(), "chosen");
    Tape::NodeBuilder node(tape, "where", {&a, &b});
    node.save(condition);
    node.grad(0);
    node.grad(1);
    node.finish(out);
    return out;
}

/// softplus(parameter) in the type that autocast gives it: a number.
Ref softplus(Tape& tape, Ref x) { return tape.unary_saving_input(std::move(x), "softplus"); }

}  // namespace

Ref xielu(KernelCall& call, const Ref& x) {
    Tape& tape = call.tape;
    const Ref positive = softplus(tape, call.parameter(0));
    const Ref negative = tape.add_scalar(softplus(tape, call.parameter(1)));
    const Ref condition = tape.fresh(x.numel(), dtype::boolean, "positive");
    Ref above;  // alpha_p * x * x + beta * x
    {
        Ref square = tape.mul(tape.mul(positive, x), x);
        Ref linear = tape.mul_scalar(x);
        above = tape.add(std::move(square), std::move(linear));
    }
    Ref below;  // (expm1(min(x, eps)) - x) * alpha_n + beta * x
    {
        Ref exponential = tape.unary_saving_output(bounded(tape, x, "minimum"), "expm1");
        Ref difference = tape.sub(std::move(exponential), x);
        Ref product = tape.mul(std::move(difference), negative);
        Ref linear = tape.mul_scalar(x);
        below = tape.add(std::move(product), std::move(linear));
    }
    return where(tape, condition, above, below);
}

}  // namespace membudget::kernel
