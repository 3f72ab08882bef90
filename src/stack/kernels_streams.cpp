// Several residual streams, which each sublayer collapses, and mixes with its result (manifold-constrained
// hyper-connections) [transformers models/deepseek_v4/modeling_deepseek_v4.py DeepseekV4HyperConnection,
// DeepseekV4HyperHead, DeepseekV4DecoderLayer].

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

/// The weights that mix streams, before their activation: x * scale + base.
Ref shifted(Tape& tape, const Ref& x, const Ref& scale, const Ref& base) {
    const Ref scaled = tape.mul(x, scale, x.numel(), x.dtype());
    return tape.add(scaled, base);
}

/// x / (x.sum(dim, keepdim=True) + eps)
Ref over_sum(Tape& tape, const Ref& x, std::int64_t sums) {
    Ref sum = row_sum(tape, x, sums);
    sum = tape.add_scalar(std::move(sum));
    return divide(tape, x, sum);
}

/// Rows and columns of each token's matrix are normalised in turn.
Ref doubly_stochastic(Tape& tape, Ref comb, std::int64_t sums, std::int64_t iterations) {
    comb = over_sum(tape, comb, sums);
    for (std::int64_t i = 1; i < iterations; ++i) {
        comb = over_sum(tape, comb, sums);
        comb = over_sum(tape, comb, sums);
    }
    return comb;
}

/// (pre.unsqueeze(-1) * streams).sum(dim=2).to(streams.dtype)
Ref collapsed(Tape& tape, const Ref& pre, const Ref& streams, std::int64_t numel) {
    Ref product = tape.mul(pre, streams);
    Ref sum = row_sum(tape, product, numel);
    product.reset();
    return tape.cast(std::move(sum), streams.dtype());
}

/// The projection of all streams of a token, normalised, in fp32 where autocast leaves it so; `flat` is what it reads.
Ref projected(KernelCall& call, const Ref& streams, std::int64_t outputs, Ref& flat) {
    Tape& tape = call.tape;
    const std::int64_t tokens = call.rows(call.input_tensor(0));
    flat = tape.cast(tape.view(streams), dtype::fp32);  // flattened: the gradients of both its readers meet there
    flat = unweighted_norm(tape, flat, tokens);
    const Ref weight = tape.cast(call.parameter(0), dtype::fp32);
    return tape.linear(flat, weight, Ref(), tokens, call.input_tensor(0).width, outputs);
}

/// Of the model's end: one weight for each stream.
void head(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t streams = call.attributes().streams;
    const Ref x = call.in(0);
    Ref flat;  // a name to the end
    const Ref mixes = projected(call, x, streams, flat);
    Ref pre;
    {
        // The scale has a dimension: it decides the type.
        Ref scaled = tape.mul(mixes, call.parameter(2), mixes.numel(), dtype::fp32);
        pre = tape.add(std::move(scaled), call.parameter(1));
    }
    pre = tape.add_scalar(tape.unary_saving_output(std::move(pre), "sigmoid"));
    call.out(0, collapsed(tape, pre, x, call.numel(call.output_tensor(0))));
}

}  // namespace

Ref unweighted_norm(Tape& tape, const Ref& x, std::int64_t rows) {
    Ref scale;
    {
        Ref square = tape.square(tape.cast(x, dtype::fp32));
        scale = tape.mean(square, rows);
    }
    scale = tape.add_scalar(std::move(scale));
    scale = tape.rsqrt(std::move(scale));
    scale = tape.cast(std::move(scale), x.dtype());
    return tape.mul(x, scale);
}

void spread_streams(KernelCall& call) {
    call.out(0, call.tape.repeat(call.in(0), call.numel(call.output_tensor(0))));
}

void collapse_streams(KernelCall& call) {
    if (call.op.outputs.size() == 1) return head(call);
    Tape& tape = call.tape;
    const std::int64_t n = call.attributes().streams;
    const Ref x = call.in(0);
    const std::int64_t tokens = call.rows(call.input_tensor(0));
    const std::int64_t one = detail::checked_mul(tokens, n), square = detail::checked_mul(one, n);
    Ref flat;  // the projection takes its name
    const Ref mixes = projected(call, x, (2 + n) * n, flat);
    flat.reset();
    const std::array<std::int64_t, 3> of_tokens{one, one, square}, of_base{n, n, n * n}, of_scale{1, 1, 1};
    const std::vector<Ref> weights = tape.chunk(mixes, of_tokens);
    const std::vector<Ref> bases = tape.chunk(call.parameter(1), of_base);
    const std::vector<Ref> scales = tape.chunk(call.parameter(2), of_scale);
    Ref pre = tape.unary_saving_output(shifted(tape, weights[0], scales[0], bases[0]), "sigmoid");
    pre = tape.add_scalar(std::move(pre));
    Ref post = tape.unary_saving_output(shifted(tape, weights[1], scales[1], bases[1]), "sigmoid");
    post = tape.mul_scalar(std::move(post));
    Ref comb = tape.softmax(shifted(tape, weights[2], scales[2], bases[2]), dtype::fp32);
    comb = tape.add_scalar(std::move(comb));
    comb = doubly_stochastic(tape, std::move(comb), one, call.attributes().iterations);
    call.out(2, collapsed(tape, pre, x, call.numel(call.output_tensor(2))));
    call.out(0, std::move(post));
    call.out(1, std::move(comb));
}

/// post.to(dtype).unsqueeze(-1) * result.unsqueeze(-2) + comb.to(dtype).transpose(-1, -2) @ streams
void mix_streams(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref streams = call.in(3);
    const Ref result = call.in(1);
    const Dtype& type = streams.dtype();
    Ref product;
    {
        const Ref post = tape.cast(call.in(0), type);
        product = tape.mul(post, result, streams.numel(), type);
    }
    Ref mixed = tape.matmul(tape.cast(call.in(2), type), streams, streams.numel());
    call.out(0, tape.add(std::move(product), std::move(mixed)));
}

}  // namespace membudget::kernel
