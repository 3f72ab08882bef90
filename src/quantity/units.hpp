#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace membudget {

/// A unit of size and its bytes.
struct Unit {
    std::string_view name;
    std::int64_t bytes;
};

/// Ascending; the first is the byte itself.
inline constexpr std::array<Unit, 6> kDecimalUnits{{
    {"B", 1},
    {"kB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
    {"PB", 1'000'000'000'000'000},
}};
inline constexpr std::array<Unit, 6> kBinaryUnits{{
    {"B", 1},
    {"KiB", std::int64_t{1} << 10},
    {"MiB", std::int64_t{1} << 20},
    {"GiB", std::int64_t{1} << 30},
    {"TiB", std::int64_t{1} << 40},
    {"PiB", std::int64_t{1} << 50},
}};

}  // namespace membudget
