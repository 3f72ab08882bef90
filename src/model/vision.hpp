#pragma once

/// Vision towers of one class each.

#include "model/parts.hpp"

namespace membudget {

/// The tower of Llama 4, before `plan`'s decoder.
void plan_llama4_tower(ConfigReader& outer, DecoderPlan& plan);
/// InternViT's parameters alone.
void add_internvit(Parts& parts, ConfigReader& config, std::int64_t text_hidden);

}  // namespace membudget
