// Expandable segments: a range of addresses per pool and stream, mapped page by page at its end or in
// its holes.
//
//     range  |mapped, used|mapped, free|unmapped ................|
//                          ^ a request that is larger maps the pages behind it

#include <algorithm>

#include "allocator/state.hpp"

namespace membudget {

namespace {

/// Without a known capacity: far more than any device has.
constexpr std::int64_t kEndless = std::int64_t{1} << 44;

}  // namespace

std::uint32_t CachingAllocator::State::make_range(bool large, std::uint64_t stream) {
    const std::int64_t page = large ? settings.large_segment_size : kSmallBuffer;
    const std::int64_t memory_size = settings.capacity.value_or(kEndless);
    // Addresses for 1 1/8 of the memory, in whole pages [find_expandable_block].
    const std::int64_t size = detail::ceil_div(memory_size + memory_size / 8, page) * page;
    Block block;
    block.address = place(size, stream, large);
    block.size = size;
    block.stream = stream;
    block.large = large;
    block.mapped = false;
    block.range = static_cast<std::uint32_t>(ranges.size());
    ranges.push_back({block.address, page});
    const std::uint32_t index = make_block(block);
    insert_free(index);
    return index;
}

/// The first block, by address, from which free and unmapped bytes follow one another for long
/// enough [find_expandable_block].
std::uint32_t CachingAllocator::State::find_room(bool large, std::int64_t rounded, std::uint64_t stream) {
    const auto usable = [&](std::uint32_t index) {
        return index != kNone && !blocks[index].allocated && !blocks[index].pending;
    };
    const Order& unmapped = pool(large).unmapped;
    for (auto it = unmapped.lower_bound(Key{stream, 0, 0, kNone}); it != unmapped.end() && it->stream == stream;
         ++it) {
        std::uint32_t first = it->block;
        if (usable(blocks[first].previous)) first = blocks[first].previous;
        std::int64_t bytes = 0;
        for (std::uint32_t at = first; bytes < rounded && usable(at); at = blocks[at].next)
            bytes += blocks[at].size;
        if (bytes >= rounded) return first;
    }
    return make_range(large, stream);
}

/// Maps whole pages for at least `bytes` from the start of an unmapped block [map_block]; false: the
/// device has no more.
bool CachingAllocator::State::map(std::uint32_t index, std::int64_t bytes) {
    const std::int64_t page = ranges[blocks[index].range].page;
    const std::int64_t size = detail::ceil_div(bytes, page) * page;
    if (settings.capacity && size > *settings.capacity - totals.reserved) return false;
    erase_from_pool(index);
    blocks[index].mapped = true;
    if (size < blocks[index].size) {
        Block remainder = blocks[index];
        remainder.mapped = false;
        remainder.address += static_cast<std::uint64_t>(size);
        remainder.size -= size;
        blocks[index].size = size;
        const std::uint32_t behind = make_block(remainder);
        link_after(index, behind);
        insert_free(behind);
    }
    const std::uint64_t address = blocks[index].address;
    reserve(size);
    report(blocks[index], true, address, size);
    if (mergeable(blocks[index], blocks[index].previous)) merge(index, blocks[index].previous);
    if (mergeable(blocks[index], blocks[index].next)) merge(index, blocks[index].next);
    insert_free(index);
    return true;
}

/// [try_allocate_expandable_block]; what was mapped before the device had no more stays mapped.
std::optional<std::uint32_t> CachingAllocator::State::expand(bool large, std::int64_t rounded,
                                                             std::uint64_t stream) {
    std::uint32_t candidate = find_room(large, rounded, stream);
    if (!blocks[candidate].mapped && !map(candidate, std::min(blocks[candidate].size, rounded)))
        return std::nullopt;
    while (blocks[candidate].size < rounded) {
        const std::uint32_t next = blocks[candidate].next;
        if (!map(next, std::min(rounded - blocks[candidate].size, blocks[next].size))) return std::nullopt;
        candidate = next;  // it took `candidate` in
    }
    erase_from_pool(candidate);
    return candidate;
}

/// Unmaps the whole pages of a free block; what lies before and behind them stays [unmap_block].
void CachingAllocator::State::unmap(std::uint32_t index) {
    const Block block = blocks[index];
    const Range range = ranges[block.range];
    const auto offset = static_cast<std::int64_t>(block.address - range.base);
    const std::int64_t begin = detail::ceil_div(offset, range.page) * range.page;
    const std::int64_t end = (offset + block.size) / range.page * range.page;
    if (begin >= end) return;
    erase_from_pool(index);
    if (begin > offset) {
        Block before = block;
        before.size = begin - offset;
        const std::uint32_t front = make_block(before);
        if (block.previous != kNone) {
            link_after(block.previous, front);
        } else {
            blocks[front].previous = kNone;
            blocks[front].next = index;
            blocks[index].previous = front;
        }
        insert_free(front);
    }
    if (end < offset + block.size) {
        Block behind = block;
        behind.address = range.base + static_cast<std::uint64_t>(end);
        behind.size = offset + block.size - end;
        const std::uint32_t back = make_block(behind);
        link_after(index, back);
        insert_free(back);
    }
    Block& gone = blocks[index];
    gone.address = range.base + static_cast<std::uint64_t>(begin);
    gone.size = end - begin;
    gone.mapped = false;
    totals.reserved -= gone.size;
    report(gone, false, gone.address, gone.size);
    if (mergeable(gone, gone.previous)) merge(index, gone.previous);
    if (mergeable(blocks[index], blocks[index].next)) merge(index, blocks[index].next);
    insert_free(index);
    // A range of which nothing is mapped gives its addresses back [release_expandable_segment].
    if (whole(blocks[index])) {
        erase_from_pool(index);
        drop_block(index);
    }
}

}  // namespace membudget
