#pragma once

/// Encoders of sound: parameters only.

#include "model/parts.hpp"

namespace membudget {

void configure_wav2vec2(ConfigReader& config, Parts& parts);
void configure_hubert(ConfigReader& config, Parts& parts);

}  // namespace membudget
