// Streams of Gemma 3n, and its sparse activations [transformers models/gemma3n/modeling_gemma3n.py].

#include <cstdint>
#include <utility>
#include <vector>

#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

/// torch.stack along a new first dimension, whose gradients are views; that of the first is added to others where it is
/// no slice itself.
Ref stacked(Tape& tape, const std::vector<Ref>& parts, bool adds_first) {
    Ref out = tape.fresh(parts.front().numel() * static_cast<std::int64_t>(parts.size()), parts.front().dtype(), "stack");
    Tape::NodeBuilder node(tape, "stack", parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i == 0 && adds_first)
            node.grad(i);
        else
            node.pass_view(i);
    }
    node.finish(out);
    return out;
}

/// torch.mean(x**2, dim=-1, keepdim=True) ** 0.5
Ref magnitude(Tape& tape, const Ref& x, std::int64_t rows) {
    Ref square = tape.square(x);
    const Ref mean = tape.mean(square, rows);
    square.reset();
    return tape.unary_saving_input(mean, "pow");
}

/// projected * target / sqrt(clamp(mean(projected**2))), of which `projected` is a name to the end.
Ref of_magnitude(Tape& tape, const Ref& projected, const Ref& target, std::int64_t rows) {
    Ref square = tape.square(projected);
    Ref own = tape.mean(square, rows);
    square.reset();
    own = clamp(tape, own, Bounds::one);
    own = tape.unary_saving_output(own, "sqrt");
    const Ref product = tape.mul(projected, target);
    return divide(tape, product, own);
}

/// Module `i` of the projections, of one stream.
Ref project(KernelCall& call, const Ref& x, std::size_t i, std::int64_t rows) {
    const Parameter& weight = call.shape_of_parameter(i);
    return call.tape.linear(x, call.parameter(i), Ref(), rows, weight.shape[1], weight.shape[0]);
}

void spread(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const Ref target = magnitude(tape, x, rows);
    std::vector<Ref> streams{x};
    for (std::size_t i = 0; i < call.parameters(); ++i) {
        Ref projected = project(call, x, i, rows);
        const Ref wide = tape.cast(projected, x.dtype());
        streams.push_back(of_magnitude(tape, wide, target, rows));
        call.out(i + 1, streams.back());
        if (i + 1 == call.parameters()) call.out(i + 2, std::move(projected));
    }
    call.out(0, stacked(tape, streams, true));
}

void collapse(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const std::int64_t numel = call.numel(call.output_tensor(0));
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const Ref target = magnitude(tape, tape.slice(x, numel), rows);
    std::vector<Ref> streams{tape.slice(x, numel)};
    for (std::size_t i = 0; i < call.parameters(); ++i) {
        Ref projected = project(call, tape.slice(x, numel), i, rows);
        const Ref wide = tape.cast(projected, x.dtype());
        streams.push_back(of_magnitude(tape, wide, target, rows));
        call.hold_local(streams.back());
        if (i + 1 == call.parameters()) call.hold_local(std::move(projected));
    }
    const Ref stack = stacked(tape, streams, false);
    call.out(0, tape.mean(stack, numel));
}

/// A product of each token's streams, to which they are added in place through a transposed view of it: the gradient is
/// laid out anew, and copied for both [torch/csrc/autograd/functions/tensor.cpp CopySlices::apply].
void predict(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const Ref product = tape.matmul(x, call.in(1), x.numel());
    Ref sum = tape.alias_of_storage(product);
    {
        Tape::NodeBuilder node(tape, "CopySlices", {&product, &x});
        node.grad(0, "copy of the gradient");
        node.grad(1, "slice of the gradient");
        node.finish(sum);
    }
    sum = tape.slice(std::move(sum), product.numel());
    call.out(0, tape.cast(tape.copy(std::move(sum)), x.dtype()));
}

void correct(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref predictions = call.in(0);
    const Ref activated = call.in(1);
    const std::int64_t rows = call.rows(call.input_tensor(1));
    const std::int64_t streams = predictions.numel() / activated.numel();
    Ref innovation = tape.sub(activated, tape.slice(predictions, activated.numel()));
    innovation = tape.repeat(std::move(innovation), predictions.numel());
    Ref coefficients;
    {
        Ref weight = call.parameter(0);
        if (call.attributes().softcap > 0) weight = clamp(tape, weight, Bounds::both);
        coefficients = tape.linear(call.in(2), std::move(weight), Ref(), rows, streams, streams);
    }
    coefficients = tape.add_scalar(std::move(coefficients));
    Ref product = tape.mul(innovation, coefficients);
    call.out(0, tape.cast(tape.add_in_place(std::move(product), predictions), activated.dtype()));
}

/// corrected[1:] += x, which assigns to the slice what it was just changed to: both steps copy the whole gradient.
void add_to_others(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref streams = call.in(0);
    const Ref x = call.in(1);
    const std::int64_t others = streams.numel() - x.numel();
    const std::int64_t bytes = byte_count(others, streams.dtype());
    Ref sum = tape.alias_of_storage(streams);
    {
        Tape::NodeBuilder node(tape, "CopySlices", {&streams, &x});
        node.grad(0, "copy of the gradient");
        const std::int16_t slice = node.temp(bytes, "slice of the gradient");
        if (&x.dtype() == &streams.dtype()) {
            node.grad(1, "reduced grad");
            node.drop(slice);
        } else {  // the engine casts what the function returns
            const std::int16_t reduced = node.temp(byte_count(x.numel(), streams.dtype()), "reduced grad");
            node.drop(slice);
            node.grad(1, "cast grad");
            node.drop(reduced);
        }
        node.finish(sum);
    }
    const Ref assigned = tape.slice(sum, others);
    Ref out = tape.alias_of_storage(sum);
    {
        Tape::NodeBuilder node(tape, "CopySlices", {&sum, &assigned});
        node.grad(0, "copy of the gradient");
        const std::int16_t slice = node.temp(bytes, "slice of the gradient");
        node.grad(1, "grad of what is assigned");
        node.drop(slice);
        node.finish(out);
    }
    call.out(0, std::move(out));
}

/// torch.std of each row [FunctionsManual.cpp var_backward, std_backward].
Ref deviation(Tape& tape, const Ref& x, std::int64_t rows) {
    Ref out = tape.fresh(rows, x.dtype(), "deviation");
    Tape::NodeBuilder node(tape, "std", {&x});
    node.save(x);
    node.save(out);
    const std::int16_t centred = node.temp(byte_count(x.numel(), x.dtype()), "difference from the mean");
    node.grad(0);
    node.drop(centred);
    node.finish(out);
    return out;
}

}  // namespace

void altup(KernelCall& call) {
    switch (call.attributes().altup) {
        case Altup::spread: return spread(call);
        case Altup::predict: return predict(call);
        case Altup::correct: return correct(call);
        case Altup::add: return add_to_others(call);
        case Altup::collapse: return collapse(call);
    }
}

void sparsify(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const Ref mean = tape.mean(x, rows);
    Ref cutoff;
    {
        const Ref scaled = tape.mul_scalar(deviation(tape, x, rows));
        cutoff = tape.add(mean, scaled);
    }
    const Ref above = tape.sub(x, cutoff);
    call.out(0, tape.unary_saving_output(above, "relu"));
}

}  // namespace membudget::kernel
