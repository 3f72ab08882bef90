// Events in 16 bytes each; see trace.hpp.

#include <algorithm>
#include <array>

#include "membudget/trace.hpp"
#include "trace/interner.hpp"

namespace membudget {

std::string_view name_of(TraceAction action) {
    constexpr std::string_view kNames[] = {"alloc",         "free_requested", "free_completed",
                                           "segment_alloc", "segment_free",   "segment_map",
                                           "segment_unmap", "snapshot",       "oom"};
    return kNames[static_cast<std::size_t>(action)];
}

std::string_view name_of(TraceCategory category) {
    constexpr std::string_view kNames[] = {"parameter",  "optimizer_state", "input",
                                           "temporary",  "activation",      "gradient",
                                           "autograd_detail", "unknown"};
    return kNames[static_cast<std::size_t>(category)];
}

namespace {

/// Where and how much: an alloc and its free share one, and a training loop comes back to it.
struct Place {
    std::uint64_t address;
    std::int64_t size;
    std::uint64_t stream;
    friend bool operator==(const Place&, const Place&) = default;
};

std::uint64_t hash_of(const Place& place) {
    return mixed(place.address ^ (static_cast<std::uint64_t>(place.size) << 20U) ^
                 (place.stream * 0x9E3779B97F4A7C15ULL));
}

struct Record {
    std::uint32_t place;
    StackId stack;
    std::uint64_t when_and_what;  ///< time + 1 (0: none) in 56 bits, category in 4, action in 4
};

constexpr std::size_t kChunk = 16384;
constexpr std::int64_t kLastTime = (std::int64_t{1} << 56) - 2;

}  // namespace

/// Chunks, so that growing never copies: a large file has tens of millions of events.
struct TraceEvents::Tables {
    std::vector<std::unique_ptr<Record[]>> chunks;
    std::vector<Place> places;
    Interner index;
};

TraceEvents::TraceEvents() : tables_(std::make_unique<Tables>()) {}
TraceEvents::~TraceEvents() = default;
TraceEvents::TraceEvents(TraceEvents&&) noexcept = default;
TraceEvents& TraceEvents::operator=(TraceEvents&&) noexcept = default;

void TraceEvents::push_back(const TraceEvent& event) {
    Tables& t = *tables_;
    const Place place{event.address, event.size, event.stream};
    const std::uint32_t where = t.index.intern(
        hash_of(place), [&](std::uint32_t i) { return t.places[i] == place; },
        [&] {
            t.places.push_back(place);
            return static_cast<std::uint32_t>(t.places.size() - 1);
        },
        [&](std::uint32_t i) { return hash_of(t.places[i]); });
    const std::int64_t time = std::clamp<std::int64_t>(event.time_us, -1, kLastTime);
    if (size_ % kChunk == 0)
        t.chunks.push_back(std::make_unique_for_overwrite<Record[]>(kChunk));
    t.chunks.back()[size_ % kChunk] = {
        where, event.stack,
        (static_cast<std::uint64_t>(time + 1) << 8U) |
            (static_cast<std::uint64_t>(event.category) << 4U) |
            static_cast<std::uint64_t>(event.action)};
    ++size_;
}

TraceEvent TraceEvents::operator[](std::size_t index) const {
    const Tables& t = *tables_;
    const Record& record = t.chunks[index / kChunk][index % kChunk];
    const Place& place = t.places[record.place];
    return {.action = static_cast<TraceAction>(record.when_and_what & 15U),
            .category = static_cast<TraceCategory>((record.when_and_what >> 4U) & 15U),
            .stack = record.stack,
            .size = place.size,
            .address = place.address,
            .stream = place.stream,
            .time_us = static_cast<std::int64_t>(record.when_and_what >> 8U) - 1};
}

}  // namespace membudget
