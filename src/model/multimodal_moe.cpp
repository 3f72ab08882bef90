/// Vision towers before mixtures of experts, of which the parameters are known and no step has been measured.

#include <algorithm>

#include <fmt/format.h>

#include "model/llama_like.hpp"
#include "model/moe.hpp"
#include "model/module_weights.hpp"
#include "model/multimodal.hpp"
#include "model/multimodal_parts.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

std::string_view keys_of(std::string_view family) { return families().find(family)->keys; }

/// A layer of ViT: attention and a feed-forward network with biases, a layer norm before each.
void vit_layer(BlockBuilder& b, std::string_view attention, std::string_view o, const std::string_view (&norms)[2],
               std::int64_t hidden, std::int64_t width) {
    AttentionWeights sizes = biased_attention(hidden, kVision);
    sizes.o = o;
    attention_weights(b, attention, sizes);
    plain_mlp_weights(b, "mlp", "fc1", "fc2", hidden, width, true, kVision);
    for (const std::string_view norm : norms) b.norm_weights(norm, hidden, norms::layer, kVision);
}

}  // namespace

void configure_step3p7(ConfigReader& config, Parts& parts) {
    if (config.raw("text_config") == nullptr) {
        config.unsupported("text_config", "expected the decoder's config in an object of its own, as the class has it; "
                                          "a flat one does not say how many heads layers with a window have");
        return;
    }
    DecoderPlan plan = language_model();
    ConfigReader text = config.nested("text_config", "step3p5", keys_of("step3p5"));
    configure_step3p5(text, plan);
    plan.tied = config.flag("tie_word_embeddings");
    ConfigReader vision = config.nested(
        "vision_config", "step3p5_vision",
        "hidden_size|width=1536 num_hidden_layers|layers=47 num_channels=3 image_size=728 patch_size=14 "
        "mlp_ratio=5.833333333333333");
    const std::int64_t hidden = vision.size("hidden_size");
    const std::int64_t patch = vision.size("patch_size", kLargestCount);
    const std::int64_t side = std::max<std::int64_t>(1, vision.size("image_size", kLargestCount) / patch);
    const double ratio = vision.number("mlp_ratio");
    if (!(ratio > 0 && ratio < 64)) vision.invalid("mlp_ratio", "expected a ratio above 0 and below 64");
    const auto width = ratio > 0 && ratio < 64
                           ? std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(hidden) * ratio)) : 1;
    parts.add("model.vision_model.", "patch embedding", [&](BlockBuilder& b) {
        convolution(b, "embeddings.patch_embedding", hidden, vision.size("num_channels", kLargestCount),
                    {patch, patch}, false);
        b.parameter("embeddings.position_embedding.weight", {side * side, hidden}, kVision);
        b.norm_weights("pre_layernorm", hidden, norms::layer, kVision);
        convolution(b, "downsampler1", 2 * hidden, hidden, {3, 3}, true);
        convolution(b, "downsampler2", 4 * hidden, 2 * hidden, {3, 3}, true);
    });
    parts.add("model.vision_model.layers.{}.", "vision layer", [&](BlockBuilder& b) {
        b.parameter("lambda_1", {hidden}, kVision);
        b.parameter("lambda_2", {hidden}, kVision);
        vit_layer(b, "self_attn", "out_proj", {"layernorm_before", "layernorm_after"}, hidden, width);
    }, vision.size("num_hidden_layers", kLargestCount));
    parts.add("model.", "projector", [&](BlockBuilder& b) {
        b.linear_weights("multi_modal_projector", 4 * hidden, plan.hidden, config.flag("projector_bias"), kVision);
    });
    parts.add_decoder(plan);
}

}  // namespace membudget
