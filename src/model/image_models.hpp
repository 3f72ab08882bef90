#pragma once

/// Image classifiers and encoders; of ConvNeXt v2 and ResNet parameters only.

#include "model/parts.hpp"

namespace membudget {

void configure_swin(ConfigReader& config, Parts& parts);
void configure_swinv2(ConfigReader& config, Parts& parts);
void configure_convnextv2(ConfigReader& config, Parts& parts);
void configure_convnext(ConfigReader& config, Parts& parts);
void configure_resnet(ConfigReader& config, Parts& parts);
void configure_blip(ConfigReader& config, Parts& parts);

}  // namespace membudget
