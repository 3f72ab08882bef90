#pragma once

/// Plans of the models that mix tokens without attention, in all of their layers or in some.

#include "model/decoder.hpp"

namespace membudget {

void configure_mamba(ConfigReader& config, DecoderPlan& plan);
void configure_mamba2(ConfigReader& config, DecoderPlan& plan);
void configure_jamba(ConfigReader& config, DecoderPlan& plan);
void configure_falcon_h1(ConfigReader& config, DecoderPlan& plan);
void configure_nemotron_h(ConfigReader& config, DecoderPlan& plan);
void configure_qwen3_next(ConfigReader& config, DecoderPlan& plan);
void configure_qwen3_5(ConfigReader& config, DecoderPlan& plan);
void configure_qwen3_5_moe(ConfigReader& config, DecoderPlan& plan);
void configure_lfm2(ConfigReader& config, DecoderPlan& plan);
void configure_lfm2_moe(ConfigReader& config, DecoderPlan& plan);
void configure_granitemoehybrid(ConfigReader& config, DecoderPlan& plan);
void configure_bamba(ConfigReader& config, DecoderPlan& plan);
void configure_olmo_hybrid(ConfigReader& config, DecoderPlan& plan);
void configure_kimi_linear(ConfigReader& config, DecoderPlan& plan);
void configure_rwkv(ConfigReader& config, DecoderPlan& plan);

}  // namespace membudget
