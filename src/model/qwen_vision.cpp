#include "model/qwen_vision.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::string_view kTower = "model.visual";

/// Tensors that the tower's blocks share, indices into `Model::shared`.
struct TowerTensors {
    int cos = -1, sin = -1;
    int states = -1;                   ///< the last hidden states, a field of the outputs
    int order = -1;                    ///< of the tokens, window by window
};

class Tower {
public:
    Tower(const QwenVision& vision, std::vector<Tensor>& shared, const TowerFeatures& features)
        : v_(vision), shared_(shared), features_(features) {
        const std::int64_t head = v_.hidden / v_.heads;
        ids_.cos = declare_tensor(shared, "vision cos", head, Rows::patches);
        ids_.sin = declare_tensor(shared, "vision sin", head, Rows::patches);
        if (v_.window > 0) ids_.order = declare_tensor(shared, "order of tokens", 1, Rows::image_tokens);
        const bool merged = v_.merger_width > 0;
        ids_.states = declare_tensor(shared, "image hidden states", merged ? v_.out : v_.hidden,
                                     merged ? Rows::image_tokens : Rows::patches);
        shared.back().held = Held::until_outputs_end;
    }

    [[nodiscard]] Block stem() const;
    [[nodiscard]] Block layer(bool windows) const;
    [[nodiscard]] Block deep_merger(std::size_t join) const;
    void merge_deep(BlockBuilder& b, int x, std::size_t join) const;
    [[nodiscard]] Block merger() const;
    [[nodiscard]] Block convolution_merger() const;

private:
    int sampled_positions(BlockBuilder& b, int x) const;
    int reordered(BlockBuilder& b, int x, std::string_view name, int order) const;
    int attention(BlockBuilder& b, int x, bool windows) const;
    int mlp(BlockBuilder& b, int x) const;
    void merger_weights(BlockBuilder& b, std::string_view module, bool merged_first) const;
    int merge(BlockBuilder& b, int x, std::string_view module, bool merged_first) const;

    const QwenVision& v_;
    std::vector<Tensor>& shared_;
    const TowerFeatures& features_;
    TowerTensors ids_;
};

int Tower::reordered(BlockBuilder& b, int x, std::string_view name, int order) const {
    const int out = b.tensor(std::string(name), b.width(x), b.rows(x));
    b.op(OpKind::reorder, std::string(name), place::embedding, {x, order}, {out});
    return out;
}

/// Patches, learned positions interpolated between those of a square, and tables of the rotation.
Block Tower::stem() const {
    BlockBuilder b("patch embedding");
    const auto ids = [&](std::string name, std::int64_t each, Rows rows) {
        const int out = b.hold_until_model_end(b.tensor(name, each, rows));
        b.op(OpKind::ids, std::move(name), place::embedding, {}, {out});
        return out;
    };
    const std::string name = "patch_embed.proj";
    std::vector<int> filter{
        b.parameter(join(name, "weight"), {v_.hidden, v_.channels, v_.frames, v_.patch, v_.patch}, kVision)};
    if (v_.conv_bias) filter.push_back(b.parameter(join(name, "bias"), {v_.hidden}, kVision));

    constexpr std::int64_t kCorners = 4;
    const int corners = v_.positions > 0 && !v_.sampled ? ids("interp_indices", kCorners, Rows::patches) : -1;
    ids("position_ids", 2, Rows::patches);
    int order = -1;
    if (ids_.order >= 0) {
        order = b.shared(ids_.order, shared_);
        b.op(OpKind::ids, "window_index", place::embedding, {}, {order});
    }
    const int pixels = b.tensor("pixel_values", v_.channels * v_.frames * v_.patch * v_.patch, Rows::patches);
    int x = b.tensor(name, v_.hidden, Rows::patches);
    b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {x}, std::move(filter)).attributes.hookless = v_.hookless;
    if (corners >= 0) {
        const int table = b.parameter("pos_embed.weight", {v_.positions, v_.hidden}, kVision);
        const int positions = b.hold_until_model_end(b.tensor("pos_embeds", v_.hidden, Rows::patches));
        const int weights = b.hold_until_model_end(b.tensor("interp_weights", kCorners, Rows::patches));
        b.op(OpKind::interpolate, "pos_embed", place::embedding, {corners}, {positions, weights}, {table});
        x = b.add(x, positions, "embeddings.sum", place::embedding);
    }
    if (order >= 0) x = reordered(b, x, "window order", order);
    if (v_.merger_width > 0) {
        b.norm_weights("post_conv_layernorm", v_.hidden, v_.norm, kVision);
        x = b.norm(x, "post_conv_layernorm", v_.norm);
    }
    if (!v_.sampled) b.hold_until_model_end(x);

    int cos = b.shared(ids_.cos, shared_), sin = b.shared(ids_.sin, shared_);
    const int tables[] = {cos, sin};
    if (order >= 0) {
        cos = b.hold(b.tensor("cos", b.width(cos), Rows::patches));
        sin = b.hold(b.tensor("sin", b.width(sin), Rows::patches));
    }
    OpAttributes& rotary =
        b.op(OpKind::rotary_tables, "rotary_pos_emb", place::attention, {}, {cos, sin}).attributes;
    rotary.rotary_dim = b.width(cos);
    rotary.axes = 2;
    rotary.rotation = Rotation::halves_cast;
    if (order >= 0) {
        b.op(OpKind::reorder, "cos in window order", place::attention, {cos, order}, {tables[0]});
        b.op(OpKind::reorder, "sin in window order", place::attention, {sin, order}, {tables[1]});
    }
    if (v_.sampled) x = sampled_positions(b, x);
    return std::move(b).finish(x);
}

/// A table of positions, sampled where each patch lies [transformers models/glm4v/modeling_glm4v.py
/// Glm4vVisionEmbeddings.forward].
int Tower::sampled_positions(BlockBuilder& b, int x) const {
    const auto scope = b.scope();
    const int table = b.parameter("embeddings.position_embedding.weight", {v_.positions, v_.hidden}, kVision);
    const int positions = b.hold(b.tensor("embeddings.positions", v_.hidden, Rows::patches));
    b.op(OpKind::interpolate, "embeddings.position_embedding", place::embedding, {x}, {positions}, {table});
    return b.hold_until_model_end(b.add(x, positions, "embeddings.sum", place::embedding));
}

int Tower::attention(BlockBuilder& b, int x, bool windows) const {
    const auto function = b.scope();
    const Place place = in_vision(place::attention);
    const int qkv = b.linear(x, "attn.qkv", 3 * v_.hidden, v_.qkv_bias, place);
    std::vector<int> parts = b.split(qkv, "attn.split", {v_.hidden, v_.hidden, v_.hidden}, place);
    b.last_op().attributes.unbound = true;
    b.hold(parts[2]);
    const auto attributes = [&](OpAttributes& a) {
        a.heads = a.kv_heads = v_.heads;
        a.head_dim = a.value_dim = v_.hidden / v_.heads;
        a.rotation = Rotation::halves_cast;
        a.unbound = true;
        a.rotates = true;
    };
    const int q = b.hold(b.tensor("attn.q", v_.hidden, Rows::patches));
    const int k = b.hold(b.tensor("attn.k", v_.hidden, Rows::patches));
    attributes(b.op(OpKind::rotary, "attn.rotary", place,
                    {parts[0], parts[1], b.shared(ids_.cos, shared_), b.shared(ids_.sin, shared_)}, {q, k}).attributes);
    const int context = b.tensor("attn", v_.hidden, Rows::patches);
    OpAttributes& a = b.op(OpKind::attention, "attn", place, {q, k, parts[2]}, {context}).attributes;
    attributes(a);
    a.causal = false;
    a.each_image = true;
    if (windows) a.image_window = v_.window;
    return b.linear(context, "attn.proj", v_.hidden, v_.proj_bias, place);
}

int Tower::mlp(BlockBuilder& b, int x) const {
    const auto function = b.scope();
    const Place place = in_vision(place::mlp);
    if (v_.gated) {
        const int gate = b.linear(x, "mlp.gate_proj", v_.width, v_.mlp_bias, place);
        const int up = b.linear(x, "mlp.up_proj", v_.width, v_.mlp_bias, place);
        x = b.gated_activation(gate, up, "mlp.act_fn", v_.act, place);
        return b.linear(x, "mlp.down_proj", v_.hidden, v_.mlp_bias, place);
    }
    x = b.linear(x, join("mlp", v_.up), v_.width, true, place);
    x = b.activation(x, join("mlp", v_.act_name), v_.act, place);
    return b.linear(x, join("mlp", v_.down), v_.hidden, true, place);
}

/// h = x + A(n1 x); out = h + M(n2 h).
Block Tower::layer(bool windows) const {
    BlockBuilder b("vision layer");
    b.norm_weights("norm1", v_.hidden, v_.norm, kVision);
    b.norm_weights("norm2", v_.hidden, v_.norm, kVision);
    const int x = b.input(v_.hidden, Rows::patches);
    int y = -1;
    {
        const auto argument = b.scope();  // the norm's result, until the function it is given to returns
        y = b.hold(b.norm(x, "norm1", v_.norm));
        y = attention(b, y, windows);
    }
    const int residual = b.hold(b.add(x, y, "attn.residual"));
    {
        const auto argument = b.scope();
        y = b.hold(b.norm(residual, "norm2", v_.norm));
        y = mlp(b, y);
    }
    y = b.add(residual, y, "mlp.residual");
    b.set_checkpointable();
    return std::move(b).finish(y);
}

void Tower::merger_weights(BlockBuilder& b, std::string_view module, bool merged_first) const {
    b.norm_weights(join(module, v_.merger_norm), merged_first ? v_.merged() : v_.hidden, v_.norm, kVision);
    b.linear_weights(join(module, v_.merger_up), v_.merged(), v_.merged(), true, kVision);
    b.linear_weights(join(module, v_.merger_down), v_.merged(), v_.out, true, kVision);
}

/// Neighbouring patches side by side, normalised before or after, and two linear modules.
int Tower::merge(BlockBuilder& b, int x, std::string_view module, bool merged_first) const {
    const auto function = b.scope();
    const Place place = in_vision(place::embedding);
    const auto merged = [&](int patches) {
        const int view = b.tensor("merged patches", v_.merged(), Rows::image_tokens);
        b.op(OpKind::split, "merged patches", place, {patches}, {view}).attributes.same = true;
        return view;
    };
    const std::string norm = join(module, v_.merger_norm);
    merger_weights(b, module, merged_first);
    if (merged_first)
        x = b.norm(merged(x), norm, v_.norm, place);
    else
        x = merged(b.norm(x, norm, v_.norm, place));
    x = b.linear(b.hold(x), join(module, v_.merger_up), v_.merged(), true, place);
    x = b.activation(x, join(module, v_.merger_act), Act::gelu, place);
    return b.linear(x, join(module, v_.merger_down), v_.out, true, place);
}

void Tower::merge_deep(BlockBuilder& b, int x, std::size_t at_join) const {
    const std::vector<std::size_t> used = v_.used_joins();
    const int feature =
        features_.deep[static_cast<std::size_t>(std::find(used.begin(), used.end(), at_join) - used.begin())];
    b.share(merge(b, x, fmt::format("deepstack_merger_list.{}", at_join), true), feature, shared_);
}

/// Between two layers: features of what passes by.
Block Tower::deep_merger(std::size_t at_join) const {
    BlockBuilder b("deep merger");
    const int x = b.input(v_.hidden, Rows::patches);
    const int out = b.tensor("hidden states", v_.hidden, Rows::patches);
    merge_deep(b, x, at_join);
    b.op(OpKind::split, "hidden states", place::residual, {x}, {out}).attributes.same = true;
    return std::move(b).finish(out);
}

Block Tower::merger() const {
    BlockBuilder b("merger");
    const int input = b.input(v_.hidden, Rows::patches);
    const int x = b.tensor("hidden states", v_.hidden, Rows::patches);
    b.op(OpKind::split, "hidden states", place::residual, {input}, {x}).attributes.same = true;
    b.share(x, ids_.states, shared_);
    for (std::size_t i = 0; i < v_.joins.size(); ++i) {
        if (v_.joins[i] + 1 == v_.layers) merge_deep(b, x, i);
        if (v_.joins[i] >= v_.layers) merger_weights(b, fmt::format("deepstack_merger_list.{}", i), true);
    }
    int order = -1;
    if (ids_.order >= 0) {
        order = b.tensor("reverse_indices", 1, Rows::image_tokens);
        b.op(OpKind::ids, "reverse_indices", place::embedding, {}, {order});
    }
    int y = merge(b, x, "merger", false);
    if (order >= 0) y = reordered(b, y, "given order", order);
    b.share(y, features_.images, shared_);
    b.end_base_model();
    return std::move(b).finish(-1);
}

/// Squares of patches become one token by a convolution, and a gated MLP
/// [transformers models/glm4v/modeling_glm4v.py Glm4vVisionModel.forward, Glm4vVisionPatchMerger.forward].
Block Tower::convolution_merger() const {
    BlockBuilder b("merger");
    const Place place = in_vision(place::embedding);
    b.norm_weights("post_layernorm", v_.hidden, v_.norm, kVision);
    int x = b.norm(b.input(v_.hidden, Rows::patches), "post_layernorm", v_.norm);
    const int filter = b.parameter("downsample.weight", {v_.out, v_.hidden, v_.merge, v_.merge}, kVision);
    const int bias = b.parameter("downsample.bias", {v_.out}, kVision);
    const int tokens = b.tensor("downsample", v_.out, Rows::image_tokens);
    b.op(OpKind::convolution, "downsample", place, {x}, {tokens}, {filter, bias}).attributes.strided = true;
    b.share(tokens, ids_.states, shared_);
    {
        const auto function = b.scope();
        x = b.linear(tokens, "merger.proj", v_.out, false, place);
        b.norm_weights("merger.post_projection_norm", v_.out, norms::layer, kVision);
        x = b.norm(x, "merger.post_projection_norm", norms::layer, place);
        x = b.hold(b.activation(x, "merger.act1", Act::gelu, place));
        const int gate = b.linear(x, "merger.gate_proj", v_.merger_width, false, place);
        const int up = b.linear(x, "merger.up_proj", v_.merger_width, false, place);
        x = b.gated_activation(gate, up, "merger.act_fn", v_.act, place);
        x = b.linear(x, "merger.down_proj", v_.out, false, place);
    }
    b.share(x, features_.images, shared_);
    b.end_base_model();
    return std::move(b).finish(-1);
}

void add_tower(const QwenVision& v, Model& model, const TowerFeatures& features) {
    Tower tower(v, model.shared, features);
    const auto add = [&](std::string prefix, Block block, std::int64_t first = 0) {
        model.sections.push_back({std::move(prefix), first, {static_cast<int>(model.blocks.size())}, 1});
        model.blocks.push_back(std::move(block));
    };
    const std::string root = std::string(kTower) + ".";
    const std::string layers = root + "blocks.{}.";
    add(root, tower.stem());

    const int first = static_cast<int>(model.blocks.size());
    model.blocks.push_back(tower.layer(v.window > 0));
    if (v.window > 0 && !v.whole.empty()) model.blocks.push_back(tower.layer(false));
    const auto among = [](const std::vector<std::int64_t>& list, std::int64_t layer) {
        return std::find(list.begin(), list.end(), layer) != list.end();
    };
    std::vector<int> kinds;
    std::int64_t begin = 0;
    const auto flush = [&](std::int64_t end) {
        for (Section& section : sections_of(kinds, layers)) {
            section.first_index += begin;
            model.sections.push_back(std::move(section));
        }
        kinds.clear();
        begin = end;
    };
    for (std::int64_t i = 0; i < v.layers; ++i) {
        kinds.push_back(first + (v.window > 0 && among(v.whole, i) ? 1 : 0));
        if (!among(v.joins, i) || i + 1 == v.layers) continue;  // the last one's are made beside the merger
        flush(i + 1);
        const auto at = std::find(v.joins.begin(), v.joins.end(), i) - v.joins.begin();
        add(root, tower.deep_merger(static_cast<std::size_t>(at)));
    }
    flush(v.layers);
    add(root, v.merger_width > 0 ? tower.convolution_merger() : tower.merger());
    model.image.channels = v.channels;
    model.image.patch = v.patch;
    model.image.merge = v.merge;
}

/// What all of these configs say.
void read_common(ConfigReader& config, QwenVision& v) {
    v.layers = config.size("depth", kLargestCount);
    v.heads = config.size("num_heads", kLargestCount);
    v.merge = config.size("spatial_merge_size", 64);
    v.patch = config.size("patch_size", kLargestCount);
    v.frames = config.size("temporal_patch_size", kLargestCount);
    v.channels = config.size("in_channels", kLargestCount);
    v.act = config.activation("hidden_act");
}

}  // namespace

std::vector<std::size_t> QwenVision::used_joins() const {
    std::vector<std::size_t> used;
    for (std::int64_t layer = 0; layer < layers; ++layer)
        if (const auto found = std::find(joins.begin(), joins.end(), layer); found != joins.end())
            used.push_back(static_cast<std::size_t>(found - joins.begin()));
    return used;
}

QwenVision read_qwen2_vision(ConfigReader& outer) {
    ConfigReader config = outer.nested(
        "vision_config", "qwen2_vl vision",
        "depth=32 embed_dim=1280 hidden_size=3584 mlp_ratio=4 num_heads=16 in_channels|in_chans=3 "
        "patch_size=14 spatial_merge_size=2 temporal_patch_size=2 hidden_act=quick_gelu");
    QwenVision v;
    v.hidden = config.size("embed_dim");
    v.out = config.size("hidden_size");  // of the merger, not of the tower
    v.width = v.hidden * config.size("mlp_ratio", 64);
    read_common(config, v);
    config.divides("embed_dim", v.hidden, "num_heads", v.heads);
    return v;
}

QwenVision read_qwen2_5_vision(ConfigReader& outer) {
    ConfigReader config = outer.nested(
        "vision_config", "qwen2_5_vl vision",
        "depth=32 hidden_size=3584 intermediate_size=3420 num_heads=16 in_channels|in_chans=3 "
        "patch_size=14 spatial_merge_size=2 temporal_patch_size=2 out_hidden_size=3584 hidden_act=silu "
        "window_size=112 fullatt_block_indexes=[7,15,23,31]");
    QwenVision v;
    v.hidden = config.size("hidden_size");
    v.out = config.size("out_hidden_size");
    v.width = config.size("intermediate_size");
    v.gated = true;
    v.norm = norms::rms;
    read_common(config, v);
    config.divides("hidden_size", v.hidden, "num_heads", v.heads);
    const std::int64_t window = config.size("window_size");
    v.window = window / v.merge / v.patch;
    if (v.window == 0)
        config.invalid("window_size", fmt::format("expected at least the {} pixels of a token; got {}",
                                                  v.merge * v.patch, window));
    v.whole = config.sizes("fullatt_block_indexes");
    return v;
}

QwenVision read_qwen3_vision(ConfigReader& outer, bool deep) {
    ConfigReader config = outer.nested(
        "vision_config", "qwen3_vl vision",
        deep ? "depth=27 hidden_size=1152 intermediate_size=4304 num_heads=16 "
               "in_channels|in_chans=3 patch_size=16 spatial_merge_size=2 temporal_patch_size=2 "
               "out_hidden_size=3584 num_position_embeddings=2304 hidden_act=gelu_pytorch_tanh "
               "deepstack_visual_indexes=[8,16,24]"
             : "depth=27 hidden_size=1152 intermediate_size=4304 num_heads=16 "
               "in_channels|in_chans=3 patch_size=16 spatial_merge_size=2 temporal_patch_size=2 "
               "out_hidden_size=3584 num_position_embeddings=2304 hidden_act=gelu_pytorch_tanh");
    QwenVision v;
    v.hidden = config.size("hidden_size");
    v.out = config.size("out_hidden_size");
    v.width = config.size("intermediate_size");
    v.conv_bias = true;
    v.hookless = true;
    v.up = "linear_fc1";
    v.down = "linear_fc2";
    v.act_name = "act_fn";
    v.merger_norm = "norm";
    v.merger_up = "linear_fc1";
    v.merger_act = "act_fn";
    v.merger_down = "linear_fc2";
    v.positions = config.size("num_position_embeddings");
    read_common(config, v);
    config.divides("hidden_size", v.hidden, "num_heads", v.heads);
    if (!deep) return v;
    v.joins = config.sizes("deepstack_visual_indexes");
    return v;
}

QwenVision read_glm4v_vision(ConfigReader& outer) {
    ConfigReader config = outer.nested(
        "vision_config", "glm4v_vision",
        "depth=24 hidden_size=1536 attention_bias=false image_size=336 patch_size=14 num_heads=12 "
        "in_channels|in_chans=3 spatial_merge_size=2 temporal_patch_size=2 out_hidden_size=4096 "
        "intermediate_size=13696 hidden_act=silu");
    QwenVision v;
    v.hidden = config.size("hidden_size");
    v.out = config.size("out_hidden_size");
    v.width = v.out;
    v.merger_width = config.size("intermediate_size");
    v.conv_bias = true;
    v.hookless = true;
    v.qkv_bias = config.flag("attention_bias");
    v.proj_bias = v.mlp_bias = false;
    v.gated = true;
    v.norm = norms::rms;
    v.sampled = true;
    read_common(config, v);
    config.divides("hidden_size", v.hidden, "num_heads", v.heads);
    const std::int64_t side = std::max<std::int64_t>(1, config.size("image_size", kLargestCount) / v.patch);
    v.positions = side * side;
    return v;
}

void plan_qwen_tower(DecoderPlan& plan, QwenVision vision) {
    plan.any_image_size = true;
    plan.listed_images = true;
    plan.token_types = true;
    plan.size_width = 3;
    plan.position_axes = 3;
    plan.pixel_width = vision.channels * vision.frames * vision.patch * vision.patch;
    plan.deep_features = static_cast<std::int64_t>(vision.used_joins().size());
    plan.tower = [v = std::move(vision)](Model& model, const TowerFeatures& features) { add_tower(v, model, features); };
}

}  // namespace membudget
