#include "model/image_models.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/module_weights.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

/// `second`: a normalisation over the responses of all channels instead of a learned factor for each
/// (arXiv:2301.00808).
void add_convnext(ConfigReader& config, Parts& parts, bool second) {
    constexpr std::int64_t kKernel = 7;
    const std::vector<std::int64_t> widths = config.sizes("hidden_sizes");
    const std::vector<std::int64_t> depths = config.sizes("depths");
    if (widths.empty() || widths.size() != depths.size()) {
        if (config.diagnostics().empty())
            config.invalid("depths", "expected as many entries as hidden_sizes, at least 1");
        return;
    }
    const std::int64_t channels = config.size("num_channels", kLargestCount);
    const std::int64_t patch = config.size("patch_size", kLargestCount);
    const bool scaled = !second && config.number("layer_scale_init_value") > 0;
    const bool bare = parts.is("Model");
    const std::string base = bare ? "" : second ? "convnextv2." : "convnext.";
    parts.add(base, "patch embedding", [&](BlockBuilder& b) {
        convolution(b, "embeddings.patch_embeddings", widths[0], channels, {patch, patch}, true);
        b.norm_weights("embeddings.layernorm", widths[0], norms::layer, kVision);
    });
    for (std::size_t stage = 0; stage < widths.size(); ++stage) {
        const std::int64_t width = widths[stage];
        const std::string path = fmt::format("{}encoder.stages.{}.", base, stage);
        if (stage > 0)
            parts.add(path, "downsampling", [&](BlockBuilder& b) {
                b.norm_weights("downsampling_layer.0", widths[stage - 1], norms::layer, kVision);
                convolution(b, "downsampling_layer.1", width, widths[stage - 1], {2, 2}, true);
            });
        parts.add(path + "layers.{}.", "vision layer", [&](BlockBuilder& b) {
            if (scaled) b.parameter("layer_scale_parameter", {width}, kVision);
            convolution(b, "dwconv", width, 1, {kKernel, kKernel}, true);
            b.norm_weights("layernorm", width, norms::layer, kVision);
            b.linear_weights("pwconv1", width, 4 * width, true, kVision);
            if (second)
                for (const std::string_view name : {"grn.weight", "grn.bias"})
                    b.parameter(std::string(name), {1, 1, 1, 4 * width}, kVision);
            b.linear_weights("pwconv2", 4 * width, width, true, kVision);
        }, depths[stage]);
    }
    parts.add(base, "vision norm", [&](BlockBuilder& b) {
        b.norm_weights("layernorm", widths.back(), norms::layer, kVision);
    });
    if (!bare)
        parts.add("", "head", [&](BlockBuilder& b) {
            b.linear_weights("classifier", widths.back(), parts.labels(), true, Component::head);
        });
}

}  // namespace

void configure_convnext(ConfigReader& config, Parts& parts) { add_convnext(config, parts, false); }
void configure_convnextv2(ConfigReader& config, Parts& parts) { add_convnext(config, parts, true); }

namespace {

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
