#include "model/seq2seq.hpp"

#include <algorithm>

namespace membudget {
namespace {

/// Sizes of T5 (arXiv:1910.10683), which has no biases and relative positions in its first block.
struct T5 {
    std::int64_t hidden = 1, width = 1, inner = 1, heads = 1, buckets = 1;
    bool gated = false;
};

void t5_attention(BlockBuilder& b, std::string_view layer, std::string_view module, const T5& t,
                  bool positions) {
    const std::string path = join(layer, module);
    for (const std::string_view name : {"q", "k", "v"})
        b.linear_weights(join(path, name), t.hidden, t.inner, false, Component::attention);
    b.linear_weights(join(path, "o"), t.inner, t.hidden, false, Component::attention);
    if (positions)
        b.parameter(join(path, "relative_attention_bias.weight"), {t.buckets, t.heads},
                    Component::attention);
    b.norm_weights(join(layer, "layer_norm"), t.hidden, norms::rms_t5);
}

void t5_block(BlockBuilder& b, const T5& t, bool decoder, bool first) {
    t5_attention(b, "layer.0", "SelfAttention", t, first);
    if (decoder) t5_attention(b, "layer.1", "EncDecAttention", t, false);
    const std::string layer = decoder ? "layer.2" : "layer.1";
    const std::string path = join(layer, "DenseReluDense");
    if (t.gated) {
        b.linear_weights(join(path, "wi_0"), t.hidden, t.width, false, Component::mlp);
        b.linear_weights(join(path, "wi_1"), t.hidden, t.width, false, Component::mlp);
    } else {
        b.linear_weights(join(path, "wi"), t.hidden, t.width, false, Component::mlp);
    }
    b.linear_weights(join(path, "wo"), t.width, t.hidden, false, Component::mlp);
    b.norm_weights(join(layer, "layer_norm"), t.hidden, norms::rms_t5);
}

void t5_stack(Parts& parts, const T5& t, bool decoder, std::int64_t layers) {
    const std::string stack = decoder ? "decoder." : "encoder.";
    const std::string name = decoder ? "decoder layer" : "encoder layer";
    parts.add(stack + "block.{}.", name,
              [&](BlockBuilder& b) { t5_block(b, t, decoder, true); });
    parts.add(stack + "block.{}.", name,
              [&](BlockBuilder& b) { t5_block(b, t, decoder, false); }, layers - 1, 1);
    parts.add(stack, "norm", [&](BlockBuilder& b) {
        b.norm_weights("final_layer_norm", t.hidden, norms::rms_t5);
    });
}

/// Sizes of BART (arXiv:1910.13461) and Whisper (arXiv:2212.04356), whose layers are the same.
struct Bart {
    std::int64_t hidden = 1, encoder_width = 1, decoder_width = 1;
    std::int64_t encoder_layers = 1, decoder_layers = 1, vocabulary = 1;
    bool key_bias = true;
};

Bart read_bart(ConfigReader& config) {
    Bart bart;
    bart.hidden = config.size("d_model");
    bart.encoder_width = config.size("encoder_ffn_dim");
    bart.decoder_width = config.size("decoder_ffn_dim");
    bart.encoder_layers = config.size("encoder_layers", kLargestCount);
    bart.decoder_layers = config.size("decoder_layers", kLargestCount);
    bart.vocabulary = config.size("vocab_size", kLargestVocabulary);
    for (const std::string_view key : {"encoder_attention_heads", "decoder_attention_heads"})
        config.divides("d_model", bart.hidden, key, config.size(key, kLargestCount));
    return bart;
}

void bart_attention(BlockBuilder& b, const std::string& module, const Bart& bart) {
    b.linear_weights(join(module, "k_proj"), bart.hidden, bart.hidden, bart.key_bias,
                     Component::attention);
    for (const std::string_view name : {"v_proj", "q_proj", "out_proj"})
        b.linear_weights(join(module, name), bart.hidden, bart.hidden, true, Component::attention);
    b.norm_weights(module + "_layer_norm", bart.hidden, norms::layer);
}

void bart_layer(BlockBuilder& b, const Bart& bart, bool decoder) {
    const std::int64_t width = decoder ? bart.decoder_width : bart.encoder_width;
    bart_attention(b, "self_attn", bart);
    if (decoder) bart_attention(b, "encoder_attn", bart);
    b.linear_weights("fc1", bart.hidden, width, true, Component::mlp);
    b.linear_weights("fc2", width, bart.hidden, true, Component::mlp);
    b.norm_weights("final_layer_norm", bart.hidden, norms::layer);
}

void bart_layers(Parts& parts, const std::string& base, const Bart& bart, bool decoder) {
    parts.add(base + (decoder ? "decoder" : "encoder") + ".layers.{}.",
              decoder ? "decoder layer" : "encoder layer",
              [&](BlockBuilder& b) { bart_layer(b, bart, decoder); },
              decoder ? bart.decoder_layers : bart.encoder_layers);
}

/// BART, and mBART with one more norm at the end of each stack.
void add_bart(ConfigReader& config, Parts& parts, bool final_norm) {
    constexpr std::int64_t kPositionOffset = 2;
    const Bart bart = read_bart(config);
    const std::int64_t positions = config.size("max_position_embeddings") + kPositionOffset;
    const bool tied = config.flag("tie_word_embeddings");
    const bool head = parts.is("ForConditionalGeneration");
    const std::string base = head ? "model." : "";
    parts.add(base, "embeddings", [&](BlockBuilder& b) {
        b.parameter("shared.weight", {bart.vocabulary, bart.hidden}, Component::embedding);
    });
    for (const bool decoder : {false, true}) {
        const std::string stack = base + (decoder ? "decoder." : "encoder.");
        parts.add(stack, "embeddings", [&](BlockBuilder& b) {
            b.parameter("embed_tokens.weight", {bart.vocabulary, bart.hidden}, Component::embedding);
            if (tied) tie(b, "embed_tokens.weight", base + "shared.weight");
            b.parameter("embed_positions.weight", {positions, bart.hidden}, Component::embedding);
            b.norm_weights("layernorm_embedding", bart.hidden, norms::layer);
            if (final_norm) b.norm_weights("layer_norm", bart.hidden, norms::layer);
        });
        bart_layers(parts, base, bart, decoder);
    }
    if (!head) return;
    parts.add("", "head", [&](BlockBuilder& b) {
        b.parameter("lm_head.weight", {bart.vocabulary, bart.hidden}, Component::head);
        if (tied) tie(b, "lm_head.weight", "model.shared.weight");
    });
}

}  // namespace

void configure_t5(ConfigReader& config, Parts& parts) {
    T5 t;
    t.hidden = config.size("d_model");
    t.width = config.size("d_ff");
    t.heads = config.size("num_heads", kLargestCount);
    t.inner = t.heads * config.size("d_kv");
    t.buckets = config.size("relative_attention_num_buckets");
    const std::int64_t vocabulary = config.size("vocab_size", kLargestVocabulary);
    const std::int64_t layers = config.size("num_layers", kLargestCount);
    const std::int64_t decoder_layers = config.size_or("num_decoder_layers", layers, kLargestCount);
    // Some files give only what follows from `feed_forward_proj`.
    t.gated = config.has("feed_forward_proj") || !config.has("is_gated_act")
                  ? config.text("feed_forward_proj").starts_with("gated")
                  : config.flag("is_gated_act");
    parts.add("", "embeddings", [&](BlockBuilder& b) {
        b.parameter("shared.weight", {vocabulary, t.hidden}, Component::embedding);
        if (parts.is("EncoderModel")) {
            b.parameter("encoder.embed_tokens.weight", {vocabulary, t.hidden}, Component::embedding);
            tie(b, "encoder.embed_tokens.weight", "shared.weight");
        }
    });
    t5_stack(parts, t, false, layers);
    if (parts.is("EncoderModel")) return;
    t5_stack(parts, t, true, decoder_layers);
    if (!parts.is("ForConditionalGeneration")) return;
    parts.add("", "head", [&](BlockBuilder& b) {
        b.parameter("lm_head.weight", {vocabulary, t.hidden}, Component::head);
        if (config.flag("tie_word_embeddings")) tie(b, "lm_head.weight", "shared.weight");
    });
}

void configure_bart(ConfigReader& config, Parts& parts) { add_bart(config, parts, false); }
void configure_mbart(ConfigReader& config, Parts& parts) { add_bart(config, parts, true); }

void configure_whisper(ConfigReader& config, Parts& parts) {
    constexpr std::int64_t kKernel = 3;
    Bart whisper = read_bart(config);
    whisper.key_bias = false;
    const std::int64_t hidden = whisper.hidden;
    const std::int64_t bins = config.size("num_mel_bins");
    const std::int64_t source = config.size("max_source_positions");
    const std::int64_t target = config.size("max_target_positions");
    parts.add("model.encoder.", "audio embedding", [&](BlockBuilder& b) {
        convolution(b, "conv1", hidden, bins, {kKernel}, true, Component::embedding);
        convolution(b, "conv2", hidden, hidden, {kKernel}, true, Component::embedding);
        b.parameter("embed_positions.weight", {source, hidden}, Component::embedding);
        // Sinusoids: a parameter that the class freezes.
        b.parameter_named("embed_positions.weight").trainable = false;
    });
    bart_layers(parts, "model.", whisper, false);
    parts.add("model.", "embeddings", [&](BlockBuilder& b) {
        b.norm_weights("encoder.layer_norm", hidden, norms::layer);
        b.parameter("decoder.embed_tokens.weight", {whisper.vocabulary, hidden},
                    Component::embedding);
        b.parameter("decoder.embed_positions.weight", {target, hidden}, Component::embedding);
    });
    bart_layers(parts, "model.", whisper, true);
    parts.add("", "head", [&](BlockBuilder& b) {
        b.norm_weights("model.decoder.layer_norm", hidden, norms::layer);
        b.parameter("proj_out.weight", {whisper.vocabulary, hidden}, Component::head);
        if (config.flag("tie_word_embeddings"))
            tie(b, "proj_out.weight", "model.decoder.embed_tokens.weight");
    });
}

}  // namespace membudget
