// Step 3.7: a vision tower whose patches become tokens by two convolutions, and a decoder whose gates are bounded behind
// their activation [transformers models/step3p7/modeling_step3p7.py].

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "model/llama_like.hpp"
#include "model/moe.hpp"
#include "model/multimodal.hpp"
#include "model/multimodal_parts.hpp"
#include "model/patch_layer.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::string_view kWindow = "sliding_attention", kFull = "full_attention";

/// The layers that `moe_layers_enum` numbers, as a list or as text ("3,4,5").
std::vector<std::int64_t> numbered_layers(ConfigReader& config, std::string_view key) {
    const KeyTree* value = config.raw(key);
    if (value == nullptr || !value->is(KeyTree::Kind::string)) return config.sizes(key);
    std::vector<std::int64_t> out;
    const std::string text = config.text(key);
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
        std::int64_t number = 0;
        const auto [next, error] = std::from_chars(at, end, number);
        if (error == std::errc()) out.push_back(number);
        at = next == at ? at + 1 : next;
    }
    return out;
}

/// Whether each layer has a window, and whether it has experts.
struct LayerMarks {
    std::vector<bool> windows, sparse;
};

LayerMarks read_layers(ConfigReader& config, std::int64_t layers) {
    const std::int64_t trailing = config.count_or("num_nextn_predict_layers", 0);
    LayerMarks made;
    for (const std::string& word : layer_words(config, "layer_types", layers, trailing))
        made.windows.push_back(word == kWindow);
    made.windows.resize(static_cast<std::size_t>(layers));
    made.sparse = listed_sparse_layers(config, layers, trailing);
    if (!made.sparse.empty()) return made;
    const bool listed = config.raw("moe_layers_enum") != nullptr;
    const std::vector<std::int64_t> numbers = numbered_layers(config, "moe_layers_enum");
    for (std::int64_t i = 0; i < layers; ++i)
        made.sparse.push_back(listed ? std::find(numbers.begin(), numbers.end(), i) != numbers.end() : i >= 3);
    return made;
}

/// Dimensions of a head that layers of a type rotate; published files give a fraction for each layer, of which the
/// first of the type counts [Step3p7TextConfig.__post_init__].
std::int64_t rotated(ConfigReader& config, const std::vector<bool>& windows, bool windowed, std::int64_t head_dim) {
    const KeyTree* const listed = config.raw("partial_rotary_factors");
    const auto first = static_cast<std::size_t>(std::find(windows.begin(), windows.end(), windowed) - windows.begin());
    double fraction = 1;
    if (listed != nullptr && listed->is(KeyTree::Kind::array) && first < listed->items().size())
        fraction = listed->items()[first].number();
    return read_layer_rotary_dim(config, windowed ? kWindow : kFull, head_dim, fraction);
}

}  // namespace

void configure_step3p7_text(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.norm = norms::rms_one_plus;
    LayerPlan base;
    AttentionPlan& attention = base.attention;
    attention.heads = config.size("num_attention_heads", kLargestCount);
    attention.kv_heads = config.size("num_key_value_heads", kLargestCount);
    attention.head_dim = config.size("head_dim");
    attention.bias = attention.output_bias = config.flag("attention_bias");
    attention.dropout = config.probability("attention_dropout");
    attention.qk_norm = QkNorm::per_head;
    attention.qk_norm_kind = norms::rms_one_plus;
    attention.rotation = Rotation::halves_joined;
    attention.gate = "g_proj";
    attention.gate_per_head = true;
    base.mlp.width = config.size("intermediate_size");
    base.mlp.bias = config.flag("mlp_bias");
    base.mlp.bounded = true;  // by infinity, where the config names no bound
    MlpPlan experts = base.mlp;
    read_experts(config, experts, "n_routed_experts", "moe_intermediate_size");
    experts.experts.shared = "shared_experts";
    experts.experts.shared_width = config.size("share_expert_dim");
    experts.experts.shared_bias = base.mlp.bias;
    experts.experts.form = RouterForm::minimax;
    experts.experts.sharing = SharedExpert::first;
    experts.experts.scaled = experts.experts.looped = true;

    // Layers with a window have heads of their own number.
    ConfigReader other = config.nested("attention_other_setting", "attention of layers with a window",
                                       "num_attention_heads");
    const std::int64_t window_heads = config.size_or(
        "num_sliding_attention_heads", other.size_or("num_attention_heads", attention.heads, kLargestCount), kLargestCount);
    const LayerMarks marks = read_layers(config, plan.layer_count);
    const std::int64_t window = config.size_or("sliding_window", 0);
    const bool first = !marks.windows.empty() && marks.windows.front();
    std::vector<std::pair<bool, bool>> layers;
    for (std::size_t i = 0; i < std::min(marks.windows.size(), marks.sparse.size()); ++i)
        layers.emplace_back(marks.windows[i], marks.sparse[i]);
    plan_layers(plan, layers, [&](const auto& key) {
        LayerPlan layer = base;
        layer.attention.rotary = key.first == first ? 0 : 1;
        layer.attention.rotary_dim = rotated(config, marks.windows, key.first, attention.head_dim);
        if (key.first) {
            layer.attention.heads = window_heads;
            layer.attention.window = window;
        }
        if (key.second) layer.mlp = experts;
        return layer;
    });
    config.divides("num_attention_heads", attention.heads, "num_key_value_heads", attention.kv_heads);
    config.divides("num_sliding_attention_heads", window_heads, "num_key_value_heads", attention.kv_heads);
    plan.both_masks = window;
    if (window == 0) plan.step_unsupported = "without a sliding_window the class cannot run";
}

void configure_step3p5(ConfigReader& config, DecoderPlan& plan) {
    configure_step3p7_text(config, plan);
    plan.step_unsupported = "the ops of the Step 3.5 class, which ships with its weights, are not modelled";
}

namespace {

struct StepVision {
    std::int64_t hidden = 1, width = 1, layers = 1, heads = 1, channels = 3, patch = 1, image = 1;
    Act act = Act::quick_gelu;
    bool projector_bias = false;

    [[nodiscard]] std::int64_t grid() const { return std::max<std::int64_t>(1, image / patch); }
    [[nodiscard]] std::int64_t patches() const { return grid() * grid(); }
    /// What is left of each side behind one of the convolutions, and behind both.
    [[nodiscard]] std::int64_t half() const { return detail::ceil_div(grid(), 2); }
    [[nodiscard]] std::int64_t quarter() const { return detail::ceil_div(half(), 2); }
};

StepVision read(ConfigReader& outer) {
    ConfigReader config = outer.nested(
        "vision_config", "step3p5_vision",
        "hidden_size|width=1536 num_hidden_layers|layers=47 num_attention_heads|heads=16 num_channels=3 image_size=728 "
        "patch_size=14 mlp_ratio=5.833333333333333 hidden_act=quick_gelu");
    StepVision v;
    v.hidden = config.size("hidden_size");
    v.layers = config.size("num_hidden_layers", kLargestCount);
    v.heads = config.size("num_attention_heads", kLargestCount);
    v.channels = config.size("num_channels", kLargestCount);
    v.patch = config.size("patch_size", kLargestCount);
    v.image = config.size("image_size", kLargestCount);
    v.act = config.activation("hidden_act");
    const double ratio = config.number("mlp_ratio");
    const bool plausible = ratio > 0 && ratio < 64;
    if (!plausible) config.invalid("mlp_ratio", "expected a ratio above 0 and below 64");
    v.width = plausible ? std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(v.hidden) * ratio)) : 1;
    v.projector_bias = outer.flag("projector_bias");
    config.divides("hidden_size", v.hidden, "num_attention_heads", v.heads);
    return v;
}

/// Step3p7VisionModel.forward before its layers. The tables are those of one image, in fp32.
Block stem(const StepVision& v, const PatchTables& tables, const std::vector<Tensor>& shared) {
    BlockBuilder b("patch embedding");
    const std::string name = "embeddings.patch_embedding", norm = "pre_layernorm";
    const int filter = b.parameter(join(name, "weight"), {v.hidden, v.channels, v.patch, v.patch}, kVision);
    const int table = b.parameter("embeddings.position_embedding.weight", {v.patches(), v.hidden}, kVision);
    b.norm_weights(norm, v.hidden, norms::layer, kVision);
    const int pixels = b.tensor("pixel_values", v.channels * v.patch * v.patch, Rows::patches);
    const int patches = b.tensor(name, v.hidden, Rows::patches);
    b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {patches}, {filter}).attributes.hookless = true;
    const int sum = b.tensor("embeddings.sum", v.hidden, Rows::patches);
    b.op(OpKind::add, "embeddings.sum", place::embedding, {patches}, {sum}, {table});
    const int x = b.norm(sum, norm, norms::layer);
    const int ids = b.hold_until_model_end(b.tensor("position_ids", 2 * v.patches(), Rows::one));
    b.op(OpKind::ids, "position_ids", place::embedding, {}, {ids});
    OpAttributes& rotary = b.op(OpKind::rotary_tables, "rotary_emb", place::attention, {},
                                {b.shared(tables.cos, shared), b.shared(tables.sin, shared)}).attributes;
    rotary.rotary_dim = v.hidden / v.heads;
    rotary.axes = 2;
    rotary.rotation = Rotation::halves_cast;
    return std::move(b).finish(x);
}

Block layer(const StepVision& v, const PatchTables& tables, const std::vector<Tensor>& shared) {
    PatchLayer plan;
    plan.hidden = v.hidden;
    plan.width = v.width;
    plan.heads = v.heads;
    plan.act = v.act;
    plan.attention = "self_attn";
    plan.out = "out_proj";
    plan.act_name = "activation_fn";
    plan.norms[0] = "layernorm_before";
    plan.norms[1] = "layernorm_after";
    plan.scales[0] = "lambda_1";
    plan.scales[1] = "lambda_2";
    plan.packed = false;
    return patch_layer(plan, tables, shared);
}

/// The two convolutions, each of which makes a quarter of the patches twice as wide, and the projector.
Block projector(const StepVision& v, std::int64_t hidden, std::vector<Tensor>& shared, int features) {
    BlockBuilder b("projector");
    const int states = declare_tensor(shared, "image hidden states", 4 * v.hidden, Rows::images);
    shared.back().times = v.quarter() * v.quarter();
    shared.back().held = Held::until_outputs_end;
    int x = b.input(v.hidden, Rows::patches);
    const auto halve = [&](const std::string& name, std::int64_t in, std::int64_t side) {
        const std::vector<int> filter{b.parameter(join(name, "weight"), {2 * in, in, 3, 3}, kVision),
                                      b.parameter(join(name, "bias"), {2 * in}, kVision)};
        const int out = b.tensor(name, 2 * in, Rows::images);
        b.set_times(out, side * side);
        b.op(OpKind::convolution, name, in_vision(place::embedding), {x}, {out}, filter).attributes.strided = true;
        x = out;
    };
    halve("vision_model.downsampler1", v.hidden, v.half());
    halve("vision_model.downsampler2", 2 * v.hidden, v.quarter());
    b.share(x, states, shared);
    b.end_base_model();
    x = b.linear(x, "multi_modal_projector", hidden, v.projector_bias, in_vision(place::embedding));
    b.share(x, features, shared);
    return std::move(b).finish(-1);
}

}  // namespace

void configure_step3p7(ConfigReader& config, Parts& parts) {
    DecoderPlan plan = language_model();
    const std::string_view keys = families().find("step3p5")->keys;
    if (config.raw("text_config") != nullptr) {
        ConfigReader text = config.nested("text_config", "step3p5", keys);
        configure_step3p7_text(text, plan);
    } else {
        ConfigReader flat = config.as("step3p5", keys);
        configure_step3p7_text(flat, plan);
        if (flat.raw("num_sliding_attention_heads") == nullptr && flat.raw("attention_other_setting") == nullptr)
            config.note("layers with a window have as many heads as the others: the config has neither "
                        "num_sliding_attention_heads nor attention_other_setting");
    }
    config.note("an image is one view of image_size pixels; the views of its parts, which the processor adds where it is "
                "larger, are not counted");
    plan.tied = config.flag("tie_word_embeddings");
    const StepVision v = read(config);
    plan.image_tokens = v.quarter() * v.quarter();
    plan.listed_images = plan.picked_images = true;
    plan.tower = [v, hidden = plan.hidden](Model& model, const TowerFeatures& features) {
        const PatchTables tables{
            declare_tensor(model.shared, "vision cos", detail::checked_mul(v.patches(), v.hidden / v.heads), Rows::one),
            declare_tensor(model.shared, "vision sin", detail::checked_mul(v.patches(), v.hidden / v.heads), Rows::one)};
        add_section(model, "model.vision_model.", stem(v, tables, model.shared), 1);
        add_section(model, "model.vision_model.layers.{}.", layer(v, tables, model.shared), v.layers);
        add_section(model, "model.", projector(v, hidden, model.shared, features.images), 1);
        model.image = {v.channels, v.image, v.image, v.patches(), v.patches(), v.quarter() * v.quarter()};
    };
    parts.add_decoder(plan);
}

}  // namespace membudget
