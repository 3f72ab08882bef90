#pragma once

/// Mixers that several families of hybrids share.

#include <cstdint>
#include <string_view>

#include "model/blocks.hpp"

namespace membudget {

/// Mamba 2 (arXiv:2405.21060).
struct Mamba2 {
    std::int64_t hidden = 1, inner = 1, heads = 1, groups = 1, state = 1, kernel = 1;
    bool input_bias = false, output_bias = false, convolution_bias = true, norm = true;
};

/// Its parameters, in `module`.
void mamba2_weights(BlockBuilder& builder, std::string_view module, const Mamba2& mamba);

}  // namespace membudget
