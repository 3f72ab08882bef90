#pragma once

/// Encoders that are not shaped like BERT: parameters only.

#include "model/parts.hpp"

namespace membudget {

void configure_mpnet(ConfigReader& config, Parts& parts);

}  // namespace membudget
