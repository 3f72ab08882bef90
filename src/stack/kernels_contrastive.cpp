// What the encoders of CLIP and SigLIP end with: pooling, and the loss over all pairs of a batch.

#include <array>
#include <cstdint>
#include <vector>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

using ViewGradient = Tape::ViewGradient;

/// x over the root of the sum of its squares, written out [modeling_clip.py _get_vector_norm].
Ref over_written_norm(Tape& tape, const Ref& x, std::int64_t rows) {
    Ref square = tape.square(x);
    Ref sum = row_sum(tape, square, rows);
    const Ref root = tape.square(sum);  // a power too
    square.reset();
    sum.reset();
    return divide(tape, x, root);
}

/// x over x.norm(p=2, dim=-1, keepdim=True).
Ref over_norm(Tape& tape, const Ref& x, std::int64_t rows) { return divide(tape, x, row_norm(tape, x, rows)); }

/// Cross-entropy of texts given images, and of images given texts, halved
/// [modeling_clip.py image_text_contrastive_loss].
Ref both_ways(Tape& tape, const Ref& logits, std::int64_t pairs) {
    std::array<Ref, 2> losses;
    for (Ref& loss : losses) {
        Ref labels = tape.fresh(pairs, dtype::int64, "labels");
        const bool transposed = &loss != losses.data();
        loss = tape.cross_entropy(transposed ? tape.view(logits) : logits, std::move(labels), pairs, pairs);
    }
    const Ref sum = tape.add(losses[0], losses[1]);
    return tape.mul_scalar(sum);
}

/// -logsigmoid(+-logits) of each pair, summed over the images, averaged over the texts
/// [modeling_siglip.py SiglipModel.forward].
Ref of_each_pair(Tape& tape, const Ref& logits, std::int64_t pairs) {
    const std::int64_t square = detail::checked_mul(pairs, pairs);
    const Ref eye = tape.fresh(square, dtype::fp32, "identity");
    Ref ones = tape.fresh(square, logits.dtype(), "ones");
    Ref negative = tape.fresh(square, logits.dtype(), "minus ones");
    ones.reset();
    Ref twice = tape.fresh(square, dtype::fp32, "twice the identity");
    Ref signs = tape.fresh(square, dtype::fp32, "signs");
    negative.reset();
    twice.reset();
    Ref signed_logits = tape.mul(signs, logits);
    Ref likelihood = tape.fresh(square, signed_logits.dtype(), "log-sigmoid");
    {
        // The CPU's kernel keeps a buffer [aten/src/ATen/native/Activation.cpp log_sigmoid_forward_out_cpu].
        Ref buffer = tape.backend() == Backend::cpu ? tape.fresh(square, signed_logits.dtype(), "buffer") : Ref();
        Tape::NodeBuilder node(tape, "log_sigmoid", {&signed_logits});
        node.save(signed_logits);
        node.save(buffer);
        node.grad(0);
        node.finish(likelihood);
    }
    Ref sum = row_sum(tape, likelihood, pairs);
    const Ref negated = tape.neg(sum);
    sum.reset();
    return tape.mean(negated, 1);
}

}  // namespace

Ref linear_of_strided(Tape& tape, Ref x, Ref weight, Ref bias, LinearShape shape) {
    if (bias) bias = tape.autocast_input(std::move(bias));
    weight = tape.autocast_input(std::move(weight));
    const Ref given = tape.autocast_input(std::move(x));
    Ref out = tape.linear(tape.copy(given), std::move(weight), Ref(), shape.rows, shape.in, shape.out);
    if (!bias) return out;
    Ref expanded = tape.expand(std::move(bias), out.numel());
    return tape.add_in_place(std::move(out), std::move(expanded));
}

void pick_token(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t tokens = call.rows(call.input_tensor(0));
    const std::int64_t batch = call.extents.batch;
    const Ref x = call.in(0);
    const Ref rows = tape.fresh(batch, dtype::int64, "rows");
    Ref ids = tape.fresh(tokens, dtype::int32, "ids");
    if (call.attributes().by_id) {  // (ids == id).int()
        Ref found = tape.fresh(tokens, dtype::boolean, "end tokens");
        ids = tape.fresh(tokens, dtype::int32, "end tokens");
    }
    const Ref columns = tape.fresh(batch, dtype::int64, "places");
    ids.reset();
    Ref out = tape.fresh(call.numel(call.output_tensor(0)), x.dtype(), "token");
    Tape::NodeBuilder node(tape, "index", {&x});
    node.save(rows);
    node.save(columns);
    node.grad(0, "scattered grad");
    node.finish(out);
    call.out(0, std::move(out));
}

void attention_pool(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const std::int64_t hidden = call.input_tensor(0).width;
    const std::int64_t images = call.extents.images;
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const std::int64_t heads = call.attributes().heads;
    const std::int64_t scores_numel = detail::checked_mul(rows, heads);
    const std::int64_t one = detail::checked_mul(images, hidden);

    const Ref query = tape.repeat(call.parameter(0), one);
    const std::int64_t square = detail::checked_mul(hidden, hidden);
    std::vector<Ref> weights = tape.chunk(call.parameter(1), std::array{square, 2 * square});
    std::vector<Ref> biases = tape.chunk(call.parameter(2), std::array{hidden, 2 * hidden});
    const Ref projected = tape.linear(query, weights[0], biases[0], images, hidden, hidden);
    Ref pairs;
    {  // sequence first, which is another order in memory unless there is one image
        const LinearShape shape{rows, hidden, 2 * hidden};
        pairs = images > 1 ? linear_of_strided(tape, x, weights[1], biases[1], shape)
                           : tape.linear(x, weights[1], biases[1], shape.rows, shape.in, shape.out);
        pairs = tape.copy(tape.view(std::move(pairs), ViewGradient::copy));
    }
    const std::int64_t whole = detail::checked_mul(rows, hidden);
    const Ref key = tape.slice(pairs, whole);
    const Ref value = tape.view(tape.slice(pairs, whole), ViewGradient::copy);
    const Ref scaled = tape.mul_scalar(projected);
    Ref scores = tape.matmul(scaled, key, scores_numel);
    const Dtype& type = softmax_dtype(call, scores);
    const Ref probabilities = tape.softmax(std::move(scores), type);
    const Ref context = tape.matmul(probabilities, value, one);
    Ref out = tape.linear(context, call.parameter(3), call.parameter(4), images, hidden, hidden);
    // The weights are asked for, and averaged over the heads.
    const Ref averaged = tape.fresh(rows, probabilities.dtype(), "mean of probabilities");
    call.out(0, std::move(out));
}

void contrastive_loss(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t pairs = call.extents.batch;
    const bool sigmoid = call.parameters() > 1;
    call.keep_as_output(call.in(0));
    // Autocast runs norms and powers in fp32 on CUDA [autocast_mode.h AT_FORALL_FP32].
    const bool wide = tape.autocast() != nullptr && tape.backend() == Backend::cuda;
    const auto normalised = [&](std::size_t input) {
        Ref x = call.in(input);
        if (wide) x = tape.cast(std::move(x), dtype::fp32);
        return sigmoid ? over_norm(tape, x, pairs) : over_written_norm(tape, x, pairs);
    };
    const Ref images = normalised(1);
    const Ref texts = normalised(0);
    call.keep_as_output(images);
    call.keep_as_output(texts);
    const Ref products = tape.matmul(texts, images, detail::checked_mul(pairs, pairs));
    Ref scale = tape.unary_saving_output(call.parameter(0), "exp");
    // A tensor without dimensions does not widen the other.
    if (!sigmoid) scale = tape.cast(std::move(scale), products.dtype());
    Ref logits = tape.mul(products, std::move(scale));
    if (sigmoid) logits = tape.add(std::move(logits), call.parameter(1));
    call.keep_as_output(logits);
    call.out(0, sigmoid ? of_each_pair(tape, logits, pairs) : both_ways(tape, logits, pairs));
}

}  // namespace membudget::kernel
