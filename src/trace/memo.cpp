#include "trace/memo.hpp"

#include <algorithm>

namespace membudget {

namespace {
/// The chunks that stay open behind the last: containers that are still being filled are recent.
constexpr std::size_t kOpen = 2;
}  // namespace

void Memo::extend(std::uint32_t size) {
    while (chunks_.size() * kChunk < size) {
        if (chunks_.size() >= kOpen) close(chunks_[chunks_.size() - kOpen]);
        chunks_.emplace_back().raw = std::make_unique<std::uint32_t[]>(kChunk);
    }
    size_ = size;
}

void Memo::open(Chunk& chunk) {
    chunk.raw = std::make_unique_for_overwrite<std::uint32_t[]>(kChunk);
    for (std::uint32_t i = 0; i < kChunk; ++i)
        chunk.raw[i] = chunk.values[chunk.narrow ? chunk.narrow[i] : chunk.wide[i]];
    chunk.narrow.reset();
    chunk.wide.reset();
    chunk.values = {};
}

void Memo::close(Chunk& chunk) {
    if (!chunk.raw) return;
    std::vector<std::uint32_t> values(chunk.raw.get(), chunk.raw.get() + kChunk);
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    values.shrink_to_fit();
    const auto indexes = [&](auto& out) {
        using Index = std::remove_reference_t<decltype(out[0])>;
        out = std::make_unique_for_overwrite<Index[]>(kChunk);
        for (std::uint32_t i = 0; i < kChunk; ++i)
            out[i] = static_cast<Index>(
                std::lower_bound(values.begin(), values.end(), chunk.raw[i]) - values.begin());
    };
    if (values.size() <= 256)
        indexes(chunk.narrow);
    else if (values.size() <= kChunk / 2)
        indexes(chunk.wide);
    else
        return;  // as large as it is
    chunk.values = std::move(values);
    chunk.raw.reset();
}

}  // namespace membudget
