#pragma once

/// One layer of a decoder from its plan.

#include <string>
#include <vector>

#include "model/decoder.hpp"

namespace membudget {

/// Indices of the shared tensors of a model; -1: it has none.
struct SharedTensors {
    std::vector<int> cos, sin;  ///< by rotary table
    int full_mask = -1;
    int window_mask = -1;
    int alibi = -1;          ///< biases of distances that all layers get
    int embeds = -1;         ///< of tokens, among which images stand
    TowerFeatures features;  ///< of these
    std::vector<int> deep;   ///< the deep ones, copied together
    int places = -1;         ///< where the images stand
};

/// The block of one kind of layer. `shared` are the tensors that `ids` refers to.
[[nodiscard]] Block build_decoder_layer(const DecoderPlan& plan, const LayerPlan& layer,
                                        const SharedTensors& ids,
                                        const std::vector<Tensor>& shared);

/// The same where the plan builds the layer as a whole.
[[nodiscard]] Block build_whole_layer(const DecoderPlan& plan, const LayerPlan& layer, const SharedTensors& ids,
                                      const std::vector<Tensor>& shared);

/// The residual streams of the last layer become one.
[[nodiscard]] int collapse_streams(BlockBuilder& builder, const DecoderPlan& plan, const std::string& base, int x);

/// The experts of a layer, their router and what is shared; returns the result. `keeps_logits`: see `OpAttributes`.
[[nodiscard]] int mixture_of_experts(BlockBuilder& builder, const MlpPlan& mlp, int x, std::int64_t hidden,
                                     bool keeps_logits);

}  // namespace membudget
