#include "ledger/reserved.hpp"

#include <algorithm>

namespace membudget {

namespace {

/// Events of one step that are replayed at most: a fraction of a second.
constexpr double kMostEvents = 5e6;

double unrolled_events(const StepNode& node) {
    double sum = static_cast<double>(node.events.size());
    for (const StepNode& child : node.children) sum += unrolled_events(child);
    return sum * static_cast<double>(node.micro_batch ? std::min<std::int64_t>(node.repeat, 3) : node.repeat);
}

bool can_replay(const Job& job, const Step& step) {
    if (job.model == nullptr || !job.model->step_unsupported.empty() || job.backend != Backend::cuda) return false;
    // A stated cache says what this would derive.
    for (const ResolvedTerm& stated : job.stated)
        if (is_at_or_below(stated.path, "allocator")) return false;
    return unrolled_events(step.root) <= kMostEvents;
}

/// Replays of one step under different settings.
class StepOfJob {
public:
    StepOfJob(const Job& job, const Step& step, Bound bound) : step_(step) {
        if (!job.steady) return;
        Job first = job;
        first.steady = false;
        first_ = simulate_step(first, bound, Detail::bytes);
    }

    /// Absent: no instant of the replay is the step's peak, and no request fails either.
    [[nodiscard]] std::optional<ReservedMemory> run(const AllocatorSettings& settings) const {
        StepReplay replay(settings);
        std::optional<ReservedMemory> at_peak;
        int noted = -1;  // the step whose peak was noted
        int begun = 0;   // the step that runs, and the retries before it
        std::int64_t retries_before = 0;
        replay.on_allocate([&](CachingAllocator::Handle, const Event&, const StepNode&) {
            if (replay.steps() > begun) {
                begun = replay.steps();
                retries_before = replay.allocator().retries();
            }
            if (replay.level() != step_.profile.peak || noted == replay.steps()) return;
            noted = replay.steps();
            const FreeMemory free = replay.allocator().free_memory();
            at_peak = ReservedMemory{.unsplit = replay.allocator().totals().allocated - replay.level(),
                                     .releasable = free.releasable,
                                     .stuck = free.stuck,
                                     .steps = noted + 1};
        });
        if (first_)
            settle(replay, *first_, step_);
        else
            replay.run(step_);
        if (replay.failed() && !at_peak) at_peak.emplace();
        if (!at_peak) return std::nullopt;
        at_peak->highest = replay.allocator().peak_reserved();
        at_peak->retries = replay.allocator().retries() - retries_before;
        at_peak->failed = replay.failed();
        return at_peak;
    }

private:
    const Step& step_;
    std::optional<Step> first_;
};

/// The settings on a device of `capacity` bytes of which the allocator can have `room`.
AllocatorSettings within(AllocatorSettings settings, std::int64_t capacity, std::int64_t room) {
    room = std::max<std::int64_t>(room, 1);
    // The fraction is one of the whole device.
    if (settings.memory_fraction) *settings.memory_fraction *= static_cast<double>(capacity) / static_cast<double>(room);
    settings.capacity = room;
    return settings;
}

/// A run that failed holds what it would without an end of the device, and at least what the failed
/// request made necessary.
void hold_what_failed(ReservedMemory& run, std::int64_t peak) {
    if (run.failed) run.stuck += std::max<std::int64_t>(0, run.failed->needed - peak - run.beyond_allocated());
}

}  // namespace

std::optional<ReservedRuns> simulate_reserved(const Job& job, const BoundedSteps& steps,
                                              const std::optional<Budget>& budget, const OutsideBytes& outside) {
    if (!can_replay(job, steps.point)) return std::nullopt;
    const bool one = &steps.lower == &steps.point;
    const StepOfJob point(job, steps.point, Bound::point);
    const auto endless = point.run(job.allocator);
    if (!endless) return std::nullopt;
    std::optional<StepOfJob> low, high;
    ReservedRuns out{*endless, *endless, *endless};
    if (!one) {
        low.emplace(job, steps.lower, Bound::lower);
        high.emplace(job, steps.upper, Bound::upper);
        const auto lower = low->run(job.allocator), upper = high->run(job.allocator);
        if (!lower || !upper) return std::nullopt;
        out.lower = *lower;
        out.upper = *upper;
    }
    if (!budget) {
        // A retry may give whole free segments back [release_cached_blocks].
        out.lower.releasable = 0;
        return out;
    }

    // Replays `run` once more where it meets the end of the device, or a limit of its own.
    const auto limit = [&](const StepOfJob& step, ReservedMemory& run, Bytes capacity, std::int64_t beside) {
        const std::int64_t room = (capacity - budget->reserve).count() - beside;
        if (run.highest <= room && !job.allocator.memory_fraction) return true;
        const auto again = step.run(within(job.allocator, capacity.count(), room));
        if (again && again->failed)
            run.failed = again->failed;
        else if (again)
            run = *again;
        return again.has_value();
    };
    const Bytes most = budget->capacity_upper.value_or(budget->capacity);
    const Bytes least = budget->capacity_lower.value_or(budget->capacity);
    if (!limit(low ? *low : point, out.lower, most, outside.lower) ||
        !limit(point, out.point, budget->capacity, outside.point) ||
        !limit(high ? *high : point, out.upper, least, outside.upper))
        return std::nullopt;
    // Before it failed, all that was whole and free was given back.
    if (out.lower.failed) out.lower.releasable = 0;
    hold_what_failed(out.lower, steps.lower.profile.peak);
    hold_what_failed(out.point, steps.point.profile.peak);
    hold_what_failed(out.upper, steps.upper.profile.peak);
    return out;
}

}  // namespace membudget
