#pragma once

/// The vision tower and projector of InternVL [transformers models/internvl/modeling_internvl.py].

#include "model/decoder.hpp"
#include "model/parts.hpp"

namespace membudget {

/// Puts the tower that `vision_config` describes, and the projector, before the decoder.
void plan_internvl_tower(ConfigReader& outer, DecoderPlan& plan);

}  // namespace membudget
