// Ops of the tape: what each allocates, saves, and does in backward. Formulas of backward are those
// of PyTorch 2.13 (tools/autograd/derivatives.yaml and torch/csrc/autograd/FunctionsManual.cpp).
// Generated nodes compute the gradients of their inputs in alphabetical order of the argument names
// (`mat2` before `self`, `other` before `self`), confirmed by recorded runs (tests/differential).
// Broadcast gradients are reduced, and gradients of another type cast, once all are computed
// [torch/csrc/autograd/engine.cpp validate_outputs].

#include "membudget/autograd.hpp"

#include <algorithm>
#include <array>

#include "autograd/row_sums.hpp"

namespace membudget {

namespace {

/// Result type of an elementwise op on two tensors [c10/core/ScalarType.h promoteTypes]: the wider
/// floating type; bf16 with fp16 gives fp32.
const Dtype& promote(const Dtype& a, const Dtype& b) {
    if (&a == &b) return a;
    if (a.bits == b.bits) return dtype::fp32;
    return a.bits > b.bits ? a : b;
}

/// A new tensor of `numel` elements; backward needs nothing but makes a gradient of the input's size.
Ref resized(Tape& tape, const Ref& x, std::int64_t numel, const char* output, const char* name, const char* gradient) {
    Ref out = tape.fresh(numel, x.dtype(), output);
    Tape::NodeBuilder node(tape, name, {&x});
    node.grad(0, gradient);
    node.finish(out);
    return out;
}

/// Up to so many ids the gradient of an embedding is summed without sorting them.
constexpr std::int64_t kUnsortedIds = 3072;

/// The gradient of an embedding on CUDA for more ids: they are sorted, equal ones form segments, and sums of
/// up to 10 rows each are kept in fp32 before they are added up
/// [aten/src/ATen/native/cuda/Embedding.cu embedding_dense_backward_cuda, EmbeddingBackwardKernel.cu
/// embedding_backward_cuda_kernel]. Scratch of cub's sort, some tens of KB, is left out.
void grad_of_sorted_rows(Tape::NodeBuilder& node, std::int64_t ids, std::int64_t table_numel, std::int64_t width) {
    constexpr std::int64_t kRowsPerSum = 10;
    constexpr std::int64_t kId = 8;
    const std::int64_t segments = std::min(ids, table_numel / width);
    const std::int64_t sums = ids / kRowsPerSum + segments;
    const std::int16_t sorted = node.temp(kId * ids, "sorted ids");
    const std::int16_t origin = node.temp(kId * ids, "positions of sorted ids");
    const std::int16_t range = node.temp(kId * ids, "positions");
    node.drop(range);
    node.grad(0, "grad weight");
    const std::int16_t begins = node.temp(kId * ids, "begins of segments");
    const std::int16_t parts = node.temp(kId * segments, "sums per segment");
    const std::int16_t offsets = node.temp(kId * segments, "offsets of segments");
    const std::int16_t rows = node.temp(kId * sums, "begins of sums");
    const std::int16_t partial = node.temp(detail::checked_mul(4 * sums, width), "sums of rows");
    for (const std::int16_t temp : {partial, rows, offsets, parts, begins, origin, sorted}) node.drop(temp);
}

}  // namespace

Ref Tape::fresh(std::int64_t numel, const Dtype& type, const char* what) {
    return new_output(numel, type, what);
}

Ref Tape::fresh(std::int64_t numel, const Dtype& type, TermId term, const char* what) {
    return Ref(this, new_tensor(new_storage(byte_count(numel, type), term, what), numel, type));
}

Ref Tape::view(Ref x, ViewGradient gradient) {
    const TensorRow base = row(x);
    retain(base.storage);
    Ref out(this, new_tensor(base.storage, base.numel, *base.dtype));
    NodeBuilder node(*this, "view", {&x});
    if (gradient == ViewGradient::copy) {
        node.grad(0, "contiguous grad");
    } else {
        node.pass_view(0);
    }
    node.finish(out);
    return out;
}

Ref Tape::slice(Ref x, std::int64_t numel) {
    const TensorRow base = row(x);
    retain(base.storage);
    Ref out(this, new_tensor(base.storage, numel, *base.dtype));
    NodeBuilder node(*this, "slice", {&x});
    node.grad(0, "zero-padded grad");
    node.finish(out);
    return out;
}

std::vector<Ref> Tape::chunk(Ref x, std::span<const std::int64_t> numels) {
    std::vector<Ref> out;
    const TensorRow base = row(x);
    for (const std::int64_t numel : numels) {
        retain(base.storage);
        out.push_back(Ref(this, new_tensor(base.storage, numel, *base.dtype)));
    }
    NodeBuilder node(*this, "split", {&x});
    node.grad(0, "concatenated grad");
    node.finish(out);
    return out;
}

Ref Tape::cast(Ref x, const Dtype& type) {
    if (&x.dtype() == &type) return x;
    // A parameter may outlive the call, to the end of the caller's expression; an argument in Python does not.
    const Ref from = std::move(x);
    Ref out = new_output(from.numel(), type, "cast");
    NodeBuilder node(*this, "cast", {&from});
    node.grad(0, "grad cast back");
    node.finish(out);
    return out;
}

Ref Tape::copy(Ref x) {
    Ref out = new_output(x.numel(), x.dtype(), "contiguous copy");
    NodeBuilder node(*this, "clone", {&x});
    node.pass(0);
    node.finish(out);
    return out;
}

Ref Tape::repeat(Ref x, std::int64_t numel) {
    return resized(*this, x, numel, "repeated copy", "repeat", "summed grad");
}

Ref Tape::expand(Ref x, std::int64_t numel) {
    retain(row(x).storage);
    Ref out(this, new_tensor(row(x).storage, numel, x.dtype()));
    NodeBuilder node(*this, "expand", {&x});
    node.grad(0, "summed grad");
    node.finish(out);
    return out;
}

Ref Tape::add(Ref a, Ref b) {
    const Dtype& type = promote(a.dtype(), b.dtype());
    Ref out = new_output(std::max(a.numel(), b.numel()), type, "sum");
    NodeBuilder node(*this, "add", {&a, &b});
    const auto gradient = [&](std::size_t i, const Ref& x) {
        if (x.numel() == out.numel() && &x.dtype() == &type)
            node.pass(i);
        else
            node.grad(i, "reduced or cast grad");
    };
    gradient(0, a);
    gradient(1, b);
    node.finish(out);
    return out;
}

Ref Tape::sub(Ref a, Ref b) {
    Ref out = new_output(a.numel(), a.dtype(), "difference");
    NodeBuilder node(*this, "sub", {&a, &b});
    node.pass(0);
    const bool reduced = b.numel() != a.numel();
    if (node.needs(1) && reduced) {
        const std::int16_t negated = node.temp(byte_count(a.numel(), a.dtype()), "negated grad");
        node.grad(1, "reduced grad");
        node.drop(negated);
    } else {
        node.grad(1, "negated grad");
    }
    node.finish(out);
    return out;
}

Ref Tape::add_in_place(Ref a, Ref b) {
    Ref out = alias_of_storage(a);
    NodeBuilder node(*this, "add_", {&a, &b});
    node.pass(0);
    if (&a.dtype() == &b.dtype() && a.numel() == b.numel())
        node.pass(1);
    else
        node.grad(1, "reduced or cast grad");
    node.finish(out);
    return out;
}

Ref Tape::add_scalar(Ref x) {
    Ref out = new_output(x.numel(), x.dtype(), "sum");
    NodeBuilder node(*this, "add scalar", {&x});
    node.pass(0);
    node.finish(out);
    return out;
}

Ref Tape::mul_scalar(Ref x) {
    Ref out = new_output(x.numel(), x.dtype(), "product");
    NodeBuilder node(*this, "mul scalar", {&x});
    node.grad(0);
    node.finish(out);
    return out;
}

Ref Tape::neg(Ref x) {
    Ref out = new_output(x.numel(), x.dtype(), "negative");
    NodeBuilder node(*this, "neg", {&x});
    node.grad(0);
    node.finish(out);
    return out;
}

Ref Tape::mul(Ref a, Ref b) {
    const std::int64_t numel = std::max(a.numel(), b.numel());
    const Dtype& type = promote(a.dtype(), b.dtype());
    return mul(std::move(a), std::move(b), numel, type);
}

Ref Tape::mul(Ref a, Ref b, std::int64_t numel, const Dtype& type) {
    Ref out = new_output(numel, type, "product");
    NodeBuilder node(*this, "mul", {&a, &b});
    if (node.needs(0)) node.save(b);
    if (node.needs(1)) node.save(a);
    // The products grad * other, b's first; one of another shape or type is a transient.
    const std::array<const Ref*, 2> inputs{&a, &b};
    std::array<std::int16_t, 2> temps{-1, -1};
    for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
        if (!node.needs(i)) continue;
        const Ref& x = *inputs[i];
        if (x.numel() == out.numel() && &x.dtype() == &type)
            node.grad(i);
        else
            temps[i] = node.temp(byte_count(out.numel(), type), "grad product");
    }
    if (temps[0] >= 0 || temps[1] >= 0) node.returned();
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
        if (temps[i] < 0) continue;
        const Ref& x = *inputs[i];
        if (row(x).leaf >= 0 && x.numel() < out.numel())  // a weight, broadcast over rows
            grad_of_row(node, i, backend_, x.numel(), out.numel() / x.numel(), "grad weight");
        else
            node.grad(i, "reduced or cast grad");
        node.drop(temps[i]);
    }
    node.finish(out);
    return out;
}

Ref Tape::square(Ref x) {
    Ref out = new_output(x.numel(), x.dtype(), "square");
    NodeBuilder node(*this, "pow", {&x});
    node.save(x);
    const std::int64_t bytes = byte_count(x.numel(), x.dtype());
    const std::int16_t power = node.temp(bytes, "power of input");
    const std::int16_t scaled = node.temp(bytes, "scaled power");
    node.grad(0);
    node.drop(scaled);
    node.drop(power);
    node.finish(out);
    return out;
}

Ref Tape::mean(Ref x, std::int64_t rows) {
    return resized(*this, x, rows, "mean", "mean", "grad input");
}

Ref Tape::sum_to(Ref x, std::int64_t numel) {
    return resized(*this, x, numel, "sum", "sum", "expanded grad");
}

Ref Tape::alias_of_storage(const Ref& x) {
    retain(row(x).storage);
    return Ref(this, new_tensor(row(x).storage, x.numel(), x.dtype()));
}

Ref Tape::rsqrt(Ref x) {
    Ref out = new_output(x.numel(), x.dtype(), "rsqrt");
    NodeBuilder node(*this, "rsqrt", {&x});
    node.save(out);
    const std::int64_t bytes = byte_count(x.numel(), x.dtype());
    const std::int16_t cube = node.temp(bytes, "cube of result");
    const std::int16_t scaled = node.temp(bytes, "scaled cube");
    node.grad(0);
    node.drop(scaled);
    node.drop(cube);
    node.finish(out);
    return out;
}

Ref Tape::cat(std::span<Ref> parts) {
    std::int64_t numel = 0;
    const Dtype* type = &parts.front().dtype();
    for (const Ref& part : parts) {
        numel += part.numel();
        type = &promote(*type, part.dtype());
    }
    Ref out = new_output(numel, *type, "concatenation");
    NodeBuilder node(*this, "cat", std::span<const Ref>(parts));
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (&parts[i].dtype() == type)
            node.pass_view(i);
        else
            node.grad(i, "cast grad");
    }
    node.finish(out);
    return out;
}

Ref Tape::unary_saving_input(Ref x, const char* what) {
    Ref out = new_output(x.numel(), x.dtype(), what);
    NodeBuilder node(*this, what, {&x});
    node.save(x);
    node.grad(0);
    node.finish(out);
    return out;
}

Ref Tape::unary_saving_output(Ref x, const char* what) {
    Ref out = new_output(x.numel(), x.dtype(), what);
    NodeBuilder node(*this, what, {&x});
    node.save(out);
    node.grad(0);
    node.finish(out);
    return out;
}

Ref Tape::softmax(Ref x, const Dtype& type) {
    x = cast(std::move(x), type);
    Ref out = new_output(x.numel(), type, "softmax");
    NodeBuilder node(*this, "softmax", {&x});
    node.save(out);
    node.grad(0);
    node.finish(out);
    return out;
}

Ref Tape::dropout(Ref x, double probability) {
    if (probability <= 0.0) return x;
    const std::int64_t numel = x.numel();
    if (backend_ == Backend::cuda) {
        // One kernel, a byte per element for the mask
        // [aten/src/ATen/native/Dropout.cpp is_fused_kernel_acceptable].
        Ref mask = new_output(numel, dtype::boolean, "dropout mask");
        Ref out = new_output(numel, x.dtype(), "dropout");
        NodeBuilder node(*this, "dropout", {&x});
        node.save(mask);
        node.grad(0);
        node.finish(out);
        return out;
    }
    // A scaled mask in the type of the input, then a product [Dropout.cpp _dropout_impl].
    Ref mask = new_output(numel, x.dtype(), "dropout mask");
    return mul(std::move(x), std::move(mask));
}

Ref Tape::autocast_input(Ref x) {
    if (autocast_ == nullptr || &x.dtype() == autocast_) return x;
    const TensorRow& tensor = row(x);
    // Cached while autocast is on: leaves that need gradients
    // [aten/src/ATen/autocast_mode.cpp cached_cast]. Recorded once, however often it is used.
    const bool weight = tensor.leaf >= 0;
    const bool given = tensor.input >= 0 && inputs_[static_cast<std::size_t>(tensor.input)].detached;
    const bool cacheable = (weight || given || is_required(x)) && tensor.requires_grad && &x.dtype() == &dtype::fp32;
    if (!cacheable) return cast(std::move(x), *autocast_);
    const auto index = static_cast<std::size_t>(weight ? tensor.leaf : tensor.input);
    std::int32_t& cached = weight ? leaves_[index].cached_cast : inputs_[index].cached_cast;
    if (cached < 0) {
        const TermId op_term = term_;
        if (weight && term_ != terms_.recompute) term_ = terms_.cast_weights;
        const Ref copied = cast(std::move(x), *autocast_);
        term_ = op_term;
        retain(row(copied).storage);
        cached = copied.tensor_;
    }
    retain(tensors_[static_cast<std::size_t>(cached)].storage);
    return Ref(this, cached);
}

Ref Tape::linear(Ref x, Ref weight, Ref bias, std::int64_t rows, std::int64_t in,
                 std::int64_t out_features) {
    MEMBUDGET_ENSURE(x.numel() == rows * in, "linear: rows x in");
    if (bias) bias = autocast_input(std::move(bias));
    weight = autocast_input(std::move(weight));
    x = autocast_input(std::move(x));
    Ref out = new_output(rows * out_features, x.dtype(), "output");
    NodeBuilder node(*this, "linear", bias ? std::initializer_list<const Ref*>{&x, &weight, &bias}
                                           : std::initializer_list<const Ref*>{&x, &weight});
    if (node.needs(1)) node.save(x);
    if (node.needs(0)) node.save(weight);
    if (bias) {  // addmm: mat1, mat2, self
        node.grad(0);
        node.grad_view(1, "grad weight");
        grad_of_row(node, 2, backend_, out_features, rows, "grad bias");
    } else {  // mm: mat2, self
        node.grad_view(1, "grad weight");
        node.grad(0);
    }
    node.finish(out);
    // The matrix product works on a flattened view; so the gradient comes back as a view.
    return x.requires_grad() || weight.requires_grad() ? view(std::move(out)) : out;
}

Ref Tape::matmul(Ref a, Ref b, std::int64_t numel) {
    b = autocast_input(std::move(b));
    a = autocast_input(std::move(a));
    Ref out = new_output(numel, a.dtype(), "output");
    NodeBuilder node(*this, "matmul", {&a, &b});
    if (node.needs(0)) node.save(b);
    if (node.needs(1)) node.save(a);
    node.grad(1);
    node.grad(0);
    node.finish(out);
    return out;
}

Ref Tape::layer_norm(Ref x, Ref weight, Ref bias, std::int64_t rows) {
    // Autocast runs it in fp32 on CUDA [autocast_mode.h AT_FORALL_FP32].
    if (autocast_ != nullptr && backend_ == Backend::cuda) x = cast(std::move(x), dtype::fp32);
    Ref out = new_output(x.numel(), x.dtype(), "output");
    // Statistics: fp32 on CUDA, the input's type on the CPU unless the weight has another
    // [aten/src/ATen/native/cuda/layer_norm_kernel.cu; layer_norm.cpp, cpu/mixed_data_type.h param_scalar_type].
    const bool wide = backend_ == Backend::cuda || (weight && &weight.dtype() != &x.dtype());
    const Dtype& statistics = wide ? dtype::fp32 : x.dtype();
    Ref mean = new_output(rows, statistics, "mean");
    Ref rstd = new_output(rows, statistics, "reciprocal deviation");
    std::array<const Ref*, 3> inputs{&x, &weight, &bias};
    NodeBuilder node = !weight ? NodeBuilder(*this, "layer_norm", {&x})
                       : !bias ? NodeBuilder(*this, "layer_norm", {&x, &weight})
                               : NodeBuilder(*this, "layer_norm", {inputs[0], inputs[1], inputs[2]});
    node.save(x);
    node.save(weight);
    node.save(mean);
    node.save(rstd);
    node.grad(0);
    node.grad(1, "grad weight");
    node.grad(2, "grad bias");
    node.finish(out);
    return out;
}

Ref Tape::fused_rms_norm(Ref x, Ref weight, std::int64_t rows) {
    Ref out = new_output(x.numel(), x.dtype(), "output");
    Ref rstd = new_output(rows, dtype::fp32, "reciprocal root mean square");
    NodeBuilder node = weight ? NodeBuilder(*this, "rms_norm", {&x, &weight})
                              : NodeBuilder(*this, "rms_norm", {&x});
    node.save(x);
    node.save(weight);
    node.save(rstd);
    node.grad(0);
    node.grad(1, "grad weight");
    node.finish(out);
    return out;
}

Ref Tape::embedding(Ref ids, Ref weight, std::int64_t numel) {
    Ref out = new_output(numel, weight.dtype(), "output");
    NodeBuilder node(*this, "embedding", {&weight});
    node.save(ids);
    if (backend_ == Backend::cuda && ids && ids.numel() > kUnsortedIds)
        grad_of_sorted_rows(node, ids.numel(), weight.numel(), numel / ids.numel());
    else
        node.grad(0, "grad weight");
    node.finish(out);
    return out;
}

Ref Tape::fused_attention(Ref q, Ref k, Ref v, Ref mask, std::int64_t out_numel,
                          const FusedAttention& how) {
    v = autocast_input(std::move(v));
    k = autocast_input(std::move(k));
    q = autocast_input(std::move(q));
    Ref out = new_output(out_numel, q.dtype(), "attention output");
    Ref lse = new_output(how.lse_numel, dtype::fp32, "log-sum-exp");
    Ref rng = how.rng_bytes > 0 ? new_output(how.rng_bytes, dtype::uint8, "random state") : Ref();
    NodeBuilder node(*this, "attention", {&q, &k, &v, &mask});
    node.save(q);
    node.save(k);
    node.save(v);
    node.save(out);
    node.save(lse);
    node.save(rng);
    node.save(mask);
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}}) node.grad(i);
    std::array<std::int16_t, 3> temps{-1, -1, -1};
    if (how.backward_workspace > 0) temps[0] = node.temp(how.backward_workspace, "backward workspace");
    if (how.expanded_kv_numel > 0) {
        const std::int64_t bytes = byte_count(how.expanded_kv_numel, k.dtype());
        temps[1] = node.temp(bytes, "grad key per query head");
        temps[2] = node.temp(bytes, "grad value per query head");
    }
    for (std::size_t i = temps.size(); i-- > 0;)
        if (temps[i] >= 0) node.drop(temps[i]);
    node.finish(out);
    return out;
}

Ref Tape::cross_entropy(Ref logits, Ref labels, std::int64_t rows, std::int64_t classes,
                        Reduction reduction) {
    MEMBUDGET_ENSURE(logits.numel() == rows * classes, "cross_entropy: rows x classes");
    return nll_loss(log_softmax(std::move(logits)), std::move(labels), rows, reduction);
}

Ref Tape::log_softmax(Ref logits) {
    // Under autocast cross-entropy runs in fp32 [autocast_mode.h AT_FORALL_FP32].
    if (autocast_ != nullptr) logits = cast(std::move(logits), dtype::fp32);
    Ref log_probabilities = new_output(logits.numel(), logits.dtype(), "log-softmax");
    NodeBuilder node(*this, "log_softmax", {&logits});
    node.save(log_probabilities);
    node.grad(0, "grad logits");
    node.finish(log_probabilities);
    return log_probabilities;
}

Ref Tape::nll_loss(Ref log_probabilities, Ref labels, std::int64_t rows, Reduction reduction) {
    const Dtype& type = log_probabilities.dtype();
    Ref loss = new_output(reduction == Reduction::none ? rows : 1, type, "loss");
    Ref weight = new_output(1, type, "total weight");
    NodeBuilder node(*this, "nll_loss", {&log_probabilities});
    node.save(log_probabilities);
    node.save(labels);
    node.save(weight);
    node.grad(0, "grad log-softmax");
    node.finish(loss);
    return loss;
}

}  // namespace membudget
