// What image models compute around their layers: patches from images, tokens beside them.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "stack/kernels.hpp"

namespace membudget::kernel {

void conv_patches(KernelCall& call) {
    Tape& tape = call.tape;
    const Dtype& given = call.activation_dtype();
    const std::int64_t pixels = call.numel(call.input_tensor(0));
    // Autocast casts the bias, the weight and the input, in this order; the images have no gradient, so
    // their copy is not cached [aten/src/ATen/autocast_mode.cpp].
    const auto cast = [&](Ref x) { return tape.autocast_input(std::move(x)); };
    Ref bias = call.parameters() > 1 ? cast(call.parameter(1)) : Ref();
    const Ref weight = cast(call.parameter(0));
    const Ref images = cast(call.in(0) ? call.in(0) : tape.borrow(pixels, given, false));
    const std::int64_t numel = call.numel(call.output_tensor(0));
    Ref out = tape.fresh(numel, images.dtype(), "output");
    {
        Tape::NodeBuilder node = bias ? Tape::NodeBuilder(tape, "convolution", {&images, &weight, &bias})
                                      : Tape::NodeBuilder(tape, "convolution", {&images, &weight});
        node.save(images);
        node.save(weight);
        // The gradient lies patch by patch, the kernels want it channel by channel
        // [aten/src/ATen/native/cudnn/ConvShared.cpp cudnn_convolution_backward]; on the CPU that copy is
        // workspace of the operator.
        const bool copies = tape.backend() == Backend::cuda;
        const std::int16_t contiguous =
            copies ? node.temp(byte_count(numel, images.dtype()), "contiguous grad") : std::int16_t{-1};
        node.grad(1, "grad weight");
        if (bias) node.grad(2, "grad bias");
        if (copies) node.drop(contiguous);
        node.finish(out);
    }
    out = tape.view(std::move(out));
    if (call.attributes().cast_to_weight) out = tape.cast(std::move(out), call.parameter(0).dtype());
    call.out(0, std::move(out));
}

namespace {

/// `torch.cat` of a list that `torch.split` has made, or of what is picked one by one: the features of each image.
Ref cat_of_images(KernelCall& call, const Ref& features) {
    const std::int64_t count = call.extents.images / call.extents.tiles;
    if (call.attributes().sliced) {
        std::vector<Ref> picked;
        for (std::int64_t i = 0; i < count; ++i) picked.push_back(call.tape.slice(features, features.numel() / count));
        return call.tape.cat(picked);
    }
    const std::vector<std::int64_t> each(static_cast<std::size_t>(count), features.numel() / count);
    std::vector<Ref> images = call.tape.chunk(features, each);
    return call.tape.cat(images);
}

}  // namespace

void concat(KernelCall& call) {
    Tape& tape = call.tape;
    if (call.attributes().listed && call.inputs() == 0)  // tiles of the batch's images, in one sequence
        return call.out(0, tape.fresh(call.numel(call.output_tensor(0)), call.activation_dtype(), "pixels"));
    if (call.attributes().listed) return call.out(0, cat_of_images(call, call.in(0)));
    std::vector<Ref> parts;
    for (std::size_t i = 0; i < call.parameters(); ++i) {
        Ref token = call.parameter(i);
        const std::int64_t numel = detail::checked_mul(token.numel(), call.extents.images);
        // Of one image nothing is summed: the gradient is a slice of that of the concatenation. A token that lacks
        // the dimensions of images and tokens (CLIP) is summed all the same.
        const bool same = numel == token.numel() && call.shape_of_parameter(i).shape.size() > 1;
        parts.push_back(same ? tape.view(std::move(token)) : tape.expand(std::move(token), numel));
    }
    for (std::size_t i = 0; i < call.inputs(); ++i) parts.push_back(call.in(i));
    // Autocast casts all parts to the widest type first [autocast_mode.h AT_FORALL_PROMOTE: cat].
    const Dtype* widest = &parts.front().dtype();
    for (const Ref& part : parts)
        if (part.dtype().bits > widest->bits) widest = &part.dtype();
    for (Ref& part : parts) part = tape.cast(std::move(part), *widest);
    call.out(0, tape.cat(parts));
}

namespace {

/// (x * mask).sum(dim=1) / mask.sum(dim=1): a batch without padding has a mask of its own
/// [transformers models/modernbert/modeling_modernbert.py ModernBertForSequenceClassification.forward].
Ref mean_of_tokens(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const Ref mask = call.extents.padding_mask ? tape.borrow(rows, dtype::int64, false)
                                               : tape.fresh(rows, dtype::boolean, "mask");
    Ref product = tape.fresh(x.numel(), x.dtype(), "tokens without padding");
    {
        Tape::NodeBuilder node(tape, "mul", {&x});
        node.save(mask);
        node.grad(0);
        node.finish(product);
    }
    Ref sum = row_sum(tape, product, call.numel(call.output_tensor(0)));
    product.reset();
    const Ref count = tape.fresh(call.extents.batch, dtype::int64, "tokens of each sequence");
    call.hold(mask);
    return tape.mul_scalar(std::move(sum));
}

}  // namespace

void mean_patches(KernelCall& call) {
    if (call.attributes().masked) return call.out(0, mean_of_tokens(call));
    call.out(0, call.tape.mean(call.in(0), call.numel(call.output_tensor(0))));
}

void average_pool(KernelCall& call) {
    const Ref x = call.in(0);
    Ref out = call.tape.fresh(call.numel(call.output_tensor(0)), x.dtype(), "means");
    Tape::NodeBuilder node(call.tape, "avg_pool2d", {&x});
    node.save(x);
    node.grad(0);
    node.finish(out);
    call.out(0, std::move(out));
}

void ids(KernelCall& call) {
    // Distances times slopes, of which MPT has a table [models/mpt/modeling_mpt.py build_mpt_alibi_tensor].
    const Dtype& type = call.attributes().bias ? dtype::fp32 : dtype::int64;
    for (std::size_t i = 0; i < call.op.outputs.size(); ++i)
        call.out(i, call.tape.fresh(call.numel(call.output_tensor(i)), type, "ids"));
}

namespace {

/// new_zeros(...).index_add_(0, places, x.float() * shares), cast back [transformers
/// models/kimi_k25/modeling_kimi_k25.py Kimi_K25VisionModel.temporal_merge].
void add_to_zeros(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const Ref places = tape.fresh(rows, dtype::int64, "places of rows");
    const Ref shares = tape.fresh(rows, dtype::fp32, "shares of frames");
    const Ref zeros = tape.fresh(x.numel(), dtype::fp32, "pooled");
    Ref pooled = tape.alias_of_storage(zeros);
    {
        const Ref product = tape.mul(tape.cast(x, dtype::fp32), shares);
        Tape::NodeBuilder node(tape, "index_add", {&product});
        node.save(product);  // whose shape its gradient takes [derivatives.yaml: index_add]
        node.save(places);
        node.grad(0, "selected grad");
        node.finish(pooled);
    }
    for (const Ref& local : {places, shares, zeros}) call.hold_local(local);
    call.out(0, tape.cast(std::move(pooled), x.dtype()));
}

}  // namespace

void reorder(KernelCall& call) {
    if (call.attributes().scattered) return add_to_zeros(call);
    const Ref x = call.in(0);
    Ref out = call.tape.fresh(x.numel(), x.dtype(), "reordered");
    Tape::NodeBuilder node(call.tape, "index", {&x});
    node.save(call.in(1));
    node.grad(0, "scattered grad");
    node.finish(out);
    call.out(0, std::move(out));
}

namespace {

/// F.grid_sample of the table in fp32 at (x, y) of each patch
/// [transformers models/glm4v/modeling_glm4v.py Glm4vVisionEmbeddings.forward].
void sample(KernelCall& call) {
    Tape& tape = call.tape;
    const std::int64_t numel = call.numel(call.output_tensor(0));
    const Ref weight = call.parameter(0);
    const Ref wide = tape.cast(weight, dtype::fp32);
    Ref out;
    {
        const Ref grid = tape.fresh(2 * (numel / call.output_tensor(0).width), dtype::fp32, "places of patches");
        out = tape.fresh(numel, dtype::fp32, "samples");
        Tape::NodeBuilder node(tape, "grid_sampler", {&wide});
        node.save(wide);
        node.save(grid);
        node.grad(0, "grad of the table");
        node.finish(out);
    }
    call.out(0, tape.cast(std::move(out), weight.dtype()));
}

/// Entries of the table, weighted and summed by F.embedding_bag, and a buffer's row for each patch's frame, added to
/// the patches [transformers models/kimi_k25/modeling_kimi_k25.py Kimi_K25VisionPositionEmbeddings.forward].
void add_bags(KernelCall& call) {
    constexpr std::int64_t kTaps = 16;  // of the bicubic kernel
    Tape& tape = call.tape;
    const Ref x = call.in(0);
    const std::int64_t rows = call.rows(call.input_tensor(0));
    const Ref table = call.parameter(0);
    const Ref ids = tape.fresh(rows * kTaps, dtype::int64, "indices of entries");
    const Ref weights = tape.fresh(rows * kTaps, dtype::fp32, "weights");
    Ref sums;
    {
        const Ref cast = tape.cast(weights, table.dtype());
        const Ref offsets = tape.fresh(rows, dtype::int64, "offsets of bags");
        sums = tape.fresh(x.numel(), table.dtype(), "sums of entries");
        const Ref sizes = tape.fresh(rows, dtype::int64, "sizes of bags");
        const Ref most = tape.fresh(rows, dtype::int64, "largest entries");
        Tape::NodeBuilder node(tape, "embedding_bag", {&table});
        for (const Ref* saved : {&ids, &cast, &offsets, &sizes, &most}) node.save(*saved);
        node.grad(0, "grad of the table");
        node.finish(sums);
    }
    Ref positions;
    {
        const Ref frames = tape.fresh(x.numel(), dtype::fp32, "positions of frames");
        positions = tape.add(std::move(sums), frames);
    }
    call.out(0, tape.add(x, tape.cast(positions, x.dtype())));
}

}  // namespace

void interpolate(KernelCall& call) {
    if (call.attributes().bagged) return add_bags(call);
    if (call.op.outputs.size() == 1) return sample(call);
    Tape& tape = call.tape;
    const std::int64_t numel = call.numel(call.output_tensor(0));
    const Ref weights = tape.fresh(call.numel(call.output_tensor(1)), dtype::fp32, "weights");
    Ref product;
    {
        const std::int64_t entries = detail::checked_mul(call.in(0).numel(), call.output_tensor(0).width);
        product = tape.mul(tape.embedding(call.in(0), call.parameter(0), entries), weights);
    }
    Ref sum = tape.fresh(numel, product.dtype(), "sum");
    {
        Tape::NodeBuilder node(tape, "sum", {&product});
        node.pass_view(0);  // expanded
        node.finish(sum);
    }
    product.reset();
    call.out(0, tape.cast(std::move(sum), call.activation_dtype()));
    call.out(1, weights);
}

void add_images(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref features = tape.cast(call.in(1), call.in(0).dtype());
    Ref states = tape.copy(call.in(0));
    const std::int64_t numel = features.numel();
    Ref picked = tape.fresh(numel, states.dtype(), "rows of images");
    {
        Tape::NodeBuilder node(tape, "index", {&states});
        node.grad(0, "scattered grad");
        node.finish(picked);
    }
    const Ref sum = tape.add(std::move(picked), features);
    Ref out = tape.alias_of_storage(states);
    {
        Tape::NodeBuilder node(tape, "index_put", {&states, &sum});
        const std::int16_t zeros = node.temp(byte_count(numel, states.dtype()), "zeros for images");
        node.grad(0, "grad without images");
        node.drop(zeros);
        node.grad(1, "grad of images");
        node.finish(out);
    }
    call.out(0, std::move(out));
}

namespace {

/// The features of each image: those of the tile that is the whole image, then of the other tiles, laid out
/// row by row, without their padding, each row ended by a learned one
/// [transformers models/llava_next/modeling_llava_next.py LlavaNextModel.pack_image_features].
std::vector<Ref> packed_tiles(KernelCall& call, const Ref& features) {
    Tape& tape = call.tape;
    const Extents& e = call.extents;
    const std::int64_t images = e.images / e.tiles;
    const std::int64_t tile = features.numel() / e.images;
    const std::int64_t width = call.input_tensor(1).width;
    const std::int64_t kept = detail::checked_mul(detail::checked_mul(e.image_rows, e.image_columns), width);
    const std::vector<std::int64_t> each(static_cast<std::size_t>(images), tile * e.tiles);
    std::vector<Ref> out;
    for (const Ref& image : tape.chunk(features, each)) {
        const Ref whole = tape.slice(image, tile);
        Ref rows = tape.slice(image, tile * (e.tiles - 1));
        rows = tape.copy(tape.view(std::move(rows), Tape::ViewGradient::copy));
        rows = tape.slice(std::move(rows), kept);
        {
            Ref newline = tape.expand(call.parameter(0), e.image_rows * width);
            newline = tape.cast(std::move(newline), rows.dtype());
            std::vector<Ref> parts{rows, std::move(newline)};
            rows = tape.cat(parts);
        }
        std::vector<Ref> parts{whole, std::move(rows)};
        out.push_back(tape.cat(parts));
        call.keep_as_output(out.back());
    }
    return out;
}

}  // namespace

void unfold(KernelCall& call) {
    Tape& tape = call.tape;
    if (call.inputs() == 0 && call.attributes().scaled) {  // 2 * (x - 0.5)
        const Ref shifted = tape.fresh(call.numel(call.output_tensor(0)), call.activation_dtype(), "shifted pixels");
        return call.out(0, tape.mul_scalar(shifted));
    }
    if (call.inputs() == 0)  // of pixels, which have no gradient
        return call.out(0, tape.fresh(call.numel(call.output_tensor(0)), call.activation_dtype(), "columns of pixels"));
    const Ref x = call.in(0);
    const std::vector<std::int64_t> each(static_cast<std::size_t>(call.extents.images),
                                         x.numel() / call.extents.images);
    std::vector<Ref> squares;
    for (const Ref& image : tape.chunk(x, each)) {
        Ref out = tape.fresh(image.numel(), image.dtype(), "squares of patches");
        Tape::NodeBuilder node(tape, "unfold", {&image});
        node.grad(0);
        node.finish(out);
        squares.push_back(std::move(out));
    }
    call.out(0, tape.cat(squares));
    for (Ref& square : squares) call.hold_local(std::move(square));
}

void join_images(KernelCall& call) {
    Tape& tape = call.tape;
    const Ref embeds = call.in(0);
    const Ref features = call.in(1);
    const std::int64_t numel = embeds.numel();
    const bool cuda = tape.backend() == Backend::cuda;
    Ref joined = features;
    if (call.parameters() > 0) {
        std::vector<Ref> images = packed_tiles(call, features);
        joined = tape.cat(images);
    } else if (call.attributes().listed) {
        joined = cat_of_images(call, features);
    }
    joined = tape.cast(std::move(joined), embeds.dtype());
    const Ref mask = tape.fresh(call.rows(call.output_tensor(2)), dtype::boolean, "places of images");
    Ref out = tape.fresh(numel, embeds.dtype(), "output");
    if (cuda) {  // [aten/src/ATen/native/cuda/IndexKernel.cpp masked_scatter__cuda, .cu launch_masked_scatter_kernel]
        const Ref sums = tape.fresh(numel, dtype::int64, "sums of the mask");
        const Ref expanded = tape.fresh(numel, dtype::boolean, "expanded mask");
    }
    {
        Tape::NodeBuilder node(tape, "masked_scatter", {&embeds, &joined});
        node.save(mask);
        node.grad(0, "masked grad");
        std::int16_t places = -1;
        if (cuda && node.needs(1)) {
            // Selected by the three coordinates of each place [cuda/IndexKernel.cpp masked_select_out_cuda_impl,
            // cuda/Nonzero.cu].
            constexpr std::int64_t kDimensions = 3;
            const std::int16_t expanded = node.temp(numel, "expanded mask");
            places = node.temp(byte_count(detail::checked_mul(joined.numel(), kDimensions), dtype::int64), "places");
            node.drop(expanded);
        }
        node.grad(1, "selected grad");
        if (places >= 0) node.drop(places);
        node.finish(out);
    }
    call.out(0, std::move(out));
    call.out(1, std::move(joined));
    call.out(2, mask);
}

}  // namespace membudget::kernel
