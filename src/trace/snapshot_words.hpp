#pragma once

/// The words of a snapshot: keys and values that decide something. They are the first texts that are
/// interned, so a word is known by its number.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace membudget {

// In one list, so that names and numbers cannot come apart. The actions stand in the order of
// TraceAction, the sizes of roundup_power2_divisions in MiB.
#define MEMBUDGET_SNAPSHOT_WORDS(word)                                                              \
    word(action) word(addr) word(size) word(stream) word(time_us) word(device_free) word(frames)    \
    word(filename) word(line) word(name)                                                            \
    word(address) word(total_size) word(segment_type) word(segment_pool_id) word(is_expandable)     \
    word(blocks) word(device) word(state) word(requested_size) word(history) word(real_size)        \
    word(stage) word(segments) word(device_traces) word(allocator_settings)                         \
    word(max_split_size) word(expandable_segments) word(garbage_collection_threshold)               \
    word(roundup_power2_divisions)                                                                  \
    word(alloc) word(free_requested) word(free_completed) word(segment_alloc) word(segment_free)    \
    word(segment_map) word(segment_unmap) word(snapshot) word(oom)                                  \
    word(active_allocated) word(active_pending_free) word(large) word(END)

enum class Word : std::uint8_t {
#define MEMBUDGET_WORD(name) name,
    MEMBUDGET_SNAPSHOT_WORDS(MEMBUDGET_WORD)
#undef MEMBUDGET_WORD
    w1, w2, w4, w8, w16, w32, w64, w128, w256, w512, w1024, w2048, w4096, w8192, w16384, w32768,
};

inline constexpr auto kWords = std::to_array<std::string_view>({
#define MEMBUDGET_WORD(name) #name,
    MEMBUDGET_SNAPSHOT_WORDS(MEMBUDGET_WORD)
#undef MEMBUDGET_WORD
    "1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192",
    "16384", "32768",
});
#undef MEMBUDGET_SNAPSHOT_WORDS
inline constexpr std::size_t kWordCount = kWords.size();
static_assert(kWordCount == static_cast<std::size_t>(Word::w32768) + 1);

}  // namespace membudget
