// The vision tower of Kimi K2.5 [transformers models/kimi_k25/modeling_kimi_k25.py], which takes images of any size:
// positions resampled from a table, layers that are told where each image ends, and frames that are pooled.

#include <utility>

#include <fmt/format.h>

#include "model/latent.hpp"
#include "model/multimodal.hpp"
#include "model/multimodal_parts.hpp"
#include "model/patch_layer.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::string_view kTower = "model.vision_tower";
constexpr std::string_view kProjector = "model.mm_projector";

struct KimiVision {
    std::int64_t hidden = 1, width = 1, layers = 1, heads = 1, patch = 1;
    Extent table, merge;
    std::int64_t normed = 1;  ///< width of the projector's norm
    Act act = Act::gelu_tanh;

    [[nodiscard]] std::int64_t merged() const {
        return detail::checked_mul(hidden, detail::checked_mul(merge.height, merge.width));
    }
    [[nodiscard]] std::int64_t pixels() const { return 3 * patch * patch; }
};

KimiVision read(ConfigReader& outer) {
    // Published files have the names of the code beside their weights.
    ConfigReader config = outer.nested(
        "vision_config", "kimi_k25_vision",
        "patch_size=14 pos_emb_height|init_pos_emb_height=64 pos_emb_width|init_pos_emb_width=64 "
        "num_hidden_layers|vt_num_hidden_layers=27 hidden_size|vt_hidden_size=1152 "
        "num_attention_heads|vt_num_attention_heads=16 intermediate_size|vt_intermediate_size=4304 "
        "hidden_act=gelu_pytorch_tanh merge_kernel_size=[2,2]");
    KimiVision v;
    v.hidden = config.size("hidden_size");
    v.width = config.size("intermediate_size");
    v.layers = config.size("num_hidden_layers", kLargestCount);
    v.heads = config.size("num_attention_heads", kLargestCount);
    v.patch = config.size("patch_size", kLargestCount);
    v.table = {config.size("pos_emb_height", kLargestCount), config.size("pos_emb_width", kLargestCount)};
    v.merge = config.extent("merge_kernel_size");
    v.act = config.activation("hidden_act");
    v.normed = outer.size("projection_hidden_size");
    config.divides("hidden_size", v.hidden, "num_attention_heads", v.heads);
    return v;
}

class Tower {
public:
    Tower(const KimiVision& vision, std::vector<Tensor>& shared) : v_(vision), shared_(shared) {
        cos_ = declare_tensor(shared, "vision cos", v_.hidden / v_.heads, Rows::patches);
        sin_ = declare_tensor(shared, "vision sin", v_.hidden / v_.heads, Rows::patches);
        states_ = declare_tensor(shared, "image hidden states", v_.hidden, Rows::patches);
        shared.back().held = Held::until_outputs_end;
    }

    [[nodiscard]] Block stem() const;
    [[nodiscard]] Block layer() const;
    [[nodiscard]] Block projector(std::int64_t hidden, int features) const;

private:

    const KimiVision& v_;
    std::vector<Tensor>& shared_;
    int cos_ = -1, sin_ = -1, states_ = -1;
};

Block Tower::stem() const {
    BlockBuilder b("patch embedding");
    const std::string name = "patch_embed.proj", positions = "patch_embed.pos_emb";
    std::vector<int> filter{b.parameter(join(name, "weight"), {v_.hidden, 3, v_.patch, v_.patch}, kVision)};
    filter.push_back(b.parameter(join(name, "bias"), {v_.hidden}, kVision));
    const int table = b.parameter(join(positions, "position_embeddings"),
                                  {v_.table.height, v_.table.width, v_.hidden}, kVision);
    const int pixels = b.tensor("pixel_values", v_.pixels(), Rows::patches);
    const int patches = b.tensor(name, v_.hidden, Rows::patches);
    b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {patches}, std::move(filter)).attributes.hookless = true;
    const int x = b.hold_until_model_end(b.tensor(positions, v_.hidden, Rows::patches));
    b.op(OpKind::interpolate, positions, place::embedding, {patches}, {x}, {table}).attributes.bagged = true;
    const int ids = b.hold_until_model_end(b.tensor("position_ids", 2, Rows::patches));
    b.op(OpKind::ids, "position_ids", place::embedding, {}, {ids});
    const int cos = b.shared(cos_, shared_), sin = b.shared(sin_, shared_);
    OpAttributes& rotary = b.op(OpKind::rotary_tables, "rotary_emb", place::attention, {}, {cos, sin}).attributes;
    rotary.rotary_dim = v_.hidden / v_.heads;
    rotary.axes = 2;
    rotary.rotation = Rotation::halves_cast;
    return std::move(b).finish(x);
}

Block Tower::layer() const {
    PatchLayer plan;
    plan.hidden = v_.hidden;
    plan.width = v_.width;
    plan.heads = v_.heads;
    plan.act = v_.act;
    return patch_layer(plan, {cos_, sin_}, shared_);
}

/// The last norm, the mean over frames, patches side by side, and two linear modules
/// [Kimi_K25VisionModel.temporal_merge, Kimi_K25MultimodalProjection.forward].
Block Tower::projector(std::int64_t hidden, int features) const {
    BlockBuilder b("projector");
    const Place place = in_vision(place::embedding);
    const std::string norm = join(kTower, "final_layernorm"), pre = join(kProjector, "pre_norm");
    b.norm_weights(norm, v_.hidden, norms::layer, kVision);
    int x = b.norm(b.input(v_.hidden, Rows::patches), norm, norms::layer);
    b.share(x, states_, shared_);
    const int pooled = b.hold(b.tensor("pooled frames", v_.hidden, Rows::patches));
    b.op(OpKind::reorder, join(kTower, "temporal_merge"), place, {x}, {pooled}).attributes.scattered = true;
    b.end_base_model();
    b.norm_weights(pre, v_.normed, norms::layer, kVision);
    x = b.norm(pooled, pre, norms::layer, place);
    const int squares = b.tensor("squares", v_.merged(), Rows::image_tokens);
    b.op(OpKind::split, "squares", place, {x}, {squares}).attributes.same = true;
    x = b.linear(squares, join(kProjector, "in_proj"), v_.merged(), true, place);
    x = b.activation(x, join(kProjector, "act"), Act::gelu, place);
    x = b.linear(x, join(kProjector, "out_proj"), hidden, true, place);
    b.share(x, features, shared_);
    return std::move(b).finish(-1);
}

void plan_tower(DecoderPlan& plan, const KimiVision& v) {
    plan.any_image_size = true;
    plan.listed_images = true;
    plan.size_width = 3;
    plan.pixel_width = v.pixels();
    if (v.normed != v.hidden) plan.step_unsupported = "projection_hidden_size is not the tower's hidden_size";
    if (v.merge.height != v.merge.width) plan.step_unsupported = "tokens of oblong rows of patches are not modelled";
    plan.tower = [v, hidden = plan.hidden](Model& model, const TowerFeatures& features) {
        const Tower tower(v, model.shared);
        const std::string root = std::string(kTower) + ".";
        add_section(model, root, tower.stem(), 1);
        add_section(model, root + "layers.{}.", tower.layer(), v.layers);
        add_section(model, "", tower.projector(hidden, features.images), 1);
        model.image.channels = 3;
        model.image.patch = v.patch;
        model.image.merge = v.merge.height;
    };
}

}  // namespace

void configure_kimi_k25(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text = config.nested("text_config", "deepseek_v3", families().find("deepseek_v3")->keys);
    const std::string type = nested_type(config, "text_config", "deepseek_v3");
    if (type != "deepseek_v3" && type != "kimi_k2")
        config.unsupported("text_config", fmt::format("expected the decoder of DeepSeek-V3; got '{}'", type));
    configure_deepseek(text, plan);
    plan.tied = config.flag("tie_word_embeddings");
    plan_tower(plan, read(config));
    parts.add_decoder(plan);
}

}  // namespace membudget
