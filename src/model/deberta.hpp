#pragma once

/// What an encoder with relative positions has beside BERT's parts.

#include <vector>

#include "model/encoder.hpp"

namespace membudget {

/// Of `Model::shared`, behind the mask: the embeddings that all layers read, and the distances.
[[nodiscard]] std::vector<Tensor> relative_tensors(const EncoderPlan& plan);
/// Makes them, in the stem; `shared` is all of `Model::shared`.
void relative_stem(BlockBuilder& builder, const EncoderPlan& plan, const std::vector<Tensor>& shared);
/// The convolution of the embeddings, `embeddings` in `shared`, that joins the first layer's output
/// [transformers models/deberta_v2/modeling_deberta_v2.py ConvLayer].
[[nodiscard]] Block relative_convolution(const EncoderPlan& plan, const std::vector<Tensor>& shared, int embeddings);
/// The attention of a layer, output projection not included.
int disentangled_attention(BlockBuilder& builder, const EncoderPlan& plan, const std::vector<Tensor>& shared,
                           int x);

}  // namespace membudget
