#include "stack/kernels.hpp"

#include <cstdint>
#include <vector>

#include "stack/attention_parts.hpp"

namespace membudget::kernel {

namespace {

/// BloomGelu, an autograd function of its own that saves its input alone
/// [transformers models/bloom/modeling_bloom.py bloom_gelu_forward, bloom_gelu_back].
Ref bloom_gelu(Tape& tape, const Ref& x) {
    const std::int64_t numel = x.numel();
    const Dtype& type = x.dtype();
    {  // 0.5 x, 0.797 x, 1 + 0.0447 x x, their product, and so on: four at most at a time
        const Ref half = tape.fresh(numel, type, "half of input");
        const Ref scaled = tape.fresh(numel, type, "scaled input");
        Ref power = tape.fresh(numel, type, "scaled square");
        const Ref inner = tape.fresh(numel, type, "inner");
    }
    Ref out = tape.fresh(numel, type, "gelu");
    Tape::NodeBuilder node(tape, "gelu", {&x});
    node.save(x);
    const std::int64_t bytes = byte_count(numel, type);
    const std::int16_t tanh = node.temp(bytes, "tanh");
    const std::int16_t half = node.temp(bytes, "half of input");
    // 0.5 x ((1 - tanh tanh) (0.797 + 0.107 x x)): five at a time while the last factor is made.
    const std::int16_t rest = node.temp(bytes, "one less the square of tanh");
    const std::int16_t first = node.temp(bytes, "scratch");
    const std::int16_t second = node.temp(bytes, "scratch");
    node.drop(first);
    node.drop(second);
    node.drop(rest);
    node.grad(0);
    node.drop(half);
    node.drop(tanh);
    node.finish(out);
    return out;
}

}  // namespace

Ref apply_activation(Tape& tape, Act act, const Ref& x) {
    switch (act) {
        case Act::gelu: return tape.unary_saving_input(x, "gelu");
        case Act::gelu_tanh: return tape.unary_saving_input(x, "gelu");
        case Act::silu: return tape.unary_saving_input(x, "silu");
        case Act::relu: return tape.unary_saving_output(x, "relu");
        case Act::tanh: return tape.unary_saving_output(x, "tanh");
        case Act::sigmoid: return tape.unary_saving_output(x, "sigmoid");
        case Act::bloom_gelu: return bloom_gelu(tape, x);
        case Act::xielu: break;      // it has parameters
        case Act::swigluoai: break;  // it has two inputs
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

void scale(KernelCall& call) {
    Tape& tape = call.tape;
    if (call.attributes().in_place) {  // by a buffer: nothing of x is kept
        const Ref x = call.in(0);
        Ref out = tape.alias_of_storage(x);
        Tape::NodeBuilder node(tape, "mul_", {&x});
        node.grad(0);
        node.finish(out);
        return call.out(0, std::move(out));
    }
    if (!call.attributes().by_position) return call.out(0, tape.mul_scalar(call.in(0)));
    const Ref scales = tape.fresh(call.extents.sequence, dtype::fp32, "scale of each position");
    call.out(0, tape.cast(tape.mul(call.in(0), scales), call.in(0).dtype()));
}

void add(KernelCall& call) {
    if (call.attributes().in_place)
        return call.out(0, call.tape.add_in_place(call.in(0), call.in(1)));
    Tape& tape = call.tape;
    if (call.inputs() > 1) return call.out(0, tape.add(call.in(0), call.in(1)));
    // The other term is a parameter, or else a buffer of the parameters' type.
    Ref other = call.parameters() > 0
                    ? call.parameter(0)
                    : tape.borrow(call.output_tensor(0).width, call.activation_dtype(), false);
    call.out(0, tape.add(call.in(0), std::move(other)));
}

void multiply(KernelCall& call) {
    Tape& tape = call.tape;
    if (call.inputs() > 1) return call.out(0, tape.mul(call.in(0), call.in(1)));
    // The other factor is a parameter, or else the padding mask in the type of x, one number per row.
    Ref other = call.parameters() > 0
                    ? call.parameter(0)
                    : tape.fresh(call.rows(call.input_tensor(0)), call.in(0).dtype(), "mask of rows");
    call.out(0, tape.mul(call.in(0), std::move(other)));
}

/// Falcon's fused projection: queries are a slice, keys and values are indexed (a copy), then all of
/// them spread over the query heads [models/falcon/modeling_falcon.py FalconAttention._split_heads].
void split_falcon(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const Ref fused = call.in(0);
    const std::int64_t whole = call.numel(call.output_tensor(0));
    const bool spread = call.output_tensor(1).width == call.output_tensor(0).width && a.kv_heads < a.heads;
    const bool copied = spread && a.kv_heads > 1;
    std::vector<Ref> parts{tape.slice(fused, whole)};
    for (int i = 0; i < 2; ++i) {
        Ref indexed = tape.fresh(whole / a.heads * a.kv_heads, fused.dtype(), "indexed heads");
        Tape::NodeBuilder node(tape, "index", {&fused});
        node.grad(0, "scattered grad");
        node.finish(indexed);
        parts.push_back(std::move(indexed));
    }
    if (copied) parts[0] = tape.copy(std::move(parts[0]));
    for (std::size_t i = 1; i < 3 && spread; ++i)  // one for all heads stays a view of one
        parts[i] = copied ? tape.repeat(std::move(parts[i]), whole) : tape.expand(std::move(parts[i]), whole);
    for (std::size_t i = 0; i < 3; ++i) call.out(i, std::move(parts[i]));
}

void split(KernelCall& call) {
    if (call.attributes().form == AttentionForm::falcon && !call.attributes().sliced)
        return split_falcon(call);
    if (call.attributes().same) {
        Ref whole = call.inputs() > 0 ? call.in(0) : call.parameter(0);
        if (call.attributes().unbound)  // its gradient comes in another layout
            return call.out(0, call.tape.view(std::move(whole), Tape::ViewGradient::copy));
        if (!call.attributes().sliced) return call.out(0, std::move(whole));
        // Sliced, all of it is a view of its own.
        const std::int64_t numel = call.numel(call.output_tensor(0));
        return call.out(0, numel < whole.numel() ? call.tape.slice(std::move(whole), numel)
                                                 : call.tape.view(std::move(whole)));
    }
    // `unbind` stacks the gradients head by head, and the projection wants them token by token.
    Ref whole = call.in(0);
    if (call.attributes().unbound) whole = call.tape.view(std::move(whole), Tape::ViewGradient::copy);
    if (call.attributes().sliced) {
        for (std::size_t i = 0; i < call.op.outputs.size(); ++i)
            call.out(i, call.tape.slice(whole, call.numel(call.output_tensor(i))));
        return;
    }
    std::vector<std::int64_t> numels;
    for (std::size_t i = 0; i < call.op.outputs.size(); ++i)
        numels.push_back(call.numel(call.output_tensor(i)));
    std::vector<Ref> parts = call.tape.chunk(std::move(whole), numels);
    for (std::size_t i = 0; i < parts.size(); ++i) call.out(i, std::move(parts[i]));
}

void transpose_heads(KernelCall& call) {
    Ref x = call.tape.view(call.in(0), transposed_gradient(call.attributes().heads));
    x = call.tape.copy(std::move(x));
    const std::int64_t numel = call.numel(call.output_tensor(0));
    if (numel > x.numel()) x = call.tape.repeat(std::move(x), numel);  // for each sequence
    call.out(0, std::move(x));
}

void convolution(KernelCall& call) {
    Tape& tape = call.tape;
    const Parameter& filter = call.shape_of_parameter(0);
    Ref x;
    if (call.inputs() > 0) {
        x = call.in(0);
    } else {  // of the batch, in the type of the parameters
        const std::int64_t rows = detail::checked_mul(call.rows(call.output_tensor(0)), call.attributes().stride);
        x = tape.borrow(detail::checked_mul(rows, filter.shape[1]), call.parameter(0).dtype(), false);
    }
    x = tape.autocast_input(std::move(x));
    // Where channels lie last, the weight's gradient does not lie as the weight does: it is copied
    // [torch/csrc/autograd/functions/accumulate_grad.h], or added to the one that is there.
    // Of one image, viewed so, the strides do not say that they do [c10/core/MemoryFormat.h
    // is_channels_last_strides_2d; aten/src/ATen/TensorUtils.cpp computeStride].
    const bool single = call.output_tensor(0).rows == Rows::images && call.extents.images == 1;
    Ref filter_weight = call.parameter(0);
    if (call.attributes().strided && !single && !call.accumulates(0)) filter_weight = tape.view(std::move(filter_weight), Tape::ViewGradient::copy);
    const Ref weight = tape.autocast_input(std::move(filter_weight));
    Ref bias = call.parameters() > 1 ? tape.autocast_input(call.parameter(1)) : Ref();
    Ref out = tape.fresh(call.numel(call.output_tensor(0)), x.dtype(), "output");
    Tape::NodeBuilder node = bias ? Tape::NodeBuilder(tape, "convolution", {&x, &weight, &bias})
                                  : Tape::NodeBuilder(tape, "convolution", {&x, &weight});
    node.save(x);
    node.save(weight);
    node.grad(0);
    node.grad(1, "grad weight");
    if (bias) node.grad(2, "grad bias");
    node.finish(out);
    call.out(0, std::move(out));
}

void dropout(KernelCall& call) {
    const double p = call.dropout >= 0 ? call.dropout : call.attributes().dropout;
    call.out(0, call.tape.dropout(call.in(0), p));
}

void activation(KernelCall& call) {
    if (call.attributes().widened) {
        const Ref wide = apply_activation(call.tape, call.attributes().act, call.tape.cast(call.in(0), dtype::fp32));
        return call.out(0, call.tape.cast(wide, call.in(1).dtype()));
    }
    if (call.attributes().act == Act::xielu) return call.out(0, xielu(call, call.in(0)));
    call.out(0, apply_activation(call.tape, call.attributes().act, call.in(0)));
}

Ref gated_by_sigmoid(Tape& tape, Ref& gate, Ref& up, Ref& glu) {
    gate = clamp(tape, gate, Bounds::one);
    up = clamp(tape, up, Bounds::both);
    {
        Ref scaled = tape.mul_scalar(gate);
        const Ref sigmoid = tape.unary_saving_output(scaled, "sigmoid");
        scaled.reset();
        glu = tape.mul(gate, sigmoid);
    }
    const Ref shifted = tape.add_scalar(up);
    return tape.mul(shifted, glu);
}

namespace {

/// MiniMaxM3VLDenseMLP.forward between its two modules: gate, value and glu are names of the function.
void clamped_gated_activation(KernelCall& call) {
    Ref gate = call.in(0), up = call.in(1), glu;
    call.out(0, gated_by_sigmoid(call.tape, gate, up, glu));
    for (Ref* const local : {&gate, &up, &glu}) call.hold_local(std::move(*local));
}

/// Step3p7MLP.forward between its modules: what is bounded has names of the function.
void bounded_gated_activation(KernelCall& call) {
    Ref active = call.early ? std::move(call.early) : gate(call);
    Ref up = clamp(call.tape, call.in(1), Bounds::both);
    call.rebind_input(1, {});
    call.out(0, call.tape.mul(active, up));
    call.hold_local(std::move(active));
    call.hold_local(std::move(up));
}

bool is_clamped(const KernelCall& call) { return call.attributes().act == Act::swigluoai; }

}  // namespace

Ref gate(KernelCall& call) {
    if (is_clamped(call)) return {};
    Ref out = apply_activation(call.tape, call.attributes().act, call.in(0));
    // In `act(gate(x)) * up(x)` no name is left of what `gate` returned.
    if (call.input_tensor(0).held == Held::until_last_read) call.rebind_input(0, {});
    return call.attributes().bounded ? clamp(call.tape, out, Bounds::one) : out;
}

void gated_activation(KernelCall& call) {
    if (call.attributes().bounded) return bounded_gated_activation(call);
    if (is_clamped(call)) return clamped_gated_activation(call);
    call.out(0, call.tape.mul(std::move(call.early), call.in(1)));
}

void fused_gated_activation(KernelCall& call) {
    if (call.attributes().bounded) return bounded_gated_activation(call);
    if (is_clamped(call)) return clamped_gated_activation(call);
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

Ref softcapped(Tape& tape, Ref x) {
    Ref scaled = tape.mul_scalar(std::move(x));
    Ref tanh = tape.unary_saving_output(scaled, "tanh");
    scaled.reset();
    return tape.mul_scalar(tanh);
}

void softcap(KernelCall& call) {
    Ref x = call.in(0);
    call.rebind_input(0, {});  // `logits = logits / cap`
    call.out(0, softcapped(call.tape, std::move(x)));
}

}  // namespace membudget::kernel
