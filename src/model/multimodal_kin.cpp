/// Models of a vision tower and a decoder of which the parameters are known and no step has been measured.

#include <algorithm>

#include <fmt/format.h>

#include "model/contrastive.hpp"
#include "model/moe.hpp"
#include "model/multimodal.hpp"
#include "model/multimodal_parts.hpp"
#include "model/vision.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::string_view kTower = "model.vision_tower.";
constexpr std::string_view kProjector = "model.multi_modal_projector.";

constexpr std::string_view kGlm4vMoeText =
    "vocab_size=151424 hidden_size=4096 intermediate_size=10944 num_hidden_layers=46 "
    "num_attention_heads=96 num_key_value_heads=8 head_dim hidden_act=silu tie_word_embeddings=false "
    "partial_rotary_factor rope_parameters attention_bias=true attention_dropout=0.0 "
    "moe_intermediate_size=1408 num_experts_per_tok=8 n_shared_experts=1 "
    "n_routed_experts|num_local_experts=128 first_k_dense_replace=1";

// Mistral 3's own defaults for a config without the nested ones.
constexpr std::string_view kMistral3Text =
    "vocab_size=131072 hidden_size=5120 intermediate_size=32768 num_hidden_layers=40 "
    "num_attention_heads=32 num_key_value_heads=8 head_dim=128 hidden_act=silu "
    "tie_word_embeddings=false sliding_window attention_dropout=0.0";
constexpr std::string_view kPaligemmaText =
    "vocab_size=257152 hidden_size=2048 intermediate_size=16384 num_hidden_layers=18 num_attention_heads=8 "
    "num_key_value_heads=1 head_dim=256 hidden_act=gelu_pytorch_tanh tie_word_embeddings=true attention_bias=false "
    "attention_dropout=0.0";
constexpr TowerDefault kPaligemmaTower{
    "siglip_vision_model",
    "hidden_size=1152 intermediate_size=4096 num_hidden_layers=27 num_attention_heads=16 num_channels=3 image_size=224 "
    "patch_size=14 hidden_act=gelu_pytorch_tanh attention_dropout=0.0 vision_use_head=false"};
constexpr TowerDefault kMistral3Tower{
    "pixtral", "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 "
               "num_channels=3 image_size=1540 patch_size=14"};

/// InternVL's tower [transformers models/internvl/modeling_internvl.py]; its hidden size.
std::int64_t add_internvl_tower(Parts& parts, ConfigReader& outer) {
    ConfigReader config = outer.nested(
        "vision_config", "internvl_vision",
        "hidden_size=1024 num_hidden_layers=24 num_attention_heads=16 attention_bias=false use_qk_norm=false "
        "intermediate_size=4096 norm_type=layer_norm image_size=[448,448] patch_size=[14,14] num_channels=3 "
        "use_mask_token=false use_absolute_position_embeddings=true use_mean_pooling=true");
    const std::int64_t hidden = config.size("hidden_size");
    const std::int64_t width = config.size("intermediate_size");
    const std::int64_t heads = config.size("num_attention_heads", kLargestCount);
    config.divides("hidden_size", hidden, "num_attention_heads", heads);
    const std::int64_t channels = config.size("num_channels", kLargestCount);
    const Extent image = config.extent("image_size"), patch = config.extent("patch_size");
    const std::int64_t patches = std::max<std::int64_t>(1, (image.height / patch.height) * (image.width / patch.width));
    const bool bias = config.flag("attention_bias"), qk_norm = config.flag("use_qk_norm");
    const std::string type = config.text("norm_type");
    if (type != "layer_norm" && type != "rms_norm")
        config.invalid("norm_type", fmt::format("expected 'layer_norm' or 'rms_norm'; got '{}'", type));
    const Norm& norm = type == "rms_norm" ? norms::rms : norms::layer;
    parts.add(std::string(kTower), "patch embedding", [&](BlockBuilder& b) {
        b.parameter("embeddings.cls_token", {1, 1, hidden}, kVision);
        if (config.flag("use_mask_token")) b.parameter("embeddings.mask_token", {1, 1, hidden}, kVision);
        if (config.flag("use_absolute_position_embeddings"))
            b.parameter("embeddings.position_embeddings", {1, patches + 1, hidden}, kVision);
        convolution(b, "embeddings.patch_embeddings.projection", hidden, channels, {patch.height, patch.width}, true);
        if (!config.flag("use_mean_pooling")) b.norm_weights("layernorm", hidden, norms::layer, kVision);
    });
    parts.add(fmt::format("{}encoder.layer.{{}}.", kTower), "vision layer", [&](BlockBuilder& b) {
        b.parameter("lambda_1", {hidden}, kVision);
        b.parameter("lambda_2", {hidden}, kVision);
        for (const std::string_view name : {"q_proj", "k_proj", "v_proj"})
            b.linear_weights(join("attention", name), hidden, hidden, bias, kVision);
        b.linear_weights("attention.projection_layer", hidden, hidden, true, kVision);
        if (qk_norm)
            for (const std::string_view name : {"attention.q_norm", "attention.k_norm"})
                b.norm_weights(name, hidden, norms::rms, kVision);
        b.linear_weights("mlp.fc1", hidden, width, true, kVision);
        b.linear_weights("mlp.fc2", width, hidden, true, kVision);
        b.norm_weights("layernorm_before", hidden, norm, kVision);
        b.norm_weights("layernorm_after", hidden, norm, kVision);
    }, config.size("num_hidden_layers", kLargestCount));
    return hidden;
}

}  // namespace

void add_llava_any_tower(ConfigReader& config, Parts& parts, DecoderPlan& plan, bool newline) {
    const std::int64_t hidden =
        add_any_tower(config, parts, kTower, {"clip_vision_model", vision_keys::clip_in_llava});
    if (newline)
        parts.add("model.", "newline", [&](BlockBuilder& b) { b.parameter("image_newline", {plan.hidden}, kVision); });
    add_projector(parts, kProjector, hidden * joined_features(config), plan.hidden,
                  config.flag("multimodal_projector_bias"));
    plan.base = "model.language_model";
    parts.add_decoder(plan);
    parts.model().step_unsupported = kCountedOnly;
}

void configure_llava_next(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_any_text(config, "text_config", "llama", plan);
    add_llava_any_tower(config, parts, plan, true);
}

void configure_paligemma(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_any_text(config, "text_config", "gemma", plan, kPaligemmaText);
    plan.base = "model.language_model";
    plan.tied = config.flag("tie_word_embeddings");
    const std::int64_t hidden = add_any_tower(config, parts, kTower, kPaligemmaTower);
    parts.add(std::string(kProjector), "projector", [&](BlockBuilder& b) {
        b.linear_weights("linear", hidden, config.size("projection_dim"), true, kVision);
    });
    parts.add_decoder(plan);
    parts.model().step_unsupported = kCountedOnly;
}

void configure_mistral3(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_any_text(config, "text_config", "mistral", plan, kMistral3Text);
    plan.base = "model.language_model";
    const std::int64_t hidden = add_any_tower(config, parts, kTower, kMistral3Tower);
    const std::int64_t merge = config.size("spatial_merge_size", 64);
    parts.add(std::string(kProjector), "merger", [&](BlockBuilder& b) {
        b.norm_weights("norm", hidden, norms::rms, kVision);
        b.linear_weights("patch_merger.merging_layer", hidden * merge * merge, hidden, false, kVision);
    });
    add_projector(parts, kProjector, hidden * joined_features(config), plan.hidden,
                  config.flag("multimodal_projector_bias"));
    parts.add_decoder(plan);
}

void configure_internvl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_any_text(config, "text_config", "qwen2", plan);
    plan.base = "model.language_model";
    const std::int64_t hidden = add_internvl_tower(parts, config);
    // Neighbouring patches become one token: `int(1 / downsample_ratio)` of each side.
    const double ratio = config.number("downsample_ratio");
    if (!(ratio > 1.0 / 64 && ratio <= 1)) config.invalid("downsample_ratio", "expected a ratio above 1/64 and at most 1");
    const auto merge = ratio > 1.0 / 64 ? static_cast<std::int64_t>(1 / ratio) : 1;
    const std::int64_t merged = hidden * merge * merge;
    parts.add(std::string(kProjector), "projector", [&](BlockBuilder& b) {
        b.norm_weights("layer_norm", merged, norms::layer, kVision);
    });
    add_projector(parts, kProjector, merged, plan.hidden, true);
    parts.add_decoder(plan);
}

void configure_glm4v_moe(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_text_or_flat(config, "glm4v_moe_text", kGlm4vMoeText, configure_glm4_moe, plan);
    add_glm4v_vision(parts, config);
    parts.add_decoder(plan);
}

}  // namespace membudget
