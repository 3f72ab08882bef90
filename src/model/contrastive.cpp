// The image encoders of CLIP and SigLIP, and the layers of either encoder [transformers
// models/clip/modeling_clip.py, models/siglip/modeling_siglip.py].

#include "model/contrastive.hpp"
#include "model/contrastive_parts.hpp"

#include <algorithm>

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

}  // namespace

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

namespace {

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

}  // namespace

int tower_mlp(BlockBuilder& b, const ContrastiveTower& tower, std::string_view module, int x, Place place) {
    const auto function = b.scope();
    x = b.linear(x, join(module, "fc1"), tower.width, true, place);
    x = b.activation(x, join(module, "activation_fn"), tower.act, place);
    return b.linear(x, join(module, "fc2"), tower.hidden, true, place);
}

namespace {

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

}  // namespace

int tower_layer(BlockBuilder& b, const ContrastiveTower& tower, std::string_view module, int x, int mask,
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
        y = tower_mlp(b, tower, join(module, "mlp"), y, place_of(place::mlp));
    }
    return b.add(residual, y, join(module, "mlp.residual"));
}

std::vector<int> pool_weights(BlockBuilder& b, std::string_view head, std::int64_t hidden) {
    const std::string name = join(head, "attention");
    std::vector<int> weights{b.parameter(join(head, "probe"), {1, 1, hidden}, kVision),
                             b.parameter(join(name, "in_proj_weight"), {3 * hidden, hidden}, kVision),
                             b.parameter(join(name, "in_proj_bias"), {3 * hidden}, kVision)};
    const std::vector<int> out = b.linear_weights(join(name, "out_proj"), hidden, hidden, true, kVision);
    weights.insert(weights.end(), out.begin(), out.end());
    return weights;
}

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
    return tower_layer(builder, vision, name, x, -1, false);
}

Block contrastive_vision_layer(const ContrastiveVision& vision, const Tensor* named) {
    BlockBuilder b(named == nullptr ? "vision layer" : "vision layer behind a feature");
    const int x = b.input(vision.hidden, Rows::patches);
    if (named != nullptr)
        b.op(OpKind::split, named->name, place::residual, {x}, {b.shared(named->shared, *named)}).attributes.same = true;
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

void add_contrastive_vision(Parts& parts, std::string_view prefix, const ContrastiveVision& v) {
    const std::string root(prefix);
    parts.add(root, contrastive_vision_stem(v));
    parts.add(root + "encoder.layers.{}.", contrastive_vision_layer(v), v.layers);
    parts.add(root, "vision norm", [&](BlockBuilder& b) {
        b.norm_weights("post_layernorm", v.hidden, norms::layer, kVision);
        if (v.head) declare_pool(b, v);
    });
}

namespace {

/// An image encoder by itself.
void add_tower(Parts& parts, std::string_view prefix, const ContrastiveVision& vision) {
    add_contrastive_vision(parts, prefix, vision);
    parts.model().image = vision.shape();
    parts.model().facts.hidden_size = vision.hidden;
    parts.model().facts.layers = vision.layers;
    parts.model().step_unsupported = "the class computes no loss";
}

}  // namespace

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
