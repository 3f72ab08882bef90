#pragma once

/// Encoder-decoders: two chains of blocks, the second of which attends to the end of the first.

#include "model/parts.hpp"

namespace membudget {

void configure_t5(ConfigReader& config, Parts& parts);
void configure_bart(ConfigReader& config, Parts& parts);
void configure_mbart(ConfigReader& config, Parts& parts);
void configure_whisper(ConfigReader& config, Parts& parts);

}  // namespace membudget
