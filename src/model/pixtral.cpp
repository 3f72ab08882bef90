#include "model/pixtral.hpp"

#include <utility>

#include <fmt/format.h>

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::string_view kTower = "model.vision_tower";
constexpr std::string_view kProjector = "model.multi_modal_projector";

class Tower {
public:
    Tower(const Pixtral& vision, const PixtralProjector& projector, std::vector<Tensor>& shared)
        : v_(vision), p_(projector), shared_(shared) {
        const std::int64_t head = v_.hidden / v_.heads;
        cos_ = declare_tensor(shared, "vision cos", head, Rows::patches);
        sin_ = declare_tensor(shared, "vision sin", head, Rows::patches);
        mask_ = declare_tensor(shared, "mask of patches", 0, Rows::one);
        shared.back().held = Held::until_scope_end;  // an argument by position
        states_ = declare_tensor(shared, "image hidden states", v_.hidden, Rows::patches);
        shared.back().held = Held::until_outputs_end;
        if (v_.chosen == v_.layers) return;
        last_states_ = declare_tensor(shared, "last image hidden states", v_.hidden, Rows::patches);
        shared.back().held = Held::until_outputs_end;
    }

    [[nodiscard]] Block stem() const;
    [[nodiscard]] Block layer() const;
    [[nodiscard]] Block projector(std::int64_t hidden, int features) const;

private:
    [[nodiscard]] const Tensor& at(int index) const { return shared_[static_cast<std::size_t>(index)]; }
    int attention(BlockBuilder& b, const std::string& module, int x) const;
    int mlp(BlockBuilder& b, const std::string& module, int x) const;
    int add_layer(BlockBuilder& b, const std::string& module, int x) const;
    int end_of_tower(BlockBuilder& b) const;

    const Pixtral& v_;
    const PixtralProjector& p_;
    std::vector<Tensor>& shared_;
    int cos_ = -1, sin_ = -1, mask_ = -1, states_ = -1, last_states_ = -1;
};

/// Patches by a convolution, cut to each image's size and copied together.
Block Tower::stem() const {
    BlockBuilder b("patch embedding");
    const std::string name = "patch_conv";
    std::vector<int> filter{b.parameter(join(name, "weight"), {v_.hidden, v_.channels, v_.patch, v_.patch}, kVision)};
    const int pixels = b.tensor("pixel_values", v_.channels * v_.patch * v_.patch, Rows::patches);
    const int patches = b.hold_until_model_end(b.tensor(name, v_.hidden, Rows::patches));
    b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {patches}, std::move(filter));
    int x = b.tensor("patch_embeds", v_.hidden, Rows::patches);
    b.op(OpKind::concat, "patch_embeds", place::embedding, {patches}, {x}).attributes.listed = true;
    b.norm_weights("ln_pre", v_.hidden, norms::rms, kVision);
    x = b.hold_until_model_end(b.norm(x, "ln_pre", norms::rms));

    const int positions = b.hold_until_model_end(b.tensor("position_ids", 2, Rows::patches));
    b.op(OpKind::ids, "position_ids", place::embedding, {}, {positions});
    OpAttributes& rotary = b.op(OpKind::rotary_tables, "patch_positional_embedding", place::attention, {x},
                                {b.shared(cos_, shared_), b.shared(sin_, shared_)}).attributes;
    rotary.rotary_dim = v_.hidden / v_.heads;
    rotary.axes = 2;
    OpAttributes& mask =
        b.op(OpKind::attention_mask, at(mask_).name, place::attention, {x}, {b.shared(mask_, shared_)}).attributes;
    mask.packed = true;
    mask.causal = false;
    mask.queries = mask.keys = Rows::patches;
    return std::move(b).finish(x);
}

int Tower::attention(BlockBuilder& b, const std::string& module, int x) const {
    const auto function = b.scope();
    const Place place = in_vision(place::attention);
    const auto project = [&](std::string_view name) {
        return b.linear(x, join(module, name), v_.hidden, false, place);
    };
    const int q = project("q_proj");
    const int k = project("k_proj");
    const int v = b.hold(project("v_proj"));
    const auto attributes = [&](OpAttributes& a) {
        a.heads = a.kv_heads = v_.heads;
        a.head_dim = a.value_dim = v_.hidden / v_.heads;
        a.rotates = true;
    };
    const int rotated_q = b.hold(b.tensor(join(module, "q"), v_.hidden, Rows::patches));
    const int rotated_k = b.hold(b.tensor(join(module, "k"), v_.hidden, Rows::patches));
    attributes(b.op(OpKind::rotary, join(module, "rotary"), place, {q, k, b.shared(cos_, shared_), b.shared(sin_, shared_)},
                    {rotated_q, rotated_k}).attributes);
    const int context = b.tensor(module, v_.hidden, Rows::patches);
    OpAttributes& a = b.op(OpKind::attention, module, place, {rotated_q, rotated_k, v, b.shared(mask_, shared_)},
                           {context}).attributes;
    attributes(a);
    a.causal = false;
    a.packed = true;
    a.dropout = v_.dropout;
    return b.linear(context, join(module, "o_proj"), v_.hidden, false, place);
}

int Tower::mlp(BlockBuilder& b, const std::string& module, int x) const {
    const auto function = b.scope();
    const Place place = in_vision(place::mlp);
    const int gate = b.linear(x, join(module, "gate_proj"), v_.width, false, place);
    const int up = b.linear(x, join(module, "up_proj"), v_.width, false, place);
    x = b.gated_activation(gate, up, join(module, "act_fn"), v_.act, place);
    return b.linear(x, join(module, "down_proj"), v_.hidden, false, place);
}

/// A layer, whose modules are found under `module`.
int Tower::add_layer(BlockBuilder& b, const std::string& module, int x) const {
    const auto layer = b.scope();
    const std::string before = join(module, "attention_norm"), between = join(module, "ffn_norm");
    b.norm_weights(before, v_.hidden, norms::rms, kVision);
    b.norm_weights(between, v_.hidden, norms::rms, kVision);
    int y = -1;
    {
        const auto name = b.scope();  // the norm's result, until the attention's rebinds it
        y = b.hold(b.norm(x, before, norms::rms));
        y = attention(b, join(module, "attention"), y);
    }
    const int residual = b.hold(b.add(x, y, join(module, "attention.residual")));
    {
        const auto name = b.scope();
        y = b.hold(b.norm(residual, between, norms::rms));
        y = mlp(b, join(module, "feed_forward"), y);
    }
    return b.add(residual, y, join(module, "feed_forward.residual"));
}

Block Tower::layer() const {
    BlockBuilder b("vision layer");
    const int y = add_layer(b, "", b.input(v_.hidden, Rows::patches));
    b.set_checkpointable();
    return std::move(b).finish(y);
}

/// The hidden states that the projector reads, and what the tower makes of them, which only its outputs read.
int Tower::end_of_tower(BlockBuilder& b) const {
    const int input = b.input(v_.hidden, Rows::patches);
    const int x = b.tensor("hidden states", v_.hidden, Rows::patches);
    b.op(OpKind::split, "hidden states", place::residual, {input}, {x}).attributes.same = true;
    b.share(x, states_, shared_);
    int last = x;
    for (std::int64_t i = v_.chosen; i < v_.layers; ++i) {
        b.set_of_checkpoint(last);
        last = add_layer(b, fmt::format("{}.transformer.layers.{}", kTower, i), last);
    }
    if (last != x) b.share(last, last_states_, shared_);
    b.end_base_model();
    return x;
}

/// Squares of neighbouring patches become one token [transformers models/mistral3/modeling_mistral3.py
/// Mistral3MultiModalProjector.forward, Mistral3PatchMerger.forward].
Block Tower::projector(std::int64_t hidden, int features) const {
    BlockBuilder b("projector");
    const Place place = in_vision(place::embedding);
    int x = end_of_tower(b);
    const std::string norm = join(kProjector, "norm");
    b.norm_weights(norm, v_.hidden, norms::rms, kVision);
    {
        const auto name = b.scope();
        x = b.hold(b.norm(x, norm, norms::rms, place));
        const auto merger = b.scope();
        const int squares = b.hold(b.tensor("squares", v_.hidden * p_.merge * p_.merge, Rows::image_tokens));
        b.op(OpKind::unfold, join(kProjector, "patch_merger"), place, {x}, {squares});
        x = b.linear(squares, join(kProjector, "patch_merger.merging_layer"), v_.hidden, false, place);
    }
    x = b.linear(x, join(kProjector, "linear_1"), hidden, p_.bias, place);
    x = b.activation(x, join(kProjector, "act"), p_.act, place);
    x = b.linear(x, join(kProjector, "linear_2"), hidden, p_.bias, place);
    b.share(x, features, shared_);
    Block block = std::move(b).finish(-1);
    for (Op& op : block.ops)
        if (op.name.starts_with(kTower)) {
            op.reader = Reader::outputs;
            op.within_layer = true;
        }
    return block;
}

}  // namespace

Pixtral read_pixtral(ConfigReader config) {
    Pixtral v;
    v.hidden = config.size("hidden_size");
    v.width = config.size("intermediate_size");
    v.layers = config.size("num_hidden_layers", kLargestCount);
    v.heads = config.size("num_attention_heads", kLargestCount);
    v.channels = config.size("num_channels", kLargestCount);
    v.patch = config.size("patch_size", kLargestCount);
    v.act = config.activation("hidden_act");
    v.dropout = config.probability("attention_dropout");
    config.divides("hidden_size", v.hidden, "num_attention_heads", v.heads);
    return v;
}

void plan_pixtral_tower(DecoderPlan& plan, const Pixtral& vision, const PixtralProjector& projector) {
    plan.any_image_size = true;
    plan.listed_images = true;
    plan.size_width = 2;
    plan.pixel_width = vision.channels * vision.patch * vision.patch;
    plan.tower = [vision, projector, hidden = plan.hidden](Model& model, const TowerFeatures& features) {
        const Tower tower(vision, projector, model.shared);
        const std::string root = std::string(kTower) + ".";
        add_section(model, root, tower.stem(), 1);
        add_section(model, root + "transformer.layers.{}.", tower.layer(), vision.chosen);
        add_section(model, "", tower.projector(hidden, features.images), 1);
        model.image.channels = vision.channels;
        model.image.patch = vision.patch;
        model.image.merge = projector.merge;
    };
}

}  // namespace membudget
