// Linear modules and embeddings: plain, with a quantized weight, with a low-rank adapter beside them.

#include <cstdint>

#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

Ref parameter(KernelCall& call, int index) { return call.parameter(static_cast<std::size_t>(index)); }

/// Elements of the scales that are dequantized before the weight is; 0: they need not be.
std::int64_t nested_scales(const Parameter& weight) {
    for (const StoredTensor& tensor : weight.stored)
        if (tensor.name == "weight.absmax" && tensor.dtype == &dtype::uint8) return tensor.shape.front();
    return 0;
}

// --- quantized weights ---------------------------------------------------------------------------

/// bitsandbytes nn/modules.py Linear4bit.forward and autograd/_functions.py MatMul4Bit (0.50): the whole
/// weight is dequantized in forward, and in backward again; the input is not kept. Kernels that
/// multiply without dequantizing serve a few rows only [backends/cuda/ops.py gemm_4bit].
Ref four_bit_product(const LinearModule& module) {
    Tape& tape = module.call.tape;
    const Ref given = module.x;
    const Dtype& type = *module.shape().dtype;
    const std::int64_t weights = module.shape().elements().count();
    const std::int64_t scales = nested_scales(module.shape());
    Ref x = tape.cast(given, type);
    Ref bias = module.bias();
    if (bias) bias = tape.cast(std::move(bias), type);
    Ref out;
    {
        Ref absmax = scales > 0 ? tape.fresh(scales, dtype::fp32, "scales") : Ref();
        if (absmax) absmax = tape.add_scalar(std::move(absmax));
        const Ref weight = tape.fresh(weights, type, "dequantized weight");
        out = tape.fresh(detail::checked_mul(module.rows, module.out), type, "output");
    }
    Tape::NodeBuilder node = bias ? Tape::NodeBuilder(tape, "4-bit product", {&x, &bias})
                                  : Tape::NodeBuilder(tape, "4-bit product", {&x});
    if (bias) node.grad(1, "grad bias");
    if (node.active() && node.needs(0)) {
        if (module.keeps) {
            node.save(x);
            module.call.keep_as_output(x);
        }
        const std::int16_t absmax =
            scales > 0 ? node.temp(byte_count(scales, dtype::fp32), "scales") : std::int16_t{-1};
        const std::int16_t weight = node.temp(byte_count(weights, type), "dequantized weight");
        if (absmax >= 0) node.drop(absmax);
        node.grad(0);
        node.drop(weight);
    }
    node.finish(out);
    x.reset();
    return tape.cast(std::move(out), given.dtype());
}

/// bitsandbytes autograd/_functions.py MatMul8bitLt (0.50): the input is quantized row by row, the product
/// is made in int32, and the input is kept as it came. Outliers, which depend on the data, are taken to be
/// none. Backward turns the weight to the input's type.
Ref int8_product(const LinearModule& module) {
    Tape& tape = module.call.tape;
    const Ref x = tape.view(module.x);
    Ref bias = module.bias();
    const std::int64_t read = detail::checked_mul(module.rows, module.in);
    const std::int64_t written = detail::checked_mul(module.rows, module.out);
    Ref out;
    {
        // What is quantized is of type fp16; it goes when the codes exist.
        const Ref half = &x.dtype() == &dtype::fp16 ? Ref() : tape.fresh(read, dtype::fp16, "input in fp16");
        const Ref scales = tape.fresh(module.rows, dtype::fp32, "scales of input");
        const Ref codes = tape.fresh(read, dtype::int8, "codes of input");
        {
            const Ref magnitude = tape.fresh(read, dtype::fp16, "magnitudes");
            const Ref outliers = tape.fresh(read, dtype::boolean, "outliers");
        }
        const Ref sums = tape.fresh(written, dtype::int32, "product in int32");
        out = tape.fresh(written, dtype::fp16, "output in fp16");
        if (bias && &x.dtype() != &dtype::fp16) out = tape.add_scalar(std::move(out));
    }
    if (&x.dtype() != &dtype::fp16) out = tape.fresh(written, x.dtype(), "output");
    Tape::NodeBuilder node = bias ? Tape::NodeBuilder(tape, "int8 product", {&x, &bias})
                                  : Tape::NodeBuilder(tape, "int8 product", {&x});
    node.save(x);
    if (bias) node.grad(1, "grad bias");
    if (node.active() && node.needs(0)) {
        const std::int16_t weight =
            node.temp(byte_count(module.shape().elements().count(), x.dtype()), "weight in the input's type");
        node.grad(0);
        node.drop(weight);
    }
    node.finish(out);
    return tape.view(std::move(out));
}

/// AutoGPTQ auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py QuantLinear.forward (0.7.1), with more rows than its
/// own kernel serves: the weight is unpacked by ops of the framework, and the product keeps it.
Ref gptq_product(const LinearModule& module) {
    Tape& tape = module.call.tape;
    const Ref given = module.x;
    const std::int64_t weights = module.shape().elements().count();
    Ref weight;
    {
        Ref shifted = tape.fresh(weights, dtype::int32, "shifted codes");
        Ref codes = tape.fresh(weights, dtype::int8, "codes");
        shifted.reset();
        codes = tape.fresh(weights, dtype::int8, "masked codes");
        const Ref centred = tape.fresh(weights, dtype::int8, "codes less zero points");
        weight = tape.fresh(weights, dtype::fp16, "unpacked weight");
    }
    Ref out = tape.matmul(given, std::move(weight), detail::checked_mul(module.rows, module.out));
    out = tape.cast(std::move(out), given.dtype());
    if (Ref bias = module.bias()) out = tape.add(out, std::move(bias));
    return out;
}

/// AutoAWQ awq/modules/linear/gemm.py WQLinearMMFunction (0.2.9), with 1024 rows or more.
Ref awq_product(const LinearModule& module) {
    Tape& tape = module.call.tape;
    const Ref given = module.x;
    const std::int64_t weights = module.shape().elements().count();
    const Ref x = tape.cast(given, dtype::fp16);
    Ref bias = module.bias();
    Ref out;
    {
        const Ref weight = tape.fresh(weights, dtype::fp16, "unpacked weight");
        out = tape.fresh(detail::checked_mul(module.rows, module.out), dtype::fp16, "output");
        if (bias) out = tape.fresh(out.numel(), dtype::fp16, "output with bias");
    }
    Tape::NodeBuilder node(tape, "awq product", {&x});
    node.save(x);
    if (node.active()) {
        const std::int64_t size = byte_count(weights, dtype::fp16);
        const std::int16_t weight = node.temp(size, "unpacked weight");
        const std::int16_t repeated = node.temp(detail::checked_mul(size, module.call.extents.batch),
                                                "unpacked weight for each sequence");
        node.grad(0);
        node.drop(repeated);
        node.drop(weight);
    }
    node.finish(out);
    return tape.cast(std::move(out), given.dtype());
}

/// The product of patches that `torch.nn.Unfold` has cut out, column by column. With a weight that is trained they
/// become one matrix, which is a view for one image alone; the gradient of their rows among others is copied
/// [aten/src/ATen/native/LinearAlgebra.cpp should_fold].
Ref product_of_columns(const LinearModule& module, Ref x, Ref weight) {
    Tape& tape = module.call.tape;
    const bool copies = module.call.extents.images > 1 && weight.requires_grad();
    const bool cast = tape.autocast() != nullptr && tape.autocast() != &weight.dtype();
    weight = tape.autocast_input(std::move(weight));
    x = tape.autocast_input(std::move(x));
    if (copies) x = tape.copy(std::move(x));
    Ref out = tape.linear(std::move(x), std::move(weight), Ref(), module.rows, module.in, module.out);
    return copies && !cast ? tape.view(std::move(out), Tape::ViewGradient::copy) : out;
}

Ref product(const LinearModule& module) {
    KernelCall& call = module.call;
    if (module.shape().quantization == nullptr) {
        Ref weight = call.parameter(module.weight);
        // A transposed view of a parameter is no leaf: autocast does not cache its copy
        // [aten/src/ATen/autocast_mode.cpp cached_cast].
        if (call.attributes().weight_copied && call.tape.autocast() != nullptr)
            weight = call.tape.cast(std::move(weight), *call.tape.autocast());
        Ref x = module.x;
        if (call.attributes().unfolded) return product_of_columns(module, std::move(x), std::move(weight));
        // A cast fills the gaps.
        const bool gaps = call.attributes().strided && call.extents.images > 1;
        if ((gaps || call.attributes().transposed) && call.tape.autocast() == nullptr)
            return linear_of_strided(call.tape, std::move(x), std::move(weight), module.bias(),
                                     {module.rows, module.in, module.out});
        return call.tape.linear(std::move(x), std::move(weight), module.bias(), module.rows, module.in, module.out);
    }
    switch (module.shape().quantization->product) {
        case QuantizedProduct::four_bit: return four_bit_product(module);
        case QuantizedProduct::int8: return int8_product(module);
        case QuantizedProduct::gptq: return gptq_product(module);
        case QuantizedProduct::awq: return awq_product(module);
    }
    MEMBUDGET_ENSURE(false, "a quantized product without a rule");
    return {};
}

// --- adapters ------------------------------------------------------------------------------------

/// The norm of each output's weights with the adapter's, outside autograd, and the magnitude over it
/// [peft tuners/lora/dora.py DoraLinearLayer.forward, get_lora_weight, get_weight_norm].
struct Direction {
    Ref identity, inner;  ///< what the graph of the next one keeps
    Ref lora_weight;      ///< a local of forward; its graph goes with it, for it is detached
    Ref weight;           ///< the base weight in the type of x
    Ref scale;            ///< magnitude / norm
};

Direction direction_of(const LinearModule& module, const Adapter& adapter, const Dtype& type) {
    KernelCall& call = module.call;
    Tape& tape = call.tape;
    Direction made;
    // Nothing is recorded, because no gradient comes back this way; but under autocast, where the casts of
    // the factors are those of the adapter's own products.
    const bool enabled = tape.grad_enabled();
    tape.set_grad_enabled(enabled && tape.autocast() != nullptr);
    const Ref a = parameter(call, adapter.a);
    made.identity = tape.fresh(detail::checked_mul(module.in, module.in), a.dtype(), "identity");
    made.inner = tape.linear(made.identity, a, Ref(), module.in, module.in, adapter.rank);
    made.lora_weight =
        tape.linear(made.inner, parameter(call, adapter.b), Ref(), module.in, adapter.rank, module.out);
    made.lora_weight = tape.cast(std::move(made.lora_weight), type);
    tape.set_grad_enabled(enabled);
    const std::int64_t weights = module.shape().elements().count();
    made.weight = module.shape().quantization != nullptr
                      ? tape.fresh(weights, *module.shape().dtype, "dequantized weight")
                      : call.parameter(module.weight);
    made.weight = tape.cast(std::move(made.weight), type);
    Ref norm;
    {
        Ref scaled = tape.fresh(weights, type, "scaled update");
        const Ref sum = tape.fresh(weights, type, "weight with update");
        scaled.reset();
        norm = tape.fresh(module.out, type, "norm per output");
    }
    const Ref magnitude = parameter(call, adapter.magnitude);
    made.scale = tape.mul(magnitude, norm);  // a quotient saves its divisor, as a product does
    return made;
}

/// What DoRA adds to the module's output.
Ref dora_update(const LinearModule& module, const Adapter& adapter, Ref x, const Ref& result, bool dropped) {
    KernelCall& call = module.call;
    Tape& tape = call.tape;
    const Direction direction = direction_of(module, adapter, x.dtype());
    Ref inner = tape.linear(x, parameter(call, adapter.a), Ref(), module.rows, module.in, adapter.rank);
    const Ref update = tape.linear(std::move(inner), parameter(call, adapter.b), Ref(), module.rows, adapter.rank,
                                   module.out);
    Ref base;
    if (dropped)
        base = tape.linear(std::move(x), direction.weight, Ref(), module.rows, module.in, module.out);
    else if (module.biased)
        base = tape.add(result, module.bias());
    else
        base = result;
    Ref less = tape.add_scalar(direction.scale);
    Ref first = tape.mul(std::move(less), std::move(base));
    Ref second = tape.mul(direction.scale, update);
    second = tape.mul_scalar(std::move(second));
    return tape.add(std::move(first), std::move(second));
}

/// peft tuners/lora/layer.py Linear.forward, and lora/gptq.py, which does the same; lora/bnb.py and
/// lora/awq.py cast under autocast nothing, and else the update rather than the sum.
Ref with_adapter(const LinearModule& module, Ref result) {
    KernelCall& call = module.call;
    Tape& tape = call.tape;
    const Adapter& adapter = *module.adapter;
    const Quantization* quantized = module.shape().quantization;
    const bool plain = quantized == nullptr || quantized->product == QuantizedProduct::gptq;
    const Dtype& type = result.dtype();
    if (!plain && quantized->product == QuantizedProduct::four_bit) result = tape.copy(std::move(result));
    // Layers over bitsandbytes and AWQ leave the cast to autocast, but ask for that of CUDA alone
    // [peft tuners/lora/bnb.py, awq.py requires_conversion].
    const bool casts = plain || tape.autocast() == nullptr || tape.backend() == Backend::cpu;
    const double p = adapter.dropout;
    Ref x = module.x;
    if (casts) x = tape.cast(std::move(x), parameter(call, adapter.a).dtype());
    if (adapter.magnitude >= 0) {
        if (p > 0) x = tape.dropout(std::move(x), p);
        Ref update = dora_update(module, adapter, std::move(x), result, p > 0);
        result = tape.add(std::move(result), std::move(update));
        return casts ? tape.cast(std::move(result), type) : result;
    }
    Ref inner;
    {
        Ref dropped = tape.dropout(x, p);
        inner = tape.linear(std::move(dropped), parameter(call, adapter.a), Ref(), module.rows, module.in,
                            adapter.rank);
    }
    Ref update = tape.linear(std::move(inner), parameter(call, adapter.b),
                             adapter.bias >= 0 ? parameter(call, adapter.bias) : Ref(), module.rows, adapter.rank,
                             module.out);
    update = tape.mul_scalar(std::move(update));
    if (!plain && casts) update = tape.cast(std::move(update), type);
    result = tape.add(std::move(result), std::move(update));
    return plain ? tape.cast(std::move(result), type) : result;
}

}  // namespace

namespace {

/// The whole op is one module.
void run(KernelCall& call, bool keeps_inputs) {
    const Adapter* adapter = call.op.adapter ? &*call.op.adapter : nullptr;
    const std::size_t own = adapter != nullptr ? static_cast<std::size_t>(adapter->a) : call.parameters();
    const Tensor& input = call.input_tensor(0);
    // Under the same name [models/t5/modeling_t5.py T5DenseGatedActDense.forward].
    if (call.attributes().cast_to_weight)
        call.rebind_input(0, call.tape.cast(call.in(0), call.parameter(0).dtype()));
    call.out(0, run_linear({.call = call, .x = call.in(0), .biased = own > 1, .rows = call.rows(input),
                            .in = input.width, .out = call.output_tensor(0).width, .adapter = adapter,
                            .keeps = keeps_inputs}));
}

}  // namespace

Ref run_linear(LinearModule module) {
    Ref out = product(module);
    return module.adapter != nullptr ? with_adapter(module, std::move(out)) : out;
}

Ref inner_linear(KernelCall& call, Ref x, std::size_t weight, bool biased, LinearShape shape) {
    LinearModule module{.call = call, .x = std::move(x), .weight = weight, .biased = biased,
                        .rows = shape.rows, .in = shape.in, .out = shape.out};
    for (const Adapter& adapter : call.op.inner_adapters)
        if (adapter.weight == static_cast<int>(weight)) module.adapter = &adapter;
    return run_linear(std::move(module));
}

void linear(KernelCall& call) { run(call, false); }

void linear_of_early_bitsandbytes(KernelCall& call) { run(call, true); }

void embedding(KernelCall& call) {
    Tape& tape = call.tape;
    const Tensor& output = call.output_tensor(0);
    // Of a table that is a buffer: index_select, outside of autograd.
    if (call.parameters() == 0) return call.out(0, tape.fresh(call.numel(output), call.activation_dtype(), "positions"));
    Ref ids = call.attributes().own_ids ? tape.fresh(call.rows(output), dtype::int64, "ids") : Ref();
    Ref result = tape.embedding(std::move(ids), call.parameter(0), call.numel(output));
    if (!call.op.adapter) {
        call.out(0, std::move(result));
        return;
    }
    // peft tuners/lora/layer.py Embedding.forward.
    const Adapter& adapter = *call.op.adapter;
    const std::int64_t rows = call.rows(output);
    const Dtype& type = result.dtype();
    Ref inner = tape.embedding(Ref(), parameter(call, adapter.a), detail::checked_mul(rows, adapter.rank));
    Ref update = tape.linear(std::move(inner), parameter(call, adapter.b), Ref(), rows, adapter.rank, output.width);
    update = tape.mul_scalar(std::move(update));
    result = tape.add(std::move(result), std::move(update));
    call.out(0, tape.cast(std::move(result), type));
}

}  // namespace membudget::kernel
