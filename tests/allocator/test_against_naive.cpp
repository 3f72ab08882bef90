/// The simulator beside a naive one on random streams of requests, for each setting. Few streams by
/// default; MEMBUDGET_STREAMS=100000 runs as many for each.

#include <algorithm>
#include <cstdlib>
#include <random>
#include <tuple>
#include <vector>

#include "allocator/naive_allocator.hpp"
#include "catch.hpp"
#include "membudget/allocator.hpp"

namespace membudget {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

struct Setting {
    const char* name;
    const char* text;
    std::int64_t capacity;     ///< in MiB
};
constexpr Setting kSettings[] = {
    {"default", "", 100'000},
    {"default, tight", "", 160},
    {"expandable", "expandable_segments:True", 100'000},
    {"expandable, tight", "expandable_segments:True", 160},
    {"max_split", "max_split_size_mb:24", 100'000},
    {"max_split, tight", "max_split_size_mb:24", 160},
    {"max_split, non_split", "max_split_size_mb:24,max_non_split_rounding_mb:40", 300},
    {"max_split and expandable", "max_split_size_mb:24,expandable_segments:True", 240},
    {"roundup", "roundup_power2_divisions:4", 160},
    {"roundup by size", "roundup_power2_divisions:[1:8,4:2,16:16,>:4]", 160},
    {"gc", "garbage_collection_threshold:0.5,per_process_memory_fraction:0.9", 220},
    {"gc and max_split", "garbage_collection_threshold:0.3,per_process_memory_fraction:0.8,max_split_size_mb:24", 260},
    {"fraction", "per_process_memory_fraction:0.5", 400},
    {"fraction and expandable", "per_process_memory_fraction:0.6,expandable_segments:True", 400},
};

std::uint64_t address_of(std::uint64_t number, std::uint64_t seed) {
    // In no order, far apart, the same for both.
    return (1 + (number * 0x9E3779B1U + seed * 0x85EBCA77U) % 1'000'003) << 38U;
}

auto sorted(std::vector<SegmentChange> changes) {
    std::vector<std::tuple<bool, std::uint64_t, std::int64_t>> out;
    for (const SegmentChange& change : changes) out.emplace_back(change.comes, change.address, change.size);
    std::sort(out.begin(), out.end());
    return out;
}

/// A size: around the limits between kinds, or anywhere.
std::int64_t random_size(std::mt19937_64& random) {
    const std::int64_t around[] = {512, kMiB, 2 * kMiB, 10 * kMiB, 20 * kMiB, 24 * kMiB};
    switch (random() % 6) {
        case 0: return 1 + static_cast<std::int64_t>(random() % 5000);
        case 1: return 1 + static_cast<std::int64_t>(random() % (kMiB * 2));
        case 2: return kMiB + static_cast<std::int64_t>(random() % (kMiB * 12));
        case 3: return static_cast<std::int64_t>(random() % 6 + 1) * kMiB * 5;
        case 4: return around[random() % std::size(around)] + static_cast<std::int64_t>(random() % 3) - 1;
        default: return 1 + static_cast<std::int64_t>(random() % (kMiB * 48));
    }
}

void run_stream(const Setting& setting, std::uint64_t seed, std::int64_t& out_of_memory, std::int64_t& releases) {
    AllocatorSettings settings = parse_allocator_settings(setting.text).value();
    settings.capacity = setting.capacity * kMiB;
    std::vector<SegmentChange> changes;
    std::uint64_t placed = 0, naively_placed = 0;
    AllocatorHooks hooks;
    hooks.place = [&](std::int64_t, std::uint64_t, bool) { return address_of(placed++, seed); };
    hooks.changed = [&](const SegmentChange& change) { changes.push_back(change); };
    CachingAllocator allocator(settings, hooks);
    naive::Allocator oracle(settings, [&](std::int64_t) { return address_of(naively_placed++, seed); });

    struct Live {
        CachingAllocator::Handle handle;
        int id;
        bool waiting;
    };
    std::vector<Live> live;
    std::mt19937_64 random(seed);
    const std::size_t streams = random() % 3 + 1;
    const std::size_t steps = 20 + random() % 60;
    const std::size_t crowd = 4 + random() % 20;
    for (std::size_t step = 0; step < steps; ++step) {
        const std::size_t choice = random() % 100;
        if (choice < 2) {
            allocator.empty_cache();
            oracle.empty();
            std::erase_if(live, [](const Live& l) { return l.waiting; });
        } else if (live.size() < crowd / 2 || (live.size() < crowd && choice < 55)) {
            const std::int64_t size = random_size(random);
            const std::uint64_t stream = (random() % streams) * 512;
            const std::int64_t before = oracle.retries;
            const auto handle = allocator.allocate(size, stream);
            const int id = oracle.allocate(size, stream);
            REQUIRE(handle.has_value() == (id >= 0));
            if (oracle.retries > before)
                std::erase_if(live, [](const Live& l) { return l.waiting; });
            if (handle)
                live.push_back({*handle, id, false});
            else
                ++out_of_memory;
            if (handle) REQUIRE(allocator.address_of(*handle) == oracle.address_of(id));
        } else if (!live.empty()) {
            const std::size_t i = random() % live.size();
            if (live[i].waiting) {
                allocator.complete(live[i].handle);
                oracle.complete(live[i].id);
            } else if (choice < 65) {
                allocator.free_later(live[i].handle);
                oracle.free_later(live[i].id);
                live[i].waiting = true;
                continue;
            } else {
                allocator.free(live[i].handle);
                oracle.free(live[i].id);
            }
            live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
        }
        REQUIRE(allocator.totals().reserved == oracle.reserved());
        REQUIRE(allocator.totals().allocated == oracle.allocated());
        REQUIRE(allocator.totals().active == oracle.active());
        REQUIRE(allocator.retries() == oracle.retries);
        REQUIRE(sorted(changes) == sorted(oracle.changes));
        for (const SegmentChange& change : changes) releases += !change.comes;
        changes.clear();
        oracle.changes.clear();
        const FreeMemory free = allocator.free_memory();
        REQUIRE(free.releasable + free.stuck == oracle.reserved() - oracle.active());
    }
}

TEST_CASE("random streams agree with the naive simulator", "[allocator]") {
    const char* wanted = std::getenv("MEMBUDGET_STREAMS");
    const std::uint64_t streams = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 100;
    for (const Setting& setting : kSettings) {
        std::int64_t out_of_memory = 0, releases = 0;
        for (std::uint64_t seed = 0; seed < streams; ++seed) {
            INFO(setting.name << ", stream " << seed);
            run_stream(setting, seed, out_of_memory, releases);
        }
        INFO(setting.name << ": " << out_of_memory << " out of memory, " << releases << " released");
        CHECK(releases > 0);
        CHECK((setting.capacity > 1000 || out_of_memory > 0));
        if (wanted != nullptr)
            std::printf("%-28s %llu streams, %lld out of memory, %lld segments released\n", setting.name,
                        static_cast<unsigned long long>(streams), static_cast<long long>(out_of_memory),
                        static_cast<long long>(releases));
    }
}

}  // namespace
}  // namespace membudget
