/// Decoders in Llama's modules of which the parameters are known and no step has been measured.

#include <string>

#include "model/llama_like.hpp"
#include "model/moe.hpp"

namespace membudget {

void configure_seed_oss(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.output_bias = config.flag("attention_out_bias");
    plan.step_unsupported = kCountedOnly;
}

void configure_ernie4_5(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.attention.bias = layer.attention.output_bias = layer.mlp.bias = config.flag("use_bias");
    plan.step_unsupported = kCountedOnly;
}

void configure_ernie4_5_moe(ConfigReader& config, DecoderPlan& plan) {
    configure_ernie4_5(config, plan);
    MlpPlan experts = plan.layer().mlp;
    read_experts(config, experts, "num_experts", "moe_intermediate_size");
    plan.head_bias = experts.experts.shared_bias = experts.bias;
    experts.bias = false;
    experts.experts.shared = "shared_experts";
    experts.experts.shared_width = config.count_or("moe_num_shared_experts", 0) * experts.experts.width;
    experts.experts.correction = "gate.moe_statics.e_score_correction_bias";
    const std::int64_t first = config.count_or("moe_layer_start_index", 0);
    const double end = config.number("moe_layer_end_index");
    const std::int64_t interval = config.size("moe_layer_interval", kLargestCount);
    std::vector<bool> sparse;
    for (std::int64_t i = 0; i < plan.layer_count; ++i)
        sparse.push_back((i + 1) % interval == 0 && i >= first && (end == -1 || static_cast<double>(i) <= end));
    mix_experts(plan, experts, sparse);
}

void configure_hunyuan_dense(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    attention.qk_norm = QkNorm::per_head;
    attention.q_norm = "query_layernorm";
    attention.k_norm = "key_layernorm";
    plan.step_unsupported = kCountedOnly;
}

void configure_exaone4(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    norm_results_only(layer);
    layer.attention.qk_norm = QkNorm::per_head;
    plan.step_unsupported = kCountedOnly;
}

void configure_arcee(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().mlp.gated = false;
    plan.step_unsupported = kCountedOnly;
}

void configure_dots1(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    read_heads(config, plan.hidden, attention, Remainder::dropped);
    attention.bias = attention.output_bias = config.flag("attention_bias");
    attention.qk_norm = QkNorm::per_head;
    read_deepseek_experts(config, plan);
    plan.step_unsupported = kCountedOnly;
}

void configure_minimax(ConfigReader& config, DecoderPlan& plan) {
    configure_mixtral(config, plan);
    LayerPlan linear = plan.layer();
    const AttentionPlan& attention = plan.layer().attention;
    const std::int64_t hidden = plan.hidden, inner = attention.heads * attention.head_dim;
    linear.attention.weights = [hidden, inner](BlockBuilder& b) {
        b.norm_weights("self_attn.norm", inner, norms::rms);
        b.linear_weights("self_attn.qkv_proj", hidden, 3 * inner, false, Component::attention);
        b.linear_weights("self_attn.out_proj", inner, hidden, false, Component::attention);
        b.linear_weights("self_attn.output_gate", hidden, inner, false, Component::attention);
    };
    plan.kinds.push_back(std::move(linear));
    const std::vector<std::string> types = config.texts("layer_types");
    const bool listed = config.raw("layer_types") != nullptr;
    if (listed && static_cast<std::int64_t>(types.size()) != plan.layer_count)
        config.invalid("layer_types", "expected an entry for each layer");
    std::vector<int> kinds;
    for (std::int64_t i = 0; i < plan.layer_count && config.diagnostics().empty(); ++i)
        kinds.push_back(listed ? types[static_cast<std::size_t>(i)] == "linear_attention" : i % 2 == 1);
    assign_kinds(plan, std::move(kinds));
    plan.step_unsupported = kCountedOnly;
}

void configure_helium(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    attention.output_bias = false;
    if (attention.heads * attention.head_dim != plan.hidden && config.diagnostics().empty())
        config.invalid("head_dim", "expected heads that make up hidden_size (" + std::to_string(plan.hidden) + ")");
    plan.step_unsupported = kCountedOnly;
}

void configure_cwm(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    const std::int64_t window = config.size_or("sliding_window", 0);
    const auto windowed = windowed_layers(
        config, plan.layer_count, [](std::int64_t index, std::int64_t period) { return index % period != 0; }, 4);
    if (window > 0) alternate_windows(plan, windowed, window);
}

void configure_ministral(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    const std::int64_t window = config.size_or("sliding_window", 0);
    const auto windowed = windowed_layers(
        config, plan.layer_count, [](std::int64_t, std::int64_t width) { return width > 0; }, window);
    if (window > 0) alternate_windows(plan, windowed, window);
}

void configure_granite_swa(ConfigReader& config, DecoderPlan& plan) {
    configure_granite(config, plan);
    plan.layer().attention.sinks = true;
    plan.step_unsupported = kCountedOnly;
}

void configure_bitnet(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    // Norms before the last module of each sublayer.
    layer.extra = [hidden = plan.hidden, width = layer.mlp.width](BlockBuilder& b) {
        b.norm_weights("self_attn.attn_sub_norm", hidden, norms::rms);
        b.norm_weights("mlp.ffn_sub_norm", width, norms::rms);
    };
    plan.step_unsupported = kCountedOnly;
}

void configure_hyperclovax(ConfigReader& config, DecoderPlan& plan) {
    configure_granite(config, plan);
    LayerPlan& layer = plan.layer();
    if (config.flag("use_post_norm")) {
        layer.arrangement = Arrangement::sandwich;
        layer.norms[1] = "post_norm1";
        layer.norms[2] = "post_attention_layernorm";
        layer.norms[3] = "post_norm2";
    }
    plan.step_unsupported = kCountedOnly;
}

void configure_diffllama(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.extra = [width = layer.attention.head_dim](BlockBuilder& b) {
        for (const std::string_view name : {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"})
            b.parameter(join("self_attn", name), {width}, Component::attention);
    };
    plan.step_unsupported = kCountedOnly;
}

void configure_nanochat(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm = {OpKind::rms_norm, NormStyle::no_weight, false, false};
    plan.head_softcap = config.number("final_logit_softcapping");
    LayerPlan& layer = plan.layer();
    layer.attention.qk_norm = QkNorm::per_head;
    layer.attention.qk_norm_kind = plan.norm;
    layer.mlp.gated = false;
    layer.mlp.up = "fc1";
    layer.mlp.down = "fc2";
    plan.step_unsupported = kCountedOnly;
}

void configure_apertus(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.norms[0] = "attention_layernorm";
    layer.norms[1] = "feedforward_layernorm";
    layer.attention.qk_norm = QkNorm::per_head;
    layer.mlp.gated = false;
    // The activation, xIELU, is trained (arXiv:2411.13010).
    layer.extra = [](BlockBuilder& b) {
        b.parameter("mlp.act_fn.alpha_p", {1}, Component::mlp);
        b.parameter("mlp.act_fn.alpha_n", {1}, Component::mlp);
    };
    plan.step_unsupported = kCountedOnly;
}

void configure_jais2(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm = norms::layer;
    plan.layer().mlp.gated = false;
}

void configure_vaultgemma(ConfigReader& config, DecoderPlan& plan) {
    configure_gemma2(config, plan);
    for (LayerPlan& layer : plan.kinds) {
        layer.arrangement = Arrangement::pre_norm;
        layer.norms[1] = "pre_feedforward_layernorm";
    }
}

}  // namespace membudget
