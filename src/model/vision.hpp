#pragma once

/// Vision towers: parameters only.

#include "model/parts.hpp"

namespace membudget {

/// Towers that read `vision_config` of a multimodal config.
void add_qwen2_vision(Parts& parts, ConfigReader& config);
void add_qwen2_5_vision(Parts& parts, ConfigReader& config);
/// `deep`: features of some layers join the decoder on their own.
void add_qwen3_vision(Parts& parts, ConfigReader& config, bool deep);
void add_glm4v_vision(Parts& parts, ConfigReader& config);
void add_llama4_vision(Parts& parts, ConfigReader& config, std::int64_t text_hidden);
void add_internvit(Parts& parts, ConfigReader& config, std::int64_t text_hidden);

}  // namespace membudget
