#include "model/encoder_parts.hpp"

#include <fmt/format.h>

namespace membudget {
namespace {

constexpr Component kAttention = Component::attention;

/// A head for masked words: dense, norm, and a decoder that shares its matrix with the embedding and
/// its bias with `bias`.
void word_head(BlockBuilder& b, std::string_view root, std::string_view dense, std::string_view norm,
               std::int64_t hidden, std::int64_t width, std::int64_t vocabulary,
               std::string_view embedding) {
    const auto name = [&](std::string_view part) { return join(root, part); };
    b.parameter(name("bias"), {vocabulary}, Component::head);
    b.linear_weights(name(dense), hidden, width, true, Component::head);
    b.norm_weights(name(norm), width, norms::layer);
    b.linear_weights(name("decoder"), width, vocabulary, true, Component::head);
    if (embedding.empty()) return;
    tie(b, name("decoder.weight"), embedding);
    tie(b, name("decoder.bias"), name("bias"));
}

}  // namespace

void configure_mpnet(ConfigReader& config, Parts& parts) {
    const std::int64_t hidden = config.size("hidden_size");
    const std::int64_t width = config.size("intermediate_size");
    const std::int64_t heads = config.size("num_attention_heads", kLargestCount);
    const std::int64_t buckets = config.size("relative_attention_num_buckets");
    const std::int64_t vocabulary = config.size("vocab_size", kLargestVocabulary);
    const std::int64_t positions = config.size("max_position_embeddings");
    const bool bare = parts.is("Model");
    const std::string base = bare ? "" : "mpnet.";
    parts.add(base, "embeddings", [&](BlockBuilder& b) {
        b.parameter("embeddings.word_embeddings.weight", {vocabulary, hidden}, Component::embedding);
        b.parameter("embeddings.position_embeddings.weight", {positions, hidden},
                    Component::embedding);
        b.norm_weights("embeddings.LayerNorm", hidden, norms::layer);
        b.parameter("encoder.relative_attention_bias.weight", {buckets, heads}, kAttention);
    });
    parts.add(base + "encoder.layer.{}.", "encoder layer", [&](BlockBuilder& b) {
        for (const std::string_view part : {"q", "k", "v", "o"})
            b.linear_weights(join("attention.attn", part), hidden, hidden, true, kAttention);
        b.norm_weights("attention.LayerNorm", hidden, norms::layer);
        b.linear_weights("intermediate.dense", hidden, width, true, Component::mlp);
        b.linear_weights("output.dense", width, hidden, true, Component::mlp);
        b.norm_weights("output.LayerNorm", hidden, norms::layer);
    }, config.size("num_hidden_layers", kLargestCount));
    parts.add("", "head", [&](BlockBuilder& b) {
        if (bare)
            b.linear_weights("pooler.dense", hidden, hidden, true, Component::head);
        else
            word_head(b, "lm_head", "dense", "layer_norm", hidden, hidden, vocabulary,
                      config.flag("tie_word_embeddings") ? "mpnet.embeddings.word_embeddings.weight"
                                                         : "");
    });
}

}  // namespace membudget
