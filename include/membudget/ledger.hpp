#pragma once

/// Part `ledger`: the books. Terms at the peak, totals with bounds, the verdict, differences.
/// The books close: leaves of `allocated` sum exactly to `allocated.point`. Knows no formats.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/job.hpp"
#include "membudget/quantity.hpp"
#include "membudget/step.hpp"

namespace membudget {

/// One leaf of the ledger.
struct Term {
    std::string path;
    Total total = Total::allocated;
    Bytes at_peak;               ///< live at the instant of the peak
    Bytes max;                   ///< its own highest at any instant
    Bytes lower;                 ///< at the peak of the lower run
    std::optional<Bytes> upper;  ///< absent: open
    Basis basis = Basis::derived;
    std::string lifetime;        ///< "whole step", "forward to backward", ...
    std::string formula;
    std::string source;
};

/// A total with its bounds; `upper` is absent while a term is neither stated nor derivable.
struct TotalRange {
    Bytes lower, point;
    std::optional<Bytes> upper;
};

enum class Verdict { fits, uncertain, over, none };
[[nodiscard]] std::string_view name_of(Verdict verdict);

/// The instant of the peak.
struct PeakPlace {
    Phase phase = Phase::forward;
    std::string op;              ///< "layers.31.mlp.down_proj"; empty when terms are stated
    std::string pass;            ///< "forward", "recompute", "backward", "step"
    std::int64_t micro_batch = 0;
};

struct PhasePeak {
    Phase phase;
    Bytes peak;
};

/// The capacity against which a job is judged.
struct Budget {
    std::string name;            ///< device name, or "budget"
    Bytes capacity;
    Bytes reserve;
    /// Where the usable memory is not known exactly; absent: it is.
    std::optional<Bytes> capacity_lower = {}, capacity_upper = {};
};

/// The books of one job.
struct Ledger {
    std::vector<Term> terms;     ///< leaves, largest at the peak first, then by path
    TotalRange allocated;
    std::optional<TotalRange> reserved, device, host;
    Bytes additive_total;
    PeakPlace peak;
    std::vector<PhasePeak> phases;
    std::string dominant;        ///< largest first path component at the peak
    Bytes dominant_bytes;
    std::optional<Budget> budget;
    std::optional<Bytes> headroom;  ///< capacity - reserve - point of the outermost known total
    Verdict verdict = Verdict::none;
    std::vector<Assumption> assumptions;
    std::vector<Warning> warnings;
    std::vector<std::string> measure_next;
};

/// How far out the books go.
enum class Outermost {
    allocated,  ///< tensors alone: spares the replay of the caching allocator
    device,     ///< also what the allocator holds, and what lies outside it
};

/// Whether terms say how they come about.
enum class Formulas {
    none,  ///< formula and source of the terms that ops make stay empty: spares a simulation
    all,
};

/// How much the books hold.
struct BookOptions {
    Outermost outermost = Outermost::device;
    Formulas formulas = Formulas::all;
};

/// Simulates the job for the point and the bounds and makes the books. `budget` (an absent one: the
/// job's device, if any) decides the verdict.
[[nodiscard]] Ledger make_ledger(const Job& job, const std::optional<Budget>& budget, BookOptions options = {});
/// The same for the step `point` of the job, as `simulate_step` returns it.
[[nodiscard]] Ledger make_ledger(const Job& job, const Step& point, const std::optional<Budget>& budget,
                                 BookOptions options);

/// Sum over the leaves at or below `path` at the peak.
[[nodiscard]] Bytes at_peak(const Ledger& ledger, std::string_view path);
/// First path components of `allocated` with their sums at the peak, largest first, then by name.
[[nodiscard]] std::vector<std::pair<std::string, Bytes>> groups_at_peak(const Ledger& ledger);

struct TermDelta {
    std::string path;
    std::optional<Bytes> from, to;  ///< absent: the term does not exist on that side
};
/// Terms of `a` and `b` side by side, by path. diff(a, b) mirrors diff(b, a).
[[nodiscard]] std::vector<TermDelta> diff(const Ledger& a, const Ledger& b);

// --- the step in time ----------------------------------------------------------------------------

/// A step whose events are read one by one: for curves, lists of events, and what is live when.
struct Timeline {
    std::shared_ptr<const Model> model;  ///< null when the spec states numbers only
    Step step;
};
[[nodiscard]] Timeline make_timeline(const Job& job);

/// Micro-batches between the first and the last are alike.
enum class MicroBatches {
    all,
    distinct,  ///< one of those that are alike, unless what is live grows from one to the next
};

inline constexpr std::int64_t kNoMicroBatch = -1;

/// A stretch of events that one pass of one block makes.
struct Stretch {
    const StepNode* leaf = nullptr;
    std::int64_t layer = 0;         ///< index of the block's copy
    std::int64_t micro_batch = kNoMicroBatch;  ///< before and after all of them: none
    std::int64_t alike = 1;         ///< for how many micro-batches it stands
};
using StretchVisitor = std::function<void(const Stretch&)>;
/// Calls `visit` for every stretch of the step in order; the events are those of its leaf.
void for_each_stretch(const Timeline& timeline, MicroBatches which, const StretchVisitor& visit);
/// How many events that is.
[[nodiscard]] std::int64_t count_events(const Timeline& timeline, MicroBatches which);

/// Bytes by which an event changes what is live: rounding and all copies included.
[[nodiscard]] inline std::int64_t change_of(const Event& event) {
    return detail::checked_mul(detail::checked_add(event.bytes, event.rounding), event.count);
}
/// "layers.31.mlp.down_proj": op `op` of the leaf's block in layer `layer`; empty where no op of a
/// block is at work.
[[nodiscard]] std::string op_name(const Model* model, const StepNode& leaf, std::int64_t layer,
                                  std::uint16_t op);

/// An instant of a step: right after an event.
struct Instant {
    std::int64_t event = -1;        ///< among the distinct events
    Stretch stretch;
    std::string op;                 ///< under way; may be empty
    Bytes live;
};
/// The highest instant that `when` names: "peak", a phase ("backward"), or an op as reports name it
/// ("layers.31.mlp.down_proj"), where a phase may stand before it ("forward:layers.0.mlp.up_proj").
/// The earliest of equals; absent when nothing has this name.
[[nodiscard]] std::optional<Instant> find_instant(const Timeline& timeline, std::string_view when);

/// Equal tensors that are live at an instant, and why.
struct LiveTensor {
    std::string term;
    std::string op;        ///< "decoder layer mlp.down_proj": the block and the op that made it
    std::string what;      ///< its role: "output", "mask", ...
    Bytes bytes;           ///< all copies together, as they were asked for
    Bytes rounding;        ///< what the allocator adds to them
    std::int64_t copies = 1;
    std::string made_in;   ///< pass that made it: "start", "forward", "recompute", ...
    std::string freed_by;  ///< pass and op that let it go; empty: it stays
};
/// What is live then, largest first.
[[nodiscard]] std::vector<LiveTensor> live_at(const Timeline& timeline, const Instant& instant);

}  // namespace membudget
