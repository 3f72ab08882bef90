#pragma once

/// Models that join a vision tower and a decoder.

#include "model/parts.hpp"

namespace membudget {

void configure_gemma3_vl(ConfigReader& config, Parts& parts);
void configure_qwen2_vl(ConfigReader& config, Parts& parts);
void configure_qwen2_5_vl(ConfigReader& config, Parts& parts);
void configure_qwen3_vl(ConfigReader& config, Parts& parts);
void configure_qwen3_vl_moe(ConfigReader& config, Parts& parts);
void configure_qwen3_5_vl(ConfigReader& config, Parts& parts);
void configure_qwen3_5_moe_vl(ConfigReader& config, Parts& parts);
void configure_glm4v(ConfigReader& config, Parts& parts);
void configure_llama4_vl(ConfigReader& config, Parts& parts);
void configure_internvl_chat(ConfigReader& config, Parts& parts);
void configure_llava(ConfigReader& config, Parts& parts);
void configure_llava_next(ConfigReader& config, Parts& parts);
void configure_mistral3(ConfigReader& config, Parts& parts);
void configure_internvl(ConfigReader& config, Parts& parts);
void configure_glm4v_moe(ConfigReader& config, Parts& parts);
void configure_mllama(ConfigReader& config, Parts& parts);
void configure_gemma3n_text(ConfigReader& config, Parts& parts);
void configure_gemma4_text(ConfigReader& config, Parts& parts);
void configure_gemma4(ConfigReader& config, Parts& parts);
void configure_deepseek_v4(ConfigReader& config, Parts& parts);
void configure_paligemma(ConfigReader& config, Parts& parts);
void configure_kimi_k25(ConfigReader& config, Parts& parts);
void configure_step3p7(ConfigReader& config, Parts& parts);
void configure_minimax_m3_vl(ConfigReader& config, Parts& parts);

/// The parameters of LLaVA around `plan`'s decoder, with any tower; `newline`: an embedding that ends a row of
/// patches.
void add_llava_any_tower(ConfigReader& config, Parts& parts, DecoderPlan& plan, bool newline);

}  // namespace membudget
