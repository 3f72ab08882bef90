#pragma once

/// Open addressing over indexes: the items live elsewhere, in a vector of the caller.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace membudget {

/// Spreads the bits of `x` (the finaliser of MurmurHash3).
constexpr std::uint64_t mixed(std::uint64_t x) {
    x ^= x >> 33U;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33U;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33U);
}

/// Finds the index of an item by its hash, or makes one.
class Interner {
public:
    static constexpr std::uint32_t kNone = 0xFFFFFFFF;

    /// Index of the item that `equals(index)`, or `make()`, which appends it and returns its index.
    /// `rehash(index)` is the hash of an item, for growth.
    template <class Equals, class Make, class Rehash>
    std::uint32_t intern(std::uint64_t hash, Equals equals, Make make, Rehash rehash) {
        if (slots_.empty()) slots_.assign(64, kNone);
        std::size_t at = hash & (slots_.size() - 1);
        for (; slots_[at] != kNone; at = (at + 1) & (slots_.size() - 1))
            if (equals(slots_[at])) return slots_[at];
        const std::uint32_t index = make();
        slots_[at] = index;
        if (++used_ * 3 > slots_.size() * 2) grow(rehash);
        return index;
    }

private:
    template <class Rehash>
    void grow(Rehash rehash) {
        std::vector<std::uint32_t> larger(slots_.size() * 2, kNone);
        for (const std::uint32_t index : slots_) {
            if (index == kNone) continue;
            std::size_t at = rehash(index) & (larger.size() - 1);
            while (larger[at] != kNone) at = (at + 1) & (larger.size() - 1);
            larger[at] = index;
        }
        slots_ = std::move(larger);
    }

    std::vector<std::uint32_t> slots_;
    std::size_t used_ = 0;
};

}  // namespace membudget
