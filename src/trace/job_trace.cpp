// A simulated job as a trace: the same events that a real run records.

#include <unordered_map>

#include <fmt/format.h>

#include "membudget/job.hpp"
#include "membudget/step.hpp"
#include "membudget/trace.hpp"

namespace membudget {

namespace {

class Recorder {
public:
    Recorder(const Job& job, Trace& trace) : job_(job), trace_(trace), device_(trace.devices.emplace_back()) {
        device_.has_segments = true;
    }

    AllocatorHooks hooks() {
        AllocatorHooks out;
        out.changed = [this](const SegmentChange& change) {
            const TraceAction action = change.expandable
                                           ? (change.comes ? TraceAction::segment_map : TraceAction::segment_unmap)
                                           : (change.comes ? TraceAction::segment_alloc : TraceAction::segment_free);
            push(action, change.address, change.size, change.stream, 0);
        };
        return out;
    }

    void watch(StepReplay& replay, const TermTable& terms, const std::string& name) {
        terms_ = &terms;
        stacks_.clear();
        replay.on_allocate([this, &replay](CachingAllocator::Handle block, const Event& event, const StepNode& leaf) {
            const StackId stack = stack_of(event, leaf);
            const std::uint64_t address = replay.allocator().address_of(block);
            live_[address] = {event.bytes, stack};
            push(TraceAction::alloc, address, event.bytes, 0, stack);
        });
        replay.on_free([this, &replay](CachingAllocator::Handle block, const Event&, const StepNode&) {
            const std::uint64_t address = replay.allocator().address_of(block);
            const auto [bytes, stack] = live_[address];
            push(TraceAction::free_requested, address, bytes, 0, stack);
            push(TraceAction::free_completed, address, bytes, 0, stack);
            live_.erase(address);
        });
        trace_.markers.push_back({name, device_.device, now_, now_});
    }
    void end_of_step() { trace_.markers.back().end_us = now_; }

    void take_segments(const CachingAllocator& allocator) {
        for (const AllocatorSegment& segment : allocator.segments()) {
            TraceSegment& out = device_.segments.emplace_back();
            out.address = segment.address;
            out.size = segment.size;
            out.stream = segment.stream;
            out.large = segment.large;
            out.expandable = segment.expandable;
            for (const AllocatorBlock& block : segment.blocks) {
                const bool live = block.requested > 0;
                out.blocks.push_back({block.address, block.size, block.requested,
                                      live ? BlockState::active : BlockState::inactive,
                                      live ? live_[block.address].second : 0});
            }
        }
    }

private:
    void push(TraceAction action, std::uint64_t address, std::int64_t size, std::uint64_t stream, StackId stack) {
        device_.events.push_back({.action = action,
                                  .stack = stack,
                                  .size = size,
                                  .address = address,
                                  .stream = stream,
                                  .time_us = now_++});
    }

    /// Innermost first: the tensor in its op, the ledger's term, the pass of the step.
    StackId stack_of(const Event& event, const StepNode& leaf) {
        const auto [at, added] = stacks_.try_emplace(&event, 0);
        if (!added) return at->second;
        std::string op;
        if (job_.model != nullptr && leaf.block >= 0) {
            const Block& block = job_.model->blocks[static_cast<std::size_t>(leaf.block)];
            op = block.name;
            if (event.label.op < block.ops.size()) op += "." + block.ops[event.label.op].name;
        }
        const auto frame = [&](std::string_view function, std::string_view file) {
            return trace_.stacks.frame({trace_.stacks.text(file), trace_.stacks.text(function), 0});
        };
        const std::uint32_t frames[] = {
            frame(op.empty() ? event.label.what : fmt::format("{}: {}", op, event.label.what),
                  terms_->path(event.term)),
            frame(terms_->path(event.term), "membudget"),
            frame(leaf.pass, std::string(name_of(leaf.phase))),
        };
        return at->second = trace_.stacks.stack(frames);
    }

    const Job& job_;
    Trace& trace_;
    TraceDevice& device_;
    const TermTable* terms_ = nullptr;
    std::int64_t now_ = 0;
    std::unordered_map<std::uint64_t, std::pair<std::int64_t, StackId>> live_;
    std::unordered_map<const Event*, StackId> stacks_;
};

/// What is live at the peak, one segment per term: stated numbers say how much, not in which tensors.
void record_terms(const Job& job, Trace& trace) {
    constexpr std::uint64_t kBase = 0x7F0000000000, kAlignment = std::uint64_t{2} << 20;
    const Step step = simulate_step(job);
    TraceDevice& device = trace.devices.emplace_back();
    device.has_segments = true;
    std::uint64_t address = kBase;
    std::int64_t now = 0;
    for (TermId term = 0; term < step.profile.at_peak.size(); ++term) {
        const std::int64_t bytes = step.profile.at_peak[term];
        if (bytes <= 0) continue;
        const std::string& path = step.terms.path(term);
        const TextId file = trace.stacks.text("membudget");
        const std::uint32_t frames[] = {trace.stacks.frame({file, trace.stacks.text(path), 0}),
                                        trace.stacks.frame({file, trace.stacks.text("peak"), 0})};
        const StackId stack = trace.stacks.stack(frames);
        for (const TraceAction action : {TraceAction::segment_alloc, TraceAction::alloc})
            device.events.push_back(
                {.action = action, .stack = stack, .size = bytes, .address = address, .time_us = now++});
        TraceSegment& segment = device.segments.emplace_back();
        segment.address = address;
        segment.size = bytes;
        segment.large = true;
        segment.stack = stack;
        segment.blocks.push_back({address, bytes, bytes, BlockState::active, stack});
        address += (static_cast<std::uint64_t>(bytes) / kAlignment + 1) * kAlignment;
    }
    trace.markers.push_back({"peak", device.device, 0, now});
}

}  // namespace

Trace trace_of_job(const Job& job) {
    Trace trace;
    trace.file = job.name;
    trace.settings = job.allocator;
    if (job.backend != Backend::cuda) return trace;
    if (job.model == nullptr || !job.model->step_unsupported.empty()) {
        record_terms(job, trace);
        return trace;
    }
    Recorder recorder(job, trace);
    StepReplay replay(job.allocator, recorder.hooks());
    Job first_job = job;
    first_job.steady = false;
    const Step first = simulate_step(first_job);
    const Step step = simulate_step(job);
    recorder.watch(replay, first.terms, "step 1");
    replay.run(first);
    recorder.end_of_step();
    const bool leads_on = job.steady && replay.matched();
    for (int i = 2; leads_on && i < 8; ++i) {
        const std::uint64_t before = replay.allocator().layout();
        recorder.watch(replay, step.terms, fmt::format("step {}", i));
        replay.run_again(step);
        recorder.end_of_step();
        if (replay.allocator().layout() == before) break;
    }
    recorder.take_segments(replay.allocator());
    return trace;
}

}  // namespace membudget
