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

void configure_albert(ConfigReader& config, Parts& parts) {
    const std::int64_t hidden = config.size("hidden_size");
    const std::int64_t width = config.size("intermediate_size");
    const std::int64_t embedding = config.size("embedding_size");
    const std::int64_t vocabulary = config.size("vocab_size", kLargestVocabulary);
    const std::int64_t positions = config.size("max_position_embeddings");
    const std::int64_t types = config.size("type_vocab_size");
    const std::int64_t groups = config.size("num_hidden_groups", kLargestCount);
    const std::int64_t inner = config.size("inner_group_num", 1024);
    const bool bare = parts.is("Model");
    const std::string base = bare ? "" : "albert.";
    parts.add(base, "embeddings", [&](BlockBuilder& b) {
        b.parameter("embeddings.word_embeddings.weight", {vocabulary, embedding},
                    Component::embedding);
        b.parameter("embeddings.position_embeddings.weight", {positions, embedding},
                    Component::embedding);
        b.parameter("embeddings.token_type_embeddings.weight", {types, embedding},
                    Component::embedding);
        b.norm_weights("embeddings.LayerNorm", embedding, norms::layer);
        b.linear_weights("encoder.embedding_hidden_mapping_in", embedding, hidden, true,
                         Component::embedding);
    });
    // All layers of a group are one set of parameters, used again and again.
    parts.add(base + "encoder.albert_layer_groups.{}.", "layer group", [&](BlockBuilder& b) {
        for (std::int64_t i = 0; i < inner; ++i) {
            const auto name = [&](std::string_view part) {
                return fmt::format("albert_layers.{}.{}", i, part);
            };
            b.norm_weights(name("full_layer_layer_norm"), hidden, norms::layer);
            for (const std::string_view part : {"query", "key", "value", "dense"})
                b.linear_weights(name(join("attention", part)), hidden, hidden, true, kAttention);
            b.norm_weights(name("attention.LayerNorm"), hidden, norms::layer);
            b.linear_weights(name("ffn"), hidden, width, true, Component::mlp);
            b.linear_weights(name("ffn_output"), width, hidden, true, Component::mlp);
        }
    }, groups);
    parts.add("", "head", [&](BlockBuilder& b) {
        if (!parts.is("ForMaskedLM"))
            b.linear_weights(base + "pooler", hidden, hidden, true, Component::head);
        if (parts.is("ForMaskedLM") || parts.is("ForPreTraining"))
            word_head(b, "predictions", "dense", "LayerNorm", hidden, embedding, vocabulary,
                      config.flag("tie_word_embeddings") ? "albert.embeddings.word_embeddings.weight"
                                                         : "");
        if (parts.is("ForPreTraining"))
            b.linear_weights("sop_classifier.classifier", hidden, parts.labels(), true,
                             Component::head);
        if (parts.is("ForSequenceClassification"))
            b.linear_weights("classifier", hidden, parts.labels(), true, Component::head);
    });
}

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

void configure_deberta_v2(ConfigReader& config, Parts& parts) {
    const std::int64_t hidden = config.size("hidden_size");
    const std::int64_t embedding = config.size_or("embedding_size", hidden);
    const std::int64_t width = config.size("intermediate_size");
    const std::int64_t vocabulary = config.size("vocab_size", kLargestVocabulary);
    const std::int64_t positions = config.size("max_position_embeddings");
    const std::int64_t types = config.count_or("type_vocab_size", 0);
    const bool relative = config.flag("relative_attention");
    const bool shared_keys = config.flag("share_att_key");
    const std::int64_t kernel = config.count_or("conv_kernel_size", 0);
    const std::int64_t conv_groups = config.size("conv_groups", kLargestCount);
    // Buckets of distances in both directions; without buckets, all distances.
    const KeyTree* buckets = config.raw("position_buckets");
    const KeyTree* furthest = config.raw("max_relative_positions");
    std::int64_t reach = positions;
    for (const KeyTree* given : {furthest, buckets})
        if (given != nullptr && given->is(KeyTree::Kind::integer) && given->integer() > 0)
            reach = given->integer();
    if (reach > kLargestWidth) {
        config.invalid("position_buckets", "expected at most 16777216");
        reach = 1;
    }
    // The kinds of position terms: a list, or text such as "p2c|c2p".
    std::string terms;
    if (const KeyTree* given = config.raw("pos_att_type")) {
        if (given->is(KeyTree::Kind::array))
            for (const std::string& term : config.texts("pos_att_type")) terms += term + "|";
        else
            terms = config.text("pos_att_type");
    }
    const bool to_position = terms.find("c2p") != std::string::npos;
    const bool from_position = terms.find("p2c") != std::string::npos;
    const bool bare = parts.is("Model");
    const std::string base = bare ? "" : "deberta.";
    parts.add(base, "embeddings", [&](BlockBuilder& b) {
        const auto table = [&](std::string_view name, std::int64_t rows) {
            b.parameter(fmt::format("embeddings.{}.weight", name), {rows, embedding},
                        Component::embedding);
        };
        table("word_embeddings", vocabulary);
        if (config.flag("position_biased_input")) table("position_embeddings", positions);
        if (types > 0) table("token_type_embeddings", types);
        if (embedding != hidden)
            b.linear_weights("embeddings.embed_proj", embedding, hidden, false,
                             Component::embedding);
        b.norm_weights("embeddings.LayerNorm", hidden, norms::layer);
        if (relative)
            b.parameter("encoder.rel_embeddings.weight", {2 * reach, hidden}, kAttention);
        if (config.text("norm_rel_ebd").find("layer_norm") != std::string::npos)
            b.norm_weights("encoder.LayerNorm", hidden, norms::layer);
        if (kernel > 0) {
            convolution(b, "encoder.conv.conv", hidden, hidden / conv_groups, {kernel}, true,
                        Component::other);
            b.norm_weights("encoder.conv.LayerNorm", hidden, norms::layer);
        }
    });
    parts.add(base + "encoder.layer.{}.", "encoder layer", [&](BlockBuilder& b) {
        for (const std::string_view part : {"query_proj", "key_proj", "value_proj"})
            b.linear_weights(join("attention.self", part), hidden, hidden, true, kAttention);
        if (relative && !shared_keys && to_position)
            b.linear_weights("attention.self.pos_key_proj", hidden, hidden, true, kAttention);
        if (relative && !shared_keys && from_position)
            b.linear_weights("attention.self.pos_query_proj", hidden, hidden, true, kAttention);
        b.linear_weights("attention.output.dense", hidden, hidden, true, kAttention);
        b.norm_weights("attention.output.LayerNorm", hidden, norms::layer);
        b.linear_weights("intermediate.dense", hidden, width, true, Component::mlp);
        b.linear_weights("output.dense", width, hidden, true, Component::mlp);
        b.norm_weights("output.LayerNorm", hidden, norms::layer);
    }, config.size("num_hidden_layers", kLargestCount));
    if (bare) return;
    parts.add("", "head", [&](BlockBuilder& b) {
        if (parts.is("ForSequenceClassification")) {
            b.linear_weights("pooler.dense", hidden, hidden, true, Component::head);
            b.linear_weights("classifier", hidden, parts.labels(), true, Component::head);
        } else {
            word_head(b, "cls.predictions", "transform.dense", "transform.LayerNorm", hidden,
                      embedding, vocabulary,
                      config.flag("tie_word_embeddings") ? "deberta.embeddings.word_embeddings.weight"
                                                         : "");
        }
    });
}

}  // namespace membudget
