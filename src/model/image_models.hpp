#pragma once

/// Image classifiers and encoders; of ConvNeXt v2 and ResNet parameters only.

#include "model/parts.hpp"

namespace membudget {

/// The end of a class over `pooled` features: a classifier and its loss, or of the `bare` model, which computes none,
/// a loss over few numbers.
[[nodiscard]] Block pooled_end(BlockBuilder b, int pooled, bool bare, const Parts& parts);

void configure_swin(ConfigReader& config, Parts& parts);
void configure_swinv2(ConfigReader& config, Parts& parts);
void configure_convnextv2(ConfigReader& config, Parts& parts);
void configure_convnext(ConfigReader& config, Parts& parts);
void configure_resnet(ConfigReader& config, Parts& parts);
void configure_blip(ConfigReader& config, Parts& parts);

}  // namespace membudget
