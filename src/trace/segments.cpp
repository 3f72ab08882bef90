// Segments at an instant, found by undoing events from the end; and their free memory.

#include <algorithm>
#include <map>

#include "membudget/trace.hpp"

namespace membudget {
namespace {

constexpr std::int64_t kRounding = 512;          ///< of requests [c10/cuda/CUDACachingAllocator.cpp]
constexpr std::int64_t kSmallPage = 2 << 20, kLargePage = 20 << 20;  ///< of expandable segments

/// The blocks of all segments by address; undoing an event moves borders between them.
class Undo {
public:
    explicit Undo(const TraceDevice& device) {
        for (const TraceSegment& segment : device.segments) {
            TraceSegment copy = segment;
            copy.blocks.clear();
            Segment& own = segments_[segment.address];
            own.head = std::move(copy);
            for (const TraceBlock& block : segment.blocks) own.blocks[block.address] = block;
        }
    }

    void undo(const TraceEvent& event) {
        switch (event.action) {
            case TraceAction::free_completed: return take(event);
            case TraceAction::alloc: return give_back(event.address);
            case TraceAction::segment_alloc: segments_.erase(event.address); return;
            case TraceAction::segment_map: return cut(event.address, event.size);
            case TraceAction::segment_free:
            case TraceAction::segment_unmap: return add(event);
            case TraceAction::free_requested:
            case TraceAction::snapshot:
            case TraceAction::oom: return;
        }
    }

    [[nodiscard]] std::vector<TraceSegment> finish() && {
        std::vector<TraceSegment> out;
        for (auto& [address, own] : segments_) {
            TraceSegment segment = std::move(own.head);
            for (const auto& [at, block] : own.blocks) segment.blocks.push_back(block);
            out.push_back(std::move(segment));
        }
        return out;
    }

private:
    struct Segment {
        TraceSegment head;
        std::map<std::uint64_t, TraceBlock> blocks;
    };

    Segment* segment_of(std::uint64_t address) {
        const auto after = segments_.upper_bound(address);
        if (after == segments_.begin()) return nullptr;
        Segment& found = std::prev(after)->second;
        const bool within = address - found.head.address < static_cast<std::uint64_t>(found.head.size);
        return within ? &found : nullptr;
    }

    /// A block was freed later: it was in use. Its free neighbours are what was around it.
    void take(const TraceEvent& event) {
        Segment* segment = segment_of(event.address);
        if (segment == nullptr || event.size <= 0) return;
        auto at = segment->blocks.upper_bound(event.address);
        if (at == segment->blocks.begin()) return;
        --at;
        TraceBlock around = at->second;
        if (around.state != BlockState::inactive) return;
        const auto before = static_cast<std::int64_t>(event.address - around.address);
        const std::int64_t room = around.size - before;
        const std::int64_t size = std::min(align_up(Bytes(event.size), kRounding).count(), room);
        if (room <= 0) return;
        segment->blocks.erase(at);
        const auto put = [&](std::uint64_t address, std::int64_t bytes, BlockState state, std::int64_t requested) {
            if (bytes > 0) segment->blocks[address] = {address, bytes, requested, state, 0};
        };
        put(around.address, before, BlockState::inactive, 0);
        put(event.address, size, BlockState::active, event.size);
        put(event.address + static_cast<std::uint64_t>(size), room - size, BlockState::inactive, 0);
    }

    /// A block was allocated later: its bytes were free.
    void give_back(std::uint64_t address) {
        Segment* segment = segment_of(address);
        if (segment == nullptr) return;
        const auto at = segment->blocks.find(address);
        if (at == segment->blocks.end()) return;
        at->second.state = BlockState::inactive;
        at->second.requested = 0;
        at->second.stack = 0;
        merge(*segment, at);
    }

    static void merge(Segment& segment, std::map<std::uint64_t, TraceBlock>::iterator at) {
        const auto next = std::next(at);
        if (next != segment.blocks.end() && next->second.state == BlockState::inactive) {
            at->second.size += next->second.size;
            segment.blocks.erase(next);
        }
        if (at == segment.blocks.begin()) return;
        const auto previous = std::prev(at);
        if (previous->second.state != BlockState::inactive) return;
        previous->second.size += at->second.size;
        segment.blocks.erase(at);
    }

    /// Pages that were mapped later were not there; they are free at this point of the undoing.
    void cut(std::uint64_t address, std::int64_t size) {
        Segment* segment = segment_of(address);
        if (segment == nullptr) return;
        const std::uint64_t begin = segment->head.address;
        const std::uint64_t end = begin + static_cast<std::uint64_t>(segment->head.size);
        const std::uint64_t cut_end = std::min(end, address + static_cast<std::uint64_t>(size));
        Segment rest;
        rest.head = segment->head;
        rest.head.address = cut_end;
        rest.head.size = static_cast<std::int64_t>(end - cut_end);
        std::map<std::uint64_t, TraceBlock> left;
        for (const auto& [at, block] : segment->blocks) {
            const std::uint64_t block_end = at + static_cast<std::uint64_t>(block.size);
            const auto keep = [&, &whole = block](std::uint64_t from, std::uint64_t to, auto& into) {
                if (from >= to) return;
                TraceBlock piece = whole;
                piece.address = from;
                piece.size = static_cast<std::int64_t>(to - from);
                into[from] = piece;
            };
            keep(at, std::min(block_end, address), left);
            keep(std::max(at, cut_end), block_end, rest.blocks);
        }
        segment->blocks = std::move(left);
        segment->head.size = static_cast<std::int64_t>(address - begin);
        if (segment->head.size == 0) segments_.erase(begin);
        if (rest.head.size > 0) segments_[cut_end] = std::move(rest);
    }

    /// A segment, or pages, that went later were there, and free.
    void add(const TraceEvent& event) {
        if (event.size <= 0 || segment_of(event.address) != nullptr) return;
        Segment own;
        own.head.address = event.address;
        own.head.size = event.size;
        own.head.stream = event.stream;
        own.head.expandable = event.action == TraceAction::segment_unmap;
        own.head.large = event.size > kSmallPage;
        own.blocks[event.address] = {event.address, event.size, 0, BlockState::inactive, 0};
        segments_[event.address] = std::move(own);
    }

    std::map<std::uint64_t, Segment> segments_;
};

/// Free bytes of an expandable segment that make whole pages.
std::int64_t whole_pages(const TraceSegment& segment, const TraceBlock& block) {
    const std::int64_t page = segment.large ? kLargePage : kSmallPage;
    const auto offset = static_cast<std::int64_t>(block.address - segment.address);
    const std::int64_t begin = detail::ceil_div(offset, page) * page;
    const std::int64_t end = (offset + block.size) / page * page;
    return std::max<std::int64_t>(0, end - begin);
}

}  // namespace

std::vector<TraceSegment> segments_after(const TraceDevice& device, std::size_t event) {
    Undo undo(device);
    for (std::size_t i = device.events.size(); i-- > 0 && i > event;) undo.undo(device.events[i]);
    return std::move(undo).finish();
}

FreeMemory free_memory(std::span<const TraceSegment> segments) {
    FreeMemory out;
    for (const TraceSegment& segment : segments) {
        const bool whole = std::all_of(segment.blocks.begin(), segment.blocks.end(), [](const TraceBlock& b) {
            return b.state == BlockState::inactive;
        });
        for (const TraceBlock& block : segment.blocks) {
            if (block.state != BlockState::inactive) continue;
            const std::int64_t releasable =
                whole ? block.size : segment.expandable ? whole_pages(segment, block) : 0;
            out.releasable += releasable;
            out.stuck += block.size - releasable;
        }
    }
    return out;
}

}  // namespace membudget
