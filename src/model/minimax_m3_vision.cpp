// The vision tower of MiniMax-M3 [transformers models/minimax_m3_vl/modeling_minimax_m3_vl.py], which takes images of any
// size: rotation in three directions, and a projector that merges neighbouring patches between its two halves.

#include <algorithm>
#include <utility>

#include "model/llama_like.hpp"
#include "model/moe.hpp"
#include "model/multimodal.hpp"
#include "model/multimodal_parts.hpp"
#include "model/patch_layer.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::string_view kTower = "model.vision_tower.";

struct MinimaxVision {
    std::int64_t hidden = 1, width = 1, layers = 1, heads = 1;
    std::int64_t channels = 3, patch = 1, frames = 2, merge = 1;
    std::int64_t inner = 1;  ///< width of the projector
    Act act = Act::gelu;

    [[nodiscard]] std::int64_t pixels() const {
        return detail::checked_mul(detail::checked_mul(channels, frames), detail::checked_mul(patch, patch));
    }
    /// Dimensions of each head that rotate: as many for each of three directions
    /// [MiniMaxM3VLVisionRotaryEmbedding.compute_axial_rope_parameters].
    [[nodiscard]] std::int64_t rotated() const { return 6 * (hidden / heads / 3 / 2); }
};

MinimaxVision read(ConfigReader& outer) {
    ConfigReader config = outer.nested(
        "vision_config", "minimax_m3_vl_vision",
        "hidden_size=1280 intermediate_size=5120 num_hidden_layers=32 num_attention_heads=16 num_channels=3 "
        "patch_size=14 temporal_patch_size=2 spatial_merge_size=2 hidden_act=gelu");
    MinimaxVision v;
    v.hidden = config.size("hidden_size");
    v.width = config.size("intermediate_size");
    v.layers = config.size("num_hidden_layers", kLargestCount);
    v.heads = config.size("num_attention_heads", kLargestCount);
    v.channels = config.size("num_channels", kLargestCount);
    v.patch = config.size("patch_size", kLargestCount);
    v.frames = config.size("temporal_patch_size", kLargestCount);
    v.merge = config.size("spatial_merge_size", 64);
    v.act = config.activation("hidden_act");
    v.inner = outer.size("projector_hidden_size");
    config.divides("hidden_size", v.hidden, "num_attention_heads", v.heads);
    return v;
}

class Tower {
public:
    Tower(const MinimaxVision& vision, std::vector<Tensor>& shared) : v_(vision), shared_(shared) {
        tables_.cos = declare_tensor(shared, "vision cos", v_.rotated(), Rows::patches);
        tables_.sin = declare_tensor(shared, "vision sin", v_.rotated(), Rows::patches);
        states_ = declare_tensor(shared, "image hidden states", v_.hidden, Rows::patches);
        shared.back().held = Held::until_outputs_end;
    }

    [[nodiscard]] Block stem() const;
    [[nodiscard]] Block layer() const;
    [[nodiscard]] Block projector(std::int64_t hidden, int features) const;

private:

    const MinimaxVision& v_;
    std::vector<Tensor>& shared_;
    PatchTables tables_;
    int states_ = -1;
};

/// MiniMaxM3VLVisionModel.forward before its layers.
Block Tower::stem() const {
    BlockBuilder b("patch embedding");
    const std::string name = "embeddings.proj", norm = "pre_layrnorm";  // the class spells it so
    const int filter = b.parameter(join(name, "weight"), {v_.hidden, v_.channels, v_.frames, v_.patch, v_.patch}, kVision);
    b.norm_weights(norm, v_.hidden, norms::layer, kVision);
    const int pixels = b.tensor("pixel_values", v_.pixels(), Rows::patches);
    const int patches = b.hold_until_model_end(b.tensor(name, v_.hidden, Rows::patches));
    OpAttributes& conv = b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {patches}, {filter}).attributes;
    conv.hookless = true;
    conv.cast_to_weight = true;  // of the norm, which has the filter's type
    const int ids = b.hold_until_model_end(b.tensor("position_ids", 3, Rows::patches));
    b.op(OpKind::ids, "position_ids", place::embedding, {}, {ids});
    const int cos = b.shared(tables_.cos, shared_), sin = b.shared(tables_.sin, shared_);
    OpAttributes& rotary = b.op(OpKind::rotary_tables, "rotary_emb", place::attention, {}, {cos, sin}).attributes;
    rotary.rotary_dim = v_.rotated();
    rotary.axes = 2;
    rotary.interleaved = true;  // the directions lie side by side: no sections are put together
    return std::move(b).finish(b.norm(patches, norm, norms::layer));
}

Block Tower::layer() const {
    PatchLayer plan;
    plan.hidden = v_.hidden;
    plan.width = v_.width;
    plan.heads = v_.heads;
    plan.act = v_.act;
    plan.rotation = Rotation::halves_joined;
    plan.rotary_dim = v_.rotated();
    plan.attention = "self_attn";
    plan.out = "out_proj";
    plan.act_name = "activation_fn";
    plan.norms[0] = "layer_norm1";
    plan.norms[1] = "layer_norm2";
    plan.returns_weights = true;
    return patch_layer(plan, tables_, shared_);
}

/// MiniMaxM3VLMultiModalProjector.forward: patches are merged when they are as wide as words.
Block Tower::projector(std::int64_t hidden, int features) const {
    BlockBuilder b("projector");
    const Place place = in_vision(place::embedding);
    const std::string module = "model.multi_modal_projector";
    const int input = b.input(v_.hidden, Rows::patches);
    int x = b.tensor("hidden states", v_.hidden, Rows::patches);
    b.op(OpKind::split, "hidden states", place::residual, {input}, {x}).attributes.same = true;
    b.share(x, states_, shared_);
    b.end_base_model();
    x = b.linear(x, join(module, "linear_1"), v_.inner, true, place);
    x = b.activation(x, join(module, "act"), Act::gelu, place);
    x = b.linear(x, join(module, "linear_2"), hidden, true, place);
    const int squares = b.hold(b.tensor("squares", hidden * v_.merge * v_.merge, Rows::image_tokens));
    b.op(OpKind::split, "squares", place, {x}, {squares}).attributes.same = true;
    x = b.linear(squares, join(module, "merge_linear_1"), v_.inner, true, place);
    x = b.activation(x, join(module, "merge_act"), Act::gelu, place);
    x = b.linear(x, join(module, "merge_linear_2"), hidden, true, place);
    b.share(x, features, shared_);
    return std::move(b).finish(-1);
}

}  // namespace

void configure_minimax_m3_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text = config.nested("text_config", "minimax_m3_vl_text", families().find("minimax_m3_vl_text")->keys);
    read_text(text, config, configure_minimax_m3, plan);
    const MinimaxVision v = read(config);
    plan.any_image_size = true;
    plan.listed_images = true;
    plan.size_width = 3;
    plan.pixel_width = v.pixels();
    plan.tower = [v, hidden = plan.hidden](Model& model, const TowerFeatures& features) {
        const Tower tower(v, model.shared);
        add_section(model, std::string(kTower), tower.stem(), 1);
        add_section(model, std::string(kTower) + "layers.{}.", tower.layer(), v.layers);
        add_section(model, "", tower.projector(hidden, features.images), 1);
        model.image.channels = v.channels;
        model.image.patch = v.patch;
        model.image.merge = v.merge;
    };
    parts.add_decoder(plan);
}

}  // namespace membudget
