/// The simulated allocator beside real ones: every snapshot of the corpus that has events, replayed.
/// They belong to other projects and are read from the folder that MEMBUDGET_CORPUS names.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "catch.hpp"
#include "membudget/allocator.hpp"
#include "membudget/trace.hpp"

namespace membudget {
namespace {

struct Score {
    std::int64_t allocations = 0, misplaced = 0;
    std::int64_t segments = 0, segment_misses = 0;   ///< new segments and pages
    std::int64_t released = 0, release_misses = 0;   ///< traced frees of segments and pages
    std::int64_t reserved_at_end = 0, allocated_at_end = 0;
};

bool in_default_pool(const TraceSegment& segment) { return segment.pool_owner == 0 && segment.pool_id == 0; }

/// The state before the first event, as the allocator takes it; private pools left out.
std::vector<AllocatorSegment> start_of(const TraceDevice& device) {
    std::vector<AllocatorSegment> out;
    for (const TraceSegment& segment : segments_at_start(device)) {
        if (!in_default_pool(segment)) continue;
        AllocatorSegment copy;
        copy.address = segment.address;
        copy.size = segment.size;
        copy.stream = segment.stream;
        copy.large = segment.large;
        copy.expandable = segment.expandable;
        for (const TraceBlock& block : segment.blocks)
            copy.blocks.push_back({block.address, block.size, block.state == BlockState::inactive ? 0 : std::max<std::int64_t>(1, block.requested), 0});
        out.push_back(std::move(copy));
    }
    return out;
}

/// Replays the requests; addresses of new segments are the traced ones, everything else is
/// predicted.
Score follow(const TraceDevice& device, const AllocatorSettings& settings) {
    Score score;
    std::deque<SegmentChange> expected;  // what the trace says comes or goes next
    AllocatorHooks hooks;
    hooks.place = [&](std::int64_t size, std::uint64_t, bool) -> std::uint64_t {
        if (expected.empty()) return 0x1000000 + static_cast<std::uint64_t>(size);
        return expected.front().address;
    };
    hooks.changed = [&](const SegmentChange& change) {
        std::int64_t& count = change.comes ? score.segments : score.released;
        std::int64_t& misses = change.comes ? score.segment_misses : score.release_misses;
        ++count;
        if (expected.empty() || expected.front().comes != change.comes ||
            expected.front().address != change.address || expected.front().size != change.size)
            ++misses;
        if (!expected.empty()) expected.pop_front();
    };
    CachingAllocator allocator(settings, hooks);
    auto start = start_of(device);
    allocator.restore(start);
    std::unordered_map<std::uint64_t, CachingAllocator::Handle> live;
    for (const AllocatorSegment& segment : start)
        for (const AllocatorBlock& block : segment.blocks)
            if (block.requested > 0) live[block.address] = block.handle;

    for (std::size_t i = 0; i < device.events.size(); ++i) {
        const TraceEvent event = device.events[i];
        switch (event.action) {
            case TraceAction::segment_alloc:
            case TraceAction::segment_map:
                expected.push_back({true, false, false, 0, event.address, event.size});
                break;
            case TraceAction::segment_free:
            case TraceAction::segment_unmap:
                expected.push_front({false, false, false, 0, event.address, event.size});
                if (!allocator.release(event.address, event.size)) ++score.release_misses;
                break;
            case TraceAction::alloc: {
                const auto handle = allocator.allocate(event.size, event.stream);
                ++score.allocations;
                score.misplaced += allocator.address_of(*handle) != event.address;
                score.segment_misses += static_cast<std::int64_t>(expected.size());
                expected.clear();
                live[event.address] = *handle;
                break;
            }
            case TraceAction::free_requested: allocator.free_later(live.at(event.address)); break;
            case TraceAction::free_completed:
                allocator.complete(live.at(event.address));
                live.erase(event.address);
                break;
            case TraceAction::oom: expected.clear(); break;
            case TraceAction::snapshot: break;
        }
    }
    for (const TraceSegment& segment : device.segments) {
        if (!in_default_pool(segment)) continue;
        score.reserved_at_end += segment.size;
        for (const TraceBlock& block : segment.blocks)
            if (block.state == BlockState::active) score.allocated_at_end += block.size;
    }
    score.reserved_at_end -= allocator.totals().reserved;
    score.allocated_at_end -= allocator.totals().allocated;
    return score;
}

/// The highest reserved level from sizes and order alone. Blocks from before the first event are
/// requested first; where a trace gives segments back, so does the allocator (empty_cache), which is
/// an act of the program and no size.
std::int64_t predicted_peak(const TraceDevice& device, const AllocatorSettings& settings) {
    CachingAllocator allocator(settings);
    std::unordered_map<std::uint64_t, CachingAllocator::Handle> live;
    for (const TraceSegment& segment : segments_at_start(device))
        for (const TraceBlock& block : segment.blocks)
            if (block.requested > 0) live[block.address] = *allocator.allocate(block.requested, segment.stream);
    bool releasing = false;
    for (std::size_t i = 0; i < device.events.size(); ++i) {
        const TraceEvent event = device.events[i];
        const bool gone = event.action == TraceAction::segment_free || event.action == TraceAction::segment_unmap;
        if (gone && !releasing) allocator.empty_cache();
        releasing = gone;
        if (event.action == TraceAction::alloc)
            live[event.address] = *allocator.allocate(event.size, event.stream);
        if (event.action == TraceAction::free_requested) allocator.free_later(live.at(event.address));
        if (event.action == TraceAction::free_completed) {
            allocator.complete(live.at(event.address));
            live.erase(event.address);
        }
    }
    return allocator.peak_reserved();
}

/// Segment by segment and block by block; sizes of blocks included.
bool same_memory(const std::vector<TraceSegment>& a, const std::vector<TraceSegment>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TraceSegment& x, const TraceSegment& y) {
        return x.address == y.address && x.size == y.size && x.large == y.large &&
               std::equal(x.blocks.begin(), x.blocks.end(), y.blocks.begin(), y.blocks.end(),
                          [](const TraceBlock& p, const TraceBlock& q) {
                              return p.address == q.address && p.size == q.size && p.state == q.state &&
                                     p.requested == q.requested;
                          });
    });
}

TEST_CASE("real traces, replayed", "[trace]") {
    const char* corpus = std::getenv("MEMBUDGET_CORPUS");
    if (corpus == nullptr) {
        std::puts("skipped: MEMBUDGET_CORPUS is not set");
        return;
    }
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(corpus) + "/traces"))
        if (entry.path().extension() == ".pickle" || entry.path().extension() == ".pkl")
            files.push_back(entry.path().string());
    std::sort(files.begin(), files.end());
    Score ordinary, expandable;
    int cold = 0, warm = 0;
    for (const std::string& file : files) {
        const auto trace = read_trace_file(file);
        REQUIRE(trace.ok());
        for (const TraceDevice& device : trace->devices) {
            if (device.events.size() < 2) continue;
            const bool expands = std::any_of(device.segments.begin(), device.segments.end(),
                                             [](const TraceSegment& s) { return s.expandable; });
            AllocatorSettings settings = trace->settings.value_or(AllocatorSettings{});
            settings.expandable_segments = expands;
            const std::string name = file.substr(std::string(corpus).size() + 8) + ", device " + std::to_string(device.device);
            INFO(name);
            const Score score = follow(device, settings);
            CHECK(score.misplaced == 0);
            CHECK(score.segment_misses == 0);
            CHECK(score.release_misses == 0);
            CHECK(score.reserved_at_end == 0);
            CHECK(score.allocated_at_end == 0);
            Score& sum = expands ? expandable : ordinary;
            sum.allocations += score.allocations;
            sum.segments += score.segments;
            sum.released += score.released;

            const TraceReplay levels = replay(device);
            const std::int64_t predicted = predicted_peak(device, settings);
            const double error = 100.0 * static_cast<double>(predicted - levels.reserved_peak) /
                                 static_cast<double>(levels.reserved_peak);
            const bool is_cold = levels.start.reserved == 0;
            (is_cold ? cold : warm) += 1;
            std::printf("%-100s %s reserved peak %+.2f %%\n", name.c_str(), is_cold ? "cold" : "warm", error);
            if (is_cold)
                CHECK(predicted == levels.reserved_peak);
            else if (levels.reserved_peak == levels.start.reserved)
                CHECK(error <= 4.0);  // cached before the trace began: below is no error
            else
                CHECK(std::abs(error) <= 4.0);
            CHECK(same_memory(segments_after(device, device.events.size() - 1, settings), device.segments));
        }
    }
    std::printf("ordinary: %lld allocations, %lld segments, %lld released\n", static_cast<long long>(ordinary.allocations),
                static_cast<long long>(ordinary.segments), static_cast<long long>(ordinary.released));
    std::printf("expandable: %lld allocations, %lld mapped, %lld unmapped\n", static_cast<long long>(expandable.allocations),
                static_cast<long long>(expandable.segments), static_cast<long long>(expandable.released));
    std::printf("%d cold, %d warm\n", cold, warm);
    CHECK(cold > 10);
}

}  // namespace
}  // namespace membudget
