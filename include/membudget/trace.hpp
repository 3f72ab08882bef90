#pragma once

/// Part `trace`: memory of real runs. Readers turn files into a neutral `Trace`, whatever tool wrote
/// them; replaying its events tells what was live and what was reserved at any instant.
///
///     file -> ByteSource -> reader (recognised by content) -> Trace -> replay, findings
///
/// Nothing in a file is ever executed, and memory stays bounded whatever it holds.

#include <cstdint>
#include <functional>
#include <istream>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/allocator.hpp"
#include "membudget/quantity.hpp"
#include "membudget/support.hpp"

namespace membudget {

struct Job;

// --- stacks --------------------------------------------------------------------------------------

/// Index into `TraceStacks`; stack 0 has no frames.
using StackId = std::uint32_t;
/// Index of an interned text; text 0 is empty.
using TextId = std::uint32_t;

/// One line of a stack: a Python function, or a C++ one ("??", line 0).
struct TraceFrame {
    TextId file = 0;
    TextId function = 0;
    std::int64_t line = 0;
    friend bool operator==(const TraceFrame&, const TraceFrame&) = default;
};

/// Every distinct text, frame and stack of a trace, once.
class TraceStacks {
public:
    TraceStacks();
    ~TraceStacks();
    TraceStacks(TraceStacks&&) noexcept;
    TraceStacks& operator=(TraceStacks&&) noexcept;

    TextId text(std::string_view text);
    std::uint32_t frame(const TraceFrame& frame);
    /// Frames innermost first, by their index.
    StackId stack(std::span<const std::uint32_t> frames);

    [[nodiscard]] std::string_view text_of(TextId id) const;
    [[nodiscard]] const TraceFrame& frame_at(std::uint32_t index) const;
    [[nodiscard]] std::span<const std::uint32_t> frames_of(StackId id) const;
    [[nodiscard]] std::size_t size() const;        ///< distinct stacks
    [[nodiscard]] std::size_t text_bytes() const;  ///< held by distinct texts

private:
    struct Tables;
    std::unique_ptr<Tables> tables_;
};

// --- events --------------------------------------------------------------------------------------

/// What happened. Names are those of a PyTorch memory snapshot.
enum class TraceAction : std::uint8_t {
    alloc,           ///< a block of `size` requested bytes is handed out
    free_requested,  ///< its owner let it go; other streams may still use it
    free_completed,  ///< it is free
    segment_alloc,   ///< cudaMalloc
    segment_free,    ///< cudaFree
    segment_map,     ///< pages of an expandable segment come
    segment_unmap,   ///< and go
    snapshot,        ///< a snapshot was taken; `size` is what was active
    oom,             ///< a request failed: `size` is what it asked, `address` what the device had free
};
[[nodiscard]] std::string_view name_of(TraceAction action);

/// Whose memory a block is, where the file says so. The order is that of torch.profiler.
enum class TraceCategory : std::uint8_t {
    parameter, optimizer_state, input, temporary, activation, gradient, autograd_detail, unknown
};
[[nodiscard]] std::string_view name_of(TraceCategory category);

struct TraceEvent {
    TraceAction action = TraceAction::alloc;
    TraceCategory category = TraceCategory::unknown;
    StackId stack = 0;
    std::int64_t size = 0;      ///< bytes
    std::uint64_t address = 0;  ///< where there is none, any number that pairs alloc with free
    std::uint64_t stream = 0;
    std::int64_t time_us = -1;  ///< -1: not recorded
    friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

/// Events in their order, 16 bytes each: (address, size, stream) recur and are kept once.
class TraceEvents {
public:
    TraceEvents();
    ~TraceEvents();
    TraceEvents(TraceEvents&&) noexcept;
    TraceEvents& operator=(TraceEvents&&) noexcept;

    void push_back(const TraceEvent& event);
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] TraceEvent operator[](std::size_t index) const;

private:
    struct Tables;
    std::unique_ptr<Tables> tables_;
    std::size_t size_ = 0;
};

// --- memory at an instant ------------------------------------------------------------------------

enum class BlockState : std::uint8_t { active, pending_free, inactive };

/// A piece of a segment.
struct TraceBlock {
    std::uint64_t address = 0;
    std::int64_t size = 0;       ///< bytes it occupies
    std::int64_t requested = 0;  ///< bytes asked for; 0 when inactive
    BlockState state = BlockState::inactive;
    StackId stack = 0;
};

/// What one cudaMalloc returned, or the mapped pages of an expandable segment.
struct TraceSegment {
    std::uint64_t address = 0;
    std::int64_t size = 0;
    std::uint64_t stream = 0;
    bool large = false;
    bool expandable = false;
    std::int64_t pool_owner = 0, pool_id = 0;  ///< (0, 0): the default pool; else a graph's
    StackId stack = 0;
    std::vector<TraceBlock> blocks;            ///< in order of address, without gaps
};

/// A named instant or stretch: optimizer.step, a profiler step, ...
struct TraceMarker {
    std::string name;
    int device = -1;               ///< -1: no device
    std::int64_t begin_us = 0;
    std::int64_t end_us = 0;       ///< = begin_us: an instant
};

/// Events and memory of one device.
struct TraceDevice {
    int device = 0;                ///< -1: the host
    TraceEvents events;
    std::vector<TraceSegment> segments;  ///< at the end
    bool has_segments = false;     ///< false: the file has events only
    /// Where the file has events only: bytes that lived, and were reserved, before the first.
    std::int64_t live_before = 0, reserved_before = 0;
};

// --- series --------------------------------------------------------------------------------------

/// One line of a log: what was reported at a step or an instant. Absent: not reported.
struct TraceSample {
    std::optional<std::int64_t> step;
    std::optional<std::int64_t> time_us;
    std::optional<std::int64_t> allocated, reserved;          ///< bytes now
    std::optional<std::int64_t> max_allocated, max_reserved;  ///< bytes, highest so far
    std::optional<std::int64_t> device_used, device_total;    ///< bytes, all processes
    std::string phase;             ///< where in the step, as the log names it; may be empty
};

/// Samples of one device or rank, in the order of the file.
struct TraceSeries {
    std::string name;              ///< "rank 3", "GPU 0"
    int device = 0;
    std::vector<TraceSample> samples;
};

// --- a trace -------------------------------------------------------------------------------------

/// Everything that a file tells, in neutral form. What it does not tell is empty.
struct Trace {
    std::string file;
    std::string_view reader;       ///< name of the row that read it
    TraceStacks stacks;
    std::vector<TraceDevice> devices;    ///< those with events or segments, by number
    std::vector<TraceSeries> series;
    std::vector<TraceMarker> markers;
    std::optional<AllocatorSettings> settings;  ///< as the file states them
    std::optional<std::string> message;  ///< an out-of-memory message, verbatim
    std::vector<std::string> notes;      ///< what a reader should know: "MB are MiB in this log"
};

// --- reading -------------------------------------------------------------------------------------

/// The bytes of a file, once, front to back; gzip is undone on the way.
class ByteSource {
public:
    virtual ~ByteSource() = default;
    /// The next bytes, none at the end; valid until the next call. What failed is in `error`.
    [[nodiscard]] virtual std::string_view next() = 0;
    [[nodiscard]] virtual const std::string& error() const = 0;
};

/// How far reading has come, of how much; `total` 0: unknown.
using TraceProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// What a reader gets: the name for messages, the first bytes for a look, the rest on demand.
class TraceInput {
public:
    TraceInput(std::string name, std::unique_ptr<ByteSource> source);

    [[nodiscard]] const std::string& name() const { return name_; }
    /// Up to 64 KiB from the start; reading begins with them again.
    [[nodiscard]] std::string_view head() const;
    /// The next bytes, none at the end.
    [[nodiscard]] std::string_view next();
    /// What could not be read (a broken gzip stream, the disk); empty: nothing.
    [[nodiscard]] const std::string& error() const { return source_->error(); }
    /// All that is left, for formats that are small; an error when it is more than `limit` bytes.
    [[nodiscard]] Result<std::string> read_all(std::size_t limit = std::size_t{1} << 30);

private:
    std::string name_;
    std::unique_ptr<ByteSource> source_;
    std::string head_;
    bool head_given_ = false;
};

/// Opens bytes; a gzip stream (also of several members) is undone. `progress` counts bytes of `in`.
[[nodiscard]] std::unique_ptr<ByteSource> source_of(std::istream& in, TraceProgress progress = {},
                                                    std::uint64_t total = 0);
[[nodiscard]] std::unique_ptr<ByteSource> source_of(std::string_view bytes);

/// One kind of file.
struct TraceReader {
    std::string_view name;   ///< "snapshot"
    std::string_view doc;
    /// True when `head` (its first bytes, up to 64 KiB) begins such a file.
    bool (*recognise)(std::string_view head) = nullptr;
    Result<Trace> (*read)(TraceInput& input) = nullptr;
};
[[nodiscard]] Table<TraceReader> trace_readers();

/// Reads with the first reader that recognises the content; none: an error that lists the kinds.
[[nodiscard]] Result<Trace> read_trace(TraceInput& input);
/// The same for a file; "-" is standard input.
[[nodiscard]] Result<Trace> read_trace_file(const std::string& path, TraceProgress progress = {});

// --- writing -------------------------------------------------------------------------------------

/// The steps of a simulated job as a trace: the first one and those that follow until memory repeats,
/// from an empty allocator on; times count events. A job of stated terms, or whose step is not simulated,
/// gives what is live at its peak, a segment per term; one for another device than a GPU, no events.
[[nodiscard]] Trace trace_of_job(const Job& job);

/// `trace` as a PyTorch memory snapshot, a pickle of protocol 4, for `torch.cuda._memory_viz` and the
/// memory viewer.
[[nodiscard]] std::string write_snapshot(const Trace& trace);

// --- replay --------------------------------------------------------------------------------------

/// Totals of one device at an instant: before event `event`, or at the end.
struct TraceLevel {
    std::size_t event = 0;
    std::int64_t live = 0;      ///< requested bytes of blocks handed out, or waiting for streams
    std::int64_t reserved = 0;  ///< bytes of segments
};

/// A request that failed.
struct TraceOom {
    std::size_t event = 0;
    std::int64_t size = 0;         ///< asked for, rounded
    std::int64_t device_free = 0;
    std::int64_t live = 0, reserved = 0;
};

/// What the events of one device come to. A full ring buffer has lost its beginning, so the state
/// before the first event is the state at the end, replayed backwards.
struct TraceReplay {
    TraceLevel start, end;
    TraceLevel peak;               ///< highest live; `event` is the one that reached it
    std::int64_t reserved_peak = 0;
    std::optional<TraceOom> oom;   ///< the first
    bool complete = true;          ///< false: events contradict each other; figures are approximate
};
[[nodiscard]] TraceReplay replay(const TraceDevice& device);

/// One block that is live at an instant.
struct LiveBlock {
    std::uint64_t address = 0;
    std::int64_t requested = 0;
    StackId stack = 0;
    TraceCategory category = TraceCategory::unknown;
    std::size_t event = std::numeric_limits<std::size_t>::max();  ///< its alloc; max: before the first
};
/// Live blocks after event `event`, by address; `events.size()` or more: at the end.
[[nodiscard]] std::vector<LiveBlock> live_after(const TraceDevice& device, std::size_t event);

/// Segments with their blocks after event `event`, or before the first one; what a block occupied
/// follows from the allocator's rules under `settings`. Needs segments in the file.
[[nodiscard]] std::vector<TraceSegment> segments_after(const TraceDevice& device, std::size_t event,
                                                       const AllocatorSettings& settings = {});
[[nodiscard]] std::vector<TraceSegment> segments_at_start(const TraceDevice& device,
                                                          const AllocatorSettings& settings = {});

/// Free memory of segments, by what can become of it.
struct TraceFreeMemory : FreeMemory {
    /// Free in the pools of CUDA graphs and of `torch.cuda.MemPool`: neither given back nor used by
    /// others while the pool lives [CUDACachingAllocator.cpp release_cached_blocks].
    std::int64_t private_pools = 0;
    /// Of `stuck`, what lies in segments of other streams than the one that holds most: a free block
    /// only serves requests of its segment's stream.
    std::int64_t other_streams = 0;
};
[[nodiscard]] TraceFreeMemory free_memory(std::span<const TraceSegment> segments,
                                          const AllocatorSettings& settings = {});

}  // namespace membudget
