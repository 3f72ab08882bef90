#pragma once

/// Vision towers: parameters only.

#include "model/parts.hpp"

namespace membudget {

/// Towers that read `vision_config` of a multimodal config.
void add_llama4_vision(Parts& parts, ConfigReader& config, std::int64_t text_hidden);
void add_internvit(Parts& parts, ConfigReader& config, std::int64_t text_hidden);

}  // namespace membudget
