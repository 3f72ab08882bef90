#include "model/image_models.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/contrastive.hpp"
#include "model/module_weights.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

/// The text decoder of BLIP.
struct BlipText {
    std::int64_t hidden = 1, width = 1, layers = 1, vocabulary = 1, positions = 1;
};

}  // namespace

namespace {

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

/// [transformers models/dinov3_vit/modeling_dinov3_vit.py]
void configure_dinov3_vit(ConfigReader& config, Parts& parts) {
    const std::int64_t hidden = config.size("hidden_size");
    const std::int64_t width = config.size("intermediate_size");
    const std::int64_t channels = config.size("num_channels", kLargestCount);
    const std::int64_t patch = config.size("patch_size", kLargestCount);
    const std::int64_t registers = config.count_or("num_register_tokens", 0);
    parts.add("", "patch embedding", [&](BlockBuilder& b) {
        b.parameter("embeddings.cls_token", {1, 1, hidden}, kVision);
        b.parameter("embeddings.mask_token", {1, 1, hidden}, kVision);
        b.parameter("embeddings.register_tokens", {1, registers, hidden}, kVision);
        convolution(b, "embeddings.patch_embeddings", hidden, channels, {patch, patch}, true);
        b.norm_weights("norm", hidden, norms::layer, kVision);
    });
    parts.add("model.layer.{}.", "vision layer", [&](BlockBuilder& b) {
        for (const std::string_view name : {"norm1", "norm2"}) b.norm_weights(name, hidden, norms::layer, kVision);
        const auto project = [&](std::string_view name, std::string_view bias) {
            b.linear_weights(join("attention", name), hidden, hidden, config.flag(bias), kVision);
        };
        project("q_proj", "query_bias");
        project("k_proj", "key_bias");
        project("v_proj", "value_bias");
        project("o_proj", "proj_bias");
        b.parameter("layer_scale1.lambda1", {hidden}, kVision);
        b.parameter("layer_scale2.lambda1", {hidden}, kVision);
        const bool bias = config.flag("mlp_bias");
        if (config.flag("use_gated_mlp"))
            gated_mlp_weights(b, "mlp", hidden, width, bias, kVision);
        else
            plain_mlp_weights(b, "mlp", "up_proj", "down_proj", hidden, width, bias, kVision);
    }, config.size("num_hidden_layers", kLargestCount));
}

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

void configure_blip(ConfigReader& config, Parts& parts) {
    ConfigReader vision_config = config.nested(
        "vision_config", "blip_vision_model",
        "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 "
        "num_channels=3 image_size=384 patch_size=16");
    ConfigReader text_config = config.nested(
        "text_config", "blip_text_model",
        "vocab_size=30524 hidden_size=768 encoder_hidden_size=768 intermediate_size=3072 "
        "num_hidden_layers=12 num_attention_heads=8 max_position_embeddings=512");
    const ContrastiveVision v = read_vision_sizes(vision_config);
    BlipText t;
    t.hidden = text_config.size("hidden_size");
    t.width = text_config.size("intermediate_size");
    t.layers = text_config.size("num_hidden_layers", kLargestCount);
    t.vocabulary = text_config.size("vocab_size", kLargestVocabulary);
    t.positions = text_config.size("max_position_embeddings");
    const std::int64_t encoder = text_config.size("encoder_hidden_size");
    parts.add("vision_model.", "patch embedding", [&](BlockBuilder& b) {
        b.parameter("embeddings.class_embedding", {1, 1, v.hidden}, kVision);
        b.parameter("embeddings.position_embedding", {1, v.patches + 1, v.hidden}, kVision);
        convolution(b, "embeddings.patch_embedding", v.hidden, v.channels, {v.patch, v.patch}, true);
        b.norm_weights("post_layernorm", v.hidden, norms::layer, kVision);
    });
    parts.add("vision_model.encoder.layers.{}.", "vision layer", [&](BlockBuilder& b) {
        b.linear_weights("self_attn.qkv", v.hidden, 3 * v.hidden, true, kVision);
        b.linear_weights("self_attn.projection", v.hidden, v.hidden, true, kVision);
        b.norm_weights("layer_norm1", v.hidden, norms::layer, kVision);
        b.linear_weights("mlp.fc1", v.hidden, v.width, true, kVision);
        b.linear_weights("mlp.fc2", v.width, v.hidden, true, kVision);
        b.norm_weights("layer_norm2", v.hidden, norms::layer, kVision);
    }, v.layers);
    parts.add("text_decoder.bert.", "text embeddings", [&](BlockBuilder& b) {
        b.parameter("embeddings.word_embeddings.weight", {t.vocabulary, t.hidden},
                    Component::embedding);
        b.parameter("embeddings.position_embeddings.weight", {t.positions, t.hidden},
                    Component::embedding);
        b.norm_weights("embeddings.LayerNorm", t.hidden, norms::layer);
    });
    parts.add("text_decoder.bert.encoder.layer.{}.", "text layer", [&](BlockBuilder& b) {
        for (const std::string_view module : {"attention", "crossattention"}) {
            const std::int64_t source = module == "attention" ? t.hidden : encoder;
            b.linear_weights(join(module, "self.query"), t.hidden, t.hidden, true,
                             Component::attention);
            b.linear_weights(join(module, "self.key"), source, t.hidden, true, Component::attention);
            b.linear_weights(join(module, "self.value"), source, t.hidden, true,
                             Component::attention);
            b.linear_weights(join(module, "output.dense"), t.hidden, t.hidden, true,
                             Component::attention);
            b.norm_weights(join(module, "output.LayerNorm"), t.hidden, norms::layer);
        }
        b.linear_weights("intermediate.dense", t.hidden, t.width, true, Component::mlp);
        b.linear_weights("output.dense", t.width, t.hidden, true, Component::mlp);
        b.norm_weights("output.LayerNorm", t.hidden, norms::layer);
    }, t.layers);
    parts.add("text_decoder.cls.predictions.", "head", [&](BlockBuilder& b) {
        b.parameter("bias", {t.vocabulary}, Component::head);
        b.linear_weights("transform.dense", t.hidden, t.hidden, true, Component::head);
        b.norm_weights("transform.LayerNorm", t.hidden, norms::layer);
        b.linear_weights("decoder", t.hidden, t.vocabulary, true, Component::head);
        tie(b, "decoder.weight", "text_decoder.bert.embeddings.word_embeddings.weight");
        tie(b, "decoder.bias", "text_decoder.cls.predictions.bias");
    });
}

}  // namespace membudget
