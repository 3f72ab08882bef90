// wav2vec 2.0 (arXiv:2006.11477) and HuBERT (arXiv:2106.07447): convolutions over the wave, a convolution instead of
// positions, and the layers of BERT.

#include "model/speech.hpp"

#include <fmt/format.h>

#include "model/module_weights.hpp"

namespace membudget {
namespace {

constexpr Component kSound = Component::embedding;

/// What the two classes do otherwise.
struct Speech {
    std::string_view base;
    bool projection_norm = true;   ///< a norm before the features are projected
    bool batch_norm = false;       ///< of the convolution for positions, instead of a norm of its weight
    std::int64_t adapter = 0;      ///< width of an adapter in each layer; 0: none
};

void add_speech(ConfigReader& config, Parts& parts, const Speech& speech) {
    const std::int64_t hidden = config.size("hidden_size");
    const std::int64_t width = config.size("intermediate_size");
    const std::vector<std::int64_t> channels = config.sizes("conv_dim"), kernels = config.sizes("conv_kernel");
    if (channels.empty() || channels.size() != kernels.size() || channels.size() > 64) {
        if (config.diagnostics().empty()) config.invalid("conv_kernel", "expected as many entries as conv_dim, from 1 to 64");
        return;
    }
    const bool all_normed = config.text("feat_extract_norm") == "layer";
    const bool bias = config.flag("conv_bias");
    const std::string base = parts.is("Model") ? "" : fmt::format("{}.", speech.base);
    const bool masks = config.number("mask_time_prob") > 0 || config.number("mask_feature_prob") > 0;
    parts.add(base, "sound embedding", [&](BlockBuilder& b) {
        if (masks) b.parameter("masked_spec_embed", {hidden}, kSound);
        for (std::size_t i = 0; i < channels.size(); ++i) {
            const std::string layer = fmt::format("feature_extractor.conv_layers.{}", i);
            convolution(b, join(layer, "conv"), channels[i], i == 0 ? 1 : channels[i - 1], {kernels[i]}, bias, kSound);
            if (all_normed || i == 0) b.norm_weights(join(layer, "layer_norm"), channels[i], norms::layer);
        }
        if (speech.projection_norm) b.norm_weights("feature_projection.layer_norm", channels.back(), norms::layer);
        b.linear_weights("feature_projection.projection", channels.back(), hidden, true, kSound);
        const std::int64_t kernel = config.size("num_conv_pos_embeddings", kLargestCount);
        const std::int64_t groups = config.size("num_conv_pos_embedding_groups", kLargestCount);
        config.divides("hidden_size", hidden, "num_conv_pos_embedding_groups", groups);
        const std::string position = "encoder.pos_conv_embed.";
        b.parameter(position + "conv.bias", {hidden}, kSound);
        const std::vector<std::int64_t> filter{hidden, hidden / groups, kernel};
        if (speech.batch_norm) {
            b.parameter(position + "conv.weight", filter, kSound);
            b.norm_weights(position + "batch_norm", hidden, norms::layer);
        } else {  // size and direction apart
            b.parameter(position + "conv.parametrizations.weight.original0", {1, 1, kernel}, kSound);
            b.parameter(position + "conv.parametrizations.weight.original1", filter, kSound);
        }
        b.norm_weights("encoder.layer_norm", hidden, norms::layer);
    });
    parts.add(base + "encoder.layers.{}.", "encoder layer", [&](BlockBuilder& b) {
        AttentionWeights attention = biased_attention(hidden, Component::attention);
        attention.o = "out_proj";
        attention_weights(b, "attention", attention);
        b.norm_weights("layer_norm", hidden, norms::layer);
        plain_mlp_weights(b, "feed_forward", "intermediate_dense", "output_dense", hidden, width, true, Component::mlp);
        b.norm_weights("final_layer_norm", hidden, norms::layer);
        if (speech.adapter == 0) return;
        b.norm_weights("adapter_layer.norm", hidden, norms::layer);
        plain_mlp_weights(b, "adapter_layer", "linear_1", "linear_2", hidden, speech.adapter, true, Component::other);
    }, config.size("num_hidden_layers", kLargestCount));
    parts.add("", "head", [&](BlockBuilder& b) {
        if (parts.is("ForCTC"))
            b.linear_weights("lm_head", hidden, config.size("vocab_size", kLargestVocabulary), true, Component::head);
        if (!parts.is("ForSequenceClassification")) return;
        const std::int64_t inner = config.size("classifier_proj_size");
        b.linear_weights("projector", hidden, inner, true, Component::head);
        b.linear_weights("classifier", inner, parts.labels(), true, Component::head);
        if (config.flag("use_weighted_layer_sum"))
            b.parameter("layer_weights", {config.size("num_hidden_layers", kLargestCount) + 1}, Component::head);
    });
}

}  // namespace

void configure_wav2vec2(ConfigReader& config, Parts& parts) {
    Speech speech{"wav2vec2"};
    if (config.flag("add_adapter")) config.unsupported("add_adapter", "expected false; got true");
    // Only the layers that normalise first have adapters.
    if (config.flag("do_stable_layer_norm")) speech.adapter = config.size_or("adapter_attn_dim", 0);
    add_speech(config, parts, speech);
}

void configure_hubert(ConfigReader& config, Parts& parts) {
    Speech speech{"hubert"};
    speech.projection_norm = config.flag("feat_proj_layer_norm");
    speech.batch_norm = config.flag("conv_pos_batch_norm");
    add_speech(config, parts, speech);
}

}  // namespace membudget
