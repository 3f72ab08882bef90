#pragma once

/// Plans of the decoders whose feed-forward networks are mixtures of experts.

#include <cstdint>
#include <vector>

#include "model/decoder.hpp"

namespace membudget {

/// Number and width of experts, by the keys that give them.
void read_experts(ConfigReader& config, MlpPlan& mlp, std::string_view count, std::string_view width);

/// Makes two kinds of the plan's only one: layers with `experts`, and dense ones without.
/// `sparse` says for each layer which it is.
void mix_experts(DecoderPlan& plan, const MlpPlan& experts, const std::vector<bool>& sparse);

/// The same, where some layers have a window too.
void mix_experts(DecoderPlan& plan, const MlpPlan& experts, const std::vector<bool>& sparse,
                 const std::vector<bool>& windowed, std::int64_t window);

/// Sigmoid routing in fp32 with groups of experts, as DeepSeek-V3 and its kin do it.
void route_as_deepseek(ConfigReader& config, MlpPlan::Experts& experts);

void configure_mixtral(ConfigReader& config, DecoderPlan& plan);
void configure_qwen2_moe(ConfigReader& config, DecoderPlan& plan);
void configure_qwen3_moe(ConfigReader& config, DecoderPlan& plan);
void configure_olmoe(ConfigReader& config, DecoderPlan& plan);
void configure_phimoe(ConfigReader& config, DecoderPlan& plan);
void configure_granitemoe(ConfigReader& config, DecoderPlan& plan);
void configure_gpt_oss(ConfigReader& config, DecoderPlan& plan);
void configure_dbrx(ConfigReader& config, DecoderPlan& plan);
void configure_dots1(ConfigReader& config, DecoderPlan& plan);
void configure_glm4_moe(ConfigReader& config, DecoderPlan& plan);
void configure_minimax_m2(ConfigReader& config, DecoderPlan& plan);
void configure_minimax(ConfigReader& config, DecoderPlan& plan);
void configure_ernie4_5_moe(ConfigReader& config, DecoderPlan& plan);
void configure_mimo_v2_flash(ConfigReader& config, DecoderPlan& plan);
void configure_minimax_m3(ConfigReader& config, DecoderPlan& plan);
void configure_step3p7_text(ConfigReader& config, DecoderPlan& plan);
void configure_step3p5(ConfigReader& config, DecoderPlan& plan);
void configure_granitemoeshared(ConfigReader& config, DecoderPlan& plan);
void configure_flex_olmo(ConfigReader& config, DecoderPlan& plan);
void configure_exaone_moe(ConfigReader& config, DecoderPlan& plan);
void configure_solar_open(ConfigReader& config, DecoderPlan& plan);
void configure_mellum(ConfigReader& config, DecoderPlan& plan);
void configure_hy_v3(ConfigReader& config, DecoderPlan& plan);
void configure_cohere2_moe(ConfigReader& config, DecoderPlan& plan);
void configure_afmoe(ConfigReader& config, DecoderPlan& plan);
void configure_hunyuan_moe(ConfigReader& config, DecoderPlan& plan);
void configure_jetmoe(ConfigReader& config, DecoderPlan& plan);
void configure_llama4(ConfigReader& config, DecoderPlan& plan);

/// Dense layers first, then layers with routed and shared experts, as DeepSeek has them.
void read_deepseek_experts(ConfigReader& config, DecoderPlan& plan);

/// The network beside Granite's experts, where it has one.
[[nodiscard]] WeightsOnly granite_shared_mlp(ConfigReader& config, std::int64_t hidden);

/// Whether each layer has experts: the words of `mlp_layer_types`, else the numbers of `moe_layer_freq`, of which
/// 0 stands for a dense layer; empty where the file has neither.
[[nodiscard]] std::vector<bool> listed_sparse_layers(ConfigReader& config, std::int64_t layers, std::int64_t trailing = 0);

/// Whether layer i has experts by the rule of Qwen: every `decoder_sparse_step`-th layer that
/// `mlp_only_layers` does not name.
[[nodiscard]] std::vector<bool> qwen_sparse_layers(ConfigReader& config, std::int64_t layers,
                                                   std::int64_t experts);

}  // namespace membudget
