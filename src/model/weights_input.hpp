#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "membudget/model.hpp"

namespace membudget {

/// A header with more mistakes than this is not read to its end.
inline constexpr std::size_t kMostWeightMistakes = 20;

/// What the safetensors format allows for the JSON at its start.
inline constexpr std::uint64_t kLargestSafetensorsHeader = 100'000'000;

/// An extent or an offset is below this, as the format says; it keeps sums of them in range.
inline constexpr std::int64_t kLargestWeightNumber = (std::int64_t{1} << 48) - 1;

/// The unsigned integer that up to 8 bytes encode, the lowest first.
inline std::uint64_t little_endian(std::string_view bytes) {
    std::uint64_t out = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
        out = out << 8 | static_cast<unsigned char>(bytes[i]);
    return out;
}

/// `out` under the name of its file, or its mistakes.
[[nodiscard]] Result<WeightFile> of_file(Result<WeightFile> out, std::string_view file);

/// The number of elements of a shape, or nothing when it exceeds `kLargestWeightNumber`.
[[nodiscard]] std::optional<std::int64_t> elements_of(const std::vector<std::int64_t>& shape);

}  // namespace membudget
