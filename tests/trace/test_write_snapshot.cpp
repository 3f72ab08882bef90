#include <string>

#include "catch.hpp"
#include "job_of.hpp"
#include "membudget/ledger.hpp"
#include "membudget/trace.hpp"

namespace membudget {
namespace {

Trace read(const std::string& bytes) {
    TraceInput input("written", source_of(bytes));
    auto trace = read_trace(input);
    REQUIRE(trace.ok());
    return std::move(*trace);
}

TEST_CASE("a snapshot that was read is written, and read again the same", "[trace]") {
    for (const char* file : {"protocol_4.pickle", "bare_list.pickle", "old.pickle", "snapshot.json"}) {
        INFO(file);
        const auto trace = read_trace_file(std::string("tests/trace/data/") + file);
        REQUIRE(trace.ok());
        const std::string written = write_snapshot(*trace);
        const Trace again = read(written);
        CHECK(write_snapshot(again) == written);
        REQUIRE(again.devices.size() == trace->devices.size());
        const TraceDevice &a = trace->devices[0], &b = again.devices[0];
        REQUIRE(a.events.size() == b.events.size());
        for (std::size_t i = 0; i < a.events.size(); ++i) {
            CHECK(a.events[i].action == b.events[i].action);
            CHECK(a.events[i].address == b.events[i].address);
            CHECK(a.events[i].size == b.events[i].size);
            CHECK(a.events[i].stream == b.events[i].stream);
            CHECK(a.events[i].time_us == b.events[i].time_us);
        }
        CHECK(again.markers.size() == trace->markers.size());
    }
}

TEST_CASE("a simulated job as a snapshot has the levels of its ledger", "[trace]") {
    for (const bool expandable : {false, true}) {
        Job job = job_of(tiny_llama(3), {{"micro_batch_size", "4"}, {"sequence_length", "256"}, {"optimizer", "adamw"}});
        job.allocator.expandable_segments = expandable;
        const Trace trace = read(write_snapshot(trace_of_job(job)));
        REQUIRE(trace.devices.size() == 1);
        const TraceDevice& device = trace.devices[0];
        const TraceReplay levels = replay(device);
        const Ledger ledger = make_ledger(job, std::nullopt);
        REQUIRE(ledger.reserved);
        CHECK(levels.complete);
        CHECK(levels.start.reserved == 0);
        CHECK(levels.end.reserved == ledger.reserved->point.count());
        // Requested bytes are what the ledger counts without the allocator's rounding.
        const Bytes rounding = at_peak(ledger, "allocator/rounding");
        CHECK(levels.peak.live >= (ledger.allocated.point - rounding).count());
        // What the events leave is what the segments say.
        AllocatorSettings settings = job.allocator;
        const auto end = segments_after(device, device.events.size() - 1, settings);
        REQUIRE(end.size() == device.segments.size());
        for (std::size_t i = 0; i < end.size(); ++i) CHECK(end[i].blocks.size() == device.segments[i].blocks.size());
        REQUIRE(trace.markers.size() >= 2);
        CHECK(trace.markers[0].name == "step 1");
    }
}

TEST_CASE("a job of stated numbers has a segment per term that is live at its peak", "[trace]") {
    const Job job = job_of_text(
        R"({"membudget": 1, "terms": {"parameters": "1GB", "gradients": "1GB", "activations": "3GB"}})");
    const Trace trace = read(write_snapshot(trace_of_job(job)));
    REQUIRE(trace.devices.size() == 1);
    const TraceDevice& device = trace.devices[0];
    const Ledger ledger = make_ledger(job, std::nullopt);
    std::size_t live = 0;
    for (const Term& term : ledger.terms)
        if (term.total == Total::allocated && term.at_peak > Bytes(0)) ++live;
    CHECK(device.segments.size() == live);
    const TraceReplay levels = replay(device);
    CHECK(levels.complete);
    CHECK(levels.start.live == 0);
    CHECK(levels.peak.live == ledger.allocated.point.count());
    CHECK(levels.end.reserved == ledger.allocated.point.count());
}

/// A large segment: a live block, if there is one, and a free one behind it.
TraceSegment segment_of(std::int64_t live, std::int64_t idle) {
    TraceSegment out;
    out.size = live + idle;
    out.large = true;
    if (live > 0) out.blocks.push_back({0, live, live, BlockState::active, 0});
    out.blocks.push_back({static_cast<std::uint64_t>(live), idle, 0, BlockState::inactive, 0});
    return out;
}

TEST_CASE("free memory of private pools is told apart", "[trace]") {
    const auto segment = [](std::int64_t pool, std::int64_t live, std::int64_t idle) {
        TraceSegment out = segment_of(live, idle);
        out.pool_id = pool;
        return out;
    };
    const TraceSegment segments[] = {segment(0, 0, 8), segment(0, 4, 2), segment(1, 0, 16), segment(1, 4, 32)};
    const TraceFreeMemory free = free_memory(segments);
    CHECK(free.releasable == 8);
    CHECK(free.stuck == 2);
    CHECK(free.private_pools == 48);
    CHECK(free.other_streams == 0);
}

TEST_CASE("free memory that only another stream can use is told apart", "[trace]") {
    const auto segment = [](std::uint64_t stream, std::int64_t live, std::int64_t idle) {
        TraceSegment out = segment_of(live, idle);
        out.stream = stream;
        return out;
    };
    // A whole free segment is given back whatever its stream; what stands beside live blocks is not.
    const TraceSegment segments[] = {segment(7, 100, 3), segment(9, 4, 2), segment(9, 0, 16)};
    const TraceFreeMemory free = free_memory(segments);
    CHECK(free.releasable == 16);
    CHECK(free.stuck == 5);
    CHECK(free.other_streams == 2);
}

}  // namespace
}  // namespace membudget
