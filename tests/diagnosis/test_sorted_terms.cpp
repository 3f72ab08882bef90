/// What is live, sorted into terms: one rule at a time, on traces made by hand.

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "diagnosis/sorted_terms.hpp"
#include "membudget/diagnosis.hpp"

namespace membudget {
namespace {

using Frames = std::vector<std::pair<std::string, std::string>>;  ///< file and function, innermost first

const Frames kForward = {{"model.py", "forward"}, {"torch/nn/modules/module.py", "_call_impl"}};
const Frames kEngine = {{"??", "torch::autograd::Engine::thread_main(std::shared_ptr<...>)"}};
const Frames kOptimizer = {{R"(C:\env\torch\optim\adamw.py)", "_single_tensor_adamw"}};
const Frames kElsewhere = {{"train.py", "main"}};

/// A trace of one device, event by event. Blocks from before it are those of `live_before`.
class Made {
public:
    Made() {
        trace_.file = "made";
        trace_.reader = "snapshot";
        trace_.devices.emplace_back();
        trace_.devices[0].has_segments = true;
    }
    std::uint64_t alloc(std::int64_t size, const Frames& frames = {}) {
        const std::uint64_t address = next_ += 1 << 20;
        live_[address] = size;
        event(TraceAction::alloc, address, size, frames);
        return address;
    }
    void free(std::uint64_t address, const Frames& frames = {}) {
        event(TraceAction::free_completed, address, live_[address], frames);
        live_.erase(address);
    }
    /// Lives before the first event, and is not freed unless `free` says so.
    std::uint64_t before(std::int64_t size) {
        const std::uint64_t address = next_ += 1 << 20;
        live_[address] = size;
        return address;
    }
    TraceSubject summary() {
        TraceSegment segment;
        for (const auto& [address, size] : live_) {
            segment.blocks.push_back({address, size, size, BlockState::active, 0});
            segment.size += size;
        }
        trace_.devices[0].segments = {segment};
        return summarise(trace_).value().subjects.front();
    }

private:
    void event(TraceAction action, std::uint64_t address, std::int64_t size, const Frames& frames) {
        std::vector<std::uint32_t> ids;
        for (const auto& [file, function] : frames)
            ids.push_back(trace_.stacks.frame({trace_.stacks.text(file),
                                               trace_.stacks.text(function),
                                               file == "??" ? 0 : 7}));
        TraceEvent out;
        out.action = action;
        out.address = address;
        out.size = size;
        out.stack = ids.empty() ? 0 : trace_.stacks.stack(ids);
        trace_.devices[0].events.push_back(out);
    }
    Trace trace_;
    std::map<std::uint64_t, std::int64_t> live_;
    std::uint64_t next_ = 1 << 20;
};

using Terms = std::map<std::string, std::int64_t>;

Terms terms_of(const SortedInstant& instant) {
    Terms out;
    std::int64_t sum = 0;
    for (const SortedTerm& term : instant.terms) {
        out[term.path] = term.bytes.count();
        sum += term.bytes.count();
        std::int64_t by = 0;
        for (const LiveShare& share : term.by) by += share.bytes.count();
        CHECK(by == term.bytes.count());
        CHECK(term.certain <= term.bytes);
    }
    if (const Bytes left = unsorted_bytes(instant); left != Bytes(0)) {
        out["unsorted"] = left.count();
        sum += left.count();
    }
    CHECK(sum == instant.live.count());
    return out;
}

const SortedInstant& instant(const TraceSubject& subject, InstantOf of, const std::string& phase) {
    const auto found = std::ranges::find_if(subject.sorted, [&](const SortedInstant& one) {
        return one.of == of && one.phase == phase;
    });
    REQUIRE(found != subject.sorted.end());
    return *found;
}

TEST_CASE("states stand beside parameters in whole multiples of the gradients", "[sorted]") {
    Made made;
    for (int i = 0; i < 2; ++i) made.before(1000);  // two parameters
    for (int i = 0; i < 4; ++i) made.before(1000);  // two states of each
    made.before(77);                                // a buffer
    const auto saved = made.alloc(300, kForward);
    const auto first = made.alloc(1000, kEngine), passing = made.alloc(200, kEngine);
    made.free(saved);
    made.free(passing);
    made.alloc(1000, kEngine);
    made.free(made.alloc(50, kOptimizer));
    made.free(first);
    const TraceSubject subject = made.summary();
    CHECK(terms_of(instant(subject, InstantOf::end, "backward")) ==
          Terms{{"parameters", 2000}, {"optimizer_states", 4000}, {"gradients", 2000}, {"unsorted", 77}});
    CHECK(terms_of(instant(subject, InstantOf::highest, "forward")) ==
          Terms{{"parameters", 2000}, {"optimizer_states", 4000}, {"activations", 300}, {"unsorted", 77}});
    CHECK(terms_of(instant(subject, InstantOf::highest, "optimizer_step"))["temporaries"] == 50);
}

TEST_CASE("states that the optimizer makes are told from its temporaries by their lives", "[sorted]") {
    Made made;
    made.before(1000);
    made.free(made.alloc(10, kForward));
    made.alloc(1000, kEngine);
    made.alloc(1000, kOptimizer);
    made.free(made.alloc(400, kOptimizer));
    made.alloc(10, kForward);
    CHECK(terms_of(instant(made.summary(), InstantOf::highest, "optimizer_step")) ==
          Terms{{"parameters", 1000}, {"gradients", 1000}, {"optimizer_states", 1000}, {"temporaries", 400}});
}

TEST_CASE("parameters that each step makes anew are as many as the gradients", "[sorted]") {
    Made made;
    auto parameter = made.alloc(1000, kElsewhere), state = made.alloc(1000, kElsewhere);
    for (int step = 0; step < 2; ++step) {
        made.free(made.alloc(10, kForward));
        const auto gradient = made.alloc(1000, kEngine);
        const auto new_state = made.alloc(1000, kOptimizer), new_parameter = made.alloc(1000, kOptimizer);
        made.free(std::exchange(state, new_state), kOptimizer);
        made.free(std::exchange(parameter, new_parameter), kOptimizer);
        made.free(gradient, kOptimizer);
    }
    CHECK(terms_of(instant(made.summary(), InstantOf::end, "backward")) ==
          Terms{{"parameters", 1000}, {"optimizer_states", 1000}, {"gradients", 1000}});
}

TEST_CASE("frames tell what lives cannot", "[sorted]") {
    Made made;
    made.alloc(500, {{"torch/nn/modules/module.py", "convert"}, {"torch/nn/modules/module.py", "_apply"}});
    made.alloc(64, {{"torch/distributed/distributed_c10d.py", "all_gather_into_tensor"}});
    made.alloc(30, kForward);
    // Checkpointing makes activations again within backward; a backward within it does not.
    const Frames again = {{"torch/nn/modules/module.py", "_call_impl"}, {"torch/utils/checkpoint.py", "backward"},
                          {"torch/autograd/graph.py", "_engine_run_backward"}};
    const Frames inner = {{"torch/autograd/graph.py", "_engine_run_backward"}, {"torch/utils/checkpoint.py", "backward"},
                          {"torch/autograd/graph.py", "_engine_run_backward"}};
    const auto made_again = made.alloc(30, again), passing = made.alloc(20, inner);
    made.free(passing);
    made.free(made_again);
    const TraceSubject subject = made.summary();
    const SortedInstant& peak = subject.sorted.front();
    CHECK(peak.of == InstantOf::peak);
    CHECK(terms_of(peak) == Terms{{"parameters", 500}, {"communication", 64}, {"activations", 60}, {"temporaries", 20}});
}

TEST_CASE("where stacks are Python's only, no frames within a pass mean the engine", "[sorted]") {
    Made made;
    made.alloc(30, kForward);
    const auto passing = made.alloc(20);
    made.alloc(1000);
    made.free(passing);
    made.alloc(1, kOptimizer);
    const TraceSubject subject = made.summary();
    CHECK(terms_of(instant(subject, InstantOf::highest, "backward")) ==
          Terms{{"activations", 30}, {"temporaries", 20}, {"gradients", 1000}});
    // With C++ frames elsewhere, none is none.
    Made other;
    other.alloc(30, kForward);
    other.alloc(5, kEngine);
    other.alloc(20);
    CHECK(terms_of(other.summary().sorted.front())["unsorted"] >= 20);
}

TEST_CASE("without a gradient, sizes of the spec sort what outlives the trace", "[sorted]") {
    Made made;
    made.before(1000);
    made.before(1000);
    made.before(77);
    made.free(made.alloc(30, kForward));
    const TraceSubject subject = made.summary();
    const SortedInstant& peak = subject.sorted.front();
    CHECK(terms_of(peak) == Terms{{"activations", 30}, {"unsorted", 2077}});
    ExpectedTerms expected;
    expected.lasting = {{"parameters", {{Bytes(1000), 2}}}};
    CHECK(terms_of(diagnosis::by_size_of_spec(peak, expected)) ==
          Terms{{"parameters", 2000}, {"activations", 30}, {"unsorted", 77}});
    // No more of them than the spec has.
    expected.lasting = {{"parameters", {{Bytes(1000), 1}, {Bytes(400), 3}}}};
    CHECK(terms_of(diagnosis::by_size_of_spec(peak, expected))["parameters"] == 1000);
}

TEST_CASE("a trace without stacks and categories has no terms", "[sorted]") {
    Made made;
    made.alloc(30);
    CHECK(made.summary().sorted.empty());
}

}  // namespace
}  // namespace membudget
