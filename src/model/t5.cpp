// T5 (arXiv:1910.10683), which has no biases and relative positions in the first block of each stack.

#include <algorithm>

#include "model/seq2seq.hpp"

namespace membudget {
namespace {

/// Sizes of a stack, and what `Model::shared` holds at which index.
struct T5 {
    std::int64_t hidden = 1, width = 1, inner = 1, heads = 1, buckets = 1, vocabulary = 1;
    bool gated = false;
    Act act = Act::relu;
    double dropout = 0;
    bool tied = true, scaled = true;
    bool own_biases = false;  ///< each block has its table of relative positions

    enum Shared { encoder_mask, encoder_bias, memory, decoder_mask, decoder_bias, cross_mask, cross_bias };
    std::vector<Tensor> shared;
};

int shared(BlockBuilder& b, const T5& t, T5::Shared which) {
    return b.shared(which, t.shared);
}

/// One attention of a block: its module, what it attends to, and which shared tensors it uses.
struct Attention {
    std::string_view layer, module;
    bool causal = false, cross = false;
    bool makes_bias = false;   ///< the first block computes the bias; for cross-attention it is zero
    T5::Shared mask = T5::encoder_mask, bias = T5::encoder_bias;
};

int attention(BlockBuilder& b, const T5& t, const Attention& what, int x) {
    const std::string path = join(what.layer, what.module);
    const Rows queries = b.rows(x);
    const Rows keys = what.cross ? Rows::tokens : queries;
    const auto per_sequence = [](Rows rows) {
        return rows == Rows::target_tokens ? Rows::target_positions : Rows::positions;
    };
    int out = -1;
    {
        const auto layer = b.scope();
        const int normed = b.hold(b.norm(x, join(what.layer, "layer_norm"), norms::rms_t5));
        {
            const auto function = b.scope();
            const int source = what.cross ? shared(b, t, T5::memory) : normed;
            const int q = b.hold(b.linear(normed, join(path, "q"), t.inner, false, place::attention));
            const int k = b.hold(b.linear(source, join(path, "k"), t.inner, false, place::attention));
            const int v = b.hold(b.linear(source, join(path, "v"), t.inner, false, place::attention));
            const int bias = t.own_biases ? b.hold(b.tensor(join(path, "position_bias"), 0, Rows::one))
                                          : shared(b, t, what.bias);
            if (what.makes_bias) {
                std::vector<int> weights;
                if (!what.cross)
                    weights = {b.parameter(join(path, "relative_attention_bias.weight"),
                                           {t.buckets, t.heads}, Component::attention)};
                OpAttributes& a = b.op(OpKind::position_bias, join(path, "position_bias"),
                                       place::attention, {}, {bias}, std::move(weights)).attributes;
                a.heads = t.heads;
                a.queries = per_sequence(queries);
                a.keys = per_sequence(keys);
            }
            const int context = b.tensor(path, t.inner, queries);
            OpAttributes& a = b.op(OpKind::attention, path, place::attention,
                                   {q, k, v, shared(b, t, what.mask), bias}, {context}).attributes;
            a.heads = a.kv_heads = t.heads;
            a.head_dim = a.value_dim = t.inner / t.heads;
            a.causal = what.causal;
            a.softmax_in_dtype = true;
            a.dropout = t.dropout;
            out = b.linear(context, join(path, "o"), t.hidden, false, place::attention);
        }
        out = b.dropout(out, join(what.layer, "dropout"), t.dropout, place::attention);
        out = b.add(x, out, join(what.layer, "residual"));
    }
    return out;
}

int feed_forward(BlockBuilder& b, const T5& t, std::string_view layer, int x) {
    const std::string path = join(layer, "DenseReluDense");
    int out = -1;
    const auto function = b.scope();
    {
        const auto name = b.scope();
        const int normed = b.hold(b.norm(x, join(layer, "layer_norm"), norms::rms_t5));
        const auto dense = b.scope();
        if (t.gated) {
            const int gate = b.linear(normed, join(path, "wi_0"), t.width, false, place::mlp);
            const int up = b.hold(b.linear(normed, join(path, "wi_1"), t.width, false, place::mlp));
            out = b.gated_activation(gate, up, join(path, "act"), t.act, place::mlp);
        } else {
            out = b.linear(normed, join(path, "wi"), t.width, false, place::mlp);
            out = b.activation(out, join(path, "act"), t.act, place::mlp);
        }
        out = b.dropout(out, join(path, "dropout"), t.dropout, place::mlp);
        out = b.linear(out, join(path, "wo"), t.hidden, false, place::mlp);
        b.last_op().attributes.cast_to_weight = true;
    }
    out = b.dropout(out, join(layer, "dropout"), t.dropout, place::mlp);
    return b.add(x, out, join(layer, "residual"));
}

Block block(const T5& t, bool decoder, bool first) {
    BlockBuilder b(decoder ? "decoder layer" : "encoder layer");
    int x = b.input(t.hidden, decoder ? Rows::target_tokens : Rows::tokens);
    x = attention(b, t,
                  {"layer.0", "SelfAttention", decoder, false, first || t.own_biases,
                   decoder ? T5::decoder_mask : T5::encoder_mask,
                   decoder ? T5::decoder_bias : T5::encoder_bias}, x);
    if (decoder)
        x = attention(b, t, {"layer.1", "EncDecAttention", false, true, first || t.own_biases, T5::cross_mask, T5::cross_bias},
                      x);
    x = feed_forward(b, t, decoder ? "layer.2" : "layer.1", x);
    b.set_checkpointable();
    return std::move(b).finish(x);
}

void mask(BlockBuilder& b, const T5& t, T5::Shared which, bool causal, Rows queries, Rows keys) {
    OpAttributes& a = b.op(OpKind::attention_mask, t.shared[static_cast<std::size_t>(which)].name,
                           place::attention, {}, {shared(b, t, which)}).attributes;
    a.causal = causal;
    a.heads = t.heads;
    a.queries = queries;
    a.keys = keys;
}

/// The table that all of the model shares, and the encoder's lookup in it.
Block encoder_stem(const T5& t, bool alone) {
    BlockBuilder b("embeddings");
    int x = b.hold_until_model_end(b.embedding("shared", t.vocabulary, t.hidden));
    b.last_op().name = "encoder.embed_tokens";
    if (alone) {
        b.parameter("encoder.embed_tokens.weight", {t.vocabulary, t.hidden}, Component::embedding);
        tie(b, "encoder.embed_tokens.weight", "shared.weight");
    }
    mask(b, t, T5::encoder_mask, false, Rows::positions, Rows::positions);
    if (t.dropout > 0) x = b.dropout(x, "dropout", t.dropout, place::embedding);
    return std::move(b).finish(x);
}

Block decoder_stem(const T5& t) {
    BlockBuilder b("decoder embeddings");
    // The same table as the encoder's: a parameter that is tied to its own name is no second one.
    int x = b.hold_until_model_end(b.embedding("shared", t.vocabulary, t.hidden));
    b.last_op().name = "decoder.embed_tokens";
    b.last_op().attributes.own_ids = true;
    tie(b, "shared.weight", "shared.weight");
    b.set_rows(x, Rows::target_tokens);
    mask(b, t, T5::decoder_mask, true, Rows::target_positions, Rows::target_positions);
    mask(b, t, T5::cross_mask, false, Rows::target_positions, Rows::positions);
    if (t.dropout > 0) x = b.dropout(x, "dropout", t.dropout, place::embedding);
    return std::move(b).finish(x);
}

/// Norm and dropout at the end of a stack.
int stack_end(BlockBuilder& b, const T5& t, std::string_view stack, int x) {
    x = b.norm(x, join(stack, "final_layer_norm"), norms::rms_t5);
    if (t.dropout > 0) x = b.dropout(x, join(stack, "dropout"), t.dropout, place::norm);
    return x;
}

void small_loss(BlockBuilder& b, int x) {
    const int out = b.tensor("loss", 1, Rows::one);
    b.op(OpKind::pooler_loss, "loss", place::loss, {x}, {out});
}

/// The end of the encoder: its hidden states are what the decoder attends to.
Block encoder_end(const T5& t, bool last) {
    BlockBuilder b("encoder norm");
    const int x = stack_end(b, t, last ? "encoder" : "", b.input(t.hidden));
    if (!last) b.share(x, T5::memory, t.shared[T5::memory]);
    b.end_base_model();
    if (last) small_loss(b, x);
    return std::move(b).finish(-1);
}

Block head(const T5& t, bool language_model) {
    BlockBuilder b("head");
    int x = stack_end(b, t, "decoder", b.input(t.hidden, Rows::target_tokens));
    b.end_base_model();
    if (!language_model) {
        small_loss(b, x);
        return std::move(b).finish(-1);
    }
    b.hold(x);
    if (t.scaled) x = b.hold(b.scale(x, "lm_head.scale", place::head));
    const int logits = b.hold(b.linear(x, "lm_head", t.vocabulary, false, place::head));
    if (t.tied) tie(b, "lm_head.weight", "shared.weight");
    const int loss = b.tensor("loss", 1, Rows::one);
    b.op(OpKind::masked_lm_loss, "loss", place::loss, {logits}, {loss});
    return std::move(b).finish(-1);
}

void add_stack(Parts& parts, const T5& t, bool decoder, std::int64_t layers) {
    const std::string prefix = decoder ? "decoder.block.{}." : "encoder.block.{}.";
    parts.add(prefix, block(t, decoder, true));
    parts.add(prefix, block(t, decoder, false), layers - 1, 1);
}

}  // namespace

std::vector<Tensor> passed_tensors(std::initializer_list<std::string_view> names, std::size_t memory,
                                   std::int64_t hidden) {
    std::vector<Tensor> out;
    for (const std::string_view name : names) {
        Tensor made;
        made.name = name;
        made.rows = Rows::one;
        made.held = Held::until_scope_end;  // an argument by position
        out.push_back(std::move(made));
    }
    out[memory].rows = Rows::tokens;
    out[memory].width = hidden;
    out[memory].held = Held::until_outputs_end;
    return out;
}

namespace {

void add_t5(ConfigReader& config, Parts& parts, T5 t) {
    t.hidden = config.size("d_model");
    t.width = config.size("d_ff");
    t.heads = config.size("num_heads", kLargestCount);
    t.inner = t.heads * config.size("d_kv");
    t.buckets = config.size("relative_attention_num_buckets");
    t.vocabulary = config.size("vocab_size", kLargestVocabulary);
    t.dropout = config.probability("dropout_rate");
    t.tied = config.flag("tie_word_embeddings");
    t.scaled = config.flag("scale_decoder_outputs", t.tied);
    const std::int64_t layers = config.size("num_layers", kLargestCount);
    const std::int64_t decoder_layers = config.size_or("num_decoder_layers", layers, kLargestCount);
    // Some files give only what follows from `feed_forward_proj`.
    const std::string projection = config.text("feed_forward_proj");
    t.gated = config.has("feed_forward_proj") || !config.has("is_gated_act")
                  ? projection.starts_with("gated")
                  : config.flag("is_gated_act");
    t.act = projection == "gated-gelu" ? Act::gelu_new : projection.ends_with("silu") ? Act::silu
            : projection.ends_with("gelu") ? Act::gelu : Act::relu;
    t.shared = passed_tensors({"encoder mask", "encoder position bias", "encoder hidden states", "decoder mask",
                               "decoder position bias", "cross-attention mask", "cross-attention position bias"},
                              T5::memory, t.hidden);

    const bool alone = parts.is("EncoderModel");
    parts.model().shared = t.shared;
    parts.model().inputs = {{"ids"}};
    if (!alone)
        parts.model().inputs.push_back(
            {parts.is("ForConditionalGeneration") ? "labels" : "decoder ids", Rows::target_tokens});
    parts.add("", encoder_stem(t, alone));
    add_stack(parts, t, false, layers);
    parts.add(alone ? "" : "encoder.", encoder_end(t, alone));
    ModelFacts& facts = parts.model().facts;
    facts.hidden_size = t.hidden;
    facts.layers = layers;
    facts.heads = facts.kv_heads = t.heads;
    facts.head_dim = t.inner / t.heads;
    facts.intermediate_size = t.width;
    facts.vocab_size = t.vocabulary;
    if (alone) return;
    parts.add("", decoder_stem(t));
    add_stack(parts, t, true, decoder_layers);
    parts.add("", head(t, parts.is("ForConditionalGeneration")));
}

}  // namespace

void configure_t5(ConfigReader& config, Parts& parts) { add_t5(config, parts, {}); }

void configure_umt5(ConfigReader& config, Parts& parts) {
    T5 t;
    t.own_biases = true;
    add_t5(config, parts, std::move(t));
}

}  // namespace membudget
