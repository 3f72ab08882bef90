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

}  // namespace

Trace trace_of_job(const Job& job) {
    Trace trace;
    trace.file = job.name;
    trace.settings = job.allocator;
    if (job.model == nullptr || !job.model->step_unsupported.empty() || job.backend != Backend::cuda) return trace;
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
