#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cuda_test {

/// Which elements of two sequences pair up in one of their longest common subsequences.
struct Alignment {
    std::vector<bool> first, second;
    std::size_t equal = 0;
};
/// Myers's greedy algorithm: time and memory grow with what differs.
[[nodiscard]] Alignment align(std::span<const std::int64_t> first, std::span<const std::int64_t> second);

}  // namespace cuda_test
