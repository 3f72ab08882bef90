#include <vector>

#include "catch.hpp"
#include "membudget/allocator.hpp"

namespace membudget {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

TEST_CASE("requests are rounded", "[allocator]") {
    const AllocatorSettings plain;
    CHECK(rounded_request(1, plain) == 512);
    CHECK(rounded_request(512, plain) == 512);
    CHECK(rounded_request(513, plain) == 1024);
    AllocatorSettings quarters;
    quarters.roundup_power2_divisions.fill(4);
    CHECK(rounded_request(2048, quarters) == 2048);
    CHECK(rounded_request(2049, quarters) == 2560);
    // The example of PyTorch's documentation: 1200 lies between 1024 and 2048, in steps of 256.
    CHECK(rounded_request(1200, quarters) == 1536);
    CHECK(rounded_request(1200 * kMiB, quarters) == 1280 * kMiB);
    CHECK(rounded_request(1024 * kMiB, quarters) == 1024 * kMiB);
}

TEST_CASE("segments have the sizes of their kind", "[allocator]") {
    const AllocatorSettings plain;
    CHECK(segment_size(512, plain) == 2 * kMiB);
    CHECK(segment_size(kMiB, plain) == 2 * kMiB);
    CHECK(segment_size(kMiB + 512, plain) == 20 * kMiB);
    CHECK(segment_size(10 * kMiB - 512, plain) == 20 * kMiB);
    CHECK(segment_size(10 * kMiB, plain) == 10 * kMiB);
    CHECK(segment_size(10 * kMiB + 512, plain) == 12 * kMiB);
}

TEST_CASE("a large block keeps a rest of up to 1 MiB, a small one splits from 512 bytes", "[allocator]") {
    CachingAllocator allocator;
    const auto exact = allocator.allocate(19 * kMiB);  // a segment of 20 MiB with a rest of 1 MiB
    CHECK(allocator.size_of(*exact) == 20 * kMiB);
    const auto split = allocator.allocate(19 * kMiB - 512);
    CHECK(allocator.size_of(*split) == 19 * kMiB - 512);
    CHECK(allocator.totals().reserved == 40 * kMiB);
    const auto small = allocator.allocate(kMiB);
    CHECK(allocator.size_of(*small) == kMiB);
    CHECK(allocator.totals().reserved == 42 * kMiB);
    CHECK(allocator.free_memory().stuck == kMiB + 512 + kMiB);
    CHECK(allocator.free_memory().releasable == 0);
}

TEST_CASE("what is free is reused, best fit first, and given back on demand", "[allocator]") {
    CachingAllocator allocator;
    const auto a = allocator.allocate(30 * kMiB), b = allocator.allocate(50 * kMiB);
    allocator.free(*b);
    allocator.free(*a);
    CHECK(allocator.free_memory().releasable == 80 * kMiB);
    const auto c = allocator.allocate(25 * kMiB);
    CHECK(allocator.totals().reserved == 80 * kMiB);
    CHECK(allocator.free_memory().stuck == 5 * kMiB);
    CHECK(allocator.free_memory().releasable == 50 * kMiB);
    allocator.empty_cache();
    CHECK(allocator.totals().reserved == 30 * kMiB);
    CHECK(allocator.peak_reserved() == 80 * kMiB);
    allocator.free(*c);
    CHECK(allocator.totals().allocated == 0);
}

TEST_CASE("another stream's blocks are never used", "[allocator]") {
    CachingAllocator allocator;
    allocator.free(*allocator.allocate(30 * kMiB, 1));
    (void)allocator.allocate(30 * kMiB, 2);
    CHECK(allocator.totals().reserved == 60 * kMiB);
}

TEST_CASE("out of memory comes after a retry without the cache", "[allocator]") {
    AllocatorSettings settings;
    settings.capacity = 100 * kMiB;
    CachingAllocator allocator(settings);
    allocator.free(*allocator.allocate(60 * kMiB));
    REQUIRE(allocator.allocate(80 * kMiB));
    CHECK(allocator.retries() == 1);
    CHECK(allocator.totals().reserved == 80 * kMiB);
    CHECK_FALSE(allocator.allocate(30 * kMiB));
}

TEST_CASE("an expandable segment grows instead of leaving gaps", "[allocator]") {
    AllocatorSettings settings;
    settings.expandable_segments = true;
    CachingAllocator allocator(settings);
    const auto a = allocator.allocate(30 * kMiB);
    CHECK(allocator.totals().reserved == 40 * kMiB);  // pages of 20 MiB
    allocator.free(*a);
    const auto b = allocator.allocate(50 * kMiB);
    CHECK(allocator.totals().reserved == 60 * kMiB);
    CHECK(allocator.segments().size() == 1);
    allocator.free(*b);
    (void)allocator.allocate(kMiB + 1);
    CHECK(allocator.free_memory().releasable == 40 * kMiB);
    allocator.empty_cache();
    CHECK(allocator.totals().reserved == 20 * kMiB);
}

TEST_CASE("a state is put back as it was", "[allocator]") {
    for (const bool expandable : {false, true}) {
        AllocatorSettings settings;
        settings.expandable_segments = expandable;
        CachingAllocator first(settings);
        std::vector<CachingAllocator::Handle> handles;
        for (int i = 1; i < 40; ++i) handles.push_back(*first.allocate(i * 700'001));
        for (std::size_t i = 0; i < handles.size(); i += 3) first.free(handles[i]);
        auto segments = first.segments();
        CachingAllocator second(settings);
        second.restore(segments);
        CHECK(second.totals().reserved == first.totals().reserved);
        CHECK(second.totals().allocated == first.totals().allocated);
        CHECK(second.totals().requested == first.totals().requested);
        for (int i = 1; i < 20; ++i) {
            const auto a = first.allocate(i * 300'007), b = second.allocate(i * 300'007);
            if (!expandable && first.totals().reserved != second.totals().reserved) break;
            CHECK(first.address_of(*a) == second.address_of(*b));
        }
    }
}

}  // namespace
}  // namespace membudget
