#include "model/multimodal.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/hybrid.hpp"
#include "model/llama_like.hpp"
#include "model/moe.hpp"
#include "model/vision.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

/// Keys of configuration classes that exist only nested in others.
constexpr std::string_view kQwenVlText =
    "vocab_size=152064 hidden_size=8192 intermediate_size=29568 num_hidden_layers=80 "
    "num_attention_heads=64 num_key_value_heads=8 head_dim hidden_act=silu "
    "tie_word_embeddings=false use_sliding_window=false sliding_window=4096 max_window_layers=80 "
    "layer_types attention_dropout=0.0";
constexpr std::string_view kQwen3VlText =
    "vocab_size=151936 hidden_size=4096 intermediate_size=22016 num_hidden_layers=32 "
    "num_attention_heads=32 num_key_value_heads=32 head_dim=128 hidden_act=silu "
    "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 use_sliding_window=false "
    "sliding_window max_window_layers layer_types";
constexpr std::string_view kQwen3VlMoeText =
    "vocab_size=151936 hidden_size=2048 intermediate_size=5632 num_hidden_layers=24 "
    "num_attention_heads=16 num_key_value_heads=16 head_dim hidden_act=silu "
    "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 decoder_sparse_step=1 "
    "moe_intermediate_size=1408 num_experts_per_tok=4 num_experts|num_local_experts=60 "
    "mlp_only_layers";
constexpr std::string_view kGlm4vText =
    "vocab_size=151552 hidden_size=4096 intermediate_size=13696 num_hidden_layers=40 "
    "num_attention_heads=32 num_key_value_heads=2 head_dim hidden_act=silu "
    "tie_word_embeddings=false attention_dropout=0.0 partial_rotary_factor rope_parameters";

/// Configures the decoder of a nested config. Where that says nothing about tied embeddings, the
/// outer config decides.
void read_text(ConfigReader& text, ConfigReader& outer, ConfigureDecoder configure,
               DecoderPlan& plan) {
    configure(text, plan);
    if (!text.has("tie_word_embeddings") && outer.has("tie_word_embeddings"))
        plan.tied = outer.flag("tie_word_embeddings");
}

/// The text config: nested, or flat in the outer one as older files have it.
void read_text_or_flat(ConfigReader& config, std::string_view class_name, std::string_view keys,
                       ConfigureDecoder configure, DecoderPlan& plan) {
    if (config.raw("text_config") != nullptr) {
        ConfigReader text = config.nested("text_config", class_name, keys);
        read_text(text, config, configure, plan);
        return;
    }
    ConfigReader flat = config.as(class_name, keys);
    configure(flat, plan);
}

/// A decoder under `model.language_model` with the head of the whole model.
DecoderPlan language_model() {
    DecoderPlan plan;
    plan.base = "model.language_model";
    return plan;
}

struct TextFamily {
    std::string_view model_type;
    ConfigureDecoder configure;
};
/// Decoders that wrappers put under any vision tower.
constexpr TextFamily kTextFamilies[] = {
    {"llama", configure_llama},         {"mistral", configure_mistral}, {"qwen2", configure_qwen2},
    {"internlm2", configure_internlm2}, {"qwen3", configure_qwen3},     {"gemma2", configure_gemma2},
    {"phi3", configure_phi3},
};

/// Reads the decoder whose `model_type` the nested config names.
void read_any_text(ConfigReader& config, std::string_view key, std::string_view default_type,
                   DecoderPlan& plan) {
    const KeyTree* tree = config.raw(key);
    const KeyTree* type = tree != nullptr ? tree->find("model_type") : nullptr;
    const std::string name =
        type != nullptr && type->is(KeyTree::Kind::string) ? type->text() : std::string(default_type);
    for (const TextFamily& row : kTextFamilies) {
        if (row.model_type != name) continue;
        ConfigReader text = config.nested(key, name, families().find(name)->keys);
        read_text(text, config, row.configure, plan);
        return;
    }
    config.unsupported(key, fmt::format("expected a known decoder; got '{}'", name));
}

}  // namespace

void configure_gemma3_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text =
        config.nested("text_config", "gemma3_text", families().find("gemma3_text")->keys);
    read_text(text, config, configure_gemma3, plan);
    ConfigReader vision_config = config.nested("vision_config", "siglip_vision_model",
                                               vision_keys::siglip);
    const ContrastiveVision vision = read_siglip_vision(vision_config);
    add_contrastive_vision(parts, "model.vision_tower.", vision);
    add_siglip_head(parts, "model.vision_tower.head.", vision, kVision);
    parts.add("model.multi_modal_projector.", "projector", [&](BlockBuilder& b) {
        b.parameter("mm_input_projection_weight", {vision.hidden, plan.hidden}, kVision);
        b.norm_weights("mm_soft_emb_norm", vision.hidden, norms::rms_one_plus, kVision);
    });
    parts.add_decoder(plan);
}

void configure_qwen2_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_text_or_flat(config, "qwen2_vl_text", kQwenVlText, configure_qwen2, plan);
    add_qwen2_vision(parts, config);
    parts.add_decoder(plan);
}

void configure_qwen2_5_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_text_or_flat(config, "qwen2_5_vl_text", kQwenVlText, configure_qwen2, plan);
    add_qwen2_5_vision(parts, config);
    parts.add_decoder(plan);
}

void configure_qwen3_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text = config.nested("text_config", "qwen3_vl_text", kQwen3VlText);
    read_text(text, config, configure_qwen3, plan);
    add_qwen3_vision(parts, config, true);
    parts.add_decoder(plan);
}

void configure_qwen3_vl_moe(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text = config.nested("text_config", "qwen3_vl_moe_text", kQwen3VlMoeText);
    read_text(text, config, configure_qwen3_moe, plan);
    add_qwen3_vision(parts, config, true);
    parts.add_decoder(plan);
}

void configure_qwen3_5_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text =
        config.nested("text_config", "qwen3_5_text", families().find("qwen3_5_text")->keys);
    read_text(text, config, configure_qwen3_5, plan);
    add_qwen3_vision(parts, config, false);
    parts.add_decoder(plan);
}

void configure_qwen3_5_moe_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text =
        config.nested("text_config", "qwen3_5_moe_text", families().find("qwen3_5_moe_text")->keys);
    read_text(text, config, configure_qwen3_5_moe, plan);
    add_qwen3_vision(parts, config, false);
    parts.add_decoder(plan);
}

namespace {

/// The decoder of GLM-4.1V: that of GLM-4 with biases of q, k and v always.
void configure_glm4v_text(ConfigReader& config, DecoderPlan& plan) {
    configure_glm4(config, plan);
    plan.layer().attention.bias = true;
}

}  // namespace

void configure_glm4v(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_text_or_flat(config, "glm4v_text", kGlm4vText, configure_glm4v_text, plan);
    add_glm4v_vision(parts, config);
    parts.add_decoder(plan);
}

void configure_llama4_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    plan.base = "language_model.model";
    plan.head = "language_model.lm_head";
    ConfigReader text =
        config.nested("text_config", "llama4_text", families().find("llama4_text")->keys);
    configure_llama4(text, plan);
    add_llama4_vision(parts, config, plan.hidden);
    parts.add_decoder(plan);
}

void configure_internvl_chat(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_any_text(config, "llm_config", "internlm2", plan);
    const bool internlm = plan.head == "output";
    plan.base = "language_model.model";
    plan.head = internlm ? "language_model.output" : "language_model.lm_head";
    add_internvit(parts, config, plan.hidden);
    parts.add_decoder(plan);
}

void configure_llava(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_any_text(config, "text_config", "llama", plan);
    plan.base = "model.language_model";
    ConfigReader vision_config =
        config.nested("vision_config", "clip_vision_model", vision_keys::clip_in_llava);
    const ContrastiveVision vision = read_clip_vision(vision_config);
    add_contrastive_vision(parts, "model.vision_tower.", vision);
    const bool bias = config.flag("multimodal_projector_bias");
    parts.add("model.multi_modal_projector.", "projector", [&](BlockBuilder& b) {
        b.linear_weights("linear_1", vision.hidden, plan.hidden, bias, kVision);
        b.linear_weights("linear_2", plan.hidden, plan.hidden, bias, kVision);
    });
    parts.add_decoder(plan);
}

}  // namespace membudget
