// Decoders whose layers with experts are another arrangement of DeepSeek's, Qwen's or Granite's.

#include <algorithm>
#include <utility>

#include "model/llama_like.hpp"
#include "model/moe.hpp"

namespace membudget {

namespace {

/// The mixture of layers that `mlp_layer_types` does not call dense; without it, of those from
/// `first_k_dense_replace` on, where the class has that key, else from `first` on.
std::vector<bool> read_sparse_layers(ConfigReader& config, std::int64_t layers, std::int64_t first) {
    std::vector<bool> sparse;
    if (config.knows("mlp_layer_types")) sparse = listed_sparse_layers(config, layers);
    if (!sparse.empty()) return sparse;
    if (config.knows("first_k_dense_replace")) first = config.count_or("first_k_dense_replace", first);
    for (std::int64_t i = 0; i < layers; ++i) sparse.push_back(i >= first);
    return sparse;
}

/// Experts beside `count` shared ones that are one network of their common width.
void share_experts(MlpPlan& experts, std::int64_t count) {
    experts.experts.shared = "shared_experts";
    experts.experts.shared_width = detail::checked_mul(count, experts.experts.width);
}

}  // namespace

void configure_granitemoeshared(ConfigReader& config, DecoderPlan& plan) {
    configure_granitemoe(config, plan);
    const std::int64_t width = config.count_or("shared_intermediate_size", 0, kLargestWidth);
    if (width == 0) return;
    plan.layer().beside_mlp = [hidden = plan.hidden, width, act = plan.layer().mlp.act](BlockBuilder& b, int x, int routed) {
        int own = -1;
        {
            const auto function = b.scope();
            const int both = b.linear(x, "shared_mlp.input_linear", 2 * width, false, place::mlp);
            const auto halves = b.split(both, "shared_mlp.chunk", {width, width}, place::mlp);
            b.hold(halves[0]);
            b.hold(halves[1]);
            const int product = b.gated_activation(halves[0], halves[1], "shared_mlp.activation", act, place::mlp);
            own = b.linear(product, "shared_mlp.output_linear", hidden, false, place::mlp);
        }
        return b.add(routed, own, "shared_mlp.sum", place::mlp);
    };
}

WeightsOnly granite_shared_mlp(ConfigReader& config, std::int64_t hidden) {
    const std::int64_t width = config.count_or("shared_intermediate_size", 0, kLargestWidth);
    return [hidden, width](BlockBuilder& b) {
        if (width == 0) return;
        b.linear_weights("shared_mlp.input_linear", hidden, 2 * width, false, Component::mlp);
        b.linear_weights("shared_mlp.output_linear", width, hidden, false, Component::mlp);
    };
}

void configure_flex_olmo(ConfigReader& config, DecoderPlan& plan) {
    configure_olmo2(config, plan);
    read_experts(config, plan.layer().mlp, "num_experts", "intermediate_size");
    plan.layer().mlp.experts.form = RouterForm::qwen;
    plan.layer().mlp.experts.normalised = config.flag("norm_topk_prob");
}

namespace {

/// Norms of queries and keys, and experts beside shared ones, as K-EXAONE and Hunyuan 3 have them; returns the
/// network of the layers with experts.
MlpPlan read_exaone(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    attention.qk_norm = QkNorm::per_head;
    attention.norm_time = NormTime::after_projections;
    MlpPlan experts = plan.layer().mlp;
    read_experts(config, experts, "num_experts", "moe_intermediate_size");
    share_experts(experts, config.count_or("num_shared_experts", 0));
    return experts;
}

/// Layers without a window do not rotate.
void rotate_windows_only(DecoderPlan& plan) {
    for (LayerPlan& layer : plan.kinds)
        if (layer.attention.window == 0) layer.attention.rotary = -1;
}

}  // namespace

void configure_exaone_moe(ConfigReader& config, DecoderPlan& plan) {
    MlpPlan experts = read_exaone(config, plan);
    route_as_deepseek(config, experts.experts);
    const std::int64_t window = config.size_or("sliding_window", 0);
    const std::vector<bool> windowed = windowed_layers(
        config, plan.layer_count, all_but_each_last, config.count_or("sliding_window_pattern", 0));
    mix_experts(plan, experts, read_sparse_layers(config, plan.layer_count, 1), windowed, window);
    if (window > 0) rotate_windows_only(plan);
}

void configure_solar_open(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    read_heads(config, plan.hidden, attention);
    attention.bias = config.flag("attention_bias");
    read_experts(config, plan.layer().mlp, "n_routed_experts", "moe_intermediate_size");
    share_experts(plan.layer().mlp, config.count_or("n_shared_experts", 0));
    plan.layer().mlp.act = config.activation("hidden_act");
    route_as_deepseek(config, plan.layer().mlp.experts);
}

void configure_mellum(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.qk_norm = QkNorm::per_head;
    MlpPlan experts = plan.layer().mlp;
    read_experts(config, experts, "num_local_experts", "moe_intermediate_size");
    experts.experts.router_last = true;
    experts.experts.form = RouterForm::qwen;
    experts.experts.normalised = config.flag("norm_topk_prob");
    const std::vector<bool> sparse = read_sparse_layers(config, plan.layer_count, 0);
    const std::vector<bool> windowed =
        windowed_layers(config, plan.layer_count, [](std::int64_t, std::int64_t) { return false; }, 0);
    mix_experts(plan, experts, sparse, windowed, config.size_or("sliding_window", 0));
    for (LayerPlan& layer : plan.kinds)
        if (layer.attention.window > 0) layer.attention.rotary = 1;
}

void configure_hy_v3(ConfigReader& config, DecoderPlan& plan) {
    MlpPlan experts = read_exaone(config, plan);
    experts.experts.form = RouterForm::hunyuan;
    experts.experts.wide_router = true;
    experts.experts.sharing = config.flag("enable_moe_fp32_combine") ? SharedExpert::wide : SharedExpert::last;
    experts.experts.shared_bias = experts.bias;
    experts.bias = false;
    mix_experts(plan, experts, read_sparse_layers(config, plan.layer_count, 1));
}

void configure_cohere2_moe(ConfigReader& config, DecoderPlan& plan) {
    configure_cohere(config, plan);
    plan.norm = config.raw("rms_norm_eps") != nullptr ? norms::rms : norms::layer_unfused;
    LayerPlan& layer = plan.layer();
    MlpPlan experts = layer.mlp;
    read_experts(config, experts, "num_experts", "intermediate_size");
    share_experts(experts, config.count_or("num_shared_experts", 0));
    experts.experts.form =
        config.text("expert_selection_fn") == "sigmoid" ? RouterForm::cohere_sigmoid : RouterForm::cohere;
    experts.experts.normalised = config.flag("norm_topk_prob");
    experts.experts.sharing =
        config.text("shared_expert_combination_strategy") == "sum" ? SharedExpert::last : SharedExpert::mean;
    layer.mlp.width = config.size_or("prefix_dense_intermediate_size", layer.mlp.width);
    // The dense layers at the beginning have a period of their own.
    const std::int64_t dense = config.count_or("first_k_dense_replace", 0);
    const std::int64_t first_period = config.size("prefix_dense_sliding_window_pattern", kLargestCount);
    const std::int64_t period = config.size("sliding_window_pattern", kLargestCount);
    std::vector<bool> windowed = layers_of_type(config, plan.layer_count, "sliding_attention", "full_attention");
    for (std::int64_t i = static_cast<std::int64_t>(windowed.size()); i < plan.layer_count; ++i)
        windowed.push_back(i < dense ? (i + 1) % first_period != 0 : (i - dense + 1) % period != 0);
    const std::vector<bool> sparse = read_sparse_layers(config, plan.layer_count, 0);
    mix_experts(plan, experts, sparse, windowed, config.size_or("sliding_window", 0));
    for (LayerPlan& kind : plan.kinds) {
        const bool forced = kind.mlp.experts.count == 0 && first_period == 1;
        if (kind.attention.window == 0 && !forced) kind.attention.rotary = -1;
    }
}

void configure_afmoe(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.arrangement = Arrangement::sandwich;
    layer.norms[1] = "post_attention_layernorm";
    layer.norms[2] = "pre_mlp_layernorm";
    layer.norms[3] = "post_mlp_layernorm";
    plan.norm = norms::rms_wide_product;
    plan.embedding_scale = plan.scales_outside = plan.keeps_embeddings = config.flag("mup_enabled");
    AttentionPlan& attention = layer.attention;
    attention.qk_norm = QkNorm::per_head;
    attention.qk_norm_kind = norms::rms_wide_product;
    attention.norm_time = NormTime::after_projections;
    attention.gate = "gate_proj";
    MlpPlan experts = layer.mlp;
    read_experts(config, experts, "num_experts", "moe_intermediate_size");
    experts.experts.router = "router.gate";
    experts.experts.correction = "expert_bias";
    experts.experts.flat_correction = true;
    share_experts(experts, config.count_or("num_shared_experts", 0));
    experts.experts.form = RouterForm::afmoe;
    experts.experts.sharing = SharedExpert::between;
    const std::int64_t dense = config.count_or("num_dense_layers", 0);
    std::vector<bool> sparse;
    for (std::int64_t i = 0; i < plan.layer_count; ++i) sparse.push_back(i >= dense);
    const std::int64_t window = config.size_or("sliding_window", 0);
    mix_experts(plan, experts, sparse,
                windowed_layers(config, plan.layer_count, all_but_each_last,
                                config.count_or("global_attn_every_n_layers", 0)),
                window);
    rotate_windows_only(plan);
}

void configure_mimo_v2_flash(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    LayerPlan base;
    AttentionPlan& attention = base.attention;
    attention.heads = config.size("num_attention_heads", kLargestCount);
    attention.kv_heads = config.size("num_key_value_heads", kLargestCount);
    attention.head_dim = config.size("head_dim");
    attention.value_dim = config.size("v_head_dim");
    attention.bias = config.flag("attention_bias");
    attention.dropout = config.probability("attention_dropout");
    attention.form = AttentionForm::mimo;
    attention.scales_values = true;
    attention.rotary_dim = read_layer_rotary_dim(config, "full_attention", attention.head_dim, 0.334);
    AttentionPlan windowed = attention;
    windowed.heads = config.size_or("swa_num_attention_heads", attention.heads, kLargestCount);
    windowed.kv_heads = config.size_or("swa_num_key_value_heads", 2 * attention.kv_heads, kLargestCount);
    windowed.head_dim = config.size_or("swa_head_dim", attention.head_dim);
    windowed.value_dim = config.size_or("swa_v_head_dim", attention.value_dim);
    windowed.window = config.size("sliding_window");
    windowed.rotary = 1;
    windowed.rotary_dim = read_layer_rotary_dim(config, "sliding_attention", windowed.head_dim, 0.334);
    attention.sinks = config.flag("add_full_attention_sink_bias");
    windowed.sinks = config.flag("add_swa_attention_sink_bias");
    base.mlp.width = config.size("intermediate_size");
    base.mlp.act = config.activation("hidden_act");
    MlpPlan experts = base.mlp;
    read_experts(config, experts, "n_routed_experts", "moe_intermediate_size");
    route_as_deepseek(config, experts.experts);
    if (config.count_or("n_shared_experts", 0) > 0)
        config.unsupported("n_shared_experts", "expected none: the class has no shared experts");

    std::vector<bool> windows = layers_of_type(config, plan.layer_count, "sliding_attention", "full_attention");
    if (windows.empty())
        for (const std::int64_t mark : config.sizes("hybrid_layer_pattern")) windows.push_back(mark != 0);
    if (windows.empty())
        for (std::int64_t i = 0; i < plan.layer_count; ++i) windows.push_back(i != 0 && (i + 1) % 6 != 0);
    if (static_cast<std::int64_t>(windows.size()) != plan.layer_count)
        config.invalid("hybrid_layer_pattern", "expected an entry for each layer");
    std::vector<bool> sparse = listed_sparse_layers(config, plan.layer_count);
    if (sparse.empty())
        for (std::int64_t i = 0; i < plan.layer_count; ++i) sparse.push_back(i != 0);
    std::vector<std::pair<bool, bool>> layers;
    for (std::size_t i = 0; i < std::min(windows.size(), sparse.size()); ++i) layers.emplace_back(windows[i], sparse[i]);
    plan_layers(plan, layers, [&](const auto& key) {
        LayerPlan layer = base;
        if (key.first) layer.attention = windowed;
        if (key.second) layer.mlp = experts;
        return layer;
    });
}

}  // namespace membudget
