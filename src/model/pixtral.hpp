#pragma once

/// Pixtral's vision tower [transformers models/pixtral/modeling_pixtral.py]: Llama's layers over the patches of
/// all images, in one sequence under a mask.

#include <cstdint>

#include "model/decoder.hpp"
#include "model/parts.hpp"

namespace membudget {

struct Pixtral {
    std::int64_t hidden = 1, width = 1, layers = 1, heads = 1, channels = 3, patch = 1;
    Act act = Act::gelu;
    double dropout = 0;  ///< of the attention
    std::int64_t chosen = 0;  ///< layers before the hidden states that the projector reads
};
inline constexpr std::string_view kPixtralKeys =
    "hidden_size=1024 intermediate_size=4096 num_hidden_layers=24 num_attention_heads=16 num_channels=3 "
    "image_size=1024 patch_size=16 hidden_act=gelu attention_dropout=0.0";
[[nodiscard]] Pixtral read_pixtral(ConfigReader config);

/// What Mistral 3 makes of the patches.
struct PixtralProjector {
    std::int64_t merge = 2;
    bool bias = false;
    Act act = Act::gelu;
};
/// Puts the tower and Mistral 3's projector before the decoder.
void plan_pixtral_tower(DecoderPlan& plan, const Pixtral& vision, const PixtralProjector& projector);

}  // namespace membudget
