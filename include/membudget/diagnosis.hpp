#pragma once

/// Part `diagnosis`: what a measured run means. Out-of-memory messages become facts, traces become
/// a summary, and both become findings: each with its evidence, what it does not prove, and the next
/// measurement. An estimate and a trace are compared on the same metric. It accuses nobody.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "membudget/ledger.hpp"
#include "membudget/quantity.hpp"
#include "membudget/support.hpp"
#include "membudget/trace.hpp"

namespace membudget {

// --- out-of-memory messages ----------------------------------------------------------------------

/// A size as a message prints it: rounded, so the true one lies within half a `step` of `bytes`.
struct PrintedSize {
    Bytes bytes;
    Bytes step;  ///< one unit of the last printed digit; 0: exact
    friend bool operator==(const PrintedSize&, const PrintedSize&) = default;
};

/// What a process is said to use.
struct ProcessUse {
    std::int64_t pid = 0;
    PrintedSize used;
    friend bool operator==(const ProcessUse&, const ProcessUse&) = default;
};

/// Where the program was, as far as a traceback or a word tells.
enum class OomMoment {
    unknown, forward, loss, backward, optimizer_step, optimizer_states, optimizer_temporaries,
    evaluation, loading, serving
};
[[nodiscard]] std::string_view name_of(OomMoment moment);

/// A buffer that XLA lists among the largest.
struct XlaBuffer {
    std::string shape;                    ///< "f32[32,4096,4096]"
    std::vector<std::int64_t> extents;
    PrintedSize size;
};

/// The facts of one out-of-memory message. What it does not say, or says to be unknown, is absent.
/// "MB" and "GB" in these messages are powers of 1024.
struct OomMessage {
    std::string_view wording;             ///< name of the row of `oom_wordings`
    std::string backend;                  ///< "CUDA", "HIP", "NPU", "XPU", "MPS", "XLA"
    std::optional<std::int64_t> device;
    std::optional<PrintedSize> requested; ///< for PyTorch: the new segment, not the tensor
    std::optional<PrintedSize> capacity, free, allocated, active;
    std::optional<PrintedSize> reserved;      ///< what the caching allocator holds
    std::optional<PrintedSize> unallocated;   ///< of it, in no tensor
    std::optional<PrintedSize> cached;        ///< PyTorch 1.0-1.3: as `unallocated`
    std::optional<PrintedSize> private_pools; ///< of `allocated`, in pools of graphs
    std::optional<PrintedSize> allowed;       ///< a limit below the capacity
    std::optional<PrintedSize> this_process;  ///< with what is not PyTorch's
    std::vector<ProcessUse> processes;        ///< others, and in containers maybe this one
    std::optional<PrintedSize> other_allocations;  ///< MPS: of the system, counted to the limit
    std::optional<PrintedSize> largest_free;  ///< XLA's BFC allocator: largest free block
    std::optional<PrintedSize> peak_allocated;
    std::optional<std::int64_t> retries, ooms;
    std::vector<XlaBuffer> buffers;           ///< largest first
    OomMoment moment = OomMoment::unknown;
    std::vector<std::string> notes;           ///< values that mean "unknown", and the like
};

/// A wording that is understood.
struct OomWording {
    std::string_view name;     ///< "pytorch-2"
    std::string_view doc;
    std::string_view anchor;   ///< a text of this wording that no other has
    void (*parse)(std::string_view text, OomMessage& into) = nullptr;
};
[[nodiscard]] Table<OomWording> oom_wordings();

/// Every distinct out-of-memory message of a text, in its order: log prefixes are stripped and
/// wrapped lines joined. Empty when there is none.
[[nodiscard]] std::vector<OomMessage> parse_oom(std::string_view text);

/// Reserved bytes: as stated, or allocated + unallocated, or allocated + cached.
[[nodiscard]] std::optional<Bytes> reserved_of(const OomMessage& message);
/// Device memory that is neither free nor this allocator's: capacity - free - reserved.
[[nodiscard]] std::optional<Bytes> outside_of(const OomMessage& message);

// --- candidates: what tensor a request may be ----------------------------------------------------

/// A named length of a job: tokens, vocabulary, hidden, heads, sequence, ...
struct Dimension {
    std::string name;
    std::int64_t extent = 0;
};

/// A tensor that a job is known to allocate.
struct NamedTensor {
    std::string name;      ///< "model.layers.0.mlp.gate_proj (activations/mlp)"
    Bytes bytes;
};

/// What a job's tensors may be made of, as far as it is known; a spec gives all of it.
struct Dimensions {
    std::vector<Dimension> named;
    std::vector<NamedTensor> tensors;
    [[nodiscard]] bool empty() const { return named.empty() && tensors.empty(); }
};
/// The lengths of `job`, and every size of tensor that its simulated step allocates.
[[nodiscard]] Dimensions dimensions_of(const Job& job);

/// A tensor whose size is the one that was asked for.
struct Candidate {
    std::string text;      ///< "tokens (30,688) x vocabulary (151,936) x 4 B"
    Bytes bytes;
};
/// Tensors whose size, or whose segment's, prints as `requested`; the likelier first, at most six.
/// PyTorch prints the size of the new segment: below 10 MiB that says little, and there are none.
[[nodiscard]] std::vector<Candidate> candidates_for(const PrintedSize& requested,
                                                    const Dimensions& dimensions);

// --- a trace, summarised -------------------------------------------------------------------------

/// Highest values of a stretch of the trace.
struct CurvePoint {
    std::int64_t at = 0;       ///< event, microsecond, step or sample: see `LevelCurve::axis`
    std::optional<Bytes> live, reserved, device;
};
struct LevelCurve {
    std::string_view axis;     ///< "event", "step", "sample"
    std::vector<CurvePoint> points;
};

/// Bytes that were live at the peak under one name.
struct LiveShare {
    std::string name;
    Bytes bytes;
    std::int64_t blocks = 0;
};

/// Bytes live at an instant that belong to one term of a ledger.
struct SortedTerm {
    std::string path;            ///< "gradients": first component of a ledger's paths
    Bytes bytes;
    Bytes certain;               ///< of it, told by the file's categories or by frames; the rest is inferred
    std::int64_t blocks = 0;
    std::vector<LiveShare> by;   ///< the same bytes by the rule that sorted them, largest first
};

/// Blocks of one size that no rule sorts.
struct UnsortedBlocks {
    std::string_view why;        ///< "from before the trace, never freed"
    std::string_view may_be;     ///< the term they are of if a spec has tensors of this size; may be empty
    Bytes size;                  ///< of one
    std::int64_t blocks = 0;
};

/// Which instant of a trace, or of a phase of it.
enum class InstantOf : std::uint8_t {
    peak,     ///< the highest of the trace
    highest,  ///< the highest of a phase
    end,      ///< the end of a phase: of its last run that is whole
};
[[nodiscard]] std::string_view name_of(InstantOf instant);

/// What is live at an instant, sorted into the terms of a ledger. The books close: `terms` and
/// `unsorted` sum to `live`.
struct SortedInstant {
    InstantOf of = InstantOf::peak;
    std::string phase;           ///< "backward"; at the peak the one it is in, if that is known
    Bytes live;
    std::vector<SortedTerm> terms;          ///< largest first
    std::vector<UnsortedBlocks> unsorted;   ///< largest first
};
[[nodiscard]] Bytes unsorted_bytes(const SortedInstant& instant);

/// A stretch that the file names, with the highest live memory within.
struct MarkedPeak {
    std::string name;
    std::int64_t count = 0;
    Bytes peak;
    Bytes end;                 ///< live at the end of its last occurrence
};

/// One step, at an instant that comes once in each: its end, or where a log reports.
struct StepLevel {
    std::int64_t step = 0;
    std::optional<Bytes> live, peak, reserved, device;
};

/// Blocks allocated at one stack that outlive the step they were allocated in.
struct Survivor {
    std::string stack;
    Bytes bytes;
    std::int64_t blocks = 0;
    std::int64_t steps = 0;    ///< in how many steps such a block was left behind
};

/// Everything the report shows of one device, rank or series.
struct TraceSubject {
    std::string name;                    ///< "device 0", "rank 3"
    int device = 0;
    bool is_series = false;
    std::int64_t events = 0;             ///< events or samples
    std::optional<Bytes> start_live, end_live, start_reserved, end_reserved;
    std::optional<Bytes> live_peak, reserved_peak, device_peak, device_total;
    std::string steps_by;                ///< what tells the steps apart; may be empty
    std::int64_t live_peak_at = 0;       ///< on the axis of the curve
    std::optional<Bytes> reserved_at_peak;
    std::vector<LiveShare> categories, stacks;  ///< at the peak, largest first
    /// The peak first, then each phase; empty where neither categories nor stacks tell anything.
    std::vector<SortedInstant> sorted;
    std::string peak_phase;              ///< "backward", from the stacks or markers; may be empty
    std::optional<TraceFreeMemory> free_at_peak, free_at_end;
    std::optional<TraceOom> oom;
    std::vector<MarkedPeak> phases;
    std::vector<StepLevel> steps;
    std::vector<Survivor> survivors;
    bool complete = true;                ///< false: the events contradict each other
    LevelCurve curve;
};

struct TraceSummary {
    std::string file;
    std::string_view kind;               ///< name of the reader
    std::vector<TraceSubject> subjects;
    std::vector<OomMessage> messages;
    std::vector<std::string> notes;
};

/// Replays the trace. `columns` is the most points that a curve gets. Sums beyond 64 bits, which only
/// a made-up file has, are an error.
[[nodiscard]] Result<TraceSummary> summarise(const Trace& trace, std::size_t columns = 120);

// --- findings ------------------------------------------------------------------------------------

/// A kind of finding; its name is stable.
struct FindingKind {
    std::string_view name;            ///< "oom.fragmentation"
    std::string_view title;
    std::string_view does_not_prove;
    std::string_view next;            ///< the next measurement
    std::string_view source;          ///< on what the rule rests
};
[[nodiscard]] Table<FindingKind> finding_kinds();

struct Finding {
    const FindingKind* kind = nullptr;
    std::string subject;              ///< "device 0"; empty: the whole
    std::vector<std::string> evidence;
};

/// The findings of one message, the one that explains it first. Never empty.
[[nodiscard]] std::vector<Finding> diagnose(const OomMessage& message,
                                            const Dimensions& dimensions = {});
/// The findings of a whole trace, those of its messages first.
[[nodiscard]] std::vector<Finding> diagnose(const TraceSummary& summary,
                                            const Dimensions& dimensions = {});

// --- estimate and measurement --------------------------------------------------------------------

/// What a simulated step holds at the highest instant of a phase, or at its end: requested bytes by
/// first path component of the terms.
struct ExpectedInstant {
    InstantOf of = InstantOf::highest;
    std::string_view phase;
    std::vector<std::pair<std::string, Bytes>> groups;  ///< by name
};

/// What a trace of a job should show.
struct ExpectedTerms {
    std::vector<ExpectedInstant> instants;
    /// How many tensors of which size live throughout the step, by first path component.
    std::vector<std::pair<std::string, std::vector<std::pair<Bytes, std::int64_t>>>> lasting;
};
[[nodiscard]] ExpectedTerms expected_terms(const Job& job);

/// One number of the estimate beside the measured one.
struct ReconciledLine {
    std::string path;                 ///< a total, "phases/backward", or a term's path
    std::string metric;               ///< "allocated", "reserved", "device"
    Bytes lower, estimate;
    std::optional<Bytes> upper;
    std::optional<Bytes> measured;
    std::string measured_as;          ///< what was measured, for people
    /// Of a term's measured bytes, those that categories or frames tell; the rest is inferred.
    std::optional<Bytes> certain = {};
    [[nodiscard]] std::optional<Bytes> residual() const {
        return measured ? std::optional(*measured - estimate) : std::nullopt;
    }
    /// Measured, and within the bounds or within 1 %.
    [[nodiscard]] bool confirmed() const;
};

struct Reconciliation {
    std::string name, file, subject;
    std::vector<ReconciledLine> totals, phases, terms;
    /// Terms at the highest instant and at the end of each phase: "phases/backward/highest/gradients".
    std::vector<ReconciledLine> phase_terms;
    std::vector<Finding> findings;        ///< unit mismatches and differences of metric
    std::vector<std::string> notes;
};

/// `subject` names one of the trace's; empty: the one with the highest peak. `expected` adds terms by
/// phase, and sorts by their size what the trace alone cannot.
[[nodiscard]] Result<Reconciliation> reconcile(const Ledger& ledger, std::string name,
                                               const TraceSummary& summary,
                                               std::string_view subject = {},
                                               const ExpectedTerms& expected = {});

/// What a reconciliation found, kept as a file: evidence beside later estimates, never a correction.
struct ReceiptLine {
    std::string path, metric;
    Bytes estimate, measured;
    bool confirmed = false;
};
struct Receipt {
    std::string name, trace;
    std::vector<ReceiptLine> lines;
};
[[nodiscard]] Receipt receipt_of(const Reconciliation& reconciliation);
/// JSON text of a receipt, and back. Another version than 1 is unsupported.
[[nodiscard]] std::string write_receipt(const Receipt& receipt);
[[nodiscard]] Result<Receipt> read_receipt(std::string_view text, std::string_view file);

}  // namespace membudget
