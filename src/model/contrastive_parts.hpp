#pragma once

/// What the encoders of images and of texts have in common.

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/contrastive.hpp"

namespace membudget {

/// Sizes of an encoder.
void read_tower(ConfigReader& config, ContrastiveTower& tower);
/// What its layers compute.
void read_functions(ConfigReader& config, ContrastiveTower& tower);

/// The two linear modules of a layer, or of a pool.
int tower_mlp(BlockBuilder& builder, const ContrastiveTower& tower, std::string_view module, int x, Place place);
/// h = x + A(n1 x); out = h + M(n2 h), of which the function keeps x, then h, as `residual`.
int tower_layer(BlockBuilder& builder, const ContrastiveTower& tower, std::string_view module, int x, int mask,
                bool causal);
/// The query of a pool by attention, and its torch.nn.MultiheadAttention, in the order of the op.
std::vector<int> pool_weights(BlockBuilder& builder, std::string_view head, std::int64_t hidden);

}  // namespace membudget
