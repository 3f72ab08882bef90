// CLIP and SigLIP as pairs of encoders of text and image [transformers models/clip/modeling_clip.py,
// models/siglip/modeling_siglip.py].

#include "model/contrastive.hpp"
#include "model/contrastive_parts.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

/// The image encoder runs first, then the text encoder; the head takes the results of both.
enum Shared { text_mask, image_states, image_embeds, text_states };

/// The text encoder.
struct ContrastiveText : ContrastiveTower {
    std::int64_t vocabulary = 1, positions = 1;
    bool clip = false;    ///< causal; the end token of each text is looked up
    bool end_id = false;  ///< the config names the end token; else it is the largest id
};

ContrastiveText read_text(ConfigReader& config) {
    ContrastiveText text;
    read_tower(config, text);
    read_functions(config, text);
    text.vocabulary = config.size("vocab_size", kLargestVocabulary);
    text.positions = config.size("max_position_embeddings");
    return text;
}

ContrastiveText read_clip_text(ConfigReader& config) {
    // Configs from before the fix of the token's id have 2, whatever the tokenizer has.
    constexpr std::int64_t kWrongEndToken = 2;
    ContrastiveText text = read_text(config);
    text.clip = true;
    text.end_id = config.count_or("eos_token_id", kWrongEndToken, kLargestVocabulary) != kWrongEndToken;
    return text;
}

std::vector<Tensor> shared_tensors(const ContrastiveText& text, const ContrastiveVision& vision,
                                   std::int64_t projection) {
    std::vector<Tensor> shared;
    declare_tensor(shared, "text mask", 0, Rows::one);
    declare_tensor(shared, "image hidden states", vision.hidden, Rows::patches);
    declare_tensor(shared, "image embeddings", projection, Rows::images);
    declare_tensor(shared, "text hidden states", text.hidden, Rows::tokens);
    for (Tensor& tensor : shared) tensor.held = Held::until_outputs_end;
    shared[text_mask].held = Held::until_scope_end;  // an argument by position
    return shared;
}

Block text_layer(const ContrastiveText& text, const Tensor& mask) {
    BlockBuilder b("text layer");
    const int x = b.input(text.hidden);
    const int y = tower_layer(b, text, "", x, b.shared(text_mask, mask), text.clip);
    b.set_checkpointable();
    return std::move(b).finish(y);
}

/// Words and positions of the texts.
Block text_stem(const ContrastiveText& text, const Tensor& mask) {
    BlockBuilder b("text embeddings");
    const auto function = [&] {
        const auto scope = b.scope();
        const int words = b.hold(b.embedding("embeddings.token_embedding", text.vocabulary, text.hidden));
        const int positions = b.hold(b.embedding("embeddings.position_embedding", text.positions, text.hidden,
                                                 OpKind::position_embedding));
        return b.add(words, positions, "embeddings.sum", place::embedding);
    };
    const int x = b.hold_until_model_end(function());
    OpAttributes& a = b.op(OpKind::attention_mask, mask.name, place::attention, {}, {b.shared(text_mask, mask)})
                          .attributes;
    a.heads = text.heads;
    a.causal = text.clip;
    return std::move(b).finish(x);
}

int first_rows(BlockBuilder& b, int x, std::string name, std::int64_t hidden, Rows rows) {
    const int row = b.tensor(name, hidden, rows);
    b.op(OpKind::split, std::move(name), place::head, {x}, {row}).attributes.sliced = true;
    return row;
}

/// Class token of each image, normalised and projected.
Block clip_vision_end(const ContrastiveVision& vision, std::int64_t projection, const std::vector<Tensor>& shared) {
    BlockBuilder b("vision end");
    const int x = b.input(vision.hidden, Rows::patches);
    const int states = b.tensor("hidden states", vision.hidden, Rows::patches);
    b.op(OpKind::split, "hidden states", place::residual, {x}, {states}).attributes.same = true;
    b.share(states, image_states, shared);
    b.norm_weights("vision_model.post_layernorm", vision.hidden, norms::layer, kVision);
    int y = first_rows(b, states, "class token", vision.hidden, Rows::images);
    {
        const auto function = b.scope();
        y = b.hold(b.norm(y, "vision_model.post_layernorm", norms::layer));
        b.end_base_model();
        y = b.linear(y, "visual_projection", projection, false, place::head);
    }
    b.share(y, image_embeds, shared);
    return std::move(b).finish(-1);
}

}  // namespace

int add_siglip_pool(BlockBuilder& b, const ContrastiveVision& vision, const std::string& head, int x) {
    const std::string name = join(head, "attention");
    const std::vector<int> weights = pool_weights(b, head, vision.hidden);
    const int pooled = b.hold(b.tensor(name, vision.hidden, Rows::images));
    const Place place{place::head.term, kVision};
    b.op(OpKind::attention_pool, name, place, {x}, {pooled}, weights).attributes.heads = vision.heads;
    b.norm_weights(join(head, "layernorm"), vision.hidden, norms::layer, kVision);
    int y = b.norm(pooled, join(head, "layernorm"), norms::layer);
    y = tower_mlp(b, vision, join(head, "mlp"), b.hold(y), place);
    return b.add(pooled, y, join(head, "residual"), place);
}

namespace {

/// The last norm, and a learned query that attends to the patches of each image.
Block siglip_vision_end(const ContrastiveVision& vision, const std::vector<Tensor>& shared) {
    BlockBuilder b("vision end");
    const std::int64_t hidden = vision.hidden;
    b.norm_weights("vision_model.post_layernorm", hidden, norms::layer, kVision);
    int x = b.norm(b.input(hidden, Rows::patches), "vision_model.post_layernorm", norms::layer);
    b.share(x, image_states, shared);
    if (!vision.head) return std::move(b).finish(-1);
    const int y = add_siglip_pool(b, vision, "vision_model.head", x);
    const int row = first_rows(b, y, "pooled", hidden, Rows::images);
    b.share(row, image_embeds, shared);
    b.end_base_model();
    Block block = std::move(b).finish(-1);
    for (Parameter& parameter : block.parameters) parameter.component = kVision;
    return block;
}

/// The embedding of each text, and the loss of all pairs.
Block pair_head(const ContrastiveText& text, std::int64_t projection, const std::vector<Tensor>& shared) {
    BlockBuilder b("head");
    std::vector<int> scales{b.parameter("logit_scale", text.clip ? std::vector<std::int64_t>{}
                                                                 : std::vector<std::int64_t>{1}, Component::other)};
    if (!text.clip) scales.push_back(b.parameter("logit_bias", {1}, Component::other));
    int x = b.input(text.hidden);
    b.release(x);
    x = b.norm(x, "text_model.final_layer_norm", norms::layer);
    b.share(x, text_states, shared);
    int y = b.tensor("pooled text", text.hidden, Rows::batch);
    if (text.clip) {
        const auto function = b.scope();
        b.op(OpKind::pick_token, "pooled text", place::head, {x}, {y}).attributes.by_id = text.end_id;
        b.hold(y);
        b.end_base_model();
        y = b.linear(y, "text_projection", projection, false, place::head);
    } else {
        b.op(OpKind::split, "pooled text", place::head, {x}, {y}).attributes.sliced = true;
        y = b.linear(y, "text_model.head", projection, true, place::head);
        b.end_base_model();
    }
    const int images = b.shared(image_embeds, shared);
    b.op(OpKind::contrastive_loss, "loss", place::loss, {y, images}, {b.tensor("loss", 1, Rows::one)}, scales);
    return std::move(b).finish(-1);
}

void add_pair(Parts& parts, const ContrastiveText& text, const ContrastiveVision& vision, std::int64_t projection) {
    Model& model = parts.model();
    model.shared = shared_tensors(text, vision, projection);
    const Tensor& mask = model.shared[text_mask];
    model.image = vision.shape();
    model.inputs = {{"ids"}, {"pixels", Rows::images, model.image.pixels(), nullptr}};
    model.facts.hidden_size = text.hidden;
    model.facts.layers = text.layers;
    model.facts.heads = model.facts.kv_heads = text.heads;
    model.facts.head_dim = text.hidden / text.heads;
    model.facts.intermediate_size = text.width;
    model.facts.vocab_size = text.vocabulary;
    model.facts.max_positions = text.positions;
    parts.add("vision_model.", contrastive_vision_stem(vision));
    parts.add("vision_model.encoder.layers.{}.", contrastive_vision_layer(vision), vision.layers);
    parts.add("", vision.clip ? clip_vision_end(vision, projection, model.shared)
                              : siglip_vision_end(vision, model.shared));
    parts.add("text_model.", text_stem(text, mask));
    parts.add("text_model.encoder.layers.{}.", text_layer(text, mask), text.layers);
    parts.add("", pair_head(text, projection, model.shared));
}

constexpr std::string_view kSiglipText =
    "vocab_size=32000 hidden_size=768 intermediate_size=3072 num_hidden_layers=12 "
    "num_attention_heads=12 max_position_embeddings=64 projection_size hidden_act=gelu_pytorch_tanh "
    "attention_dropout=0.0";

}  // namespace

void configure_clip_text(ConfigReader& config, Parts& parts) {
    const ContrastiveText text = read_clip_text(config);
    const std::string root = parts.is("WithProjection") ? "text_model." : "";
    std::vector<Tensor>& shared = parts.model().shared;
    const Tensor mask = shared[static_cast<std::size_t>(declare_tensor(shared, "text mask", 0, Rows::one))];
    parts.add(root, text_stem(text, mask));
    parts.add(root + "encoder.layers.{}.", text_layer(text, mask), text.layers);
    parts.add(root, "text norm",
              [&](BlockBuilder& b) { b.norm_weights("final_layer_norm", text.hidden, norms::layer); });
    if (parts.is("WithProjection"))
        parts.add("", "projection", [&](BlockBuilder& b) {
            b.linear_weights("text_projection", text.hidden, config.size("projection_dim"), false,
                             Component::head);
        });
    parts.model().step_unsupported = "the class computes no loss";
}

void configure_clip(ConfigReader& config, Parts& parts) {
    ConfigReader text_config = config.nested(
        "text_config", "clip_text_model", families().find("clip_text_model")->keys);
    ConfigReader vision_config =
        config.nested("vision_config", "clip_vision_model", vision_keys::clip);
    const ContrastiveText text = read_clip_text(text_config);
    const ContrastiveVision vision = read_clip_vision(vision_config);
    add_pair(parts, text, vision, config.size("projection_dim"));
}

namespace {

void add_siglip(ConfigReader& config, Parts& parts, const ContrastiveVision& vision) {
    ConfigReader text_config = config.nested("text_config", "siglip_text_model", kSiglipText);
    const ContrastiveText text = read_text(text_config);
    const std::int64_t projection = text_config.size_or("projection_size", text.hidden);
    if (vision.flat) parts.model().step_unsupported = kCountedOnly;
    else if (!vision.head) parts.model().step_unsupported = "without its head (vision_use_head) the class has no images to compare";
    else if (projection != vision.hidden) parts.model().step_unsupported = "texts and images have embeddings of other sizes";
    add_pair(parts, text, vision, projection);
}

}  // namespace

void configure_siglip(ConfigReader& config, Parts& parts) {
    ConfigReader vision_config = config.nested("vision_config", "siglip_vision_model", vision_keys::siglip);
    add_siglip(config, parts, read_siglip_vision(vision_config));
}

void configure_siglip2(ConfigReader& config, Parts& parts) {
    ConfigReader vision_config = config.nested("vision_config", "siglip2_vision_model", vision_keys::siglip2);
    add_siglip(config, parts, read_siglip_vision(vision_config));
}

}  // namespace membudget
