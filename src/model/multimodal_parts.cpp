#include "model/multimodal_parts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/contrastive.hpp"
#include "model/llama_like.hpp"
#include "model/moe.hpp"
#include "model/pixtral.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

struct TextFamily {
    std::string_view model_type;
    ConfigureDecoder configure;
};
/// Decoders that wrappers put under any vision tower.
constexpr TextFamily kTextFamilies[] = {
    {"llama", configure_llama},         {"mistral", configure_mistral},     {"qwen2", configure_qwen2},
    {"internlm2", configure_internlm2}, {"qwen3", configure_qwen3},         {"gemma2", configure_gemma2},
    {"phi3", configure_phi3},           {"qwen3_moe", configure_qwen3_moe}, {"ministral3", configure_mistral},
    {"gemma", configure_gemma},
};

/// Llama's layers without a table of positions [transformers models/pixtral/modeling_pixtral.py].
std::int64_t add_pixtral(Parts& parts, std::string_view prefix, ConfigReader config) {
    const std::int64_t hidden = config.size("hidden_size");
    const std::int64_t width = config.size("intermediate_size");
    const std::int64_t channels = config.size("num_channels", kLargestCount);
    const std::int64_t patch = config.size("patch_size", kLargestCount);
    parts.add(std::string(prefix), "patch embedding", [&](BlockBuilder& b) {
        convolution(b, "patch_conv", hidden, channels, {patch, patch}, false);
        b.norm_weights("ln_pre", hidden, norms::rms, kVision);
    });
    parts.add(fmt::format("{}transformer.layers.{{}}.", prefix), "vision layer", [&](BlockBuilder& b) {
        b.norm_weights("attention_norm", hidden, norms::rms, kVision);
        for (const std::string_view name : {"gate_proj", "up_proj"})
            b.linear_weights(join("feed_forward", name), hidden, width, false, kVision);
        b.linear_weights("feed_forward.down_proj", width, hidden, false, kVision);
        for (const std::string_view name : {"k_proj", "v_proj", "q_proj", "o_proj"})
            b.linear_weights(join("attention", name), hidden, hidden, false, kVision);
        b.norm_weights("ffn_norm", hidden, norms::rms, kVision);
    }, config.size("num_hidden_layers", kLargestCount));
    return hidden;
}

}  // namespace

DecoderPlan language_model() {
    DecoderPlan plan;
    plan.base = "model.language_model";
    return plan;
}

std::string nested_type(const ConfigReader& config, std::string_view key, std::string_view default_type) {
    const KeyTree* tree = config.raw(key);
    const KeyTree* type = tree != nullptr ? tree->find("model_type") : nullptr;
    return type != nullptr && type->is(KeyTree::Kind::string) ? type->text() : std::string(default_type);
}

void read_text(ConfigReader& text, ConfigReader& outer, ConfigureDecoder configure, DecoderPlan& plan) {
    configure(text, plan);
    if (!text.has("tie_word_embeddings") && outer.has("tie_word_embeddings"))
        plan.tied = outer.flag("tie_word_embeddings");
}

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

void read_any_text(ConfigReader& config, std::string_view key, std::string_view default_type,
                   DecoderPlan& plan, std::string_view absent) {
    const std::string name = nested_type(config, key, default_type);
    for (const TextFamily& row : kTextFamilies) {
        if (row.model_type != name) continue;
        const bool given = absent.empty() || config.raw(key) != nullptr;
        ConfigReader text = config.nested(key, name, given ? families().find(name)->keys : absent);
        read_text(text, config, row.configure, plan);
        return;
    }
    config.unsupported(key, fmt::format("expected a known decoder; got '{}'", name));
}

std::int64_t add_any_tower(ConfigReader& config, Parts& parts, std::string_view prefix, TowerDefault absent) {
    constexpr std::string_view key = "vision_config";
    const std::string name = nested_type(config, key, absent.model_type);
    const bool given = config.raw(key) != nullptr;
    const auto read = [&](std::string_view keys) { return config.nested(key, name, given ? keys : absent.keys); };
    if (name == "pixtral") return add_pixtral(parts, prefix, read(kPixtralKeys));
    if (name != "clip_vision_model" && name != "siglip_vision_model") {
        config.unsupported(key, fmt::format("expected a known vision tower; got '{}'", name),
                           "known ones: clip_vision_model, siglip_vision_model, pixtral");
        return 1;
    }
    const bool clip = name == "clip_vision_model";
    ConfigReader vision_config = read(clip ? vision_keys::clip : vision_keys::siglip);
    const ContrastiveVision vision = clip ? read_clip_vision(vision_config) : read_siglip_vision(vision_config);
    add_contrastive_vision(parts, prefix, vision);
    return vision.hidden;
}

std::optional<std::int64_t> layers_before_features(ConfigReader& config, std::int64_t layers) {
    constexpr std::string_view kKey = "vision_feature_layer";
    const KeyTree* given = config.raw(kKey);
    if (given != nullptr && given->is(KeyTree::Kind::array)) return std::nullopt;
    const double index = config.number(kKey);
    const auto all = static_cast<double>(layers);
    if (!(index >= -all - 1 && index <= all)) {
        config.invalid(kKey, fmt::format("expected a layer of the vision tower, which has {}", layers));
        return std::nullopt;
    }
    const auto before = static_cast<std::int64_t>(index < 0 ? all + 1 + index : index);
    return before > 0 ? std::optional(before) : std::nullopt;
}

std::int64_t joined_features(const ConfigReader& config) {
    const KeyTree* layers = config.raw("vision_feature_layer");
    if (layers == nullptr || !layers->is(KeyTree::Kind::array)) return 1;
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(layers->items().size()));
}

void add_projector(Parts& parts, std::string_view prefix, std::int64_t in, std::int64_t hidden, bool bias) {
    parts.add(std::string(prefix), "projector", [&](BlockBuilder& b) {
        b.linear_weights("linear_1", in, hidden, bias, kVision);
        b.linear_weights("linear_2", hidden, hidden, bias, kVision);
    });
}

}  // namespace membudget
