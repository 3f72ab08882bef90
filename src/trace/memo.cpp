#include "trace/memo.hpp"

#include <algorithm>
#include <array>

namespace membudget {

namespace {

/// The chunks that stay open behind the last: containers that are still being filled are recent.
constexpr std::size_t kOpen = 2;
/// The first chunks hold keys and frames, which are referred to all the time: they stay open too.
constexpr std::size_t kHot = 4;

}  // namespace

void Memo::extend(std::uint32_t size) {
    while (chunks_.size() * kChunk < size) {
        if (chunks_.size() >= kOpen + kHot) close(chunks_[chunks_.size() - kOpen]);
        chunks_.emplace_back().raw = std::make_unique<std::uint32_t[]>(kChunk);
    }
    size_ = size;
}

void Memo::open(Chunk& chunk) {
    chunk.raw = std::make_unique_for_overwrite<std::uint32_t[]>(kChunk);
    for (std::uint32_t i = 0; i < kChunk; ++i) chunk.raw[i] = chunk.values[chunk.narrow[i]];
    chunk.narrow.reset();
    chunk.values = {};
}

/// Entries become indexes into the distinct values; where there are too many, all stays as it is.
void Memo::close(Chunk& chunk) {
    if (!chunk.raw) return;
    constexpr std::uint32_t kSlots = 1024;
    constexpr std::uint16_t kFree = 0xFFFF;
    std::array<std::uint16_t, kSlots> slots;
    slots.fill(kFree);
    std::vector<std::uint32_t> values;
    auto narrow = std::make_unique_for_overwrite<std::uint8_t[]>(kChunk);
    for (std::uint32_t i = 0; i < kChunk; ++i) {
        const std::uint32_t value = chunk.raw[i];
        std::uint32_t slot = (value * 0x9E3779B1U) >> 22U;
        while (slots[slot] != kFree && values[slots[slot]] != value) slot = (slot + 1) % kSlots;
        if (slots[slot] == kFree) {
            if (values.size() == 256) return;
            slots[slot] = static_cast<std::uint16_t>(values.size());
            values.push_back(value);
        }
        narrow[i] = static_cast<std::uint8_t>(slots[slot]);
    }
    values.shrink_to_fit();
    chunk.values = std::move(values);
    chunk.narrow = std::move(narrow);
    chunk.raw.reset();
}

}  // namespace membudget
