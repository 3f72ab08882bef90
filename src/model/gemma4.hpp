#pragma once

/// What the parts of Gemma 4 share with each other and with Gemma 3n: norm, attention, inputs of each layer, shared keys;
/// and the tower before its decoder.

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
    bool keys_first = false;           ///< keys are ready before values are projected
    bool of_patches = false;           ///< a tower's: not causal, rotated in two directions
};

/// The attention op by op, from the norm's output; `mask` is -1 where there is none. `tensors` are the plan's carried
/// ones.
[[nodiscard]] int gemma4_attention(BlockBuilder& b, const Gemma4Attention& a, const std::vector<Tensor>& tensors, int x,
                                   int cos, int sin, int mask);

/// What tells the layers apart.
struct Gemma4Kind {
    bool full = false;      ///< no window
    bool own_keys = true;
    bool stores = false;    ///< the last of its type with own keys, which later layers may use
    bool operator==(const Gemma4Kind&) const = default;
};
[[nodiscard]] std::vector<Gemma4Kind> read_gemma4_kinds(ConfigReader& config, std::int64_t layers, bool of_gemma3n);
/// What layers that have no keys of their own read, declared for each type of layer that has some.
[[nodiscard]] std::optional<SharedKeys> share_gemma4_keys(DecoderPlan& plan, const std::vector<Gemma4Kind>& kinds, bool full,
                                                          const AttentionWeights& sizes);

/// Inputs of each layer beside the hidden states.
struct LayerInputs {
    std::int64_t width = 0;       ///< of one layer's; 0: there are none
    std::int64_t vocabulary = 1;  ///< of their embeddings
    std::int64_t layers = 1;
    std::int64_t hidden = 1;
    Act act = Act::gelu_tanh;
    bool of_gemma3n = false;      ///< ids of its own, and a projection scaled in place

    [[nodiscard]] std::int64_t all() const { return detail::checked_mul(layers, width); }
};
/// Declares and makes them, and gives each layer its own.
LayerInputs read_layer_inputs(ConfigReader& config, DecoderPlan& plan, LayerPlan& layer, bool of_gemma3n);
/// What a layer makes of a hidden state and its own input [models/gemma4/modeling_gemma4.py
/// Gemma4TextDecoderLayer.forward].
[[nodiscard]] int gated_layer_input(BlockBuilder& b, const LayerInputs& inputs, int x, int own);

/// The vision tower: its step before `plan`'s decoder, of images that take `tokens` tokens each.
void plan_gemma4_tower(ConfigReader& outer, DecoderPlan& plan, std::int64_t tokens);

}  // namespace membudget
