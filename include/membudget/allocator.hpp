#pragma once

/// Part `allocator`: the CUDA caching allocator of PyTorch, simulated: requests and frees in,
/// segments out. ROCm builds run the same code under other names. Knows nothing of models or files.
///
///     request -> round up -> best fit in a pool of free blocks -> split the rest off
///                               none: new segment (cudaMalloc), or map pages (expandable)
///     free    -> merge with free neighbours of the same segment -> back to the pool
///
/// Rules: pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h.

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "membudget/quantity.hpp"
#include "membudget/support.hpp"

namespace membudget {

/// What PYTORCH_ALLOC_CONF can change, and the memory there is.
struct AllocatorSettings {
    bool expandable_segments = false;
    /// Blocks of at least so many bytes are never split; none by default.
    std::int64_t max_split_size = std::numeric_limits<std::int64_t>::max();
    /// With `max_split_size`: a block may exceed an oversize request by less than this.
    std::int64_t max_non_split_rounding = 20 * 1024 * 1024;
    /// Segment for requests from 1 to 10 MiB, and page of expandable segments of the large pool.
    std::int64_t large_segment_size = 20 * 1024 * 1024;
    /// Divisions of a power of two to which sizes from 1 MiB << i on are rounded; 0: multiples of 512.
    std::array<std::int64_t, 16> roundup_power2_divisions{};
    /// Share of the limit beyond which old cached segments are freed first; 0: never.
    double garbage_collection_threshold = 0;
    /// What this process may reserve as a share of `capacity`; absent: no limit of its own.
    std::optional<double> memory_fraction;
    /// Bytes that cudaMalloc can hand out to this allocator; absent: no end.
    std::optional<std::int64_t> capacity;

    friend bool operator==(const AllocatorSettings&, const AllocatorSettings&) = default;
};

/// Reads "max_split_size_mb:128,expandable_segments:True", the value of PYTORCH_ALLOC_CONF. Keys that
/// do not decide a size (pinned memory, locks) are accepted; unknown ones are errors.
[[nodiscard]] Result<AllocatorSettings> parse_allocator_settings(std::string_view text);

}  // namespace membudget
