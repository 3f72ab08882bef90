#pragma once

/// One layer of a decoder from its plan.

#include <vector>

#include "model/decoder.hpp"

namespace membudget {

/// Indices of the shared tensors of a model; -1: it has none.
struct SharedTensors {
    std::vector<int> cos, sin;  ///< by rotary table
    int full_mask = -1;
    int window_mask = -1;
    int embeds = -1, features = -1;  ///< of tokens, and of the images that stand among them
};

/// The block of one kind of layer. `shared` are the tensors that `ids` refers to.
[[nodiscard]] Block build_decoder_layer(const DecoderPlan& plan, const LayerPlan& layer,
                                        const SharedTensors& ids,
                                        const std::vector<Tensor>& shared);

}  // namespace membudget
