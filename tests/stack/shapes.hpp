#pragma once

/// Lists of parameter shapes on which the optimizers were run.

#include <vector>

#include "membudget/stack.hpp"

namespace membudget::test {

using Shapes = std::vector<std::vector<std::int64_t>>;

/// Matrices of two sizes and vectors: 33,024 elements.
inline Shapes mixed() {
    Shapes out{{128, 64}};
    for (int i = 0; i < 6; ++i) out.push_back({64, 64});
    for (int i = 0; i < 4; ++i) out.push_back({64});
    return out;
}
/// The matrices of that.
inline Shapes matrices() {
    Shapes out = mixed();
    out.resize(7);
    return out;
}
inline Shapes ten_equal() { return Shapes(10, {64, 64}); }
inline Shapes one() { return {{64, 64}}; }

inline std::int64_t elements(const Shapes& shapes) {
    std::int64_t out = 0;
    for (const auto& shape : shapes) {
        std::int64_t n = 1;
        for (const std::int64_t dimension : shape) n *= dimension;
        out += n;
    }
    return out;
}

}  // namespace membudget::test
