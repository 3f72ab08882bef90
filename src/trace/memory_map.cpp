#include "trace/memory_map.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace membudget {

namespace {

constexpr std::int64_t kMiB = 1 << 20;

std::uint64_t end_of(std::uint64_t address, std::int64_t size) {
    return address + static_cast<std::uint64_t>(size);
}

/// Pages of the large pool are larger than those of the small one.
bool looks_large(std::int64_t size, const AllocatorSettings& settings, bool expandable) {
    return expandable ? size % settings.large_segment_size == 0 : size > 2 * kMiB;
}

}  // namespace

MemoryMap::MemoryMap(const TraceDevice& device, const AllocatorSettings& settings) : settings_(settings) {
    undo_all(device);
    fill_gaps();
}

MemoryMap::Homes::iterator MemoryMap::home_of(std::uint64_t address) {
    auto at = homes_.upper_bound(address);
    if (at == homes_.begin()) return homes_.end();
    --at;
    return address < end_of(at->first, at->second.size) ? at : homes_.end();
}

void MemoryMap::undo_all(const TraceDevice& device) {
    for (const TraceSegment& segment : device.segments) {
        TraceSegment& home = homes_[segment.address] = segment;
        home.blocks.clear();
        for (const TraceBlock& block : segment.blocks)
            if (block.state != BlockState::inactive)
                pieces_[block.address] = {block.size, block.requested, block.state, block.stack, 0};
    }
    for (std::size_t i = device.events.size(); i-- > 0;) {
        const TraceEvent event = device.events[i];
        switch (event.action) {
            case TraceAction::alloc: pieces_.erase(event.address); break;
            case TraceAction::free_requested:
                if (const auto at = pieces_.find(event.address); at != pieces_.end())
                    at->second.state = BlockState::active;
                break;
            case TraceAction::free_completed:
                // Its size is not known yet: 0.
                pieces_[event.address] = {0, event.size, BlockState::pending_free, 0, 0};
                break;
            case TraceAction::segment_alloc: homes_.erase(event.address); break;
            case TraceAction::segment_free: {
                TraceSegment& home = homes_[event.address];
                home = {};
                home.address = event.address;
                home.size = event.size;
                home.stream = event.stream;
                home.large = looks_large(event.size, settings_, false);
                break;
            }
            case TraceAction::segment_map: undo_map(event); break;
            case TraceAction::segment_unmap: undo_unmap(event); break;
            case TraceAction::snapshot:
            case TraceAction::oom: break;
        }
    }
}

/// Takes pages out of the stretch that holds them.
void MemoryMap::undo_map(const TraceEvent& event) {
    const auto at = home_of(event.address);
    const std::uint64_t end = end_of(event.address, event.size);
    if (at == homes_.end() || end > end_of(at->first, at->second.size)) return;
    TraceSegment behind = at->second;
    behind.address = end;
    behind.size = static_cast<std::int64_t>(end_of(at->first, at->second.size) - end);
    at->second.size = static_cast<std::int64_t>(event.address - at->first);
    if (at->second.size == 0) homes_.erase(at);
    if (behind.size > 0) homes_[behind.address] = behind;
}

/// What a segment event brings, without blocks.
TraceSegment MemoryMap::segment_of(const TraceEvent& event, bool expandable) const {
    TraceSegment out;
    out.address = event.address;
    out.size = event.size;
    out.stream = event.stream;
    out.expandable = expandable;
    out.large = looks_large(event.size, settings_, expandable);
    return out;
}

/// Puts pages back and joins them with the stretches they touch.
void MemoryMap::undo_unmap(const TraceEvent& event) {
    TraceSegment home = segment_of(event, true);
    const auto behind = homes_.find(end_of(event.address, event.size));
    if (behind != homes_.end() && behind->second.expandable) {
        home.large = behind->second.large;
        home.size += behind->second.size;
        homes_.erase(behind);
    }
    const auto before = event.address > 0 ? home_of(event.address - 1) : homes_.end();
    if (before != homes_.end() && before->second.expandable) {
        before->second.size += home.size;
        return;
    }
    homes_[home.address] = home;
}

/// Sizes of blocks that are not recorded, and the free blocks between the live ones.
void MemoryMap::fill_gaps() {
    Pieces all;
    for (const auto& [first, home] : homes_) {
        const std::uint64_t address = first;
        std::uint64_t at = address;
        const std::uint64_t end = end_of(address, home.size);
        const auto free_until = [&](std::uint64_t next) {
            if (next > at) all[at] = {static_cast<std::int64_t>(next - at), 0, BlockState::inactive, 0, address};
            at = std::max(at, next);
        };
        for (auto piece = pieces_.lower_bound(address); piece != pieces_.end() && piece->first < end; ++piece) {
            free_until(piece->first);
            Piece live = piece->second;
            live.segment = address;
            const auto following = std::next(piece);
            const std::uint64_t next =
                following != pieces_.end() ? std::min(following->first, end) : end;
            const auto room = static_cast<std::int64_t>(next - piece->first);
            if (live.size == 0) {
                live.size = std::min(room, rounded_request(std::max<std::int64_t>(1, live.requested), settings_));
                // What would not have been split off belongs to it.
                if (!splits(home, live.size, room - live.size)) live.size = room;
            }
            live.size = std::min(live.size, room);
            all[piece->first] = live;
            at = end_of(piece->first, live.size);
        }
        free_until(end);
    }
    pieces_ = std::move(all);
}

bool MemoryMap::splits(const TraceSegment& home, std::int64_t rounded, std::int64_t rest) const {
    if (!home.large || home.expandable) return rest >= 512;
    return rounded < settings_.max_split_size && rest > kMiB;
}

bool MemoryMap::apply(const TraceEvent& event) {
    switch (event.action) {
        case TraceAction::alloc: return allocate(event);
        case TraceAction::free_requested: {
            const auto at = pieces_.find(event.address);
            if (at == pieces_.end() || at->second.state != BlockState::active) return false;
            at->second.state = BlockState::pending_free;
            return true;
        }
        case TraceAction::free_completed: return release(event);
        case TraceAction::segment_alloc: return add(event, false);
        case TraceAction::segment_map: return add(event, true);
        case TraceAction::segment_free:
        case TraceAction::segment_unmap: return remove(event);
        case TraceAction::snapshot:
        case TraceAction::oom: break;
    }
    return true;
}

bool MemoryMap::allocate(const TraceEvent& event) {
    const auto at = pieces_.find(event.address);
    if (at == pieces_.end() || at->second.state != BlockState::inactive) return false;
    Piece& piece = at->second;
    const auto home = homes_.find(piece.segment);
    const std::int64_t rounded = rounded_request(std::max<std::int64_t>(1, event.size), settings_);
    const std::int64_t rest = piece.size - rounded;
    if (rest < 0 || home == homes_.end()) return false;
    if (splits(home->second, rounded, rest)) {
        pieces_[end_of(event.address, rounded)] = {rest, 0, BlockState::inactive, 0, piece.segment};
        piece.size = rounded;
    }
    piece.requested = event.size;
    piece.state = BlockState::active;
    piece.stack = event.stack;
    return true;
}

bool MemoryMap::release(const TraceEvent& event) {
    auto at = pieces_.find(event.address);
    if (at == pieces_.end() || at->second.state == BlockState::inactive) return false;
    at->second.state = BlockState::inactive;
    at->second.requested = 0;
    at->second.stack = 0;
    const auto joins = [&](const Pieces::iterator& a, const Pieces::iterator& b) {
        return a->second.state == BlockState::inactive && b->second.state == BlockState::inactive &&
               a->second.segment == b->second.segment && end_of(a->first, a->second.size) == b->first;
    };
    if (at != pieces_.begin() && joins(std::prev(at), at)) {
        std::prev(at)->second.size += at->second.size;
        at = std::prev(pieces_.erase(at));
    }
    if (const auto next = std::next(at); next != pieces_.end() && joins(at, next)) {
        at->second.size += next->second.size;
        pieces_.erase(next);
    }
    return true;
}

/// A new segment, or pages that join the stretch which they touch.
bool MemoryMap::add(const TraceEvent& event, bool expandable) {
    const auto after = homes_.lower_bound(event.address);
    if (home_of(event.address) != homes_.end() ||
        (after != homes_.end() && after->first < end_of(event.address, event.size)))
        return false;
    const TraceSegment home = segment_of(event, expandable);
    std::uint64_t segment = event.address;
    if (expandable) {
        const auto before = event.address > 0 ? home_of(event.address - 1) : homes_.end();
        if (before != homes_.end() && before->second.expandable) {
            before->second.size += event.size;
            segment = before->first;
        }
    }
    if (segment == event.address) homes_[segment] = home;
    TraceSegment& grown = homes_[segment];
    const auto behind = homes_.find(end_of(event.address, event.size));
    if (expandable && behind != homes_.end() && behind->second.expandable) {
        for (auto piece = pieces_.lower_bound(behind->first);
             piece != pieces_.end() && piece->second.segment == behind->first; ++piece)
            piece->second.segment = segment;
        grown.size += behind->second.size;
        if (segment == event.address) grown.large = behind->second.large;
        homes_.erase(behind);
    }
    // A free block before the new bytes, or behind them, becomes one with them.
    pieces_[event.address] = {event.size, 1, BlockState::active, 0, segment};
    return release(event);
}

/// A free segment goes, or free pages do.
bool MemoryMap::remove(const TraceEvent& event) {
    auto at = pieces_.upper_bound(event.address);
    if (at == pieces_.begin()) return false;
    --at;
    const std::uint64_t end = end_of(event.address, event.size);
    const std::uint64_t piece_end = end_of(at->first, at->second.size);
    const auto home = homes_.find(at->second.segment);
    if (at->second.state != BlockState::inactive || end > piece_end || home == homes_.end()) return false;
    const std::uint64_t home_end = end_of(home->first, home->second.size);
    const TraceSegment old = home->second;
    if (end < piece_end)
        pieces_[end] = {static_cast<std::int64_t>(piece_end - end), 0, BlockState::inactive, 0, end};
    if (at->first < event.address)
        at->second.size = static_cast<std::int64_t>(event.address - at->first);
    else
        pieces_.erase(at);
    if (event.address > home->first)
        home->second.size = static_cast<std::int64_t>(event.address - home->first);
    else
        homes_.erase(home);
    if (end < home_end) {
        TraceSegment behind = old;
        behind.address = end;
        behind.size = static_cast<std::int64_t>(home_end - end);
        homes_[end] = behind;
        for (auto piece = pieces_.lower_bound(end); piece != pieces_.end() && piece->first < home_end; ++piece)
            piece->second.segment = end;
    }
    return true;
}

std::vector<TraceSegment> MemoryMap::segments() const {
    std::vector<TraceSegment> out;
    for (const auto& [address, home] : homes_) {
        TraceSegment& segment = out.emplace_back(home);
        for (auto piece = pieces_.lower_bound(address);
             piece != pieces_.end() && piece->first < end_of(address, home.size); ++piece)
            segment.blocks.push_back({piece->first, piece->second.size, piece->second.requested,
                                      piece->second.state, piece->second.stack});
    }
    return out;
}

// --- questions -----------------------------------------------------------------------------------

std::vector<TraceSegment> segments_after(const TraceDevice& device, std::size_t event,
                                         const AllocatorSettings& settings) {
    if (event >= device.events.size()) return device.segments;
    MemoryMap map(device, settings);
    for (std::size_t i = 0; i <= event; ++i) (void)map.apply(device.events[i]);
    return map.segments();
}

std::vector<TraceSegment> segments_at_start(const TraceDevice& device, const AllocatorSettings& settings) {
    return MemoryMap(device, settings).segments();
}

TraceFreeMemory free_memory(std::span<const TraceSegment> segments, const AllocatorSettings& settings) {
    TraceFreeMemory out;
    std::map<std::uint64_t, std::int64_t> held;
    for (const TraceSegment& segment : segments)
        held[segment.stream] = detail::checked_add(held[segment.stream], segment.size);
    const auto main_stream = std::ranges::max_element(held, {}, [](const auto& one) { return one.second; });
    for (const TraceSegment& segment : segments) {
        const std::int64_t page = segment.large ? settings.large_segment_size : 2 * kMiB;
        for (const TraceBlock& block : segment.blocks) {
            if (block.state != BlockState::inactive) continue;
            if (segment.pool_owner != 0 || segment.pool_id != 0) {
                out.private_pools += block.size;
                continue;
            }
            std::int64_t whole = segment.blocks.size() == 1 ? block.size : 0;
            if (segment.expandable) {
                const auto offset = static_cast<std::int64_t>(block.address - segment.address);
                const std::int64_t begin = detail::ceil_div(offset, page) * page;
                whole = std::max<std::int64_t>(0, (offset + block.size) / page * page - begin);
            }
            out.releasable += whole;
            out.stuck += block.size - whole;
            if (segment.stream != main_stream->first) out.other_streams += block.size - whole;
        }
    }
    return out;
}

}  // namespace membudget
