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

}  // namespace

std::optional<ReservedMemory> simulate_reserved(const Job& job, const Step& step, Bound bound) {
    if (job.model == nullptr || !job.model->step_unsupported.empty() || job.backend != Backend::cuda)
        return std::nullopt;
    // A stated cache says what this would derive.
    for (const ResolvedTerm& stated : job.stated)
        if (is_at_or_below(stated.path, "allocator")) return std::nullopt;
    if (unrolled_events(step.root) > kMostEvents) return std::nullopt;

    StepReplay replay(job.allocator);
    std::optional<ReservedMemory> at_peak;
    int noted = -1;  // the step whose peak was noted
    replay.on_allocate([&](CachingAllocator::Handle, const Event&, const StepNode&) {
        if (replay.level() != step.profile.peak || noted == replay.steps()) return;
        noted = replay.steps();
        const FreeMemory free = replay.allocator().free_memory();
        at_peak = ReservedMemory{.unsplit = replay.allocator().totals().allocated - replay.level(),
                                 .releasable = free.releasable,
                                 .stuck = free.stuck,
                                 .steps = noted + 1};
    });
    if (!job.steady) {
        replay.run(step);
        return at_peak;
    }
    Job first = job;
    first.steady = false;
    settle(replay, simulate_step(first, bound), step);
    return at_peak;
}

}  // namespace membudget
