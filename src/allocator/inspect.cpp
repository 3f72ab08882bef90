// Looking at an allocator's memory, and putting one into a state.

#include <algorithm>
#include <map>

#include "allocator/state.hpp"

namespace membudget {

FreeMemory CachingAllocator::free_memory() const {
    FreeMemory out;
    const State& s = *state_;
    for (const State::Pool* pool : {&s.small_pool, &s.large_pool}) {
        for (const State::Key& key : pool->free) {
            const State::Block& block = s.blocks[key.block];
            std::int64_t whole = s.whole(block) ? block.size : 0;
            if (block.range != State::kNone) {
                const State::Range& range = s.ranges[block.range];
                const auto offset = static_cast<std::int64_t>(block.address - range.base);
                const std::int64_t begin = detail::ceil_div(offset, range.page) * range.page;
                const std::int64_t end = (offset + block.size) / range.page * range.page;
                whole = std::max<std::int64_t>(0, end - begin);
            }
            out.releasable += whole;
            out.stuck += block.size - whole;
        }
    }
    return out;
}

std::uint64_t CachingAllocator::layout() const {
    // A sum does not depend on the order of the arena. Unused entries have no size.
    std::uint64_t sum = 0;
    for (const State::Block& block : state_->blocks) {
        if (block.size == 0) continue;
        std::uint64_t hash = (block.address ^ static_cast<std::uint64_t>(block.allocated)) * 0xff51afd7ed558ccdULL;
        hash = (hash ^ (hash >> 32U) ^ static_cast<std::uint64_t>(block.size)) * 0xc4ceb9fe1a85ec53ULL;
        sum += hash ^ (hash >> 29U);
    }
    return sum;
}

std::vector<AllocatorSegment> CachingAllocator::segments() const {
    const State& s = *state_;
    const std::vector<bool> unused = [&] {
        std::vector<bool> flags(s.blocks.size(), false);
        for (const std::uint32_t index : s.unused) flags[index] = true;
        return flags;
    }();
    std::vector<AllocatorSegment> out;
    for (std::uint32_t first = 0; first < s.blocks.size(); ++first) {
        const State::Block& head = s.blocks[first];
        const bool begins = head.previous == State::kNone || !s.blocks[head.previous].mapped;
        if (unused[first] || !head.mapped || !begins) continue;
        AllocatorSegment& segment = out.emplace_back();
        segment.address = head.address;
        segment.stream = head.stream;
        segment.large = head.large;
        segment.expandable = head.range != State::kNone;
        for (std::uint32_t at = first; at != State::kNone && s.blocks[at].mapped; at = s.blocks[at].next) {
            const State::Block& block = s.blocks[at];
            segment.blocks.push_back({block.address, block.size, block.requested, at});
            segment.size += block.size;
        }
    }
    std::ranges::sort(out, {}, &AllocatorSegment::address);
    return out;
}

void CachingAllocator::restore(std::vector<AllocatorSegment>& segments) {
    State& s = *state_;
    MEMBUDGET_ENSURE(s.blocks.empty(), "an allocator that holds something is restored");
    std::ranges::sort(segments, {}, &AllocatorSegment::address);
    // All expandable segments of a pool and stream lie in one range; its end is not known.
    std::map<std::pair<bool, std::uint64_t>, std::uint32_t> last_of_range;
    for (AllocatorSegment& segment : segments) {
        std::uint32_t previous = State::kNone;
        std::uint32_t range = State::kNone;
        const std::pair home(segment.large, segment.stream);
        if (segment.expandable) {
            const auto known = last_of_range.find(home);
            if (known == last_of_range.end()) {
                range = static_cast<std::uint32_t>(s.ranges.size());
                s.ranges.push_back({segment.address, segment.large ? s.settings.large_segment_size : kSmallBuffer});
            } else {
                previous = known->second;
                range = s.blocks[previous].range;
            }
        }
        const auto append = [&](State::Block block) {
            block.stream = segment.stream;
            block.large = segment.large;
            block.range = range;
            const std::uint32_t index = s.make_block(block);
            if (previous != State::kNone) s.link_after(previous, index);
            if (!block.allocated) s.insert_free(index);
            previous = index;
            return index;
        };
        if (previous != State::kNone) {
            const State::Block& before = s.blocks[previous];
            State::Block hole;
            hole.address = before.address + static_cast<std::uint64_t>(before.size);
            hole.size = static_cast<std::int64_t>(segment.address - hole.address);
            hole.mapped = false;
            if (hole.size > 0) append(hole);
        }
        for (AllocatorBlock& block : segment.blocks) {
            State::Block copy;
            copy.address = block.address;
            copy.size = block.size;
            copy.requested = block.requested;
            copy.allocated = block.requested > 0;
            block.handle = append(copy);
            if (!copy.allocated) continue;
            s.totals.allocated += block.size;
            s.totals.active += block.size;
            s.totals.requested += block.requested;
        }
        if (segment.expandable) last_of_range[home] = previous;
        s.totals.reserved += segment.size;
    }
    for (const auto& [home, last] : last_of_range) {
        State::Block rest = s.blocks[last];
        rest.address += static_cast<std::uint64_t>(rest.size);
        rest.size = std::int64_t{1} << 44;
        rest.requested = 0;
        rest.allocated = rest.mapped = false;
        const std::uint32_t index = s.make_block(rest);
        s.link_after(last, index);
        s.insert_free(index);
    }
    reset_peaks();
}

bool CachingAllocator::release(std::uint64_t address, std::int64_t size) {
    State& s = *state_;
    for (State::Pool* pool : {&s.small_pool, &s.large_pool}) {
        for (const State::Key& key : pool->free) {
            const State::Block& block = s.blocks[key.block];
            const bool whole_segment =
                block.range == State::kNone && s.whole(block) && block.address == address && block.size == size;
            if (whole_segment) {
                s.release_segment(key.block);
                return true;
            }
            const bool inside =
                block.range != State::kNone && block.address <= address &&
                address + static_cast<std::uint64_t>(size) <= block.address + static_cast<std::uint64_t>(block.size);
            if (!inside) continue;
            s.unmap(key.block);
            return true;
        }
    }
    return false;
}

}  // namespace membudget
