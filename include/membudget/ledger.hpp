#pragma once

/// Part `ledger`: the books. Terms at the peak, totals with bounds, the verdict, differences.
/// The books close: leaves of `allocated` sum exactly to `allocated.point`. Knows no formats.

#include <cstdint>
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

/// Simulates the job for the point and the bounds and makes the books. `budget` (an absent one: the
/// job's device, if any) decides the verdict.
[[nodiscard]] Ledger make_ledger(const Job& job, const std::optional<Budget>& budget);

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

/// One tensor (or n equal copies) that is live at an instant, for `explain`.
struct LiveTensor {
    std::string term;
    std::string op;
    std::string what;
    Bytes bytes;   ///< all copies together
};
/// What is live at the peak, largest first.
[[nodiscard]] std::vector<LiveTensor> live_at_peak(const Job& job);

}  // namespace membudget
