#pragma once

/// The vision towers of Qwen-VL and GLM-4V, which take images of any size: patches of all images in one sequence, layers
/// whose attention is told where each image ends, and a merger of neighbouring patches.

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/decoder.hpp"
#include "model/parts.hpp"

namespace membudget {

/// How one of them is built.
struct QwenVision {
    std::int64_t hidden = 1, width = 1, layers = 1, heads = 1;
    std::int64_t out = 1;               ///< width of the merger's result
    std::int64_t channels = 3, frames = 2, patch = 1, merge = 1;
    bool conv_bias = false;
    bool hookless = false;              ///< see `OpAttributes::hookless`
    bool qkv_bias = true, proj_bias = true, mlp_bias = true;
    bool gated = false;                 ///< gate_proj, up_proj, down_proj
    std::string_view up = "fc1", down = "fc2", act_name = "act";
    Norm norm = norms::layer;
    Act act = Act::quick_gelu;
    std::int64_t positions = 0;         ///< learned, interpolated for each image; 0: none
    bool sampled = false;               ///< bicubic samples of the table instead of weighted entries
    /// GLM-4V: norms before and after the layers, and a merger that is a convolution and a gated MLP of this
    /// width; 0: none of it.
    std::int64_t merger_width = 0;
    std::string_view merger_norm = "ln_q", merger_up = "mlp.0", merger_act = "mlp.1", merger_down = "mlp.2";
    /// After each of these layers a merger of its own makes features; of one behind the last there is the
    /// merger alone.
    std::vector<std::int64_t> joins;
    std::int64_t window = 0;            ///< side of the windows, in tokens; 0: none
    std::vector<std::int64_t> whole;    ///< with windows: layers that attend to whole images

    /// Places in `joins` of those that make features, in the order of the layers.
    [[nodiscard]] std::vector<std::size_t> used_joins() const;
    [[nodiscard]] std::int64_t merged() const { return hidden * merge * merge; }
};
[[nodiscard]] QwenVision read_qwen2_vision(ConfigReader& outer);
[[nodiscard]] QwenVision read_qwen2_5_vision(ConfigReader& outer);
/// `deep`: features of some layers join the decoder on their own.
[[nodiscard]] QwenVision read_qwen3_vision(ConfigReader& outer, bool deep);
[[nodiscard]] QwenVision read_glm4v_vision(ConfigReader& outer);

/// Puts the tower before the decoder, whose tokens have positions in three directions.
void plan_qwen_tower(DecoderPlan& plan, QwenVision vision);

}  // namespace membudget
