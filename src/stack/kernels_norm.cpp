#include "stack/kernels.hpp"

#include <cstdint>
#include <vector>

namespace membudget::kernel {

namespace {

/// Rows over which a norm reduces: a head norm has one row per head.
std::int64_t norm_rows(const KernelCall& call) {
    const std::int64_t heads = call.attributes().heads > 0 ? call.attributes().heads : 1;
    return detail::checked_mul(call.rows(call.input_tensor(0)), heads);
}

/// x * rsqrt(mean(x^2) + eps). The mean keeps a name where the function has one.
Ref normalise(Tape& tape, const Ref& x, std::int64_t rows, Ref& variance) {
    Ref square = tape.square(x);
    variance = tape.mean(square, rows);
    square.reset();
    Ref shifted = tape.add_scalar(variance);
    const Ref scale = tape.rsqrt(shifted);
    shifted.reset();
    return tape.mul(x, scale);
}

/// LlamaRMSNorm: weight * x_normalised.to(x.dtype).
void plain(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    Ref hidden = tape.cast(x, dtype::fp32);
    Ref variance;
    hidden = normalise(tape, hidden, norm_rows(call), variance);
    const Ref normalised = tape.cast(hidden, x.dtype());
    call.out(0, tape.mul(call.parameter(0), normalised));
}

/// Olmo2RMSNorm: (weight * x_normalised).to(x.dtype); HeliumRMSNorm with weight.to(torch.float32).
void wide_product(KernelCall& call) {
    const bool narrow = call.attributes().norm == NormStyle::wide_weight;
    call.out(0, weighted_norm(call.tape, call.in(0), call.parameter(0), norm_rows(call), narrow));
}

/// CohereLayerNorm: centred twice, for the variance and for the result.
void centred(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    Ref hidden = tape.cast(x, dtype::fp32);
    const Ref mean = tape.mean(hidden, norm_rows(call));
    Ref square;
    {
        const Ref deviation = tape.sub(hidden, mean);
        square = tape.square(deviation);
    }
    const Ref variance = tape.mean(square, norm_rows(call));
    square.reset();
    {
        const Ref deviation = tape.sub(hidden, mean);
        Ref shifted = tape.add_scalar(variance);
        const Ref scale = tape.rsqrt(shifted);
        shifted.reset();
        hidden = tape.mul(deviation, scale);
    }
    {
        const Ref weight = tape.cast(call.parameter(0), dtype::fp32);
        hidden = tape.mul(weight, hidden);
    }
    call.out(0, tape.cast(hidden, x.dtype()));
}

/// DebertaLayerNorm: (x - mean) / sqrt(mean((x - mean)^2) + eps) in fp32, cast; weight * that + bias.
void divided(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const std::int64_t rows = norm_rows(call);
    Ref hidden = tape.cast(x, dtype::fp32);
    const Ref mean = tape.mean(hidden, rows);
    Ref square;
    {
        const Ref deviation = tape.sub(hidden, mean);
        square = tape.square(deviation);
    }
    const Ref variance = tape.mean(square, rows);
    square.reset();
    {
        const Ref deviation = tape.sub(hidden, mean);
        const Ref root = tape.unary_saving_output(tape.add_scalar(variance), "sqrt");
        hidden = divide(tape, deviation, root);
    }
    hidden = tape.cast(hidden, x.dtype());
    call.out(0, tape.add(tape.mul(call.parameter(0), hidden), call.parameter(1)));
}

void one_plus(KernelCall& call) {
    call.out(0, norm_one_plus(call.tape, call.in(0), call.parameter(0), norm_rows(call)));
}

/// T5LayerNorm: x * rsqrt(mean(x.float()^2)), cast if the weight is half; weight * that.
void t5(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    Ref wide = tape.cast(x, dtype::fp32);
    Ref square = tape.square(wide);
    wide.reset();
    const Ref variance = tape.mean(square, norm_rows(call));
    square.reset();
    Ref shifted = tape.add_scalar(variance);
    Ref scale = tape.rsqrt(shifted);
    shifted.reset();
    Ref hidden = tape.mul(x, scale);
    scale.reset();
    hidden = tape.cast(hidden, call.parameter(0).dtype());
    call.out(0, tape.mul(call.parameter(0), hidden));
}

/// Gemma4RMSNorm: x * pow(mean(x^2) + eps, -0.5), times the weight in fp32 where there is one. Heads are transposed
/// behind it, so that gradients are copied where they reach the projection.
void power(KernelCall& call) {
    Tape& tape = call.tape;
    const bool transposed = call.attributes().heads > 1;
    const Ref x = tape.view(call.in(0), transposed ? Tape::ViewGradient::copy : Tape::ViewGradient::view);
    Ref output;
    {  // a function of its own
        const Ref wide = tape.cast(x, dtype::fp32);
        Ref square = tape.square(wide);
        Ref mean = tape.mean(square, norm_rows(call));
        square.reset();
        const Ref shifted = tape.add_scalar(mean);
        mean.reset();
        const Ref scale = tape.unary_saving_input(shifted, "pow");
        output = tape.mul(wide, scale);
    }
    if (call.parameters() > 0) {
        const Ref weight = tape.cast(call.parameter(0), dtype::fp32);
        output = tape.mul(output, weight);
    }
    call.out(0, tape.cast(output, x.dtype()));
}

/// DeepseekV4UnweightedRMSNorm, of heads that are transposed first.
void unweighted(KernelCall& call) {
    const std::int64_t heads = call.attributes().heads;
    const auto gradient = heads > 1 ? Tape::ViewGradient::copy : Tape::ViewGradient::view;
    call.out(0, unweighted_norm(call.tape, call.tape.view(call.in(0), gradient), norm_rows(call)));
}

void without_weight(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    Ref hidden = tape.cast(x, dtype::fp32);
    Ref variance;
    hidden = normalise(tape, hidden, norm_rows(call), variance);
    call.out(0, tape.cast(hidden, x.dtype()));
}

/// StableLmLayerNormPerHead: heads are split, each normalised by its own module, and concatenated.
void each_head(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t heads = call.attributes().heads;
    const std::int64_t rows = norm_rows(call) / heads;
    const Ref x = tape.view(call.in(0), heads == 1 ? Tape::ViewGradient::view : Tape::ViewGradient::copy);
    const std::vector<std::int64_t> numels(static_cast<std::size_t>(heads), x.numel() / heads);
    const std::vector<Ref> parts = tape.chunk(x, numels);
    std::vector<Ref> normalised;
    for (std::size_t head = 0; head < parts.size(); ++head)
        normalised.push_back(tape.layer_norm(parts[head], call.parameter(head), Ref(), rows));
    call.out(0, tape.cat(normalised));
}

/// NemotronLayerNorm1P: F.layer_norm by weight + 1, all of it cast under autocast of CUDA; the class does not ask
/// whether that of the CPU is on [models/nemotron/modeling_nemotron.py _cast_if_autocast_enabled].
void layer_norm_one_plus(KernelCall& call) {
    Tape& tape = call.tape;
    const bool casts = tape.autocast() != nullptr && tape.backend() == Backend::cuda;
    const auto narrow = [&](Ref x) { return casts ? tape.cast(std::move(x), *tape.autocast()) : x; };
    Ref shifted = tape.add_scalar(call.parameter(0));
    const Ref x = narrow(call.in(0));
    const Ref weight = narrow(std::move(shifted));
    const Ref bias = narrow(call.parameter(1));
    call.out(0, tape.layer_norm(x, weight, bias, norm_rows(call)));
}

}  // namespace

void layer_norm(KernelCall& call) {
    if (call.attributes().listed) return each_head(call);
    if (call.attributes().norm == NormStyle::one_plus) return layer_norm_one_plus(call);
    if (call.attributes().norm == NormStyle::centred) return centred(call);
    if (call.attributes().norm == NormStyle::divided) return divided(call);
    if (call.attributes().norm == NormStyle::wide_product) {  // OLMo
        const Ref x = call.in(0);
        Ref wide = call.tape.cast(x, dtype::fp32);
        wide = call.tape.layer_norm(std::move(wide), Ref(), Ref(), norm_rows(call));
        return call.out(0, call.tape.cast(std::move(wide), x.dtype()));
    }
    call.out(0, call.tape.layer_norm(call.in(0),
                                     call.parameters() > 0 ? call.parameter(0) : Ref(),
                                     call.parameters() > 1 ? call.parameter(1) : Ref(),
                                     norm_rows(call)));
}

Ref weighted_norm(Tape& tape, Ref x, Ref weight, std::int64_t rows, bool narrow) {
    const Dtype& type = x.dtype();
    Ref hidden = tape.cast(std::move(x), dtype::fp32);
    Ref variance;
    hidden = normalise(tape, hidden, rows, variance);
    if (narrow) weight = tape.cast(std::move(weight), dtype::fp32);
    const Ref product = tape.mul(std::move(weight), hidden);
    return tape.cast(product, type);
}

Ref norm_one_plus(Tape& tape, const Ref& x, const Ref& weight, std::int64_t rows) {
    Ref hidden = tape.cast(x, dtype::fp32);
    Ref variance;
    Ref output = normalise(tape, hidden, rows, variance);
    hidden.reset();
    variance.reset();
    Ref wide = tape.cast(weight, dtype::fp32);
    Ref shifted = tape.add_scalar(wide);
    wide.reset();
    output = tape.mul(output, shifted);
    shifted.reset();
    return tape.cast(output, x.dtype());
}

void hf_rms_norm(KernelCall& call) {
    switch (call.attributes().norm) {
        case NormStyle::plain: return plain(call);
        case NormStyle::wide_product:
        case NormStyle::wide_weight: return wide_product(call);
        case NormStyle::centred: return centred(call);
        case NormStyle::divided: return divided(call);
        case NormStyle::one_plus: return one_plus(call);
        case NormStyle::t5: return t5(call);
        case NormStyle::no_weight: return without_weight(call);
        case NormStyle::power: return power(call);
        case NormStyle::unweighted: return unweighted(call);
    }
}

void wide_rms_norm(KernelCall& call) { wide_product(call); }

void fused_rms_norm(KernelCall& call) {
    call.out(0, call.tape.fused_rms_norm(call.in(0),
                                         call.parameters() > 0 ? call.parameter(0) : Ref(),
                                         norm_rows(call)));
}

}  // namespace membudget::kernel
