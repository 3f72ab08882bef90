#pragma once

/// The `reserved` total: a step's requests and frees, replayed through the caching allocator.

#include <cstdint>
#include <optional>

#include "membudget/allocator.hpp"
#include "membudget/ledger.hpp"
#include "membudget/step.hpp"

namespace membudget {

/// What the allocator holds at the peak of a step, once steps repeat.
struct ReservedMemory {
    std::int64_t unsplit = 0;     ///< rests that live blocks keep: too small to be split off
    std::int64_t releasable = 0;  ///< whole free segments
    std::int64_t stuck = 0;       ///< free blocks beside live ones
    std::int64_t highest = 0;     ///< reserved at any instant of any step
    int steps = 0;                ///< replayed until the state repeated
    std::int64_t retries = 0;     ///< requests of the last step that had cached segments given back
    std::optional<FailedRequest> failed = {};  ///< where the job ended
    [[nodiscard]] std::int64_t beyond_allocated() const { return unsplit + releasable + stuck; }
};

/// A job's replays at the ends of the interval and at the point. On a device whose memory is known,
/// each has what is left of it: the lower one with the most memory and the least outside the
/// allocator, the upper one the other way round.
struct ReservedRuns {
    ReservedMemory lower, point, upper;
};

/// Bytes outside the allocator at the ends of the interval and at the point.
struct OutsideBytes {
    std::int64_t lower = 0, point = 0, upper = 0;
};

/// The steps of a job with its terms at both ends and at the point. They may be the same one.
struct BoundedSteps {
    const Step& lower;
    const Step& point;
    const Step& upper;
};

/// Replays a first step, which makes the optimizer's states, then the step until it leaves the memory
/// as it found it, or a request fails. Absent: the job has no tensors to replay (stated terms only,
/// no device memory).
[[nodiscard]] std::optional<ReservedRuns> simulate_reserved(const Job& job, const BoundedSteps& steps,
                                                            const std::optional<Budget>& budget,
                                                            const OutsideBytes& outside);

}  // namespace membudget
