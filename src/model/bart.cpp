// BART (arXiv:1910.13461), mBART, Whisper (arXiv:2212.04356) and the translators and summarisers of their
// shape, whose layers are the same but for where the norms stand.

#include <algorithm>

#include <fmt/format.h>

#include "model/seq2seq.hpp"

namespace membudget {
namespace {

struct Bart {
    std::int64_t hidden = 1, encoder_width = 1, decoder_width = 1;
    std::int64_t encoder_heads = 1, decoder_heads = 1;
    std::int64_t encoder_layers = 1, decoder_layers = 1, vocabulary = 1;
    double dropout = 0, attention_dropout = 0, activation_dropout = 0;
    Act act = Act::gelu;
    bool pre_norm = false;
    bool whisper = false;  ///< keys without bias; heads are laid out before attention
    /// Rows of the tables of positions; 0: a buffer holds them.
    std::int64_t positions = 0;
    bool frozen_positions = false;  ///< sinusoids, in a parameter that the class freezes
    bool embedding_norm = true;
    bool shared_words = true;       ///< a table of the whole model, beside those of the stacks
    bool buffered_bias = true;      ///< the head adds a buffer
    std::int64_t decoder_vocabulary = 1;

    enum Shared { encoder_mask, memory, decoder_mask, cross_mask };
    std::vector<Tensor> shared;
};

int shared(BlockBuilder& b, const Bart& bart, Bart::Shared which) {
    return b.shared(which, bart.shared);
}

Bart read_bart(ConfigReader& config) {
    Bart bart;
    bart.hidden = config.size("d_model");
    bart.encoder_width = config.size("encoder_ffn_dim");
    bart.decoder_width = config.size("decoder_ffn_dim");
    bart.encoder_layers = config.size("encoder_layers", kLargestCount);
    bart.decoder_layers = config.size("decoder_layers", kLargestCount);
    bart.vocabulary = bart.decoder_vocabulary = config.size("vocab_size", kLargestVocabulary);
    bart.encoder_heads = config.size("encoder_attention_heads", kLargestCount);
    bart.decoder_heads = config.size("decoder_attention_heads", kLargestCount);
    config.divides("d_model", bart.hidden, "encoder_attention_heads", bart.encoder_heads);
    config.divides("d_model", bart.hidden, "decoder_attention_heads", bart.decoder_heads);
    bart.dropout = config.probability("dropout");
    bart.attention_dropout = config.probability("attention_dropout");
    bart.activation_dropout = config.probability("activation_dropout");
    bart.act = config.activation("activation_function");
    for (const std::string_view key : {"encoder_layerdrop", "decoder_layerdrop"}) note_layerdrop(config, key);
    bart.shared = passed_tensors({"encoder mask", "encoder hidden states", "decoder mask", "cross-attention mask"},
                                 Bart::memory, bart.hidden);
    bart.shared[Bart::cross_mask].held = Tensor().held;  // passed by name
    return bart;
}

void set_facts(ModelFacts& facts, const Bart& bart, std::int64_t positions) {
    facts.hidden_size = bart.hidden;
    facts.layers = bart.encoder_layers;
    facts.heads = facts.kv_heads = bart.encoder_heads;
    facts.head_dim = bart.hidden / bart.encoder_heads;
    facts.intermediate_size = bart.encoder_width;
    facts.vocab_size = bart.vocabulary;
    facts.max_positions = positions;
}

/// One attention of a layer: what it attends to, and under which mask.
struct Attention {
    std::string module;
    bool decoder = false, cross = false;
    Bart::Shared mask = Bart::encoder_mask;
};

/// Projections, scores and the output projection, without norm and residual.
int attend(BlockBuilder& b, const Bart& bart, const Attention& what, int x) {
    const std::int64_t heads = what.decoder ? bart.decoder_heads : bart.encoder_heads;
    const auto function = b.scope();
    const int source = what.cross ? shared(b, bart, Bart::memory) : x;
    const auto project = [&](int from, std::string_view name, bool bias) {
        const std::string path = join(what.module, name);
        int y = b.linear(from, path, bart.hidden, bias, place::attention);
        if (!bart.whisper) return b.hold(y);
        if (name == "q_proj") y = b.scale(y, path + ".scale", place::attention);
        const int laid_out = b.tensor(path + ".heads", bart.hidden, b.rows(y));
        b.op(OpKind::transpose_heads, path + ".heads", place::attention, {y}, {laid_out}).attributes.heads = heads;
        return b.hold(laid_out);
    };
    const int q = project(x, "q_proj", true);
    const int k = project(source, "k_proj", !bart.whisper);
    const int v = project(source, "v_proj", true);
    const int context = b.tensor(what.module, bart.hidden, b.rows(x));
    OpAttributes& a = b.op(OpKind::attention, what.module, place::attention,
                           {q, k, v, shared(b, bart, what.mask)}, {context}).attributes;
    a.heads = a.kv_heads = heads;
    a.head_dim = a.value_dim = bart.hidden / heads;
    a.causal = what.decoder && !what.cross;
    a.softmax_in_dtype = true;
    a.dropout = bart.attention_dropout;
    a.transposed = a.head_major = bart.whisper;
    return b.linear(context, join(what.module, "out_proj"), bart.hidden, true, place::attention);
}

/// `branch` with its norm before or behind, dropout and residual. The branch asks for its input.
template <class Branch>
int sublayer(BlockBuilder& b, const Bart& bart, int x, const std::string& norm, Place place, Branch branch) {
    const auto name = b.scope();
    int y = branch([&] { return bart.pre_norm ? b.norm(x, norm, norms::layer) : x; });
    y = b.dropout(y, join(norm, "dropout"), bart.dropout, place);
    y = b.add(x, y, join(norm, "residual"));
    return bart.pre_norm ? y : b.norm(y, norm, norms::layer);
}

Block layer(const Bart& bart, bool decoder) {
    BlockBuilder b(decoder ? "decoder layer" : "encoder layer");
    int x = b.input(bart.hidden, decoder ? Rows::target_tokens : Rows::tokens);
    const auto attention = [&](const std::string& module, bool cross, Bart::Shared mask) {
        x = sublayer(b, bart, x, module + "_layer_norm", place::attention, [&](auto input) {
            return attend(b, bart, {module, decoder, cross, mask}, input());
        });
    };
    attention("self_attn", false, decoder ? Bart::decoder_mask : Bart::encoder_mask);
    if (decoder) attention("encoder_attn", true, Bart::cross_mask);
    b.hold(x);
    x = sublayer(b, bart, x, "final_layer_norm", place::mlp, [&](auto input) {
        int y = -1;
        {
            const auto name = b.scope();  // `hidden_states` is the norm's output until it is the activation's
            y = b.hold(input());
            y = b.linear(y, "fc1", decoder ? bart.decoder_width : bart.encoder_width, true, place::mlp);
            y = b.activation(y, "activation_fn", bart.act, place::mlp);
        }
        y = b.dropout(y, "activation_dropout", bart.activation_dropout, place::mlp);
        return b.linear(y, "fc2", bart.hidden, true, place::mlp);
    });
    b.set_checkpointable();
    return std::move(b).finish(x);
}

void mask(BlockBuilder& b, const Bart& bart, Bart::Shared which, bool causal, Rows queries, Rows keys) {
    OpAttributes& a = b.op(OpKind::attention_mask, bart.shared[static_cast<std::size_t>(which)].name,
                           place::attention, {}, {shared(b, bart, which)}).attributes;
    a.causal = causal;
    a.heads = bart.encoder_heads;
    a.queries = queries;
    a.keys = keys;
}

void decoder_masks(BlockBuilder& b, const Bart& bart) {
    mask(b, bart, Bart::decoder_mask, true, Rows::target_positions, Rows::target_positions);
    mask(b, bart, Bart::cross_mask, false, Rows::target_positions, Rows::positions);
}

/// Words and positions of a stack. The word table belongs to the whole model; the encoder's part names it.
Block bart_stem(const Bart& bart, std::string_view base, bool decoder, bool tied) {
    BlockBuilder b(decoder ? "decoder embeddings" : "embeddings");
    const std::string stack = decoder ? "decoder" : "encoder";
    const Rows rows = decoder ? Rows::target_tokens : Rows::tokens;
    const std::string shared_words = "shared.weight";
    if (!decoder && bart.shared_words) b.parameter(shared_words, {bart.vocabulary, bart.hidden}, Component::embedding);
    int x = b.embedding(join(stack, "embed_tokens"), decoder ? bart.decoder_vocabulary : bart.vocabulary, bart.hidden);
    b.last_op().attributes.own_ids = decoder;
    b.set_rows(x, rows);
    if (tied) tie(b, join(stack, "embed_tokens.weight"), std::string(base) + shared_words);
    if (tied && !decoder) b.last_op().parameters = {0};  // ops refer to the one that has storage
    x = b.hold_until_model_end(b.scale(x, join(stack, "embed_tokens.scale"), place::embedding));
    if (decoder) decoder_masks(b, bart);
    if (bart.positions > 0) {
        const std::string table = join(stack, "embed_positions");
        const int placed = b.hold_until_model_end(
            b.embedding(table, bart.positions, bart.hidden, OpKind::position_embedding));
        b.last_op().attributes.own_ids = true;
        b.set_rows(placed, decoder ? Rows::target_positions : Rows::tokens);
        x = b.add(x, placed, join(stack, "embed_sum"), place::embedding);
        b.parameter_named(table + ".weight").trainable = !bart.frozen_positions;
    }
    if (bart.positions == 0) {  // looked up in a buffer
        const int placed = b.hold_until_model_end(b.tensor(join(stack, "embed_positions"), bart.hidden, rows));
        b.op(OpKind::position_embedding, join(stack, "embed_positions"), place::embedding, {}, {placed});
        x = b.add(x, placed, join(stack, "embed_sum"), place::embedding);
    }
    if (bart.embedding_norm) x = b.norm(x, join(stack, "layernorm_embedding"), norms::layer, place::embedding);
    x = b.dropout(x, join(stack, "dropout"), bart.dropout, place::embedding);
    if (!decoder) mask(b, bart, Bart::encoder_mask, false, Rows::positions, Rows::positions);
    return std::move(b).finish(x);
}

/// The end of the encoder: its hidden states, normalised or as they are, are what the decoder attends to.
Block encoder_end(const Bart& bart) {
    BlockBuilder b("encoder end");
    int x = b.input(bart.hidden);
    if (bart.pre_norm) {
        x = b.norm(x, "layer_norm", norms::layer);
    } else {
        const int same = b.tensor("hidden states", bart.hidden);
        b.op(OpKind::split, "hidden states", place::residual, {x}, {same}).attributes.same = true;
        x = same;
    }
    b.share(x, Bart::memory, bart.shared);
    b.end_base_model();
    return std::move(b).finish(-1);
}

/// The last norm of the decoder, if it has one, and the words; without words a loss of few numbers.
Block head(const Bart& bart, std::string_view norm, std::string_view words, std::string_view tied_to) {
    BlockBuilder b("head");
    int x = b.input(bart.hidden, Rows::target_tokens);
    if (!norm.empty()) x = b.norm(x, norm, norms::layer);
    b.end_base_model();
    const int loss = b.tensor("loss", 1, Rows::one);
    if (words.empty()) {
        b.op(OpKind::pooler_loss, "loss", place::loss, {x}, {loss});
        return std::move(b).finish(-1);
    }
    x = b.linear(b.hold(x), words, bart.decoder_vocabulary, false, place::head);
    if (!tied_to.empty()) tie(b, join(words, "weight"), tied_to);
    if (bart.buffered_bias) {
        const int sum = b.tensor("final_logits_bias", bart.decoder_vocabulary, Rows::target_tokens);
        b.op(OpKind::add, "final_logits_bias", place::head, {x}, {sum});  // a buffer, not a parameter
        x = sum;
    }
    b.hold(x);
    b.op(OpKind::masked_lm_loss, "loss", place::loss, {x}, {loss});
    return std::move(b).finish(-1);
}

/// Both stacks and the head. With norms before the sublayers each stack has one more at its end.
void add_bart(ConfigReader& config, Parts& parts, const Bart& bart, std::string_view head_class) {
    const bool tied = config.flag("tie_word_embeddings") && bart.shared_words;
    const bool language_model = parts.is(head_class);
    const std::string base = language_model ? "model." : "";
    parts.model().shared = bart.shared;
    parts.model().inputs = {{"ids"}, {language_model ? "labels" : "decoder ids", Rows::target_tokens}};
    set_facts(parts.model().facts, bart, config.size("max_position_embeddings"));
    parts.add(base, bart_stem(bart, base, false, tied));
    parts.add(base + "encoder.layers.{}.", layer(bart, false), bart.encoder_layers);
    parts.add(base + "encoder.", encoder_end(bart));
    parts.add(base, bart_stem(bart, base, true, tied));
    parts.add(base + "decoder.layers.{}.", layer(bart, true), bart.decoder_layers);
    std::string words;
    if (tied) words = "model.shared.weight";
    else if (config.flag("tie_word_embeddings") && !bart.shared_words) words = "model.decoder.embed_tokens.weight";
    parts.add("", head(bart, bart.pre_norm ? base + "decoder.layer_norm" : "", language_model ? "lm_head" : "",
                       language_model ? words : ""));
}

/// Learned positions, the first two of which no token has.
void add_bart(ConfigReader& config, Parts& parts, bool multilingual) {
    constexpr std::int64_t kPositionOffset = 2;
    Bart bart = read_bart(config);
    bart.pre_norm = multilingual;
    bart.positions = config.size("max_position_embeddings") + kPositionOffset;
    add_bart(config, parts, bart, "ForConditionalGeneration");
}

/// Two convolutions over mel frames, the second of which halves their number, and fixed positions.
Block audio_stem(const Bart& whisper, std::int64_t bins, std::int64_t positions) {
    constexpr std::int64_t kKernel = 3;
    BlockBuilder b("audio embedding");
    int x = -1;
    for (const bool second : {false, true}) {
        const std::string name = second ? "conv2" : "conv1";
        const int out = b.tensor(name, whisper.hidden);
        if (!second) b.set_times(out, 2);
        std::vector<int> weights{
            b.parameter(join(name, "weight"), {whisper.hidden, second ? whisper.hidden : bins, kKernel},
                        Component::embedding),
            b.parameter(join(name, "bias"), {whisper.hidden}, Component::embedding)};
        b.op(OpKind::convolution, name, place::embedding, second ? std::vector<int>{x} : std::vector<int>{},
             {out}, std::move(weights)).attributes.stride = second ? 2 : 1;
        x = b.activation(out, join(name, "gelu"), Act::gelu, place::embedding);
        if (!second) b.set_times(x, 2);
    }
    b.hold_until_model_end(x);
    const int placed = b.embedding("embed_positions", positions, whisper.hidden, OpKind::position_embedding);
    // Sinusoids: a parameter that the class freezes.
    b.parameter_named("embed_positions.weight").trainable = false;
    x = b.add(x, placed, "embed_sum", place::embedding);
    x = b.dropout(x, "dropout", whisper.dropout, place::embedding);
    return std::move(b).finish(x);
}

Block text_stem(const Bart& whisper, std::int64_t positions) {
    BlockBuilder b("embeddings");
    const auto lookup = [&](std::string_view name, std::int64_t rows) {
        const int y = b.hold_until_model_end(b.embedding(name, rows, whisper.hidden));
        b.set_rows(y, Rows::target_tokens);
        b.last_op().attributes.own_ids = true;
        return y;
    };
    const int words = lookup("embed_tokens", whisper.vocabulary);
    int x = b.add(words, lookup("embed_positions", positions), "embed_sum", place::embedding);
    x = b.dropout(x, "dropout", whisper.dropout, place::embedding);
    decoder_masks(b, whisper);
    return std::move(b).finish(x);
}

}  // namespace

void configure_bart(ConfigReader& config, Parts& parts) { add_bart(config, parts, false); }
void configure_mbart(ConfigReader& config, Parts& parts) { add_bart(config, parts, true); }

void configure_pegasus(ConfigReader& config, Parts& parts) {
    Bart pegasus = read_bart(config);
    pegasus.pre_norm = pegasus.frozen_positions = true;
    pegasus.embedding_norm = false;
    pegasus.positions = config.size("max_position_embeddings");
    add_bart(config, parts, pegasus, "ForConditionalGeneration");
}

void configure_m2m_100(ConfigReader& config, Parts& parts) {
    Bart m2m = read_bart(config);
    m2m.pre_norm = true;
    m2m.embedding_norm = m2m.buffered_bias = false;
    add_bart(config, parts, m2m, "ForConditionalGeneration");
}

void configure_plbart(ConfigReader& config, Parts& parts) {
    add_bart(config, parts, false);
}

void configure_blenderbot(ConfigReader& config, Parts& parts) {
    Bart blenderbot = read_bart(config);
    blenderbot.pre_norm = true;
    blenderbot.embedding_norm = false;
    blenderbot.positions = config.size("max_position_embeddings");
    add_bart(config, parts, blenderbot, "ForConditionalGeneration");
}

void configure_blenderbot_small(ConfigReader& config, Parts& parts) {
    Bart blenderbot = read_bart(config);
    blenderbot.positions = config.size("max_position_embeddings");
    add_bart(config, parts, blenderbot, "ForConditionalGeneration");
}

void configure_marian(ConfigReader& config, Parts& parts) {
    Bart marian = read_bart(config);
    marian.frozen_positions = true;
    marian.embedding_norm = false;
    marian.positions = config.size("max_position_embeddings");
    marian.shared_words = config.flag("share_encoder_decoder_embeddings");
    const std::int64_t own = config.size_or("decoder_vocab_size", marian.vocabulary, kLargestVocabulary);
    if (!marian.shared_words) marian.decoder_vocabulary = own;
    add_bart(config, parts, marian, "MTModel");
}

void configure_whisper(ConfigReader& config, Parts& parts) {
    Bart whisper = read_bart(config);
    whisper.whisper = whisper.pre_norm = true;
    whisper.buffered_bias = false;
    const std::int64_t bins = config.size("num_mel_bins");
    const std::int64_t source = config.size("max_source_positions");
    const std::int64_t target = config.size("max_target_positions");
    Model& model = parts.model();
    model.shared = whisper.shared;
    model.source_positions = source;
    model.inputs = {{"mel features", Rows::tokens, 2 * bins, nullptr}, {"labels", Rows::target_tokens}};
    set_facts(model.facts, whisper, target);
    parts.add("model.encoder.", audio_stem(whisper, bins, source));
    parts.add("model.encoder.layers.{}.", layer(whisper, false), whisper.encoder_layers);
    parts.add("model.encoder.", encoder_end(whisper));
    parts.add("model.decoder.", text_stem(whisper, target));
    parts.add("model.decoder.layers.{}.", layer(whisper, true), whisper.decoder_layers);
    parts.add("", head(whisper, "model.decoder.layer_norm", "proj_out",
                       config.flag("tie_word_embeddings") ? "model.decoder.embed_tokens.weight" : ""));
}

}  // namespace membudget
