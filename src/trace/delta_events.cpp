#include "trace/delta_events.hpp"

#include <algorithm>

#include "membudget/quantity.hpp"

namespace membudget::trace {

void DeltaEvents::push(TraceAction action, std::int64_t size, std::uint64_t address,
                       TraceCategory category, std::int64_t time_us) {
    device_.events.push_back({.action = action,
                              .category = category,
                              .stack = 0,
                              .size = size,
                              .address = address,
                              .stream = 0,
                              .time_us = time_us});
}

void DeltaEvents::change(std::int64_t bytes, TraceCategory category, std::int64_t time_us) {
    if (bytes > kLargestBytes || bytes < -kLargestBytes || bytes == 0) return;
    if (bytes < 0) return free_some(-bytes, category, time_us);
    live_[category].push_back({bytes, next_});
    push(TraceAction::alloc, bytes, next_, category, time_us);
    next_ += 512;
}

void DeltaEvents::change_at(std::uint64_t address, std::int64_t bytes, std::int64_t time_us) {
    if (bytes > kLargestBytes || bytes < -kLargestBytes || bytes == 0) return;
    if (bytes > 0) {
        by_address_[address] = bytes;
        return push(TraceAction::alloc, bytes, address, TraceCategory::unknown, time_us);
    }
    if (by_address_.erase(address) == 0) device_.live_before += -bytes;
    push(TraceAction::free_completed, -bytes, address, TraceCategory::unknown, time_us);
}

void DeltaEvents::free_some(std::int64_t bytes, TraceCategory category, std::int64_t time_us) {
    std::vector<Block>& live = live_[category];
    // The latest block of this very size, not too far back; else whole blocks from the end.
    constexpr std::ptrdiff_t kLookBack = 4096;
    const auto until =
        live.rend() - live.rbegin() > kLookBack ? live.rbegin() + kLookBack : live.rend();
    const auto same =
        std::find_if(live.rbegin(), until, [&](const Block& block) { return block.size == bytes; });
    if (same != until) {
        push(TraceAction::free_completed, bytes, same->address, category, time_us);
        live.erase(std::next(same).base());
        return;
    }
    while (bytes > 0 && !live.empty()) {
        const Block block = live.back();
        live.pop_back();
        push(TraceAction::free_completed, block.size, block.address, category, time_us);
        if (block.size > bytes) change(block.size - bytes, category, time_us);
        bytes -= std::min(bytes, block.size);
    }
    if (bytes == 0) return;
    device_.live_before += bytes;
    push(TraceAction::free_completed, bytes, next_, category, time_us);
    next_ += 512;
}

TraceDevice DeltaEvents::finish(int device) && {
    device_.device = device;
    device_.live_before = std::min(device_.live_before, kLargestBytes);
    return std::move(device_);
}

}  // namespace membudget::trace
