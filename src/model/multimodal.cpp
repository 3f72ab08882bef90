#include "model/multimodal.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/contrastive.hpp"
#include "model/hybrid.hpp"
#include "model/llama_like.hpp"
#include "model/moe.hpp"
#include "model/multimodal_parts.hpp"
#include "model/qwen_vision.hpp"
#include "model/vision.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

/// Keys of configuration classes that exist only nested in others.
constexpr std::string_view kQwenVlText =
    "vocab_size=152064 hidden_size=8192 intermediate_size=29568 num_hidden_layers=80 "
    "num_attention_heads=64 num_key_value_heads=8 head_dim hidden_act=silu "
    "tie_word_embeddings=false use_sliding_window=false sliding_window=4096 max_window_layers=80 "
    "layer_types attention_dropout=0.0";
constexpr std::string_view kQwen3VlText =
    "vocab_size=151936 hidden_size=4096 intermediate_size=22016 num_hidden_layers=32 "
    "num_attention_heads=32 num_key_value_heads=32 head_dim=128 hidden_act=silu "
    "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 use_sliding_window=false "
    "sliding_window max_window_layers layer_types";
constexpr std::string_view kQwen3VlMoeText =
    "vocab_size=151936 hidden_size=2048 intermediate_size=5632 num_hidden_layers=24 "
    "num_attention_heads=16 num_key_value_heads=16 head_dim hidden_act=silu "
    "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 decoder_sparse_step=1 "
    "moe_intermediate_size=1408 num_experts_per_tok=4 num_experts|num_local_experts=60 "
    "mlp_only_layers";
constexpr std::string_view kGlm4vText =
    "vocab_size=151552 hidden_size=4096 intermediate_size=13696 num_hidden_layers=40 "
    "num_attention_heads=32 num_key_value_heads=2 head_dim hidden_act=silu "
    "tie_word_embeddings=false attention_dropout=0.0 partial_rotary_factor rope_parameters";

/// The last norm of Gemma 3's tower, and the projector: means over squares of patches, normalised, times a
/// matrix [transformers models/gemma3/modeling_gemma3.py Gemma3MultiModalProjector.forward].
Block gemma3_projector(const ContrastiveVision& v, std::int64_t side, std::int64_t hidden,
                       std::vector<Tensor>& shared, int features) {
    const std::string projector = "model.multi_modal_projector";
    const Place place{place::embedding.term, kVision};
    BlockBuilder b("projector");
    const int states = declare_tensor(shared, "image hidden states", v.hidden, Rows::patches);
    shared.back().held = Held::until_outputs_end;
    const std::string norm = "model.vision_tower.post_layernorm";
    b.norm_weights(norm, v.hidden, norms::layer, kVision);
    int y = b.norm(b.input(v.hidden, Rows::patches), norm, norms::layer);
    b.share(y, states, shared);
    const std::string head = "model.vision_tower.head";
    if (v.head) add_siglip_pool(b, v, head, y);
    b.end_base_model();

    const int weight = b.parameter(join(projector, "mm_input_projection_weight"), {v.hidden, hidden}, kVision);
    const auto local = [&](OpKind kind, std::string name, Rows rows, std::int64_t width, std::int64_t times) {
        const int out = b.hold(b.tensor(name, width, rows));
        b.set_times(out, times);
        b.op(kind, join(projector, name), place, {y}, {out});
        y = out;
    };
    const int out = b.tensor("projected", hidden, Rows::images);
    b.set_times(out, detail::checked_mul(side, side));
    {
        const auto function = b.scope();
        local(OpKind::transpose_heads, "channels_first", Rows::patches, v.hidden, 1);
        b.last_op().attributes.heads = v.hidden;
        local(OpKind::average_pool, "avg_pool", Rows::images, v.hidden, detail::checked_mul(side, side));
        const std::string soft = join(projector, "mm_soft_emb_norm");
        b.norm_weights(soft, v.hidden, norms::rms_one_plus, kVision);
        y = b.hold(b.norm(y, soft, norms::rms_one_plus, place));
        b.op(OpKind::linear, projector, place, {y}, {out}, {weight}).attributes.strided = true;
    }
    b.share(out, features, shared);
    Block block = std::move(b).finish(-1);
    for (Op& op : block.ops)  // the projector's result takes the place of the pooled one
        if (op.name.starts_with(head)) op.reader = Reader::nobody;
    return block;
}

}  // namespace

void configure_gemma3_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text =
        config.nested("text_config", "gemma3_text", families().find("gemma3_text")->keys);
    read_text(text, config, configure_gemma3, plan);
    ConfigReader vision_config = config.nested("vision_config", "siglip_vision_model",
                                               vision_keys::siglip);
    const ContrastiveVision v = read_siglip_vision(vision_config);
    const std::int64_t tokens = config.size("mm_tokens_per_image", kLargestCount);
    std::int64_t side = 1;
    while ((side + 1) * (side + 1) <= tokens) ++side;
    if (!config.diagnostics().empty()) return;
    plan.image_tokens = side * side;
    plan.image_blocks = true;
    plan.tower = [&](Model& model, const TowerFeatures& features) {
        add_section(model, "model.vision_tower.", contrastive_vision_stem(v), 1);
        add_section(model, "model.vision_tower.encoder.layers.{}.", contrastive_vision_layer(v), v.layers);
        add_section(model, "", gemma3_projector(v, side, plan.hidden, model.shared, features.images), 1);
        model.image = v.shape();
        model.image.tokens = plan.image_tokens;
    };
    parts.add_decoder(plan);
}

void configure_qwen2_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_text_or_flat(config, "qwen2_vl_text", kQwenVlText, configure_qwen2, plan);
    plan_qwen_tower(plan, read_qwen2_vision(config));
    parts.add_decoder(plan);
}

void configure_qwen2_5_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_text_or_flat(config, "qwen2_5_vl_text", kQwenVlText, configure_qwen2, plan);
    plan_qwen_tower(plan, read_qwen2_5_vision(config));
    parts.add_decoder(plan);
}

void configure_qwen3_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text = config.nested("text_config", "qwen3_vl_text", kQwen3VlText);
    read_text(text, config, configure_qwen3, plan);
    plan_qwen_tower(plan, read_qwen3_vision(config, true));
    plan.interleaved_axes = true;
    parts.add_decoder(plan);
}

void configure_qwen3_vl_moe(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text = config.nested("text_config", "qwen3_vl_moe_text", kQwen3VlMoeText);
    read_text(text, config, configure_qwen3_moe, plan);
    plan_qwen_tower(plan, read_qwen3_vision(config, true));
    plan.interleaved_axes = true;
    parts.add_decoder(plan);
}

void configure_qwen3_5_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text =
        config.nested("text_config", "qwen3_5_text", families().find("qwen3_5_text")->keys);
    read_text(text, config, configure_qwen3_5, plan);
    plan_qwen_tower(plan, read_qwen3_vision(config, false));
    plan.interleaved_axes = true;
    parts.add_decoder(plan);
}

void configure_qwen3_5_moe_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    ConfigReader text =
        config.nested("text_config", "qwen3_5_moe_text", families().find("qwen3_5_moe_text")->keys);
    read_text(text, config, configure_qwen3_5_moe, plan);
    plan_qwen_tower(plan, read_qwen3_vision(config, false));
    plan.interleaved_axes = true;
    parts.add_decoder(plan);
}

namespace {

/// The decoder of GLM-4.1V: that of GLM-4 with biases of q, k and v always.
void configure_glm4v_text(ConfigReader& config, DecoderPlan& plan) {
    configure_glm4(config, plan);
    plan.layer().attention.bias = true;
}

}  // namespace

void configure_glm4v(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_text_or_flat(config, "glm4v_text", kGlm4vText, configure_glm4v_text, plan);
    plan_qwen_tower(plan, read_glm4v_vision(config));
    parts.add_decoder(plan);
}

void configure_llama4_vl(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    plan.base = "language_model.model";
    plan.head = "language_model.lm_head";
    ConfigReader text =
        config.nested("text_config", "llama4_text", families().find("llama4_text")->keys);
    configure_llama4(text, plan);
    plan_llama4_tower(config, plan);
    parts.add_decoder(plan);
}

void configure_internvl_chat(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_any_text(config, "llm_config", "internlm2", plan);
    const bool internlm = plan.head == "output";
    plan.base = "language_model.model";
    plan.head = internlm ? "language_model.output" : "language_model.lm_head";
    add_internvit(parts, config, plan.hidden);
    parts.add_decoder(plan);
}

namespace {

/// How LLaVA takes the features of an image from its tower.
struct LlavaVision {
    ContrastiveVision tower;
    std::int64_t chosen = 0;     ///< layers before the last hidden states that the projector reads
    /// Layers before each of the hidden states that are concatenated, and the indices in `Model::shared` of all but
    /// the last ones; empty: only the last ones are read.
    std::vector<std::int64_t> joined;
    std::vector<int> features;
    bool without_class = true;   ///< the class token is left out
    Act act = Act::gelu;
    bool bias = true;

    [[nodiscard]] std::int64_t tokens() const { return tower.rows() - (without_class ? 1 : 0); }
};

/// Whether the tower is CLIP's or SigLIP's.
bool has_contrastive_tower(const ConfigReader& config) {
    const std::string type = nested_type(config, "vision_config", "clip_vision_model");
    return type == "clip_vision_model" || type == "siglip_vision_model";
}

LlavaVision read_llava_vision(ConfigReader& config) {
    LlavaVision v;
    if (nested_type(config, "vision_config", "clip_vision_model") == "siglip_vision_model") {
        ConfigReader vision_config = config.nested("vision_config", "siglip_vision_model", vision_keys::siglip);
        v.tower = read_siglip_vision(vision_config);
    } else {
        ConfigReader vision_config = config.nested(
            "vision_config", "clip_vision_model",
            config.raw("vision_config") != nullptr ? vision_keys::clip : vision_keys::clip_in_llava);
        v.tower = read_clip_vision(vision_config);
    }
    v.bias = config.flag("multimodal_projector_bias");
    v.act = config.activation("projector_hidden_act");
    v.without_class = config.text("vision_feature_select_strategy") == "default";
    const std::string_view key = "vision_feature_layer";
    if (const KeyTree* layers = config.raw(key); layers != nullptr && layers->is(KeyTree::Kind::array)) {
        for (const KeyTree& layer : layers->items()) {
            const std::int64_t index = layer.is(KeyTree::Kind::integer) ? layer.integer() : v.tower.layers + 1;
            v.joined.push_back(index < 0 ? v.tower.layers + 1 + index : index);
            if (v.joined.back() >= 0 && v.joined.back() <= v.tower.layers) continue;
            config.invalid(key, fmt::format("expected layers of the vision tower, which has {}", v.tower.layers));
            v.joined.back() = 0;
        }
        if (v.joined.empty()) config.invalid(key, "expected at least one layer");
        for (const std::int64_t layer : v.joined) v.chosen = std::max(v.chosen, layer);
        return v;
    }
    const double index = config.number(key);
    const auto layers = static_cast<double>(v.tower.layers);
    if (!(index >= -layers && index <= layers) || index == 0)
        config.invalid(key, fmt::format("expected a layer of the vision tower, which has {}", v.tower.layers));
    else
        v.chosen = static_cast<std::int64_t>(index < 0 ? layers + 1 + index : index);
    return v;
}

/// The hidden states of several layers side by side.
int side_by_side(BlockBuilder& b, const LlavaVision& v, const std::vector<Tensor>& shared, int last, Place place) {
    std::vector<int> parts;
    for (std::size_t i = 0; i < v.joined.size(); ++i) {
        const int index = v.features[i];
        int part = index < 0 ? last : b.shared(index, shared);
        if (v.without_class) {
            const int cut = b.tensor(fmt::format("features {}", i), v.tower.hidden, Rows::images);
            b.set_times(cut, v.tokens());
            b.op(OpKind::split, "features", place, {part}, {cut}).attributes.sliced = true;
            part = cut;
        }
        parts.push_back(part);
    }
    const int out = b.tensor("selected features", v.tower.hidden * static_cast<std::int64_t>(v.joined.size()), Rows::images);
    b.set_times(out, v.tokens());
    b.op(OpKind::concat, "selected features", place, std::move(parts), {out});
    return out;
}

/// What LLaVA does after the layers of the tower that it reads: the rest of the tower, whose results nothing
/// reads, and the projector [transformers models/llava/modeling_llava.py LlavaModel.get_image_features].
Block llava_projector(const LlavaVision& v, std::int64_t hidden, std::vector<Tensor>& shared, int features) {
    const std::string tower = "model.vision_tower";
    const std::string projector = "model.multi_modal_projector";
    const std::int64_t width = v.tower.hidden;
    BlockBuilder b("projector");
    const auto keep = [&](int tensor, std::string name) {  // a field of the outputs
        const int index = declare_tensor(shared, std::move(name), width, Rows::patches);
        shared.back().held = Held::until_outputs_end;
        b.share(tensor, index, shared.back());
    };
    const int x = b.tensor("hidden states", width, Rows::patches);
    const int input = b.input(width, Rows::patches);
    b.op(OpKind::split, "hidden states", place::residual, {input}, {x}).attributes.same = true;
    keep(x, "image hidden states");
    int last = x;
    for (std::int64_t i = v.chosen; i < v.tower.layers; ++i) {
        b.set_of_checkpoint(last);
        last = add_vision_layer(b, v.tower, fmt::format("{}.encoder.layers.{}", tower, i), last);
    }
    if (last != x) keep(last, "last image hidden states");
    const std::string norm = join(tower, "post_layernorm");
    b.norm_weights(norm, width, norms::layer, kVision);
    const std::string head = join(tower, "head");
    if (v.tower.clip) {
        const int token = b.tensor("class token", width, Rows::images);
        b.op(OpKind::split, "class token", place::norm, {last}, {token}).attributes.sliced = true;
        b.hold(b.norm(token, norm, norms::layer));
    } else {
        const int normed = b.norm(last, norm, norms::layer);
        keep(normed, "normalised image hidden states");
        if (v.tower.head) add_siglip_pool(b, v.tower, head, normed);
    }
    b.end_base_model();

    const Place place{place::embedding.term, kVision};
    int y = -1;
    if (v.joined.empty()) {
        y = b.tensor("selected features", width, Rows::images);
        b.set_times(y, v.tokens());
        OpAttributes& selected = b.op(OpKind::split, "selected features", place, {x}, {y}).attributes;
        selected.sliced = v.without_class;
        selected.same = !v.without_class;
    } else {
        y = b.hold(side_by_side(b, v, shared, x, place));
    }
    y = b.linear(y, join(projector, "linear_1"), hidden, v.bias, place);
    b.last_op().attributes.strided = v.joined.empty() && v.without_class;
    // Without a class token the sums of all layers lie as the convolution's result does.
    b.last_op().attributes.transposed = v.joined.empty() && !v.tower.clip;
    y = b.activation(y, join(projector, "act"), v.act, place);
    y = b.linear(y, join(projector, "linear_2"), hidden, v.bias, place);
    b.share(y, features, shared);
    Block block = std::move(b).finish(-1);
    for (Op& op : block.ops) {
        if (op.name.starts_with(tower)) op.reader = Reader::outputs;
        op.within_layer = op.name.starts_with(join(tower, "encoder.layers"));
        // The projector's result takes the place of the pooled one; SigLIP's last norm is a field by itself.
        if ((v.tower.clip && op.name == norm) || op.name == "class token" || op.name.starts_with(head))
            op.reader = Reader::nobody;
    }
    return block;
}

/// The layers before the projector; those that begin with a feature have blocks of their own.
void add_llava_layers(Model& model, LlavaVision& v) {
    const std::string prefix = "model.vision_tower.encoder.layers.{}.";
    const auto add = [&](Block block, std::int64_t first, std::int64_t count) {
        if (count == 0) return;
        add_section(model, prefix, std::move(block), count);
        model.sections.back().first_index = first;
    };
    std::int64_t done = 0;
    v.features.assign(v.joined.size(), -1);
    for (std::int64_t layer = 0; layer < v.chosen; ++layer) {
        const auto chosen = [&](std::int64_t joined) { return joined == layer; };
        if (std::ranges::none_of(v.joined, chosen)) continue;
        const int index = declare_tensor(model.shared, fmt::format("features of layer {}", layer), v.tower.hidden, Rows::patches);
        model.shared.back().held = Held::until_outputs_end;
        for (std::size_t i = 0; i < v.joined.size(); ++i)
            if (chosen(v.joined[i])) v.features[i] = index;
        add(contrastive_vision_layer(v.tower), done, layer - done);
        add(contrastive_vision_layer(v.tower, &model.shared.back()), layer, 1);
        done = layer + 1;
    }
    add(contrastive_vision_layer(v.tower), done, v.chosen - done);
}

void add_llava_tower(Model& model, LlavaVision v, std::int64_t hidden, int features) {
    add_section(model, "model.vision_tower.", contrastive_vision_stem(v.tower), 1);
    add_llava_layers(model, v);
    add_section(model, "", llava_projector(v, hidden, model.shared, features), 1);
    model.image = v.tower.shape();
    model.image.tokens = v.tokens();
}

}  // namespace

void configure_llava(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_any_text(config, "text_config", "llama", plan);
    if (!has_contrastive_tower(config)) return add_llava_any_tower(config, parts, plan, false);
    plan.base = "model.language_model";
    const LlavaVision v = read_llava_vision(config);
    if (!config.diagnostics().empty()) return;
    plan.image_tokens = v.tokens();
    plan.listed_images = true;
    plan.tower = [&](Model& model, const TowerFeatures& features) { add_llava_tower(model, v, plan.hidden, features.images); };
    parts.add_decoder(plan);
}

/// LLaVA whose images are fitted into one of several resolutions and cut into tiles
/// [transformers models/llava_next/modeling_llava_next.py].
void configure_llava_next(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    read_any_text(config, "text_config", "llama", plan);
    if (!has_contrastive_tower(config)) return add_llava_any_tower(config, parts, plan, true);
    LlavaVision v = read_llava_vision(config);
    v.tower.stacked = true;
    const std::int64_t side = v.tower.image;
    std::vector<std::pair<std::int64_t, std::int64_t>> grids = config.pairs("image_grid_pinpoints");
    const KeyTree* given = config.raw("image_grid_pinpoints");
    if (given == nullptr || given->is_null())  // the class's own, for towers of 336 pixels
        for (const auto& [height, width] : {std::pair{1, 2}, {2, 1}, {2, 2}, {3, 1}, {1, 3}})
            grids.emplace_back(336 * height, 336 * width);
    for (const auto& [height, width] : grids)
        if (height % side != 0 || width % side != 0)
            config.invalid("image_grid_pinpoints", fmt::format("expected multiples of the tower's {} pixels; got {} x {}",
                                                               side, height, width));
    if (grids.empty()) config.invalid("image_grid_pinpoints", "expected at least one resolution");
    if (!config.diagnostics().empty()) return;
    plan.image_tokens = v.tokens();
    plan.newline = "model.image_newline";
    if (v.tokens() != v.tower.patches)
        plan.step_unsupported = v.tower.clip ? "features with the class token do not fill a square"
                                             : "features without the first patch do not fill a square";
    plan.tower = [&](Model& model, const TowerFeatures& features) {
        add_llava_tower(model, v, plan.hidden, features.images);
        model.image.patch = v.tower.patch;
        model.image.merge = 1;
        model.image.grids = std::move(grids);
    };
    parts.add_decoder(plan);
}

}  // namespace membudget
