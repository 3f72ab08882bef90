/// Decoders in Llama's modules of which the parameters are known and no step has been measured.

#include "model/llama_like.hpp"
#include "model/moe.hpp"

namespace membudget {

namespace {

constexpr std::string_view kCountedOnly = "only the parameters of this family are modelled yet";

}  // namespace

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

void configure_glm4_moe_lite(ConfigReader& config, DecoderPlan& plan) {
    configure_deepseek(config, plan);
    plan.step_unsupported = kCountedOnly;
}

}  // namespace membudget
