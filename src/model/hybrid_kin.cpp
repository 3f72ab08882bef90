// Hybrids whose mixers are known by their parameters alone, and no step has been measured.

#include <algorithm>
#include <utility>

#include "model/hybrid.hpp"
#include "model/hybrid_parts.hpp"
#include "model/llama_like.hpp"
#include "model/module_weights.hpp"
#include "model/moe.hpp"

namespace membudget {
namespace {

constexpr Component kMixer = Component::attention;

/// Gives layers that are not `attends` a mixer of their own.
void alternate_mixers(DecoderPlan& plan, const std::vector<bool>& attends, const WeightsOnly& mixer) {
    plan.kinds.push_back(plan.layer());
    plan.kinds[1].attention.weights = mixer;
    std::vector<int> kinds;
    for (const bool attention : attends) kinds.push_back(attention ? 0 : 1);
    assign_kinds(plan, std::move(kinds));
}

/// The heads of Mamba 2 in the keys of Bamba and Granite 4.
Mamba2 read_mamba2(ConfigReader& config, std::int64_t hidden) {
    Mamba2 mamba;
    mamba.hidden = hidden;
    mamba.inner = config.size("mamba_expand", 64) * hidden;
    mamba.heads = config.size("mamba_n_heads", kLargestCount);
    mamba.groups = config.size("mamba_n_groups", kLargestCount);
    mamba.state = config.size("mamba_d_state");
    mamba.kernel = config.size("mamba_d_conv");
    mamba.input_bias = mamba.output_bias = config.flag("mamba_proj_bias");
    mamba.convolution_bias = config.flag("mamba_conv_bias");
    return mamba;
}

/// A gated convolution over a few tokens [transformers models/lfm2/modeling_lfm2.py Lfm2ShortConv].
WeightsOnly short_convolution(ConfigReader& config, std::int64_t hidden) {
    const std::int64_t kernel = config.size("conv_L_cache", kLargestCount);
    const bool bias = config.flag("conv_bias");
    return [=](BlockBuilder& b) {
        b.parameter("conv.conv.weight", {hidden, 1, kernel}, kMixer);
        if (bias) b.parameter("conv.conv.bias", {hidden}, kMixer);
        b.linear_weights("conv.in_proj", hidden, 3 * hidden, bias, kMixer);
        b.linear_weights("conv.out_proj", hidden, hidden, bias, kMixer);
    };
}

/// What LFM2 and its mixture have in common.
void read_lfm2(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.final_norm = "embedding_norm";
    LayerPlan& layer = plan.layer();
    layer.norms[0] = "operator_norm";
    layer.norms[1] = "ffn_norm";
    read_heads(config, plan.hidden, layer.attention);
    layer.attention.o = "out_proj";
    layer.attention.qk_norm = QkNorm::per_head;
    layer.attention.q_norm = "q_layernorm";
    layer.attention.k_norm = "k_layernorm";
    layer.mlp.module = "feed_forward";
    layer.mlp.gate = "w1";
    layer.mlp.up = "w3";
    layer.mlp.down = "w2";
    if (config.has("tie_embedding")) plan.tied = config.flag("tie_embedding");
    plan.step_unsupported = kCountedOnly;
}

/// The Gated DeltaNet of OLMo Hybrid, each projection a module of its own.
WeightsOnly olmo_delta_net(ConfigReader& config, std::int64_t hidden, std::int64_t heads) {
    const std::int64_t key_heads = config.size_or("linear_num_key_heads", heads, kLargestCount);
    const std::int64_t value_heads = config.size_or("linear_num_value_heads", heads, kLargestCount);
    const std::int64_t key_dim =
        config.size_or("linear_key_head_dim", std::max<std::int64_t>(1, hidden * 3 / 4 / key_heads));
    const std::int64_t value_dim = config.size_or("linear_value_head_dim", 2 * key_dim);
    const std::int64_t kernel = config.size("linear_conv_kernel_dim", kLargestCount);
    return [=](BlockBuilder& b) {
        const std::int64_t keys = key_heads * key_dim, values = value_heads * value_dim;
        const auto linear = [&](std::string_view name, std::int64_t out) {
            b.linear_weights(join("linear_attn", name), hidden, out, false, kMixer);
        };
        b.parameter("linear_attn.A_log", {value_heads}, kMixer);
        b.parameter("linear_attn.dt_bias", {value_heads}, kMixer);
        b.parameter("linear_attn.conv1d.weight", {2 * keys + values, 1, kernel}, kMixer);
        linear("q_proj", keys);
        linear("k_proj", keys);
        linear("v_proj", values);
        linear("a_proj", value_heads);
        linear("b_proj", value_heads);
        linear("g_proj", values);
        b.norm_weights("linear_attn.o_norm", value_dim, norms::rms);
        b.linear_weights("linear_attn.o_proj", values, hidden, false, kMixer);
    };
}

}  // namespace

void configure_lfm2(ConfigReader& config, DecoderPlan& plan) {
    read_lfm2(config, plan);
    MlpPlan& mlp = plan.layer().mlp;
    mlp.width = config.size("block_ff_dim");
    if (config.flag("block_auto_adjust_ff_dim")) {
        // Two thirds, times a factor, rounded up to a multiple.
        const double factor = config.number("block_ffn_dim_multiplier", 1);
        const std::int64_t multiple = config.size("block_multiple_of");
        mlp.width = 2 * mlp.width / 3;
        if (factor > 0 && factor < 64) mlp.width = static_cast<std::int64_t>(factor * static_cast<double>(mlp.width));
        mlp.width = std::max<std::int64_t>(1, (mlp.width + multiple - 1) / multiple) * multiple;
    }
    std::vector<bool> attends = layers_of_type(config, plan.layer_count, "full_attention", "conv");
    if (attends.empty()) {
        const std::vector<std::int64_t> listed = config.sizes("full_attn_idxs");
        const bool all = config.raw("full_attn_idxs") == nullptr;
        for (std::int64_t i = 0; i < plan.layer_count; ++i)
            attends.push_back(all || std::find(listed.begin(), listed.end(), i) != listed.end());
    }
    alternate_mixers(plan, attends, short_convolution(config, plan.hidden));
}

void configure_lfm2_moe(ConfigReader& config, DecoderPlan& plan) {
    read_lfm2(config, plan);
    const std::vector<bool> attends = layers_of_type(config, plan.layer_count, "full_attention", "conv");
    if (attends.empty() && config.diagnostics().empty()) config.invalid("layer_types", "expected an entry for each layer");
    plan.layer().mlp.width = config.size("intermediate_size");
    MlpPlan experts = plan.layer().mlp;
    read_experts(config, experts, "num_experts", "moe_intermediate_size");
    const std::int64_t dense = config.count_or("num_dense_layers", 0);
    std::vector<std::pair<bool, bool>> layers;
    for (std::size_t i = 0; i < attends.size(); ++i)
        layers.emplace_back(attends[i], static_cast<std::int64_t>(i) >= dense);
    if (layers.empty()) return;
    const WeightsOnly convolution = short_convolution(config, plan.hidden);
    plan_layers(plan, layers, [&, base = plan.layer()](const auto& key) {
        LayerPlan layer = base;
        if (!key.first) layer.attention.weights = convolution;
        if (key.second) layer.mlp = experts;
        return layer;
    });
}

void configure_granitemoehybrid(ConfigReader& config, DecoderPlan& plan) {
    configure_granite(config, plan);
    LayerPlan& layer = plan.layer();
    const std::int64_t hidden = plan.hidden;
    layer.extra = granite_shared_mlp(config, hidden);
    if (config.count_or("num_local_experts", 0) > 0) {
        read_experts(config, layer.mlp, "num_local_experts", "intermediate_size");
        layer.mlp.module = "block_sparse_moe";
        layer.mlp.experts.router = "router";
    } else {
        layer.mlp.weights = [](BlockBuilder&) {};  // the shared network alone
    }
    std::vector<bool> attends;
    for (const std::string& type : layer_words(config, "layer_types", plan.layer_count)) {
        attends.push_back(type == "attention" || type == "full_attention");
        if (!attends.back() && type != "mamba" && type != "linear_attention" && !type.empty())
            config.unsupported("layer_types", "expected 'mamba' or 'attention'; got '" + type + "'");
    }
    if (attends.empty()) attends.assign(static_cast<std::size_t>(plan.layer_count), false);
    const Mamba2 mamba = read_mamba2(config, hidden);
    alternate_mixers(plan, attends, [mamba](BlockBuilder& b) { mamba2_weights(b, "mamba", mamba); });
    plan.step_unsupported = kCountedOnly;
}

void configure_bamba(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.final_norm = "final_layernorm";
    LayerPlan& layer = plan.layer();
    layer.norms[1] = "pre_ff_layernorm";
    layer.mlp.module = "feed_forward";
    const std::vector<std::int64_t> listed = config.sizes("attn_layer_indices");
    std::vector<bool> attends;
    for (std::int64_t i = 0; i < plan.layer_count; ++i)
        attends.push_back(std::find(listed.begin(), listed.end(), i) != listed.end());
    const Mamba2 mamba = read_mamba2(config, plan.hidden);
    alternate_mixers(plan, attends, [mamba](BlockBuilder& b) { mamba2_weights(b, "mamba", mamba); });
    plan.step_unsupported = kCountedOnly;
}

void configure_olmo_hybrid(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    // Layers with attention normalise results only, the others inputs.
    LayerPlan linear = plan.layer();
    linear.attention.weights = olmo_delta_net(config, plan.hidden, linear.attention.heads);
    LayerPlan full = plan.layer();
    norm_results_only(full);
    full.attention.qk_norm = QkNorm::full;
    std::vector<bool> attends = layers_of_type(config, plan.layer_count, "full_attention", "linear_attention");
    if (attends.empty()) {
        for (std::int64_t i = 0; i < plan.layer_count; ++i) attends.push_back(i % 4 == 3);
        if (plan.layer_count < 4) attends.back() = true;
    }
    plan.kinds = {std::move(linear), std::move(full)};
    std::vector<int> kinds;
    for (const bool attention : attends) kinds.push_back(attention ? 1 : 0);
    assign_kinds(plan, std::move(kinds));
    plan.step_unsupported = kCountedOnly;
}

}  // namespace membudget
