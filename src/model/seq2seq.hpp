#pragma once

/// Encoder-decoders: parameters only.

#include "model/parts.hpp"

namespace membudget {

void configure_t5(ConfigReader& config, Parts& parts);
void configure_bart(ConfigReader& config, Parts& parts);
void configure_mbart(ConfigReader& config, Parts& parts);
void configure_whisper(ConfigReader& config, Parts& parts);

}  // namespace membudget
