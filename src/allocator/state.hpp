#pragma once

/// What an allocator holds: blocks in an arena, linked to their neighbours in the segment, and two
/// pools of free blocks in order.

#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "allocator/sorted_chunks.hpp"
#include "membudget/allocator.hpp"

namespace membudget {

// c10/core/AllocatorConfig.h
inline constexpr std::int64_t kMinBlockSize = 512;
inline constexpr std::int64_t kSmallSize = 1 << 20;
inline constexpr std::int64_t kSmallBuffer = 2 << 20;
inline constexpr std::int64_t kMinLargeAlloc = 10 << 20;
inline constexpr std::int64_t kRoundLarge = 2 << 20;

struct CachingAllocator::State {
    static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

    struct Block {
        std::uint64_t address = 0;
        std::int64_t size = 0;
        std::int64_t requested = 0;
        std::uint64_t stream = 0;
        std::int64_t born = 0;          ///< searches in its pool when it was cached
        std::uint32_t previous = kNone, next = kNone;
        std::uint32_t range = kNone;    ///< the expandable segment it belongs to
        bool large = false;
        bool allocated = false;
        bool pending = false;           ///< let go, but another stream may still use it
        bool mapped = true;
    };

    /// Where a block stands in its pool. Best fit is the first at or after (stream, size, 0); among
    /// unmapped blocks the size does not count.
    struct Key {
        std::uint64_t stream = 0;
        std::int64_t size = 0;
        std::uint64_t address = 0;
        std::uint32_t block = kNone;
        friend bool operator<(const Key& a, const Key& b) {
            return std::tie(a.stream, a.size, a.address) < std::tie(b.stream, b.size, b.address);
        }
    };
    using Order = SortedChunks<Key>;

    struct Pool {
        Order free, unmapped;
        std::int64_t searches = 0;
    };

    /// Addresses of an expandable segment, set aside at once and mapped page by page.
    struct Range {
        std::uint64_t base = 0;
        std::int64_t page = 0;
    };

    State(const AllocatorSettings& s, AllocatorHooks h);

    [[nodiscard]] Pool& pool(bool large) { return large ? large_pool : small_pool; }
    [[nodiscard]] Pool& pool_of(const Block& block) { return pool(block.large); }
    [[nodiscard]] bool whole(const Block& block) const {
        return block.previous == kNone && block.next == kNone;
    }
    [[nodiscard]] bool limited() const { return settings.memory_fraction.has_value(); }
    /// What may be reserved: of the device, or the share set for this process.
    [[nodiscard]] std::int64_t limit() const;

    std::uint32_t make_block(const Block& block);
    void drop_block(std::uint32_t index);
    /// Links `index` behind `previous`, before what followed it.
    void link_after(std::uint32_t previous, std::uint32_t index);
    [[nodiscard]] static Key key_of(const Block& block, std::uint32_t index) {
        return {block.stream, block.mapped ? block.size : 0, block.address, index};
    }
    void insert_free(std::uint32_t index);
    void erase_from_pool(std::uint32_t index);
    /// Joins `from`, a free neighbour of `into`, with it.
    void merge(std::uint32_t into, std::uint32_t from);
    [[nodiscard]] bool mergeable(const Block& into, std::uint32_t from) const;

    std::optional<std::uint32_t> search(bool large, std::int64_t rounded, std::uint64_t stream);
    std::optional<std::uint32_t> new_segment(bool large, std::int64_t rounded, std::uint64_t stream);
    std::uint32_t hand_out(std::uint32_t index, std::int64_t rounded, std::int64_t requested);
    void complete(std::uint32_t index);
    void complete_all();

    void collect_garbage();
    bool release_available(bool large, std::int64_t rounded, std::uint64_t stream);
    void release_cached(Pool& of);
    void release_segment(std::uint32_t index);
    void release_all_cached();

    // Expandable segments.
    std::optional<std::uint32_t> expand(bool large, std::int64_t rounded, std::uint64_t stream);
    std::uint32_t find_room(bool large, std::int64_t rounded, std::uint64_t stream);
    bool map(std::uint32_t index, std::int64_t bytes);
    void unmap(std::uint32_t index);
    std::uint32_t make_range(bool large, std::uint64_t stream);

    void reserve(std::int64_t bytes) {
        totals.reserved += bytes;
        if (totals.reserved > peak_reserved) peak_reserved = totals.reserved;
    }
    void report(const Block& block, bool comes, std::uint64_t address, std::int64_t size) const;
    std::uint64_t place(std::int64_t size, std::uint64_t stream, bool large);

    AllocatorSettings settings;
    AllocatorHooks hooks;
    Pool small_pool, large_pool;
    std::vector<Block> blocks;
    std::vector<std::uint32_t> unused;     ///< of the arena
    std::vector<std::uint32_t> pending;    ///< in the order in which they were let go
    std::vector<Range> ranges;
    AllocatorTotals totals;
    std::int64_t peak_reserved = 0, peak_allocated = 0, retries = 0;
    std::uint64_t next_address = std::uint64_t{1} << 40;
};

}  // namespace membudget
