/// Real snapshots against the figures of their index. They belong to other projects and are read
/// from the folder that MEMBUDGET_CORPUS names.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "catch.hpp"
#include "membudget/spec.hpp"
#include "membudget/trace.hpp"

namespace membudget {
namespace {

KeyTree read_index(const std::string& path) {
    const auto text = read_text(path);
    REQUIRE(text.ok());
    auto tree = parse_json(*text, path, DuplicateKeys::last_wins);
    REQUIRE(tree.ok());
    return std::move(*tree);
}

TEST_CASE("snapshots of the corpus have the levels of the index", "[trace]") {
    const char* corpus = std::getenv("MEMBUDGET_CORPUS");
    if (corpus == nullptr) {
        std::puts("skipped: MEMBUDGET_CORPUS is not set");
        return;
    }
    const std::string folder = std::string(corpus) + "/traces/";
    const KeyTree index = read_index(folder + "INDEX.json");
    int snapshots = 0, traces = 0;
    for (const KeyTree& row : index.items()) {
        if (row.find("kind")->text() != "torch.cuda memory snapshot") continue;
        const std::string file = row.find("file")->text();
        INFO(file);
        const auto trace = read_trace_file(folder + file);
        if (!trace) FAIL(trace.errors().list().front().message);
        ++snapshots;
        CHECK(trace->reader == "snapshot");
        std::int64_t reserved = 0;
        std::size_t segments = 0;
        for (const TraceDevice& device : trace->devices) {
            segments += device.segments.size();
            for (const TraceSegment& segment : device.segments) reserved += segment.size;
        }
        CHECK(reserved == row.find("shows")->find("reserved")->integer());
        CHECK(static_cast<std::int64_t>(segments) == row.find("shows")->find("segments")->integer());
        const KeyTree* levels = row.find("traces");
        if (levels == nullptr) continue;
        for (const KeyTree& expected : levels->items()) {
            ++traces;
            const auto number = expected.find("device")->integer();
            const auto device = std::find_if(trace->devices.begin(), trace->devices.end(),
                                             [&](const TraceDevice& d) { return d.device == number; });
            REQUIRE(device != trace->devices.end());
            const TraceReplay got = replay(*device);
            const auto value = [&](const char* key) { return expected.find(key)->integer(); };
            CHECK(static_cast<std::int64_t>(device->events.size()) == value("events"));
            CHECK(got.start.live == value("live_start"));
            CHECK(got.peak.live == value("live_peak"));
            CHECK(static_cast<std::int64_t>(got.peak.event) == value("peak_event"));
            CHECK(got.end.live == value("live_end"));
            CHECK(got.start.reserved == value("reserved_start"));
            CHECK(got.reserved_peak == value("reserved_peak"));
            CHECK(got.peak.reserved == value("reserved_at_live_peak"));
            CHECK(got.end.reserved == value("reserved_end"));
            const KeyTree& oom = *expected.find("oom");
            CHECK(got.oom.has_value() == oom.is(KeyTree::Kind::object));
            if (!got.oom) continue;
            CHECK(static_cast<std::int64_t>(got.oom->event) == oom.find("i")->integer());
            CHECK(got.oom->size == oom.find("size")->integer());
            CHECK(got.oom->device_free == oom.find("device_free")->integer());
            CHECK(got.oom->live == oom.find("live")->integer());
            CHECK(got.oom->reserved == oom.find("reserved")->integer());
        }
    }
    std::printf("%d snapshots, %d traces\n", snapshots, traces);
    CHECK(snapshots >= 50);
}

}  // namespace
}  // namespace membudget
