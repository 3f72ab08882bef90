#pragma once

/// What the parts of Gemma 4 share: its norm, its attention, and the tower before its decoder.

#include <optional>
#include <string_view>
#include <vector>

#include "model/module_weights.hpp"
#include "model/parts.hpp"

namespace membudget {

inline constexpr Norm kGemma4Norm{OpKind::rms_norm, NormStyle::power, true, false};
inline constexpr Norm kGemma4NormAlone{OpKind::rms_norm, NormStyle::power, false, false};

/// Where the keys and values that layers of a type share are in `DecoderPlan::carried`.
struct SharedKeys {
    std::size_t keys = 0, values = 0;
};

/// A layer's attention; without keys of its own it uses those of an earlier layer.
struct Gemma4Attention {
    AttentionWeights sizes;
    bool own_keys = true, values = true, stores = false;
    std::optional<SharedKeys> shared;  ///< those that later layers read
    double dropout = 0;
    std::string_view inner;            ///< module within each projection; empty: none
    bool of_patches = false;           ///< a tower's: not causal, rotated in two directions
};

/// The attention op by op, from the norm's output; `mask` is -1 where there is none. `tensors` are the plan's carried
/// ones.
[[nodiscard]] int gemma4_attention(BlockBuilder& b, const Gemma4Attention& a, const std::vector<Tensor>& tensors, int x,
                                   int cos, int sin, int mask);

/// The vision tower: its step before `plan`'s decoder, of images that take `tokens` tokens each.
void plan_gemma4_tower(ConfigReader& outer, DecoderPlan& plan, std::int64_t tokens);

}  // namespace membudget
