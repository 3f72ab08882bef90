// The vision tower of Gemma 4 [transformers models/gemma4/modeling_gemma4.py]: patches by a matrix product, learned
// positions of rows and columns, layers like the text's that rotate in two directions, means over squares of patches.
// The processor fills up each image to the same number of patches; those of padding are masked there, which is not
// modelled: every image has as many patches as it may have.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "model/gemma4.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::string_view kTower = "model.vision_tower";
constexpr std::string_view kEmbedder = "model.embed_vision";

struct Gemma4Vision {
    Gemma4Attention attention;
    std::int64_t hidden = 1, width = 1, layers = 1, patch = 1, pool = 1, positions = 1, tokens = 1;
    Act act = Act::gelu_tanh;
    bool standardize = false;

    [[nodiscard]] std::int64_t patches() const { return detail::checked_mul(tokens, pool * pool); }
    [[nodiscard]] std::int64_t pixels() const { return 3 * patch * patch; }
};

Gemma4Vision read(ConfigReader& outer, DecoderPlan& plan) {
    ConfigReader config = outer.nested(
        "vision_config", "gemma4_vision",
        "hidden_size=768 intermediate_size=3072 num_hidden_layers=16 num_attention_heads=12 num_key_value_heads=12 "
        "head_dim=64 hidden_activation=gelu_pytorch_tanh attention_dropout=0.0 pooling_kernel_size=3 patch_size=16 "
        "position_embedding_size=10240 use_clipped_linears=false standardize=false");
    Gemma4Vision v;
    AttentionWeights& sizes = v.attention.sizes;
    sizes.o = "o_proj.linear", sizes.q = "q_proj.linear";
    sizes.k = "k_proj.linear", sizes.v = "v_proj.linear";
    sizes.hidden = v.hidden = config.size("hidden_size");
    sizes.heads = config.size("num_attention_heads", kLargestCount);
    sizes.kv_heads = config.size("num_key_value_heads", kLargestCount);
    sizes.head_dim = config.size("head_dim");
    sizes.component = kVision;
    v.attention.inner = "linear";
    v.attention.of_patches = v.attention.keys_first = true;
    v.attention.dropout = config.probability("attention_dropout");
    v.width = config.size("intermediate_size");
    v.layers = config.size("num_hidden_layers", kLargestCount);
    v.patch = config.size("patch_size", kLargestCount);
    v.pool = config.size("pooling_kernel_size", 64);
    v.positions = config.size("position_embedding_size");
    v.act = config.activation("hidden_activation");
    v.standardize = config.flag("standardize");
    if (config.flag("use_clipped_linears") && plan.step_unsupported.empty())
        plan.step_unsupported = "clipped projections of the vision tower (use_clipped_linears) are not modelled yet";
    if (sizes.head_dim % 4 != 0 && plan.step_unsupported.empty())
        plan.step_unsupported = "the vision tower's heads do not rotate in two directions";
    return v;
}

/// Patches and their positions; tables of the rotation.
Block stem(const Gemma4Vision& v, const std::vector<Tensor>& shared, int cos, int sin) {
    BlockBuilder b("patch embedding");
    const Place place = in_vision(place::embedding);
    const std::string table_name = "patch_embedder.position_embedding_table";
    const int table = b.parameter(table_name, {2, v.positions, v.hidden}, kVision);
    int x = -1;
    {
        const auto function = b.scope();
        const int pixels = b.hold(b.tensor("pixel_values", v.pixels(), Rows::patches));
        b.op(OpKind::unfold, "pixel_values", place::embedding, {}, {pixels}).attributes.scaled = true;
        const int patches = b.hold(b.linear(pixels, "patch_embedder.input_proj", v.hidden, false, place));
        x = b.tensor("embeddings", v.hidden, Rows::patches);
        b.op(OpKind::grid_positions, table_name, place::embedding, {patches}, {x}, {table});
    }
    b.hold_until_model_end(x);
    OpAttributes& rotary =
        b.op(OpKind::rotary_tables, "encoder.rotary_emb", place::attention, {x},
             {b.shared(cos, shared), b.shared(sin, shared)})
            .attributes;
    rotary.rotary_dim = v.attention.sizes.head_dim;
    rotary.axes = 2;
    rotary.interleaved = true;
    rotary.rotation = Rotation::axial;
    return std::move(b).finish(x);
}

void layer_weights(BlockBuilder& b, const Gemma4Vision& v) {
    attention_weights(b, "self_attn", v.attention.sizes);
    norms_weights(b, {"self_attn.q_norm", "self_attn.k_norm"}, v.attention.sizes.head_dim, norms::rms, kVision);
    for (const std::string_view name : {"mlp.gate_proj.linear", "mlp.up_proj.linear"})
        b.linear_weights(name, v.hidden, v.width, false, kVision);
    b.linear_weights("mlp.down_proj.linear", v.width, v.hidden, false, kVision);
    norms_weights(b, {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                      "post_feedforward_layernorm"}, v.hidden, norms::rms, kVision);
}

int mlp(BlockBuilder& b, const Gemma4Vision& v, int x) {
    const auto function = b.scope();
    const Place place = in_vision(place::mlp);
    const int gate = b.linear(x, "mlp.gate_proj.linear", v.width, false, place);
    const int up = b.linear(x, "mlp.up_proj.linear", v.width, false, place);
    return b.linear(b.gated_activation(gate, up, "mlp.act_fn", v.act, place), "mlp.down_proj.linear", v.hidden, false, place);
}

/// [Gemma4VisionEncoderLayer.forward]
Block layer(const Gemma4Vision& v, const std::vector<Tensor>& shared, int cos, int sin) {
    BlockBuilder b("vision layer");
    layer_weights(b, v);
    const auto sublayer = [&](int x, std::string_view before, std::string_view after, auto&& run) {
        int y = -1;
        {
            const auto name = b.scope();  // the norm's result, until that of the sublayer takes its name
            y = run(b.hold(b.norm(x, before, kGemma4Norm)));
        }
        return b.add(x, b.norm(y, after, kGemma4Norm), join(after, "residual"));
    };
    const int x = b.input(v.hidden, Rows::patches);
    const int residual = b.hold(sublayer(x, "input_layernorm", "post_attention_layernorm", [&](int y) {
        return gemma4_attention(b, v.attention, {}, y, b.shared(cos, shared), b.shared(sin, shared), -1);
    }));
    const int out = sublayer(residual, "pre_feedforward_layernorm", "post_feedforward_layernorm",
                             [&](int y) { return mlp(b, v, y); });
    b.set_checkpointable();
    return std::move(b).finish(out);
}

/// The end of the tower, and the projection of its tokens [Gemma4VisionModel.forward, Gemma4MultimodalEmbedder.forward].
Block projector(const Gemma4Vision& v, std::int64_t hidden, std::vector<Tensor>& shared, int features) {
    BlockBuilder b("projector");
    const int kept = declare_tensor(shared, "vision output", v.hidden, Rows::images);
    shared.back().times = v.tokens;
    shared.back().held = Held::until_outputs_end;  // `image_outputs.last_hidden_state`
    const int input = b.input(v.hidden, Rows::patches);
    b.release(input);
    int x = -1;
    {
        const auto function = b.scope();
        const int states = b.hold(b.tensor("hidden states", v.hidden, Rows::patches));  // `output.last_hidden_state`
        b.op(OpKind::split, "hidden states", place::residual, {input}, {states}).attributes.same = true;
        x = b.tensor(join(kTower, "pooler"), v.hidden, Rows::images);
        b.set_times(x, v.tokens);
        OpAttributes& pool =
            b.op(OpKind::pool_grid, join(kTower, "pooler"), in_vision(place::embedding), {states}, {x}).attributes;
        pool.stride = v.pool;
        pool.normalised = v.standardize;
    }
    b.share(x, kept, shared);
    b.end_base_model();
    {
        const auto function = b.scope();
        const int normed = b.hold(b.norm(x, join(kEmbedder, "embedding_pre_projection_norm"), kGemma4NormAlone));
        const std::string name = join(kEmbedder, "embedding_projection");
        x = b.linear(normed, name, hidden, false, in_vision(place::embedding));
        b.parameter_named(join(name, "weight")).registered_last = true;
    }
    b.share(x, features, shared);
    return std::move(b).finish(-1);
}

/// Tokens of an image in rows and columns, as near to a square as they can be.
ImageShape shape(const Gemma4Vision& v) {
    std::int64_t rows = 1;
    for (std::int64_t side = 1; side * side <= v.tokens; ++side)
        if (v.tokens % side == 0) rows = side;
    const std::int64_t cell = v.patch * v.pool;
    ImageShape out{3, rows * cell, v.tokens / rows * cell, v.patches(), v.patches(), v.tokens};
    return out;
}

}  // namespace

void plan_gemma4_tower(ConfigReader& outer, DecoderPlan& plan, std::int64_t tokens) {
    Gemma4Vision v = read(outer, plan);
    v.tokens = tokens;
    plan.image_tokens = tokens;
    plan.listed_images = true;
    plan.position_ids = true;
    const std::int64_t hidden = plan.hidden;
    plan.tower = [v, hidden](Model& model, const TowerFeatures& features) {
        const std::string root = std::string(kTower) + ".";
        const std::int64_t head = v.attention.sizes.head_dim;
        const int cos = declare_tensor(model.shared, "vision rotary_emb.cos", head, Rows::patches);
        const int sin = declare_tensor(model.shared, "vision rotary_emb.sin", head, Rows::patches);
        add_section(model, root, stem(v, model.shared, cos, sin), 1);
        add_section(model, root + "encoder.layers.{}.", layer(v, model.shared, cos, sin), v.layers);
        add_section(model, "", projector(v, hidden, model.shared, features.images), 1);
        model.image = shape(v);
    };
}

}  // namespace membudget
