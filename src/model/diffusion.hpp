#pragma once

/// Diffusion models: UNets, their autoencoder and ControlNet, and transformers. Parameters only.

#include "model/parts.hpp"

namespace membudget {

void configure_unet(ConfigReader& config, Parts& parts);
void configure_controlnet(ConfigReader& config, Parts& parts);
void configure_autoencoder_kl(ConfigReader& config, Parts& parts);
void configure_flux(ConfigReader& config, Parts& parts);
void configure_chroma(ConfigReader& config, Parts& parts);
void configure_sd3(ConfigReader& config, Parts& parts);
void configure_hunyuan_dit(ConfigReader& config, Parts& parts);

}  // namespace membudget
