/// More models of a vision tower and a decoder.

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "model/contrastive.hpp"
#include "model/internvl.hpp"
#include "model/moe.hpp"
#include "model/multimodal.hpp"
#include "model/multimodal_parts.hpp"
#include "model/pixtral.hpp"
#include "model/qwen_vision.hpp"
#include "model/vision.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::string_view kTower = "model.vision_tower";
constexpr std::string_view kProjector = "model.multi_modal_projector";
constexpr std::string_view kTowerPrefix = "model.vision_tower.";
constexpr std::string_view kProjectorPrefix = "model.multi_modal_projector.";

constexpr std::string_view kGlm4vMoeText =
    "vocab_size=151424 hidden_size=4096 intermediate_size=10944 num_hidden_layers=46 "
    "num_attention_heads=96 num_key_value_heads=8 head_dim hidden_act=silu tie_word_embeddings=false "
    "partial_rotary_factor rope_parameters attention_bias=true attention_dropout=0.0 "
    "moe_intermediate_size=1408 num_experts_per_tok=8 n_shared_experts=1 "
    "n_routed_experts|num_local_experts=128 first_k_dense_replace=1 norm_topk_prob=true";

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
               "num_channels=3 image_size=1540 patch_size=14 hidden_act=gelu attention_dropout=0.0"};

/// The last norm of a SigLIP tower and a linear module
/// [transformers models/paligemma/modeling_paligemma.py PaliGemmaModel.get_image_features].
Block paligemma_projector(const ContrastiveVision& v, std::int64_t hidden, std::vector<Tensor>& shared, int features) {
    BlockBuilder b("projector");
    const int states = declare_tensor(shared, "image hidden states", v.hidden, Rows::patches);
    shared.back().held = Held::until_outputs_end;
    const std::string norm = join(kTower, "post_layernorm");
    b.norm_weights(norm, v.hidden, norms::layer, kVision);
    int y = b.norm(b.input(v.hidden, Rows::patches), norm, norms::layer);
    b.share(y, states, shared);
    const std::string head = join(kTower, "head");
    if (v.head) add_siglip_pool(b, v, head, y);
    b.end_base_model();
    y = b.linear(y, join(kProjector, "linear"), hidden, true, in_vision(place::embedding));
    b.share(y, features, shared);
    Block block = std::move(b).finish(-1);
    for (Op& op : block.ops)  // the projector's result takes the place of the pooled one
        if (op.name.starts_with(head)) op.reader = Reader::nobody;
    return block;
}

void plan_paligemma_tower(DecoderPlan& plan, const ContrastiveVision& v, std::int64_t projected) {
    plan.image_tokens = v.patches;
    plan.image_blocks = true;
    if (projected != plan.hidden) plan.step_unsupported = "projection_dim is not the decoder's hidden_size";
    plan.tower = [v, projected](Model& model, const TowerFeatures& features) {
        const std::string root = std::string(kTower) + ".";
        add_section(model, root, contrastive_vision_stem(v), 1);
        add_section(model, root + "encoder.layers.{}.", contrastive_vision_layer(v), v.layers);
        add_section(model, "", paligemma_projector(v, projected, model.shared, features.images), 1);
        model.image = v.shape();
        model.image.tokens = v.patches;
    };
}

}  // namespace

void add_llava_any_tower(ConfigReader& config, Parts& parts, DecoderPlan& plan, bool newline) {
    const std::int64_t hidden =
        add_any_tower(config, parts, kTowerPrefix, {"clip_vision_model", vision_keys::clip_in_llava});
    if (newline)
        parts.add("model.", "newline", [&](BlockBuilder& b) { b.parameter("image_newline", {plan.hidden}, kVision); });
    add_projector(parts, kProjectorPrefix, hidden * joined_features(config), plan.hidden,
                  config.flag("multimodal_projector_bias"));
    plan.base = "model.language_model";
    parts.add_decoder(plan);
    parts.model().step_unsupported = kCountedOnly;
}

void configure_paligemma(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_any_text(config, "text_config", "gemma", plan, kPaligemmaText);
    plan.base = "model.language_model";
    plan.tied = config.flag("tie_word_embeddings");
    if (nested_type(config, "vision_config", "siglip_vision_model") == "siglip_vision_model") {
        ConfigReader vision =
            config.nested("vision_config", "siglip_vision_model",
                          config.raw("vision_config") != nullptr ? vision_keys::siglip : kPaligemmaTower.keys);
        plan_paligemma_tower(plan, read_siglip_vision(vision), config.size("projection_dim"));
        return parts.add_decoder(plan);
    }
    const std::int64_t hidden = add_any_tower(config, parts, kTowerPrefix, kPaligemmaTower);
    parts.add(std::string(kProjectorPrefix), "projector", [&](BlockBuilder& b) {
        b.linear_weights("linear", hidden, config.size("projection_dim"), true, kVision);
    });
    parts.add_decoder(plan);
    parts.model().step_unsupported = kCountedOnly;
}

void configure_mistral3(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_any_text(config, "text_config", "mistral", plan, kMistral3Text);
    plan.base = "model.language_model";
    const std::int64_t merge = config.size("spatial_merge_size", 64);
    if (nested_type(config, "vision_config", "pixtral") == "pixtral" && joined_features(config) == 1) {
        const bool given = config.raw("vision_config") != nullptr;
        Pixtral vision =
            read_pixtral(config.nested("vision_config", "pixtral", given ? kPixtralKeys : kMistral3Tower.keys));
        const std::optional<std::int64_t> chosen = layers_before_features(config, vision.layers);
        vision.chosen = chosen.value_or(vision.layers);
        if (!chosen) plan.step_unsupported = "features of these layers of the vision tower are not modelled";
        plan_pixtral_tower(plan, vision, {merge, config.flag("multimodal_projector_bias"),
                                          config.activation("projector_hidden_act")});
        return parts.add_decoder(plan);
    }
    const std::int64_t hidden = add_any_tower(config, parts, kTowerPrefix, kMistral3Tower);
    parts.add(std::string(kProjectorPrefix), "merger", [&](BlockBuilder& b) {
        b.norm_weights("norm", hidden, norms::rms, kVision);
        b.linear_weights("patch_merger.merging_layer", hidden * merge * merge, hidden, false, kVision);
    });
    add_projector(parts, kProjectorPrefix, hidden * joined_features(config), plan.hidden,
                  config.flag("multimodal_projector_bias"));
    parts.add_decoder(plan);
}

void configure_internvl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_any_text(config, "text_config", "qwen2", plan);
    plan.base = "model.language_model";
    plan_internvl_tower(config, plan);
    parts.add_decoder(plan);
}

void configure_glm4v_moe(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_text_or_flat(config, "glm4v_moe_text", kGlm4vMoeText, configure_glm4_moe, plan);
    plan_qwen_tower(plan, read_glm4v_vision(config));
    parts.add_decoder(plan);
}

}  // namespace membudget
