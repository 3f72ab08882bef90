#include "model/internvl.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "model/multimodal_parts.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::string_view kTower = "model.vision_tower";
constexpr std::string_view kProjector = "model.multi_modal_projector";

struct InternVision {
    std::int64_t hidden = 1, width = 1, layers = 1, heads = 1, channels = 3, patches = 1;
    Extent image, patch;
    bool bias = false, qk_norm = false, mask_token = false, positions = true, mean_pooling = true;
    Norm norm = norms::layer;
    Act act = Act::gelu;
    double dropout = 0, attention_dropout = 0, projection_dropout = 0;
    bool without_class = true;
    std::int64_t chosen = 0;         ///< layers before the hidden states that the projector reads
    std::int64_t merge = 2;          ///< patches on each side that become one token
    Act projector_act = Act::gelu;

    [[nodiscard]] std::int64_t merged() const { return hidden * merge * merge; }
    [[nodiscard]] std::int64_t tokens() const { return std::max<std::int64_t>(1, patches / (merge * merge)); }
};

InternVision read(ConfigReader& outer) {
    ConfigReader config = outer.nested(
        "vision_config", "internvl_vision",
        "hidden_size=1024 num_hidden_layers=24 num_attention_heads=16 attention_bias=false use_qk_norm=false "
        "intermediate_size=4096 norm_type=layer_norm image_size=[448,448] patch_size=[14,14] num_channels=3 "
        "use_mask_token=false use_absolute_position_embeddings=true use_mean_pooling=true hidden_act=gelu "
        "hidden_dropout_prob=0.0 attention_dropout=0.0 projection_dropout=0.0");
    InternVision v;
    v.hidden = config.size("hidden_size");
    v.width = config.size("intermediate_size");
    v.layers = config.size("num_hidden_layers", kLargestCount);
    v.heads = config.size("num_attention_heads", kLargestCount);
    v.channels = config.size("num_channels", kLargestCount);
    v.image = config.extent("image_size");
    v.patch = config.extent("patch_size");
    v.patches = std::max<std::int64_t>(1, (v.image.height / v.patch.height) * (v.image.width / v.patch.width));
    v.bias = config.flag("attention_bias");
    v.qk_norm = config.flag("use_qk_norm");
    v.mask_token = config.flag("use_mask_token");
    v.positions = config.flag("use_absolute_position_embeddings");
    v.mean_pooling = config.flag("use_mean_pooling");
    v.act = config.activation("hidden_act");
    v.dropout = config.probability("hidden_dropout_prob");
    v.attention_dropout = config.probability("attention_dropout");
    v.projection_dropout = config.probability("projection_dropout");
    config.divides("hidden_size", v.hidden, "num_attention_heads", v.heads);
    const std::string type = config.text("norm_type");
    if (type != "layer_norm" && type != "rms_norm")
        config.invalid("norm_type", fmt::format("expected 'layer_norm' or 'rms_norm'; got '{}'", type));
    v.norm = type == "rms_norm" ? norms::rms : norms::layer;
    // Neighbouring patches become one token: `int(1 / downsample_ratio)` of each side.
    const double ratio = outer.number("downsample_ratio");
    if (!(ratio > 1.0 / 64 && ratio <= 1)) outer.invalid("downsample_ratio", "expected a ratio above 1/64 and at most 1");
    else v.merge = static_cast<std::int64_t>(1 / ratio);
    v.projector_act = outer.activation("projector_hidden_act");
    v.without_class = outer.text("vision_feature_select_strategy") == "default";
    return v;
}

Block stem(const InternVision& v) {
    BlockBuilder b("patch embedding");
    const int pixels = b.tensor("pixel_values", v.channels * v.image.height * v.image.width, Rows::images);
    const int token = b.parameter("embeddings.cls_token", {1, 1, v.hidden}, kVision);
    if (v.mask_token) b.parameter("embeddings.mask_token", {1, 1, v.hidden}, kVision);
    const int positions = v.positions
        ? b.parameter("embeddings.position_embeddings", {1, v.patches + 1, v.hidden}, kVision) : -1;
    const std::string name = "embeddings.patch_embeddings.projection";
    const int weight = b.parameter(join(name, "weight"),
                                   {v.hidden, v.channels, v.patch.height, v.patch.width}, kVision);
    const int bias = b.parameter(join(name, "bias"), {v.hidden}, kVision);
    const int patches = b.tensor(name, detail::checked_mul(v.patches, v.hidden), Rows::images);
    b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {patches}, {weight, bias});
    int x = b.tensor("embeddings.tokens", v.hidden, Rows::patches);
    b.op(OpKind::concat, "embeddings.tokens", place::embedding, {patches}, {x}, {token});
    if (positions >= 0) {
        const int sum = b.tensor("embeddings.sum", v.hidden, Rows::patches);
        b.op(OpKind::add, "embeddings.sum", place::embedding, {x}, {sum}, {positions});
        x = sum;
    }
    x = b.dropout(x, "embeddings.dropout", v.dropout, place::embedding);
    return std::move(b).finish(b.hold_until_model_end(x));
}

int attention(BlockBuilder& b, const InternVision& v, const std::string& module, int x) {
    const auto function = b.scope();
    const Place place = in_vision(place::attention);
    const auto project = [&](std::string_view name, std::string_view norm) {
        int y = b.linear(x, join(module, name), v.hidden, v.bias, place);
        if (v.qk_norm && !norm.empty()) {
            b.norm_weights(join(module, norm), v.hidden, norms::rms, kVision);
            b.hold(y);  // until its normalised form takes the name
            y = b.norm(y, join(module, norm), norms::rms, place);
        }
        return y;
    };
    const int q = b.hold(project("q_proj", "q_norm"));
    const int k = b.hold(project("k_proj", "k_norm"));
    const int value = b.hold(project("v_proj", ""));
    const int context = b.tensor(module, v.hidden, Rows::patches);
    OpAttributes& a = b.op(OpKind::attention, module, place, {q, k, value}, {context}).attributes;
    a.heads = a.kv_heads = v.heads;
    a.head_dim = a.value_dim = v.hidden / v.heads;
    a.causal = false;
    a.dropout = v.attention_dropout;
    const int y = b.linear(b.hold(context), join(module, "projection_layer"), v.hidden, true, place);
    return b.dropout(y, join(module, "projection_dropout"), v.projection_dropout, place);
}

/// A layer, whose modules are found under `module`.
int add_layer(BlockBuilder& b, const InternVision& v, const std::string& module, int x) {
    const auto layer = b.scope();
    const auto scaled = [&](int y, std::string_view name, Place place) {
        const int lambda = b.parameter(join(module, name), {v.hidden}, kVision);
        const int out = b.tensor(join(module, name), v.hidden, Rows::patches);
        b.op(OpKind::multiply, join(module, name), place, {y}, {out}, {lambda});
        return out;
    };
    b.norm_weights(join(module, "layernorm_before"), v.hidden, v.norm, kVision);
    b.norm_weights(join(module, "layernorm_after"), v.hidden, v.norm, kVision);
    int y = -1;
    {
        const auto argument = b.scope();
        y = b.hold(b.norm(x, join(module, "layernorm_before"), v.norm));
        y = attention(b, v, join(module, "attention"), y);
    }
    y = b.hold(scaled(y, "lambda_1", place::attention));  // `attention_output`
    const int residual = b.hold(b.add(y, x, join(module, "attention.residual")));
    {
        const auto name = b.scope();
        y = b.hold(b.norm(residual, join(module, "layernorm_after"), v.norm));
        const auto function = b.scope();
        const Place place = in_vision(place::mlp);
        y = b.linear(y, join(module, "mlp.fc1"), v.width, true, place);
        y = b.activation(y, join(module, "mlp.activation_fn"), v.act, place);
        y = b.linear(y, join(module, "mlp.fc2"), v.hidden, true, place);
    }
    y = b.dropout(y, join(module, "dropout"), v.dropout, place::mlp);
    y = scaled(y, "lambda_2", place::mlp);
    return b.add(y, residual, join(module, "mlp.residual"));
}

Block layer(const InternVision& v) {
    BlockBuilder b("vision layer");
    const int y = add_layer(b, v, "", b.input(v.hidden, Rows::patches));
    b.set_checkpointable();
    return std::move(b).finish(y);
}

/// The hidden states that the projector reads, and what the tower makes of them, which only its outputs read.
int end_of_tower(BlockBuilder& b, const InternVision& v, std::vector<Tensor>& shared) {
    const auto keep = [&](int tensor, std::string name) {  // a field of the outputs
        const int index = declare_tensor(shared, std::move(name), v.hidden, Rows::patches);
        shared.back().held = Held::until_outputs_end;
        b.share(tensor, index, shared.back());
    };
    const int input = b.input(v.hidden, Rows::patches);
    const std::string norm = join(kTower, "layernorm");
    const bool last = v.chosen == v.layers;
    int x = -1;
    if (v.mean_pooling || !last) {
        x = b.tensor("hidden states", v.hidden, Rows::patches);
        b.op(OpKind::split, "hidden states", place::residual, {input}, {x}).attributes.same = true;
    } else {
        b.norm_weights(norm, v.hidden, norms::layer, kVision);
        x = b.norm(input, norm, norms::layer);
    }
    keep(x, "image hidden states");
    int y = x;
    for (std::int64_t i = v.chosen; i < v.layers; ++i) {
        b.set_of_checkpoint(y);
        y = add_layer(b, v, fmt::format("{}.encoder.layer.{}", kTower, i), y);
    }
    if (!last) {
        if (!v.mean_pooling) y = b.norm(y, norm, norms::layer);
        keep(y, "last image hidden states");
    }
    b.end_base_model();
    return x;
}

/// Patches without the class token, shuffled so that neighbours lie side by side, and projected
/// [InternVLModel.get_image_features, pixel_shuffle].
Block projector(const InternVision& v, std::int64_t hidden, std::vector<Tensor>& shared, int features) {
    BlockBuilder b("projector");
    const int x = end_of_tower(b, v, shared);
    const Place place = in_vision(place::embedding);
    int y = b.tensor("selected features", detail::checked_mul(v.patches, v.hidden), Rows::images);
    b.op(OpKind::split, "selected features", place, {x}, {y}).attributes.sliced = true;
    for (const std::string_view name : {"columns side by side", "rows side by side"}) {
        const int copy = b.tensor(std::string(name), v.merged(), Rows::images);
        b.set_times(copy, v.tokens());
        b.op(OpKind::transpose_heads, std::string(name), place, {y}, {copy}).attributes.heads = 2;
        y = copy;
    }
    const std::string norm = join(kProjector, "layer_norm");
    b.norm_weights(norm, v.merged(), norms::layer, kVision);
    y = b.norm(b.hold(y), norm, norms::layer, place);
    y = b.linear(y, join(kProjector, "linear_1"), hidden, true, place);
    y = b.activation(y, join(kProjector, "act"), v.projector_act, place);
    y = b.linear(y, join(kProjector, "linear_2"), hidden, true, place);
    b.share(y, features, shared);
    Block block = std::move(b).finish(-1);
    for (Op& op : block.ops)
        if (v.chosen < v.layers && op.name.starts_with(kTower)) {
            op.reader = Reader::outputs;
            op.within_layer = op.name.starts_with(join(kTower, "encoder.layer"));
        }
    return block;
}

}  // namespace

void plan_internvl_tower(ConfigReader& outer, DecoderPlan& plan) {
    InternVision v = read(outer);
    plan.image_tokens = v.tokens();
    const std::optional<std::int64_t> chosen = layers_before_features(outer, v.layers);
    v.chosen = chosen.value_or(v.layers);
    // The last layer's hidden states are normalised only as the tower's own result.
    const bool unnormed = chosen && !v.mean_pooling && v.chosen == v.layers && outer.number("vision_feature_layer") > 0;
    if (!chosen || unnormed) plan.step_unsupported = "features of these layers of the vision tower are not modelled";
    if (!v.without_class) plan.step_unsupported = "features with the class token do not fill a square";
    const std::int64_t hidden = plan.hidden;
    plan.tower = [v, hidden](Model& model, const TowerFeatures& features) {
        const std::string root = std::string(kTower) + ".";
        add_section(model, root, stem(v), 1);
        add_section(model, root + "encoder.layer.{}.", layer(v), v.chosen);
        add_section(model, "", projector(v, hidden, model.shared, features.images), 1);
        model.image = {v.channels, v.image.height, v.image.width, v.patches + 1, v.patches, v.tokens()};
    };
}

}  // namespace membudget
