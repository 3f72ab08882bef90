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

}  // namespace membudget
