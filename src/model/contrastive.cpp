// CLIP and SigLIP [transformers models/clip/modeling_clip.py, models/siglip/modeling_siglip.py].

#include "model/contrastive.hpp"

#include <algorithm>

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

void read_tower(ConfigReader& config, ContrastiveTower& tower) {
    tower.hidden = config.size("hidden_size");
    tower.width = config.size("intermediate_size");
    tower.layers = config.size("num_hidden_layers", kLargestCount);
    tower.heads = config.size("num_attention_heads", kLargestCount);
}

void read_functions(ConfigReader& config, ContrastiveTower& tower) {
    config.divides("hidden_size", tower.hidden, "num_attention_heads", tower.heads);
    tower.act = config.activation("hidden_act");
    tower.attention_dropout = config.probability("attention_dropout");
}

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

/// Projections of queries, keys and values, scores, and the output projection.
int attend(BlockBuilder& b, const ContrastiveTower& tower, const std::string& module, int x, int mask,
           bool causal, Place place) {
    const auto function = b.scope();
    const auto project = [&](std::string_view name) {
        return b.hold(b.linear(x, join(module, name), tower.hidden, true, place));
    };
    const int q = project("q_proj");
    const int k = project("k_proj");
    const int v = project("v_proj");
    const int context = b.tensor(module, tower.hidden, b.rows(x));
    std::vector<int> inputs{q, k, v};
    if (mask >= 0) inputs.push_back(mask);
    OpAttributes& a = b.op(OpKind::attention, module, place, std::move(inputs), {context}).attributes;
    a.heads = a.kv_heads = tower.heads;
    a.head_dim = a.value_dim = tower.hidden / tower.heads;
    a.causal = causal;
    a.dropout = tower.attention_dropout;
    return b.linear(context, join(module, "out_proj"), tower.hidden, true, place);
}

int mlp(BlockBuilder& b, const ContrastiveTower& tower, std::string_view module, int x, Place place) {
    const auto function = b.scope();
    x = b.linear(x, join(module, "fc1"), tower.width, true, place);
    x = b.activation(x, join(module, "activation_fn"), tower.act, place);
    return b.linear(x, join(module, "fc2"), tower.hidden, true, place);
}

/// Parameters in the order of the class.
void declare_layer(BlockBuilder& b, const ContrastiveTower& tower, std::string_view module, Place place) {
    b.norm_weights(join(module, "layer_norm1"), tower.hidden, norms::layer, place.component);
    for (const std::string_view name : {"k_proj", "v_proj", "q_proj", "out_proj"})
        b.linear_weights(join(join(module, "self_attn"), name), tower.hidden, tower.hidden, true,
                         place.component);
    b.norm_weights(join(module, "layer_norm2"), tower.hidden, norms::layer, place.component);
    b.linear_weights(join(module, "mlp.fc1"), tower.hidden, tower.width, true, place.component);
    b.linear_weights(join(module, "mlp.fc2"), tower.width, tower.hidden, true, place.component);
}

/// h = x + A(n1 x); out = h + M(n2 h), of which the function keeps x, then h, as `residual`.
int layer(BlockBuilder& b, const ContrastiveTower& tower, std::string_view module, int x, int mask,
          bool causal) {
    const auto place_of = [&](Place place) {
        return b.rows(x) == Rows::patches ? Place{place.term, kVision} : place;
    };
    declare_layer(b, tower, module, place_of(place::other));
    int y = -1;
    {
        const auto name = b.scope();  // the norm's result, until the attention's rebinds it
        y = b.hold(b.norm(x, join(module, "layer_norm1"), norms::layer));
        y = attend(b, tower, join(module, "self_attn"), y, mask, causal, place_of(place::attention));
    }
    const int residual = b.hold(b.add(x, y, join(module, "attention.residual")));
    {
        const auto name = b.scope();
        y = b.hold(b.norm(residual, join(module, "layer_norm2"), norms::layer));
        y = mlp(b, tower, join(module, "mlp"), y, place_of(place::mlp));
    }
    return b.add(residual, y, join(module, "mlp.residual"));
}

Block text_layer(const ContrastiveText& text, const Tensor& mask) {
    BlockBuilder b("text layer");
    const int x = b.input(text.hidden);
    const int y = layer(b, text, "", x, b.shared(text_mask, mask), text.clip);
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
    b.share(states, image_states, shared[image_states]);
    b.norm_weights("vision_model.post_layernorm", vision.hidden, norms::layer, kVision);
    int y = first_rows(b, states, "class token", vision.hidden, Rows::images);
    {
        const auto function = b.scope();
        y = b.hold(b.norm(y, "vision_model.post_layernorm", norms::layer));
        b.end_base_model();
        y = b.linear(y, "visual_projection", projection, false, place::head);
    }
    b.share(y, image_embeds, shared[image_embeds]);
    return std::move(b).finish(-1);
}

/// The query of a pool by attention, and its torch.nn.MultiheadAttention, in the order of the op.
std::vector<int> pool_weights(BlockBuilder& b, std::string_view head, std::int64_t hidden) {
    const std::string name = join(head, "attention");
    std::vector<int> weights{b.parameter(join(head, "probe"), {1, 1, hidden}, kVision),
                             b.parameter(join(name, "in_proj_weight"), {3 * hidden, hidden}, kVision),
                             b.parameter(join(name, "in_proj_bias"), {3 * hidden}, kVision)};
    const std::vector<int> out = b.linear_weights(join(name, "out_proj"), hidden, hidden, true, kVision);
    weights.insert(weights.end(), out.begin(), out.end());
    return weights;
}

/// The last norm, and a learned query that attends to the patches of each image.
Block siglip_vision_end(const ContrastiveVision& vision, const std::vector<Tensor>& shared) {
    BlockBuilder b("vision end");
    const std::int64_t hidden = vision.hidden;
    b.norm_weights("vision_model.post_layernorm", hidden, norms::layer, kVision);
    int x = b.norm(b.input(hidden, Rows::patches), "vision_model.post_layernorm", norms::layer);
    b.share(x, image_states, shared[image_states]);
    if (!vision.head) return std::move(b).finish(-1);
    const std::string head = "vision_model.head";
    const std::string name = join(head, "attention");
    const std::vector<int> weights = pool_weights(b, head, hidden);
    const int pooled = b.hold(b.tensor(name, hidden, Rows::images));
    const Place place{place::head.term, kVision};
    b.op(OpKind::attention_pool, name, place, {x}, {pooled}, weights).attributes.heads = vision.heads;
    int y = b.norm(pooled, join(head, "layernorm"), norms::layer);
    y = mlp(b, vision, join(head, "mlp"), b.hold(y), place);
    y = b.add(pooled, y, join(head, "residual"), place);
    const int row = first_rows(b, y, "pooled", hidden, Rows::images);
    b.share(row, image_embeds, shared[image_embeds]);
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
    b.share(x, text_states, shared[text_states]);
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
    const int images = b.shared(image_embeds, shared[image_embeds]);
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

ContrastiveVision read_vision_sizes(ConfigReader& config) {
    ContrastiveVision vision;
    read_tower(config, vision);
    vision.channels = config.size("num_channels", kLargestCount);
    vision.patch = config.size("patch_size", kLargestCount);
    if (config.knows("num_patches")) {
        vision.flat = true;
        vision.patches = config.size("num_patches");
        return vision;
    }
    vision.image = config.size("image_size", kLargestCount);
    // At least 1, so that bad sizes do no further harm.
    const std::int64_t side = std::max<std::int64_t>(1, vision.image / vision.patch);
    vision.patches = side * side;
    return vision;
}

ContrastiveVision read_siglip_vision(ConfigReader& config) {
    ContrastiveVision vision = read_vision_sizes(config);
    read_functions(config, vision);
    vision.head = config.knows("vision_use_head") && config.flag("vision_use_head");
    return vision;
}

ContrastiveVision read_clip_vision(ConfigReader& config) {
    ContrastiveVision vision = read_siglip_vision(config);
    vision.clip = true;
    return vision;
}

Block contrastive_vision_stem(const ContrastiveVision& vision) {
    BlockBuilder b("patch embedding");
    const std::int64_t hidden = vision.hidden;
    std::vector<int> tokens;
    if (vision.clip) tokens.push_back(b.parameter("embeddings.class_embedding", {hidden}, kVision));
    const std::string name = "embeddings.patch_embedding";
    std::vector<std::int64_t> shape{hidden, vision.channels, vision.patch, vision.patch};
    if (vision.flat) shape = {hidden, vision.channels * vision.patch * vision.patch};
    std::vector<int> filter{b.parameter(join(name, "weight"), std::move(shape), kVision)};
    if (!vision.clip) filter.push_back(b.parameter(join(name, "bias"), {hidden}, kVision));
    const int table = b.parameter("embeddings.position_embedding.weight", {vision.rows(), hidden}, kVision);

    const auto function = [&] {
        const auto scope = b.scope();
        const int pixels = b.tensor("pixel_values", vision.shape().pixels(), Rows::images);
        if (vision.stacked)
            b.op(OpKind::concat, "pixel_values", place::embedding, {}, {b.hold_until_model_end(pixels)})
                .attributes.listed = true;
        const std::int64_t whole = detail::checked_mul(vision.patches, hidden);
        int x = b.hold(b.tensor(name, whole, Rows::images));
        b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {x}, std::move(filter));
        if (vision.clip) {
            const int joined = b.hold(b.tensor("embeddings.tokens", hidden, Rows::patches));
            b.op(OpKind::concat, "embeddings.tokens", place::embedding, {x}, {joined}, tokens);
            x = joined;
        }
        const int positions = b.tensor("embeddings.position_embedding",
                                       detail::checked_mul(vision.rows(), hidden), Rows::one);
        b.op(OpKind::embedding, "embeddings.position_embedding", place::embedding, {}, {positions}, {table});
        const int sum = b.tensor("embeddings.sum", hidden, Rows::patches);
        b.op(OpKind::add, "embeddings.sum", place::embedding, {x, positions}, {sum});
        return sum;
    };
    int x = function();
    if (vision.clip) {  // the class spells it so
        b.norm_weights("pre_layrnorm", hidden, norms::layer, kVision);
        x = b.norm(x, "pre_layrnorm", norms::layer);
    }
    return std::move(b).finish(b.hold_until_model_end(x));
}

int add_vision_layer(BlockBuilder& builder, const ContrastiveVision& vision, std::string_view name, int x) {
    return layer(builder, vision, name, x, -1, false);
}

Block contrastive_vision_layer(const ContrastiveVision& vision) {
    BlockBuilder b("vision layer");
    const int x = b.input(vision.hidden, Rows::patches);
    const int y = add_vision_layer(b, vision, "", x);
    b.set_checkpointable();
    return std::move(b).finish(y);
}

namespace {

void declare_pool(BlockBuilder& b, const ContrastiveVision& v) {
    pool_weights(b, "head", v.hidden);
    b.norm_weights("head.layernorm", v.hidden, norms::layer, kVision);
    b.linear_weights("head.mlp.fc1", v.hidden, v.width, true, kVision);
    b.linear_weights("head.mlp.fc2", v.width, v.hidden, true, kVision);
}

}  // namespace

Block siglip_pool(const ContrastiveVision& v) {
    BlockBuilder b("pool");
    declare_pool(b, v);
    return std::move(b).finish(-1);
}

void add_contrastive_vision(Parts& parts, std::string_view prefix, const ContrastiveVision& v) {
    const std::string root(prefix);
    parts.add(root, contrastive_vision_stem(v));
    parts.add(root + "encoder.layers.{}.", contrastive_vision_layer(v), v.layers);
    parts.add(root, "vision norm", [&](BlockBuilder& b) {
        b.norm_weights("post_layernorm", v.hidden, norms::layer, kVision);
        if (v.head) declare_pool(b, v);
    });
}

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

/// An image encoder by itself.
void add_tower(Parts& parts, std::string_view prefix, const ContrastiveVision& vision) {
    add_contrastive_vision(parts, prefix, vision);
    parts.model().image = vision.shape();
    parts.model().facts.hidden_size = vision.hidden;
    parts.model().facts.layers = vision.layers;
    parts.model().step_unsupported = "the class computes no loss";
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

void configure_clip_vision(ConfigReader& config, Parts& parts) {
    const ContrastiveVision vision = read_clip_vision(config);
    const bool projected = parts.is("WithProjection");
    add_tower(parts, projected ? "vision_model." : "", vision);
    if (projected)
        parts.add("", "projection", [&](BlockBuilder& b) {
            b.linear_weights("visual_projection", vision.hidden, config.size("projection_dim"), false,
                             Component::head);
        });
}

void configure_siglip_vision(ConfigReader& config, Parts& parts) {
    add_tower(parts, "", read_siglip_vision(config));
}

}  // namespace membudget
