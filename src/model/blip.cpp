// BLIP for captions (arXiv:2201.12086): a vision transformer, and a decoder in BERT's modules whose layers attend to
// its last hidden states [transformers models/blip/modeling_blip.py, modeling_blip_text.py].

#include <string>
#include <string_view>
#include <vector>

#include "model/contrastive.hpp"
#include "model/image_models.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::size_t kMask = 0, kImages = 1;  // in `Model::shared`

struct Text {
    std::int64_t hidden = 1, width = 1, layers = 1, heads = 1, vocabulary = 1, positions = 1, images = 1;
    double dropout = 0, attention_dropout = 0, smoothing = 0;
    Act act = Act::gelu;
};

ContrastiveVision read_vision(ConfigReader& config) {
    ConfigReader vision = config.nested(
        "vision_config", "blip_vision_model",
        "hidden_size=768 intermediate_size=3072 num_hidden_layers=12 num_attention_heads=12 num_channels=3 "
        "image_size=384 patch_size=16 hidden_act=gelu attention_dropout=0.0");
    ContrastiveVision out = read_vision_sizes(vision);
    out.heads = vision.size("num_attention_heads", kLargestCount);
    vision.divides("hidden_size", out.hidden, "num_attention_heads", out.heads);
    out.act = vision.activation("hidden_act");
    out.attention_dropout = vision.probability("attention_dropout");
    return out;
}

Text read_text(ConfigReader& config) {
    ConfigReader text = config.nested(
        "text_config", "blip_text_model",
        "vocab_size=30524 hidden_size=768 encoder_hidden_size=768 intermediate_size=3072 num_hidden_layers=12 "
        "num_attention_heads=8 max_position_embeddings=512 hidden_act=gelu hidden_dropout_prob=0.0 "
        "attention_probs_dropout_prob=0.0 label_smoothing=0.0");
    Text out;
    out.hidden = text.size("hidden_size");
    out.width = text.size("intermediate_size");
    out.layers = text.size("num_hidden_layers", kLargestCount);
    out.heads = text.size("num_attention_heads", kLargestCount);
    text.divides("hidden_size", out.hidden, "num_attention_heads", out.heads);
    out.vocabulary = text.size("vocab_size", kLargestVocabulary);
    out.positions = text.size("max_position_embeddings");
    out.images = text.size("encoder_hidden_size");
    out.act = text.activation("hidden_act");
    out.dropout = text.probability("hidden_dropout_prob");
    out.attention_dropout = text.probability("attention_probs_dropout_prob");
    out.smoothing = text.probability("label_smoothing");
    return out;
}

Block vision_stem(const ContrastiveVision& v) {
    BlockBuilder b("patch embedding");
    const int token = b.parameter("embeddings.class_embedding", {1, 1, v.hidden}, kVision);
    const int positions = b.parameter("embeddings.position_embedding", {1, v.patches + 1, v.hidden}, kVision);
    const std::string name = "embeddings.patch_embedding";
    const int weight = b.parameter(join(name, "weight"), {v.hidden, v.channels, v.patch, v.patch}, kVision);
    const int bias = b.parameter(join(name, "bias"), {v.hidden}, kVision);
    const int pixels = b.tensor("pixel_values", v.channels * v.image * v.image, Rows::images);
    const int patches = b.tensor(name, detail::checked_mul(v.patches, v.hidden), Rows::images);
    b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {patches}, {weight, bias});
    const std::int64_t width = detail::checked_mul(v.patches + 1, v.hidden);
    const int joined = b.tensor("embeddings.tokens", width, Rows::images);
    b.op(OpKind::concat, "embeddings.tokens", place::embedding, {patches}, {joined}, {token});
    const int sum = b.tensor("embeddings.sum", width, Rows::images);
    b.op(OpKind::add, "embeddings.sum", place::embedding, {joined}, {sum}, {positions});
    const int x = b.hold_until_model_end(b.tensor("embeddings", v.hidden, Rows::patches));
    b.op(OpKind::split, "embeddings", place::embedding, {sum}, {x}).attributes.same = true;
    return std::move(b).finish(x);
}

OpAttributes attention_of(std::int64_t hidden, std::int64_t heads, double dropout) {
    OpAttributes out;
    out.form = AttentionForm::blip;
    out.heads = out.kv_heads = heads;
    out.head_dim = out.value_dim = hidden / heads;
    out.causal = false;
    out.softmax_in_dtype = true;
    out.dropout = dropout;
    return out;
}

int vision_attention(BlockBuilder& b, const ContrastiveVision& v, int x) {
    const auto function = b.scope();
    const Place place = in_vision(place::attention);
    const int fused = b.hold(b.linear(x, "self_attn.qkv", 3 * v.hidden, true, place));
    const std::vector<int> parts = b.split(fused, "self_attn.split", {v.hidden, v.hidden, v.hidden}, place);
    b.last_op().attributes.sliced = b.last_op().attributes.unbound = true;  // indexed one by one
    const int context = b.tensor("self_attn", v.hidden, Rows::patches);
    OpAttributes& a = b.op(OpKind::attention, "self_attn", place, {parts[0], parts[1], parts[2]}, {context}).attributes;
    a = attention_of(v.hidden, v.heads, v.attention_dropout);
    a.unbound = true;
    return b.linear(b.hold(context), "self_attn.projection", v.hidden, true, place);
}

Block vision_layer(const ContrastiveVision& v) {
    BlockBuilder b("vision layer");
    const int x = b.input(v.hidden, Rows::patches);
    int y = -1;
    {
        const auto name = b.scope();
        y = vision_attention(b, v, b.hold(b.norm(x, "layer_norm1", norms::layer)));
    }
    const int residual = b.hold(b.add(y, x, "self_attn.residual"));
    {
        const auto name = b.scope();
        y = b.hold(b.norm(residual, "layer_norm2", norms::layer));
        const auto function = b.scope();
        const Place place = in_vision(place::mlp);
        y = b.linear(y, "mlp.fc1", v.width, true, place);
        y = b.activation(y, "mlp.activation_fn", v.act, place);
        y = b.linear(y, "mlp.fc2", v.hidden, true, place);
    }
    y = b.add(y, residual, "mlp.residual");
    b.set_checkpointable();
    Block block = std::move(b).finish(y);
    for (Parameter& parameter : block.parameters) parameter.component = kVision;
    return block;
}

/// The last norm, whose result the decoder reads; that of the class token serves nothing.
Block vision_end(const ContrastiveVision& v, const std::vector<Tensor>& shared) {
    BlockBuilder b("vision norm");
    const std::string norm = "vision_model.post_layernorm";
    b.norm_weights(norm, v.hidden, norms::layer, kVision);
    const int x = b.norm(b.input(v.hidden, Rows::patches), norm, norms::layer);
    b.share(x, static_cast<int>(kImages), shared);
    b.end_base_model();
    return std::move(b).finish(-1);
}

Block text_stem(const Text& t, const std::vector<Tensor>& shared) {
    BlockBuilder b("text embeddings");
    int x = b.embedding("embeddings.word_embeddings", t.vocabulary, t.hidden);
    {
        const auto function = b.scope();
        const int positions = b.hold(
            b.embedding("embeddings.position_embeddings", t.positions, t.hidden, OpKind::position_embedding));
        x = b.add(x, positions, "embeddings.sum", place::embedding);
        b.last_op().attributes.in_place = true;
        x = b.norm(x, "embeddings.LayerNorm", norms::layer, place::embedding);
        x = b.dropout(x, "embeddings.dropout", t.dropout, place::embedding);
    }
    b.hold_until_model_end(x);
    OpAttributes& mask = b.op(OpKind::attention_mask, shared[kMask].name, place::attention, {},
                              {b.shared(static_cast<int>(kMask), shared)}).attributes;
    mask = attention_of(t.hidden, t.heads, 0);
    mask.causal = true;
    return std::move(b).finish(x);
}

/// One of a layer's attentions with its output, to `x` itself or to the images.
int text_attention(BlockBuilder& b, const Text& t, const std::vector<Tensor>& shared, int x, bool cross) {
    const auto both = b.scope();
    const std::string module = cross ? "crossattention" : "attention";
    const int source = cross ? b.shared(static_cast<int>(kImages), shared) : x;
    const int context = b.hold(b.tensor(join(module, "self"), t.hidden));
    {
        const auto function = b.scope();
        const auto project = [&](std::string_view name, int from) {
            return b.hold(b.linear(from, join(module, name), t.hidden, true, place::attention));
        };
        const int q = project("self.query", x);
        const int k = project("self.key", source);
        const int v = project("self.value", source);
        std::vector<int> inputs{q, k, v};
        if (!cross) inputs.push_back(b.shared(static_cast<int>(kMask), shared));
        OpAttributes& a = b.op(OpKind::attention, join(module, "self"), place::attention, std::move(inputs), {context})
                              .attributes;
        a = attention_of(t.hidden, t.heads, t.attention_dropout);
        a.causal = !cross;
    }
    const auto name = b.scope();
    int y = b.linear(context, join(module, "output.dense"), t.hidden, true, place::attention);
    y = b.hold(b.dropout(y, join(module, "output.dropout"), t.dropout, place::attention));
    y = b.add(y, x, join(module, "residual"));
    return b.norm(y, join(module, "output.LayerNorm"), norms::layer);
}

Block text_layer(const Text& t, const std::vector<Tensor>& shared) {
    BlockBuilder b("text layer");
    const int x = b.input(t.hidden);
    int y = text_attention(b, t, shared, x, false);
    y = b.hold(text_attention(b, t, shared, y, true));
    const int attended = y;
    {
        const auto function = b.scope();
        y = b.linear(attended, "intermediate.dense", t.width, true, place::mlp);
        y = b.hold(b.activation(y, "intermediate.intermediate_act_fn", t.act, place::mlp));
        y = b.linear(y, "output.dense", t.hidden, true, place::mlp);
        const auto name = b.scope();
        y = b.hold(b.dropout(y, "output.dropout", t.dropout, place::mlp));
        y = b.add(y, attended, "output.residual");
        y = b.norm(y, "output.LayerNorm", norms::layer);
    }
    b.set_checkpointable();
    return std::move(b).finish(y);
}

/// The head of masked words, trained for the next one [BlipTextLMHeadModel.forward].
Block text_head(const Text& t) {
    const std::string path = "text_decoder.cls.predictions";
    BlockBuilder b("head");
    const int x = b.input(t.hidden);
    b.end_base_model();
    const int bias = b.parameter(join(path, "bias"), {t.vocabulary}, Component::head);
    int y = b.linear(x, join(path, "transform.dense"), t.hidden, true, place::head);
    y = b.activation(y, join(path, "transform.transform_act_fn"), t.act, place::head);
    y = b.norm(y, join(path, "transform.LayerNorm"), norms::layer, place::head);
    y = b.hold(b.linear(y, join(path, "decoder"), t.vocabulary, true, place::head));
    tie(b, join(path, "decoder.weight"), "text_decoder.bert.embeddings.word_embeddings.weight");
    tie(b, join(path, "decoder.bias"), join(path, "bias"));
    b.last_op().parameters.back() = bias;  // ops refer to the one that has storage
    b.op(OpKind::masked_lm_loss, "loss", place::loss, {y}, {b.tensor("loss", 1, Rows::one)}).attributes.shifted = true;
    b.last_op().attributes.smoothed = t.smoothing > 0;
    return std::move(b).finish(-1);
}

}  // namespace

void configure_blip(ConfigReader& config, Parts& parts) {
    const ContrastiveVision v = read_vision(config);
    const Text t = read_text(config);
    Model& model = parts.model();
    declare_tensor(model.shared, "attention_mask", 0, Rows::one);
    declare_tensor(model.shared, "image embeddings", t.images, Rows::patches);
    model.shared[kImages].held = Held::until_outputs_end;
    parts.add("vision_model.", vision_stem(v));
    parts.add("vision_model.encoder.layers.{}.", vision_layer(v), v.layers);
    parts.add("", vision_end(v, model.shared));
    parts.add("text_decoder.bert.", text_stem(t, model.shared));
    parts.add("text_decoder.bert.encoder.layer.{}.", text_layer(t, model.shared), t.layers);
    parts.add("", text_head(t));
    model.image = {v.channels, v.image, v.image, v.patches + 1, v.patches};
    model.image.one_each = true;
    model.inputs = {{"pixels", Rows::images, model.image.pixels(), nullptr}, {"ids"}, {"labels"}};
    model.facts.hidden_size = t.hidden;
    model.facts.layers = t.layers;
    model.facts.heads = model.facts.kv_heads = t.heads;
    model.facts.head_dim = t.hidden / t.heads;
    model.facts.intermediate_size = t.width;
    model.facts.vocab_size = t.vocabulary;
    model.facts.max_positions = t.positions;
    if (t.images != v.hidden) model.step_unsupported = "the class reads images of another width than it makes";
}

}  // namespace membudget
