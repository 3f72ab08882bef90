#pragma once

/// What diffusion models share.

#include <string_view>

#include "model/parts.hpp"

namespace membudget {

/// `linear_1`, activation, `linear_2`: embeddings of a timestep, of pooled text, ...
inline void two_linears(BlockBuilder& builder, std::string_view name, std::int64_t in,
                        std::int64_t hidden, std::int64_t out) {
    builder.linear_weights(join(name, "linear_1"), in, hidden, true, Component::embedding);
    builder.linear_weights(join(name, "linear_2"), hidden, out, true, Component::embedding);
}

}  // namespace membudget
