#include "model/image_models.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/module_weights.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

/// A convolution without bias and its batch norm.
void convolution_norm(BlockBuilder& b, const std::string& path, std::int64_t out, std::int64_t in,
                      std::int64_t kernel) {
    convolution(b, join(path, "convolution"), out, in, {kernel, kernel}, false);
    b.norm_weights(join(path, "normalization"), out, norms::layer, kVision);
}

/// One residual layer: its convolutions, and a shortcut where shape or stride change.
void resnet_layer(BlockBuilder& b, std::int64_t in, std::int64_t out, std::int64_t stride,
                  bool bottleneck) {
    constexpr std::int64_t kReduction = 4;
    if (bottleneck) {
        const std::int64_t reduced = std::max<std::int64_t>(1, out / kReduction);
        convolution_norm(b, "layer.0", reduced, in, 1);
        convolution_norm(b, "layer.1", reduced, reduced, 3);
        convolution_norm(b, "layer.2", out, reduced, 1);
    } else {
        convolution_norm(b, "layer.0", out, in, 3);
        convolution_norm(b, "layer.1", out, out, 3);
    }
    if (in != out || stride != 1) convolution_norm(b, "shortcut", out, in, 1);
}

}  // namespace

Block pooled_end(BlockBuilder b, int pooled, bool bare, const Parts& parts) {
    b.end_base_model();
    if (bare)
        b.op(OpKind::pooler_loss, "loss", place::loss, {pooled}, {b.tensor("loss", 1, Rows::one)});
    else
        classification_loss(b, b.hold(b.linear(pooled, "classifier", parts.labels(), true, place::head)), parts.problem());
    return std::move(b).finish(-1);
}

void configure_resnet(ConfigReader& config, Parts& parts) {
    const std::int64_t embedding = config.size("embedding_size");
    const std::vector<std::int64_t> widths = config.sizes("hidden_sizes");
    const std::vector<std::int64_t> depths = config.sizes("depths");
    const std::string type = config.text("layer_type");
    if (type != "bottleneck" && type != "basic")
        config.invalid("layer_type", "expected 'basic' or 'bottleneck'; got '" + type + "'");
    if (widths.empty() || widths.size() != depths.size()) {
        if (config.diagnostics().empty())
            config.invalid("depths", "expected as many entries as hidden_sizes, at least 1");
        return;
    }
    const bool bottleneck = type == "bottleneck";
    const std::int64_t channels = config.size("num_channels", kLargestCount);
    const std::int64_t first_stride = config.flag("downsample_in_first_stage") ? 2 : 1;
    const bool bare = parts.is("Model");
    const std::string base = bare ? "" : "resnet.";
    parts.add(base, "embedder", [&](BlockBuilder& b) {
        convolution_norm(b, "embedder.embedder", embedding, channels, 7);
    });
    std::int64_t in = embedding;
    for (std::size_t stage = 0; stage < widths.size(); ++stage) {
        const std::int64_t out = widths[stage];
        const std::string path = fmt::format("{}encoder.stages.{}.layers.{{}}.", base, stage);
        parts.add(path, "vision layer", [&](BlockBuilder& b) {
            resnet_layer(b, in, out, stage == 0 ? first_stride : 2, bottleneck);
        }, depths[stage] > 0 ? 1 : 0);
        parts.add(path, "vision layer",
                  [&](BlockBuilder& b) { resnet_layer(b, out, out, 1, bottleneck); },
                  depths[stage] - 1, 1);
        in = out;
    }
    if (!bare)
        parts.add("", "head", [&](BlockBuilder& b) {
            b.linear_weights("classifier.1", in, parts.labels(), true, Component::head);
        });
}

}  // namespace membudget
