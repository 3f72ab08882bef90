// The vision tower of Llama 4 [transformers models/llama4/modeling_llama4.py]: patches by a matrix product, the class
// token behind them, layers of ViT whose queries and keys rotate as complex numbers, and an adapter.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "model/vision.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

struct Llama4Vision {
    std::int64_t hidden = 1, width = 1, layers = 1, heads = 1, channels = 3, image = 1, patch = 1;
    std::int64_t merge = 2;  ///< patches on each side that become one token
    std::int64_t adapter_in = 1, adapter_out = 1, output = 1;
    double dropout = 0, adapter_dropout = 0;

    [[nodiscard]] std::int64_t side() const { return std::max<std::int64_t>(1, image / patch); }
    [[nodiscard]] std::int64_t patches() const { return side() * side(); }
    [[nodiscard]] std::int64_t tokens() const { return std::max<std::int64_t>(1, patches() / (merge * merge)); }
    [[nodiscard]] std::int64_t merged() const { return detail::checked_mul(hidden, merge * merge); }
};

Llama4Vision read(ConfigReader& outer) {
    ConfigReader config = outer.nested(
        "vision_config", "llama4_vision_model",
        "hidden_size=768 num_hidden_layers=34 num_attention_heads=16 num_channels=3 "
        "intermediate_size=5632 vision_output_dim=7680 image_size=448 patch_size=14 pixel_shuffle_ratio=0.5 "
        "projector_input_dim=4096 projector_output_dim=4096 attention_dropout=0.0 projector_dropout=0.0");
    Llama4Vision v;
    v.hidden = config.size("hidden_size");
    v.width = config.size("intermediate_size");
    v.layers = config.size("num_hidden_layers", kLargestCount);
    v.heads = config.size("num_attention_heads", kLargestCount);
    v.channels = config.size("num_channels", kLargestCount);
    v.image = config.size("image_size", kLargestCount);
    v.patch = config.size("patch_size", kLargestCount);
    v.adapter_in = config.size("projector_input_dim");
    v.adapter_out = config.size("projector_output_dim");
    v.output = config.size("vision_output_dim");
    v.dropout = config.probability("attention_dropout");
    v.adapter_dropout = config.probability("projector_dropout");
    config.divides("hidden_size", v.hidden, "num_attention_heads", v.heads);
    const double ratio = config.number("pixel_shuffle_ratio");
    if (!(ratio > 1.0 / 64 && ratio <= 1))
        config.invalid("pixel_shuffle_ratio", "expected a ratio above 1/64 and at most 1");
    else
        v.merge = static_cast<std::int64_t>(1 / ratio);
    return v;
}

/// What the class cannot compute, whatever it is given; empty: it can.
std::string fault(const Llama4Vision& v, bool given) {
    if (v.width != v.merged())
        return fmt::format("{}the tower's adapter reads {} numbers of each token (intermediate_size) and gets {}",
                           given ? "" : "the config has no vision_config, and by the class's defaults ", v.width, v.merged());
    if (v.adapter_in != v.adapter_out || v.adapter_out != v.output)
        return "projector_input_dim, projector_output_dim and vision_output_dim differ";
    if (v.side() % v.merge != 0) return "the patches of an image do not make up whole tokens";
    return {};
}

Block stem(const Llama4Vision& v) {
    BlockBuilder b("patch embedding");
    const int token = b.parameter("class_embedding", {v.hidden}, kVision);
    const int table = b.parameter("positional_embedding_vlm", {v.patches() + 1, v.hidden}, kVision);
    const int pixels = b.tensor("patch_embedding.unfold", v.channels * v.patch * v.patch, Rows::images);
    b.set_times(pixels, v.patches());
    b.op(OpKind::unfold, "patch_embedding.unfold", place::embedding, {}, {pixels});
    const int patches = b.linear(pixels, "patch_embedding.linear", v.hidden, false, in_vision(place::embedding));
    b.last_op().attributes.unfolded = true;
    const int tokens = b.tensor("tokens", v.hidden, Rows::patches);
    b.op(OpKind::concat, "tokens", place::embedding, {patches}, {tokens}, {token});
    const int sum = b.tensor("positions", v.hidden, Rows::patches);
    b.op(OpKind::add, "positions", place::embedding, {tokens}, {sum}, {table});
    b.norm_weights("layernorm_pre", v.hidden, norms::layer, kVision);
    const int x = b.norm(sum, "layernorm_pre", norms::layer);
    return std::move(b).finish(b.hold_until_model_end(x));
}

int attention(BlockBuilder& b, const Llama4Vision& v, int x) {
    const auto function = b.scope();
    const Place place = in_vision(place::attention);
    const auto project = [&](std::string_view name) {
        return b.linear(x, join("self_attn", name), v.hidden, true, place);
    };
    const int q = project("q_proj");
    const int k = project("k_proj");
    const int value = b.hold(project("v_proj"));
    const auto sizes = [&](OpAttributes& a) {
        a.heads = a.kv_heads = v.heads;
        a.head_dim = a.value_dim = v.hidden / v.heads;
    };
    const int rotated_q = b.hold(b.tensor("self_attn.query", v.hidden, Rows::patches));
    const int rotated_k = b.hold(b.tensor("self_attn.key", v.hidden, Rows::patches));
    OpAttributes& rotary = b.op(OpKind::rotary, "self_attn.rotary", place, {q, k}, {rotated_q, rotated_k}).attributes;
    sizes(rotary);
    rotary.rotation = Rotation::complex;
    const int context = b.tensor("self_attn", v.hidden, Rows::patches);
    OpAttributes& a = b.op(OpKind::attention, "self_attn", place, {rotated_q, rotated_k, value}, {context}).attributes;
    sizes(a);
    a.causal = false;
    a.softmax_in_dtype = true;
    a.dropout = v.dropout;
    return b.linear(context, "self_attn.o_proj", v.hidden, true, place);
}

int mlp(BlockBuilder& b, const Llama4Vision& v, int x) {
    const auto function = b.scope();
    const Place place = in_vision(place::mlp);
    x = b.linear(x, "mlp.fc1", v.width, true, place);
    x = b.activation(x, "mlp.activation_fn", Act::gelu, place);
    return b.linear(x, "mlp.fc2", v.hidden, true, place);
}

Block layer(const Llama4Vision& v) {
    BlockBuilder b("vision layer");
    for (const std::string_view name : {"q_proj", "k_proj", "v_proj", "o_proj"})
        b.linear_weights(join("self_attn", name), v.hidden, v.hidden, true, kVision);
    b.linear_weights("mlp.fc1", v.hidden, v.width, true, kVision);
    b.linear_weights("mlp.fc2", v.width, v.hidden, true, kVision);
    b.norm_weights("input_layernorm", v.hidden, norms::layer, kVision);
    b.norm_weights("post_attention_layernorm", v.hidden, norms::layer, kVision);
    const int x = b.input(v.hidden, Rows::patches);
    int y = -1;
    {
        const auto name = b.scope();  // the norm's result, until the attention's rebinds it
        y = b.hold(b.norm(x, "input_layernorm", norms::layer));
        y = attention(b, v, y);
    }
    const int residual = b.hold(b.add(x, y, "attention.residual"));
    {
        const auto name = b.scope();
        y = b.hold(b.norm(residual, "post_attention_layernorm", norms::layer));
        y = mlp(b, v, y);
    }
    y = b.add(residual, y, "mlp.residual");
    b.set_checkpointable();
    b.set_by_keyword();  // [Llama4VisionEncoder.forward]
    return std::move(b).finish(y);
}

/// Patches without the class token, shuffled so that neighbours lie side by side, and two matrices
/// [Llama4VisionPixelShuffleMLP.forward, pixel_shuffle].
int adapter(BlockBuilder& b, const Llama4Vision& v, int x) {
    const Place place = in_vision(place::embedding);
    const std::string module = "vision_model.vision_adapter.mlp";
    const auto argument = b.scope();
    int y = b.hold(b.tensor("patches", detail::checked_mul(v.patches(), v.hidden), Rows::images));
    b.op(OpKind::split, "patches", place, {x}, {y}).attributes.sliced = true;
    int copy = -1;
    for (const std::string_view name : {"columns side by side", "rows side by side"}) {
        copy = b.tensor(std::string(name), v.width, Rows::images);
        b.set_times(copy, v.tokens());
        b.op(OpKind::transpose_heads, std::string(name), place, {y}, {copy}).attributes.heads = 2;
        y = copy;
    }
    y = b.linear(b.hold(y), join(module, "fc1"), v.adapter_in, false, place);
    y = b.activation(y, join(module, "activation_fn"), Act::gelu, place);
    y = b.hold(b.dropout(y, join(module, "dropout"), v.adapter_dropout, place));
    y = b.linear(y, join(module, "fc2"), v.adapter_out, false, place);
    return b.activation(y, join(module, "activation_fn.1"), Act::gelu, place);
}

/// The end of the tower, and the projector [Llama4VisionModel.forward, Llama4ForConditionalGeneration.forward].
Block projector(const Llama4Vision& v, std::int64_t hidden, std::vector<Tensor>& shared, int features) {
    BlockBuilder b("projector");
    const int kept = declare_tensor(shared, "vision output", v.adapter_out, Rows::images);
    shared.back().times = v.tokens();
    shared.back().held = Held::until_return;  // `image_features`
    b.norm_weights("vision_model.layernorm_post", v.hidden, norms::layer, kVision);
    // As the class declares them, whether they fit what they get or not.
    b.linear_weights("vision_model.vision_adapter.mlp.fc1", v.width, v.adapter_in, false, kVision);
    b.linear_weights("vision_model.vision_adapter.mlp.fc2", v.adapter_out, v.adapter_out, false, kVision);
    b.linear_weights("multi_modal_projector.linear_1", v.output, hidden, false, kVision);
    const int input = b.input(v.hidden, Rows::patches);
    b.release(input);
    const auto tower = [&] {
        const auto function = b.scope();
        const int states = b.hold(b.tensor("hidden states", v.hidden, Rows::patches));  // `output.last_hidden_state`
        b.op(OpKind::split, "hidden states", place::residual, {input}, {states}).attributes.same = true;
        b.end_base_model();
        return adapter(b, v, b.norm(states, "vision_model.layernorm_post", norms::layer));
    };
    int x = tower();
    b.share(x, kept, shared);
    x = b.linear(x, "multi_modal_projector.linear_1", hidden, false, in_vision(place::embedding));
    b.share(x, features, shared);
    return std::move(b).finish(-1);
}

}  // namespace

void plan_llama4_tower(ConfigReader& outer, DecoderPlan& plan) {
    const Llama4Vision v = read(outer);
    plan.image_tokens = v.tokens();
    plan.decoder_within = true;
    if (plan.step_unsupported.empty()) plan.step_unsupported = fault(v, outer.raw("vision_config") != nullptr);
    const std::int64_t hidden = plan.hidden;
    plan.tower = [v, hidden](Model& model, const TowerFeatures& features) {
        add_section(model, "vision_model.", stem(v), 1);
        add_section(model, "vision_model.model.layers.{}.", layer(v), v.layers);
        add_section(model, "", projector(v, hidden, model.shared, features.images), 1);
        model.image = {v.channels, v.image, v.image, v.patches() + 1, v.patches(), v.tokens()};
    };
}

}  // namespace membudget
