#pragma once

/// Plans of the families that descend from GPT-2: layer norms with biases, a plain feed-forward
/// network, learned positions or a rotation of part of each head.

#include "model/decoder.hpp"

namespace membudget {

/// `qk_layernorm`: layer norms over each head of queries and of keys.
void norm_each_head(AttentionPlan& attention);

void configure_gpt2(ConfigReader& config, DecoderPlan& plan);
void configure_gpt_bigcode(ConfigReader& config, DecoderPlan& plan);
void configure_gpt_neo(ConfigReader& config, DecoderPlan& plan);
void configure_gptj(ConfigReader& config, DecoderPlan& plan);
void configure_codegen(ConfigReader& config, DecoderPlan& plan);
void configure_gpt_neox(ConfigReader& config, DecoderPlan& plan);
void configure_opt(ConfigReader& config, DecoderPlan& plan);
void configure_bloom(ConfigReader& config, DecoderPlan& plan);
void configure_mpt(ConfigReader& config, DecoderPlan& plan);
void configure_falcon(ConfigReader& config, DecoderPlan& plan);
void configure_refined_web(ConfigReader& config, DecoderPlan& plan);
void configure_phi(ConfigReader& config, DecoderPlan& plan);
void configure_phi_msft(ConfigReader& config, DecoderPlan& plan);
void configure_xglm(ConfigReader& config, DecoderPlan& plan);
void configure_biogpt(ConfigReader& config, DecoderPlan& plan);
void configure_openai_gpt(ConfigReader& config, DecoderPlan& plan);
void configure_persimmon(ConfigReader& config, DecoderPlan& plan);
void configure_starcoder2(ConfigReader& config, DecoderPlan& plan);

}  // namespace membudget
