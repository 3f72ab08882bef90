#pragma once

/// The `reserved` total: a step's requests and frees, replayed through the caching allocator.

#include <cstdint>
#include <optional>

#include "membudget/allocator.hpp"
#include "membudget/step.hpp"

namespace membudget {

/// What the allocator holds at the peak of a step, once steps repeat.
struct ReservedMemory {
    std::int64_t unsplit = 0;     ///< rests that live blocks keep: too small to be split off
    std::int64_t releasable = 0;  ///< whole free segments
    std::int64_t stuck = 0;       ///< free blocks beside live ones
    int steps = 0;                ///< replayed until the state repeated
    [[nodiscard]] std::int64_t beyond_allocated() const { return unsplit + releasable + stuck; }
};

/// Replays a first step, which makes the optimizer's states, then `step` until it leaves the memory
/// as it found it. Absent: the job has no tensors to replay (stated terms only, no device memory).
[[nodiscard]] std::optional<ReservedMemory> simulate_reserved(const Job& job, const Step& step, Bound bound);

}  // namespace membudget
