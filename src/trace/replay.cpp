// What events come to: levels, what is live, free memory; see trace.hpp.

#include <algorithm>
#include <unordered_map>

#include "membudget/trace.hpp"

namespace membudget {

namespace {

/// What an event adds to the bytes that are live, and to those that are reserved.
struct Change {
    std::int64_t live = 0, reserved = 0;
};

Change change_of(const TraceEvent& event) {
    switch (event.action) {
        case TraceAction::alloc: return {event.size, 0};
        case TraceAction::free_completed: return {-event.size, 0};
        case TraceAction::segment_alloc:
        case TraceAction::segment_map: return {0, event.size};
        case TraceAction::segment_free:
        case TraceAction::segment_unmap: return {0, -event.size};
        case TraceAction::free_requested:
        case TraceAction::snapshot:
        case TraceAction::oom: break;
    }
    return {};
}

/// Bytes at the end, from the segments.
Change end_of(const TraceDevice& device) {
    Change out;
    for (const TraceSegment& segment : device.segments) {
        out.reserved = detail::checked_add(out.reserved, segment.size);
        for (const TraceBlock& block : segment.blocks)
            out.live = detail::checked_add(out.live, block.requested);
    }
    return out;
}

}  // namespace

TraceReplay replay(const TraceDevice& device) {
    Change net;
    for (std::size_t i = 0; i < device.events.size(); ++i) {
        const Change change = change_of(device.events[i]);
        net.live = detail::checked_add(net.live, change.live);
        net.reserved = detail::checked_add(net.reserved, change.reserved);
    }
    TraceReplay out;
    Change now{device.live_before, device.reserved_before};
    if (device.has_segments) {
        const Change end = end_of(device);
        now = {end.live - net.live, end.reserved - net.reserved};
    }
    // Below zero: the segments are not those that the events left.
    out.complete = now.live >= 0 && now.reserved >= 0;
    out.start = {0, now.live, now.reserved};
    out.peak = out.start;
    out.reserved_peak = now.reserved;
    for (std::size_t i = 0; i < device.events.size(); ++i) {
        const TraceEvent event = device.events[i];
        if (event.action == TraceAction::oom && !out.oom)
            out.oom = TraceOom{i, event.size, static_cast<std::int64_t>(event.address), now.live, now.reserved};
        const Change change = change_of(event);
        now.live = detail::checked_add(now.live, change.live);
        now.reserved = detail::checked_add(now.reserved, change.reserved);
        if (now.live < 0 || now.reserved < 0) out.complete = false;
        out.reserved_peak = std::max(out.reserved_peak, now.reserved);
        if (now.live > out.peak.live) out.peak = {i, now.live, now.reserved};
    }
    out.end = {device.events.size(), now.live, now.reserved};
    return out;
}

std::vector<LiveBlock> live_after(const TraceDevice& device, std::size_t event) {
    const std::size_t count = device.events.size();
    const std::size_t last = std::min(event, count == 0 ? 0 : count - 1);
    std::unordered_map<std::uint64_t, LiveBlock> live;
    // Backwards from the end to the instant: what was freed since lived then.
    for (const TraceSegment& segment : device.segments)
        for (const TraceBlock& block : segment.blocks)
            if (block.state != BlockState::inactive)
                live[block.address] = {.address = block.address, .requested = block.requested, .stack = block.stack};
    if (device.has_segments) {
        for (std::size_t i = count; i-- > last + 1;) {
            const TraceEvent undone = device.events[i];
            if (undone.action == TraceAction::alloc)
                live.erase(undone.address);
            else if (undone.action == TraceAction::free_completed)
                live[undone.address] = {.address = undone.address, .requested = undone.size};
        }
    }
    // Forwards: who allocated it, and when; without segments also what.
    for (std::size_t i = 0; i < count && i <= last; ++i) {
        const TraceEvent done = device.events[i];
        if (done.action == TraceAction::alloc) {
            if (device.has_segments && !live.contains(done.address)) continue;
            live[done.address] = {done.address, done.size, done.stack, done.category, i};
        } else if (done.action == TraceAction::free_completed && !device.has_segments) {
            live.erase(done.address);
        }
    }
    std::vector<LiveBlock> out;
    out.reserve(live.size());
    for (const auto& [address, block] : live) out.push_back(block);
    std::ranges::sort(out, {}, &LiveBlock::address);
    return out;
}

}  // namespace membudget
