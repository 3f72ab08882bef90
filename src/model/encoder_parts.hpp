#pragma once

/// Encoders that are not shaped like BERT: parameters only.

#include "model/parts.hpp"

namespace membudget {

void configure_albert(ConfigReader& config, Parts& parts);
void configure_mpnet(ConfigReader& config, Parts& parts);
void configure_deberta_v2(ConfigReader& config, Parts& parts);

}  // namespace membudget
