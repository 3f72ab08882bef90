// What the model itself says about the shape of a job: its images, and parameters that nothing uses.

#include <algorithm>

#include <fmt/format.h>

#include "job/resolver.hpp"

namespace membudget {

bool reads_tokens(const Model& model) {
    // Models whose step is not simulated have no list of inputs.
    return model.inputs.empty() || std::any_of(model.inputs.begin(), model.inputs.end(), [](const ModelInput& input) {
               return input.rows == Rows::tokens;
           });
}

/// A model that takes images of any size: the processor decides, so the job says what it makes of them.
void Resolver::image_size() {
    const auto& given = spec_.training.image_size;
    const Model* model = job_.model.get();
    if (model != nullptr && !model->step_unsupported.empty()) return;
    if (model == nullptr || !model->image.any_size()) {
        if (given)
            problems_.invalid("/training/image_size",
                              model != nullptr && model->image.rows > 0
                                  ? fmt::format("expected no size: the model takes images of {} x {} pixels",
                                                model->image.height, model->image.width)
                                  : "expected no size of images, which the model does not read");
        return;
    }
    const std::int64_t cell = model->image.cell();
    ImageSize size{std::max<std::int64_t>(cell, 1), std::max<std::int64_t>(cell, 1)};
    if (!given) {
        problems_.invalid("/training/image_size", "expected the size in pixels of the images that the processor makes; got none",
                          "the model takes images of any size: one number, or [height, width]");
    } else if (given->height % cell != 0 || given->width % cell != 0) {
        const auto nearest = [&](std::int64_t side) { return std::max<std::int64_t>(1, (side + cell / 2) / cell) * cell; };
        problems_.invalid("/training/image_size",
                          fmt::format("expected multiples of {} pixels, the side of a token; got {} x {}", cell,
                                      given->height, given->width),
                          fmt::format("the nearest is [{}, {}]", nearest(given->height), nearest(given->width)));
    } else {
        size = *given;
    }
    auto sized = std::make_shared<Model>(*model);
    sized->image.set_size(size.height, size.width);
    job_.extents.image_rows = sized->image.token_rows;
    job_.extents.image_columns = sized->image.token_columns;
    job_.extents.tiles = sized->image.tiles;
    job_.model = std::move(sized);
}

/// Images of a micro-batch, and how many rows they make in a vision tower.
void Resolver::images() {
    const auto& given = spec_.training.images;
    const Model* model = job_.model.get();
    if (model == nullptr || model->image.rows == 0) {
        if (given.value_or(0) > 0 && (model == nullptr || model->step_unsupported.empty()))
            problems_.invalid("/training/images", fmt::format("expected no images, which the model does not read; got {}",
                                                              *given));
        return;
    }
    std::int64_t each = given.value_or(1);
    if (!reads_tokens(*model)) {
        if (spec_.training.sequence_length)
            problems_.invalid("/training/sequence_length",
                              fmt::format("expected no length: the model reads images, not tokens; got {}",
                                          *spec_.training.sequence_length),
                              "the config's image_size and patch_size give the length");
        if (each != 1)
            problems_.invalid("/training/images",
                              fmt::format("expected 1: each sample of an image model is one; got {}", each),
                              "training.micro_batch_size is the number of images");
        each = 1;
    } else if (model->image.one_each || has_op(*model, OpKind::contrastive_loss)) {
        if (each != 1)
            problems_.invalid("/training/images",
                              model->image.one_each
                                  ? fmt::format("expected 1: each text is about one image; got {}", each)
                                  : fmt::format("expected 1: the loss compares each text with one image; got {}", each));
        each = 1;
    } else if (!given) {
        assume("training.images", "training.images is not given: 1 image per sequence", "");
    }
    if (each == 0 && has_op(*model, OpKind::join_images))
        problems_.unsupported("/training/images", "a batch without images is not modelled: the tower would not run");
    each = detail::checked_mul(each, job_.extents.tiles);
    job_.extents.images = detail::checked_mul(job_.extents.batch, each);
    job_.extents.patches = detail::checked_mul(job_.extents.images, model->image.rows);
    if (model->image.any_size())
        job_.extents.image_tokens =
            detail::checked_mul(job_.extents.images / job_.extents.tiles, model->image.tokens);
}

/// Images take the places of tokens: a sequence holds all of its own.
void Resolver::image_tokens() {
    const Model* model = job_.model.get();
    if (model == nullptr || model->image.tokens == 0 || job_.extents.batch == 0) return;
    const std::int64_t each = job_.extents.images / job_.extents.tiles / job_.extents.batch;
    const std::int64_t tokens = detail::checked_mul(each, model->image.tokens);
    if (job_.extents.sequence < tokens)
        problems_.invalid("/training/sequence_length",
                          fmt::format("expected at least the {} tokens whose place {} image{} take{}; got {}", tokens,
                                      each, each == 1 ? "" : "s", each == 1 ? "s" : "", job_.extents.sequence),
                          "training.sequence_length counts text and images together");
}

/// No key comes of windows that are longer than the sequence: what makes them is computed, and nothing reads it
/// [transformers models/deepseek_v4/modeling_deepseek_v4.py DeepseekV4HCACompressor.forward].
void Resolver::drop_long_windows() {
    const std::int64_t sequence = spec_.training.sequence_length.value_or(0);
    if (job_.model == nullptr || sequence == 0) return;
    const auto empty = [sequence](const Op& op) {
        return op.kind == OpKind::compress && !op.attributes.overlaps && op.attributes.rate > sequence;
    };
    if (!has_op(*job_.model, OpKind::compress)) return;
    auto changed = std::make_shared<Model>(*job_.model);
    for (Block& block : changed->blocks)
        for (Op& op : block.ops)
            if (empty(op)) op.reader = Reader::dropped;
    job_.model = std::move(changed);
}

/// A parameter that no op of the loss uses gets no gradient, and so no optimizer state.
void Resolver::leave_unused() {
    if (job_.model == nullptr || !job_.model->step_unsupported.empty()) return;
    const auto unused = [](const Block& block, std::size_t index) {
        const Parameter& parameter = block.parameters[index];
        return parameter.trainable && parameter.tied_to.empty() &&
               std::none_of(block.ops.begin(), block.ops.end(), [&](const Op& op) {
                   return op.reader == Reader::loss && uses(op, index);
               });
    };
    std::shared_ptr<Model> changed;
    for (std::size_t b = 0; b < job_.model->blocks.size(); ++b)
        for (std::size_t i = 0; i < job_.model->blocks[b].parameters.size(); ++i) {
            if (!unused(job_.model->blocks[b], i)) continue;
            if (changed == nullptr) changed = std::make_shared<Model>(*job_.model);
            Parameter& parameter = changed->blocks[b].parameters[i];
            parameter.trainable = false;
            const std::vector<Op>& ops = changed->blocks[b].ops;
            parameter.unreached = std::any_of(ops.begin(), ops.end(), [&](const Op& op) { return uses(op, i); });
        }
    if (changed != nullptr) job_.model = std::move(changed);
}

}  // namespace membudget
