#include "recorded.hpp"

#include <filesystem>
#include <string_view>
#include <unordered_map>

#include "membudget/trace.hpp"

namespace cuda_test {

using namespace membudget;

namespace {

/// The text between `before` and `after` of the first name that holds both; empty: none.
std::string_view between(std::string_view name, std::string_view before, std::string_view after) {
    const std::size_t begin = name.find(before);
    if (begin == std::string_view::npos) return {};
    name.remove_prefix(begin + before.size());
    const std::size_t end = name.find(after);
    return end == std::string_view::npos ? std::string_view{} : name.substr(0, end);
}

bool allocates_only(std::string_view op) {
    return op.starts_with("empty") || op.starts_with("new_empty") || op == "resize_";
}

struct Where {
    std::string op;
    bool in_optimizer = false;
};

/// The innermost op that computes something, and the node of autograd that it runs in.
Where where(const TraceStacks& stacks, StackId stack) {
    std::string_view op, node;
    Where out;
    for (const std::uint32_t index : stacks.frames_of(stack)) {
        const TraceFrame& frame = stacks.frame_at(index);
        const std::string_view function = stacks.text_of(frame.function);
        if (function.starts_with("at::cuda::getCurrentCUDABlasHandle")) return {kWorkspace, false};
        if (function == "step" && stacks.text_of(frame.file).ends_with("optimizer.py")) out.in_optimizer = true;
        if (op.empty()) {
            std::string_view called = between(function, "at::_ops::", "::");
            if (!called.empty() && !allocates_only(called)) op = called;
        }
        if (node.empty() && function.find("Backward") != std::string_view::npos) {
            std::string_view applied = function.substr(0, function.find("::apply"));
            if (applied.size() < function.size()) node = applied.substr(applied.rfind(':') + 1);
        }
    }
    out.op = std::string(node);
    if (!node.empty() && !op.empty()) out.op += ' ';
    out.op += op;
    return out;
}

}  // namespace

std::vector<RecordedEvent> recorded(const std::string& path) {
    std::vector<RecordedEvent> out;
    if (!std::filesystem::exists(path)) return out;
    const Result<Trace> trace = read_trace_file(path);
    if (!trace || trace->devices.empty()) return out;
    const TraceDevice* busiest = &trace->devices.front();
    for (const TraceDevice& device : trace->devices)
        if (device.events.size() > busiest->events.size()) busiest = &device;
    std::unordered_map<std::uint64_t, std::size_t> live;
    for (std::size_t i = 0; i < busiest->events.size(); ++i) {
        const TraceEvent event = busiest->events[i];
        if (event.action == TraceAction::alloc) {
            Where asked = where(trace->stacks, event.stack);
            live[event.address] = out.size();
            out.push_back({event.size, out.size(), std::move(asked.op), asked.in_optimizer});
        } else if (event.action == TraceAction::free_requested) {
            const auto found = live.find(event.address);
            const std::size_t made = found == live.end() ? kOlder : found->second;
            const bool optimizer = where(trace->stacks, event.stack).in_optimizer;
            out.push_back({-event.size, made, made == kOlder ? "" : out[made].op, optimizer});
            if (found != live.end()) live.erase(found);
        }
    }
    return out;
}

}  // namespace cuda_test
