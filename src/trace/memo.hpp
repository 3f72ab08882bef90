#pragma once

/// What a pickle may refer to again, by number. A large file memoizes three objects per event and
/// refers to few: chunks that are no longer written to hold one byte per entry.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace membudget {

class Memo {
public:
    static constexpr std::uint32_t kChunk = 4096;
    static constexpr std::uint32_t kNone = 0;   ///< an entry that was never set

    [[nodiscard]] std::uint32_t size() const { return size_; }

    [[nodiscard]] std::uint32_t get(std::uint32_t index) const {
        if (index >= size_) return kNone;
        const Chunk& chunk = chunks_[index / kChunk];
        const std::uint32_t at = index % kChunk;
        if (chunk.raw) return chunk.raw[at];
        return chunk.values[chunk.narrow[at]];
    }

    void set(std::uint32_t index, std::uint32_t value) {
        if (index >= size_) extend(index + 1);
        Chunk& chunk = chunks_[index / kChunk];
        if (!chunk.raw) open(chunk);
        chunk.raw[index % kChunk] = value;
    }

private:
    /// `raw`, or indexes into the distinct values.
    struct Chunk {
        std::unique_ptr<std::uint32_t[]> raw;
        std::unique_ptr<std::uint8_t[]> narrow;
        std::vector<std::uint32_t> values;
    };

    void extend(std::uint32_t size);
    static void open(Chunk& chunk);
    static void close(Chunk& chunk);

    std::vector<Chunk> chunks_;
    std::uint32_t size_ = 0;
};

}  // namespace membudget
