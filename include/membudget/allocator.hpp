#pragma once

/// Part `allocator`: the CUDA caching allocator of PyTorch, simulated: requests and frees in,
/// segments out. ROCm builds run the same code under other names. Knows nothing of models or files.
///
///     request -> round up -> best fit in a pool of free blocks -> split the rest off
///                               none: new segment (cudaMalloc), or map pages (expandable)
///     free    -> merge with free neighbours of the same segment -> back to the pool
///
/// Rules: pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "membudget/job.hpp"
#include "membudget/quantity.hpp"
#include "membudget/stack.hpp"
#include "membudget/support.hpp"

namespace membudget {

struct Event;
struct Step;
struct StepNode;

/// Bytes of the block that serves a request of `bytes` (> 0), before any rest that is not split off.
[[nodiscard]] std::int64_t rounded_request(std::int64_t bytes, const AllocatorSettings& settings);
/// Bytes of the segment that a block of `rounded` bytes makes necessary.
[[nodiscard]] std::int64_t segment_size(std::int64_t rounded, const AllocatorSettings& settings);

/// A piece of a segment, as the allocator sees it.
struct AllocatorBlock {
    std::uint64_t address = 0;
    std::int64_t size = 0;
    std::int64_t requested = 0;  ///< 0: free
    std::uint32_t handle = 0;    ///< what `allocate` returned; free blocks have none
};

/// What one cudaMalloc returned, or a stretch of mapped pages of an expandable segment.
struct AllocatorSegment {
    std::uint64_t address = 0;
    std::int64_t size = 0;
    std::uint64_t stream = 0;
    bool large = false;
    bool expandable = false;
    std::vector<AllocatorBlock> blocks;  ///< in order of address, without gaps
};

/// Bytes in the allocator's books.
struct AllocatorTotals {
    std::int64_t allocated = 0;  ///< blocks handed out, with their rounding
    std::int64_t active = 0;     ///< those, and blocks that wait for other streams
    std::int64_t requested = 0;  ///< what was asked for
    std::int64_t reserved = 0;   ///< segments
};

/// Free memory of the segments.
struct FreeMemory {
    std::int64_t releasable = 0;  ///< whole free segments, or whole free pages of expandable ones
    std::int64_t stuck = 0;       ///< free blocks that share a segment, or a page, with others
};

/// Segments come and go: the moments that a real trace shows as segment_alloc, segment_free,
/// segment_map and segment_unmap.
struct SegmentChange {
    bool comes = true;
    bool expandable = false;
    bool large = false;
    std::uint64_t stream = 0;
    std::uint64_t address = 0;
    std::int64_t size = 0;
};

/// Who wants to know, or to decide, about segments.
struct AllocatorHooks {
    /// The address of a new segment of `size` bytes (the whole range of an expandable one); absent:
    /// growing addresses, far apart.
    std::function<std::uint64_t(std::int64_t size, std::uint64_t stream, bool large)> place;
    std::function<void(const SegmentChange&)> changed;
};

/// The allocator of one device. Private pools (CUDA graphs) are not simulated.
class CachingAllocator {
public:
    /// A block that was handed out, until it is free.
    using Handle = std::uint32_t;

    explicit CachingAllocator(const AllocatorSettings& settings = {}, AllocatorHooks hooks = {});
    ~CachingAllocator();
    CachingAllocator(CachingAllocator&&) noexcept;
    CachingAllocator& operator=(CachingAllocator&&) noexcept;

    /// Memory for `bytes` (> 0) on `stream`; absent: out of memory, also after cached blocks were
    /// released.
    std::optional<Handle> allocate(std::int64_t bytes, std::uint64_t stream = 0);
    /// The owner lets it go, and no other stream uses it.
    void free(Handle block);
    /// The owner lets it go; another stream may still use it, until `complete`, or until a request
    /// that finds no memory waits for all streams.
    void free_later(Handle block);
    void complete(Handle block);
    /// torch.cuda.empty_cache(): gives back what is whole and free.
    void empty_cache();

    [[nodiscard]] std::uint64_t address_of(Handle block) const;
    [[nodiscard]] std::int64_t size_of(Handle block) const;
    [[nodiscard]] const AllocatorTotals& totals() const;
    [[nodiscard]] std::int64_t peak_reserved() const;
    [[nodiscard]] std::int64_t peak_allocated() const;
    /// The highest level counts from now on.
    void reset_peaks();
    [[nodiscard]] std::int64_t retries() const;   ///< requests that released all cached blocks
    [[nodiscard]] FreeMemory free_memory() const;
    /// A number that is equal for equal states: which blocks lie where, and which of them are free.
    [[nodiscard]] std::uint64_t layout() const;
    /// All memory by address; what is unmapped is left out.
    [[nodiscard]] std::vector<AllocatorSegment> segments() const;
    /// Puts an allocator that holds nothing into this state and fills in the handles.
    void restore(std::vector<AllocatorSegment>& segments);
    /// Gives back the free segment at `address`, or the pages there, as a trace shows it; false:
    /// there is none that is wholly free.
    bool release(std::uint64_t address, std::int64_t size);

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// A request of a step that found no memory, after everything cached was given back.
struct FailedRequest {
    std::int64_t bytes = 0;
    std::int64_t live = 0;       ///< bytes of live tensors then, as the ledger counts them
    std::int64_t held = 0;       ///< reserved then
    std::int64_t needed = 0;     ///< what would have had to be
    Phase phase = Phase::forward;
};

/// Steps of a simulated job, run through an allocator on one stream, as a training loop runs them.
class StepReplay {
public:
    /// An event's tensor, with its block: one call per tensor.
    using Visitor = std::function<void(CachingAllocator::Handle, const Event&, const StepNode& leaf)>;

    explicit StepReplay(const AllocatorSettings& settings, AllocatorHooks hooks = {});
    ~StepReplay();
    /// Called after each request was served, and before each block is freed.
    void on_allocate(Visitor visit);
    void on_free(Visitor visit);

    /// A whole step, from what lives before it begins.
    void run(const Step& step);
    /// The same step once more: what lives before it begins is there already.
    void run_again(const Step& step);
    /// Forgets everything but settings, hooks and visitors.
    void clear();

    [[nodiscard]] const CachingAllocator& allocator() const;
    /// Bytes of live tensors, as the ledger counts them.
    [[nodiscard]] std::int64_t level() const;
    [[nodiscard]] int steps() const;
    /// False: a free found no tensor.
    [[nodiscard]] bool matched() const;
    /// The request at which the job ended; nothing runs after it.
    [[nodiscard]] const std::optional<FailedRequest>& failed() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// Runs `first`, a step that makes the optimizer's states where its activations were, and then `step`
/// until it leaves the memory as it found it, or fails. Where `first` does not lead to the start of `step`,
/// that is the start.
void settle(StepReplay& replay, const Step& first, const Step& step);

}  // namespace membudget
