#include "model/vision.hpp"

#include <algorithm>

#include "model/module_weights.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

/// Patches of a square image, at least 1 so that bad sizes do no further harm.
std::int64_t patch_count(std::int64_t image, std::int64_t patch) {
    const std::int64_t side = std::max<std::int64_t>(1, image / patch);
    return side * side;
}

}  // namespace

void add_internvit(Parts& parts, ConfigReader& outer, std::int64_t text_hidden) {
    ConfigReader config = outer.nested(
        "vision_config", "intern_vit_6b",
        "hidden_size=3200 intermediate_size=12800 num_hidden_layers=48 num_attention_heads=25 "
        "num_channels=3 image_size=224 patch_size=14 qkv_bias=false qk_normalization=true "
        "norm_type=rms_norm");
    const std::int64_t hidden = config.size("hidden_size");
    const std::int64_t width = config.size("intermediate_size");
    const std::int64_t patch = config.size("patch_size", kLargestCount);
    const std::int64_t patches = patch_count(config.size("image_size", kLargestCount), patch);
    const std::int64_t channels = config.size("num_channels", kLargestCount);
    const bool bias = config.flag("qkv_bias");
    const bool qk_norm = config.flag("qk_normalization");
    const Norm norm = config.text("norm_type") == "layer_norm" ? norms::layer : norms::rms;
    parts.add("vision_model.", "patch embedding", [&](BlockBuilder& b) {
        b.parameter("embeddings.class_embedding", {1, 1, hidden}, kVision);
        convolution(b, "embeddings.patch_embedding", hidden, channels, {patch, patch}, true);
        b.parameter("embeddings.position_embedding", {1, patches + 1, hidden}, kVision);
    });
    parts.add("vision_model.encoder.layers.{}.", "vision layer", [&](BlockBuilder& b) {
        b.parameter("ls1", {hidden}, kVision);
        b.parameter("ls2", {hidden}, kVision);
        b.linear_weights("attn.qkv", hidden, 3 * hidden, bias, kVision);
        if (qk_norm) {
            b.norm_weights("attn.q_norm", hidden, norms::rms, kVision);
            b.norm_weights("attn.k_norm", hidden, norms::rms, kVision);
        }
        b.linear_weights("attn.proj", hidden, hidden, true, kVision);
        plain_mlp_weights(b, "mlp", "fc1", "fc2", hidden, width, true, kVision);
        b.norm_weights("norm1", hidden, norm, kVision);
        b.norm_weights("norm2", hidden, norm, kVision);
    }, config.size("num_hidden_layers", kLargestCount));
    // Four neighbouring patches become one token (`downsample_ratio` 0.5).
    const double ratio = outer.number("downsample_ratio");
    const auto merge = static_cast<std::int64_t>(ratio > 0 && ratio <= 1 ? 1 / ratio + 0.5 : 1);
    parts.add("mlp1.", "projector", [&](BlockBuilder& b) {
        b.norm_weights("0", hidden * merge * merge, norms::layer, kVision);
        b.linear_weights("1", hidden * merge * merge, text_hidden, true, kVision);
        b.linear_weights("3", text_hidden, text_hidden, true, kVision);
    });
}

}  // namespace membudget
