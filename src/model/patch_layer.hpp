#pragma once

/// A layer of a vision tower over the patches of all images in one sequence, whose attention is told where each image
/// ends, and whose queries and keys rotate.

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/blocks.hpp"

namespace membudget {

/// How a class builds it: h = x + A(n1 x); out = h + M(n2 h).
struct PatchLayer {
    std::int64_t hidden = 1, width = 1, heads = 1;
    Act act = Act::gelu;
    Rotation rotation = Rotation::halves_cast;
    std::int64_t rotary_dim = 0;         ///< see `OpAttributes::rotary_dim`
    std::string_view attention = "attn", out = "proj", act_name = "act";
    std::string_view norms[2] = {"norm1", "norm2"};
    std::string_view scales[2] = {"", ""};  ///< parameters that multiply A and M; empty: none
    bool packed = true;                  ///< the images lie in one sequence; else each is one of a batch
    bool returns_weights = false;        ///< see `OpAttributes::returns_weights`
};

/// The tables of the rotation, as indices into `Model::shared`.
struct PatchTables {
    int cos = -1, sin = -1;
};

[[nodiscard]] Block patch_layer(const PatchLayer& plan, const PatchTables& tables, const std::vector<Tensor>& shared);

}  // namespace membudget
