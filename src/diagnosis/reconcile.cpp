#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "diagnosis/finding.hpp"
#include "diagnosis/sorted_terms.hpp"

namespace membudget {
namespace {

using namespace diagnosis;

constexpr double kAgrees = 0.01;    ///< relative difference of what counts as the same
constexpr double kDiffers = 0.03;   ///< and of what does not

double off_by(Bytes measured, Bytes estimate) {
    return estimate == Bytes(0) ? 1 : std::abs(ratio(measured - estimate, estimate));
}

/// The path under which bytes stand that nothing sorts.
constexpr std::string_view kUnsorted = "unsorted";

class Comparison {
public:
    Comparison(const Ledger& ledger, const ExpectedTerms& expected, const TraceSummary& summary,
               const TraceSubject& subject, Reconciliation& into)
        : ledger_(ledger), expected_(expected), summary_(summary), subject_(subject), out_(into) {}

    void run() {
        totals();
        phases();
        terms();
        // Events count bytes; only figures that somebody printed have a unit to misread.
        if (subject_.is_series) units();
        if (std::none_of(out_.totals.begin(), out_.totals.end(),
                         [](const auto& line) { return line.measured; }))
            out_.findings.push_back(
                finding("metric.mismatch", {measured_metrics()}, subject_.name));
        if (!subject_.complete)
            out_.notes.emplace_back(
                "the events of the trace contradict each other: its figures are approximate");
    }

private:
    /// Snapshots and timelines count what tensors asked for; counters count whole blocks.
    [[nodiscard]] bool counts_requested() const {
        return !subject_.is_series && summary_.kind != "chrome";
    }

    void totals() {
        const Bytes rounding =
            counts_requested() ? at_peak(ledger_, "allocator/rounding") : Bytes(0);
        const auto line = [&](const char* metric, const TotalRange& range, Bytes less,
                              const std::optional<Bytes>& measured, std::string as) {
            out_.totals.push_back(
                {.path = metric,
                 .metric = metric,
                 .lower = range.lower - less,
                 .estimate = range.point - less,
                 .upper = range.upper ? std::optional(*range.upper - less) : std::nullopt,
                 .measured = measured,
                 .measured_as = measured ? std::move(as) : "not in the trace"});
        };
        if (rounding != Bytes(0))
            out_.notes.push_back(
                fmt::format("the trace counts requested bytes, so {} of rounding to 512 B are left "
                            "out of the estimate of allocated",
                            format_bytes(rounding, Units::binary)));
        line("allocated", ledger_.allocated, rounding, subject_.live_peak,
             counts_requested() ? "highest live, requested bytes" : "highest allocated");
        if (ledger_.reserved)
            line("reserved", *ledger_.reserved, Bytes(0), subject_.reserved_peak,
                 "highest reserved");
        if (ledger_.device)
            line("device", *ledger_.device, Bytes(0), subject_.device_peak,
                 "highest used, as the driver reports it");
        const auto unknown = [&](bool known, const std::optional<Bytes>& measured,
                                 const char* metric) {
            if (!known && measured)
                out_.notes.push_back(
                    fmt::format("measured {} of {}: the estimate has no such total for this spec",
                                size_text(*measured), metric));
        };
        unknown(ledger_.reserved.has_value(), subject_.reserved_peak, "reserved");
        unknown(ledger_.device.has_value(), subject_.device_peak, "device memory");
    }

    void phases() {
        for (const PhasePeak& phase : ledger_.phases)
            for (const MarkedPeak& marked : subject_.phases)
                if (marked.name == name_of(phase.phase))
                    out_.phases.push_back({.path = fmt::format("phases/{}", marked.name),
                                           .metric = "allocated",
                                           .lower = phase.peak,
                                           .estimate = phase.peak,
                                           .upper = phase.peak,
                                           .measured = marked.peak,
                                           .measured_as = "highest live in this phase"});
    }

    /// Terms at the peak, and at the instants of each phase.
    void terms() {
        for (const SortedInstant& measured : subject_.sorted) {
            const SortedInstant sorted = by_size_of_spec(measured, expected_);
            if (sorted.of == InstantOf::peak) {
                terms_at_peak(sorted);
                continue;
            }
            for (const ExpectedInstant& instant : expected_.instants)
                if (instant.of == sorted.of && instant.phase == sorted.phase)
                    terms_of_phase(sorted, instant);
        }
    }

    void terms_at_peak(const SortedInstant& sorted) {
        std::map<std::string, Bytes> estimate;
        for (const auto& [group, bytes] : groups_at_peak(ledger_))
            if (group != "allocator") estimate[group] = bytes;
        for (ReconciledLine& line : lines_of(sorted, estimate)) {
            line.lower = Bytes(0);
            line.upper = Bytes(0);
            for (const Term& term : ledger_.terms) {
                if (term.total != Total::allocated || !is_at_or_below(term.path, line.path)) continue;
                line.lower += term.lower;
                if (line.upper && term.upper) *line.upper += *term.upper;
                else line.upper.reset();
            }
            out_.terms.push_back(std::move(line));
        }
        const std::string_view estimated = name_of(ledger_.peak.phase);
        if (!sorted.phase.empty() && sorted.phase != estimated)
            out_.notes.push_back(fmt::format(
                "the trace peaks in {}, the estimate in {}: compare their terms by phase",
                in_words(sorted.phase), in_words(estimated)));
    }

    void terms_of_phase(const SortedInstant& sorted, const ExpectedInstant& expected) {
        const std::map<std::string, Bytes> estimate(expected.groups.begin(), expected.groups.end());
        for (ReconciledLine& line : lines_of(sorted, estimate)) {
            line.path =
                fmt::format("phases/{}/{}/{}", sorted.phase, name_of(sorted.of), line.path);
            out_.phase_terms.push_back(std::move(line));
        }
    }

    /// A line for each term that either side knows, the largest first; what is unsorted comes last.
    [[nodiscard]] static std::vector<ReconciledLine> lines_of(
        const SortedInstant& sorted, const std::map<std::string, Bytes>& estimate) {
        std::vector<ReconciledLine> out;
        const auto add = [&](std::string path, const SortedTerm* term) {
            const auto found = estimate.find(path);
            const Bytes bytes = found == estimate.end() ? Bytes(0) : found->second;
            out.push_back({.path = std::move(path),
                           .metric = "allocated",
                           .lower = bytes,
                           .estimate = bytes,
                           .upper = bytes,
                           .measured = term == nullptr ? Bytes(0) : term->bytes,
                           .measured_as = term == nullptr ? "none found" : rules_of(term->by),
                           .certain = term == nullptr ? Bytes(0) : term->certain});
        };
        for (const SortedTerm& term : sorted.terms) add(term.path, &term);
        for (const auto& [path, bytes] : estimate)
            if (std::ranges::find(sorted.terms, path, &SortedTerm::path) == sorted.terms.end())
                add(path, nullptr);
        std::ranges::stable_sort(out, std::greater{}, [](const ReconciledLine& line) {
            return std::max(line.estimate, *line.measured);
        });
        if (const Bytes left = unsorted_bytes(sorted); left != Bytes(0)) {
            add(std::string(kUnsorted), nullptr);
            out.back().measured = left;
            out.back().measured_as = reasons_of(sorted.unsorted);
        }
        return out;
    }

    /// A figure printed as "GB" may be GiB, and the other way round.
    void units() {
        for (const ReconciledLine& line : out_.totals) {
            if (!line.measured || off_by(*line.measured, line.estimate) < kDiffers) continue;
            for (const auto& [read_as, maybe, from, to] :
                 {std::tuple{"GB", "GiB", kGB, kGiB},
                  std::tuple{"MB", "MiB", std::int64_t{1'000'000}, std::int64_t{1} << 20}}) {
                const double units =
                    static_cast<double>(line.measured->count()) / static_cast<double>(from);
                const double as_binary = units * static_cast<double>(to);
                const double as_decimal = static_cast<double>(line.measured->count()) /
                                          static_cast<double>(to) * static_cast<double>(from);
                for (const auto& [bytes, was, is] : {std::tuple{as_binary, read_as, maybe},
                                                     std::tuple{as_decimal, maybe, read_as}}) {
                    if (!(bytes < static_cast<double>(kLargestBytes))) continue;
                    const Bytes other(static_cast<std::int64_t>(bytes));
                    if (off_by(other, line.estimate) > kAgrees) continue;
                    out_.findings.push_back(
                        finding("unit.mismatch",
                                {fmt::format("{}: measured {} read as {}; read as {} it is {}, "
                                             "{:.2f} % from the estimate",
                                             line.path, size_text(*line.measured), was, is,
                                             size_text(other), 100 * off_by(other, line.estimate))},
                                subject_.name));
                    return;
                }
            }
        }
    }

    [[nodiscard]] std::string measured_metrics() const {
        std::string out;
        const auto has = [&](const std::optional<Bytes>& value, const char* name) {
            if (value)
                out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, size_text(*value));
        };
        has(subject_.live_peak, "allocated");
        has(subject_.reserved_peak, "reserved");
        has(subject_.device_peak, "device");
        return fmt::format("the trace measures: {}", out.empty() ? "nothing" : out);
    }

    const Ledger& ledger_;
    const ExpectedTerms& expected_;
    const TraceSummary& summary_;
    const TraceSubject& subject_;
    Reconciliation& out_;
};

/// The device or rank that is meant; without a name the one with the highest peak.
const TraceSubject* choose(const TraceSummary& summary, std::string_view name) {
    const TraceSubject* best = nullptr;
    const auto peak = [](const TraceSubject& subject) {
        return subject.live_peak       ? *subject.live_peak
               : subject.reserved_peak ? *subject.reserved_peak
                                       : subject.device_peak.value_or(Bytes(0));
    };
    for (const TraceSubject& subject : summary.subjects) {
        if (!name.empty()) {
            if (subject.name == name) return &subject;
            continue;
        }
        if (subject.device >= 0 && (best == nullptr || peak(subject) > peak(*best)))
            best = &subject;
    }
    return best;
}

}  // namespace

bool ReconciledLine::confirmed() const {
    if (!measured) return false;
    if (off_by(*measured, estimate) <= kAgrees) return true;
    return *measured >= lower && upper && *measured <= *upper;
}

Result<Reconciliation> reconcile(const Ledger& ledger, std::string name,
                                 const TraceSummary& summary, std::string_view subject,
                                 const ExpectedTerms& expected) {
    const TraceSubject* chosen = choose(summary, subject);
    if (chosen == nullptr) {
        std::vector<std::string_view> names;
        std::string all;
        for (const TraceSubject& one : summary.subjects) {
            names.push_back(one.name);
            all += (all.empty() ? "" : ", ") + one.name;
        }
        std::string hint = did_you_mean(subject, names);
        if (hint.empty() && !all.empty()) hint = "the trace has: " + all;
        return Diagnostic{
            Trouble::invalid, summary.file, "",
            subject.empty() ? "expected figures of a device or rank; found none"
                            : fmt::format("no device or rank {} in the trace", in_quotes(subject)),
            std::move(hint)};
    }
    Reconciliation out;
    out.name = std::move(name);
    out.file = summary.file;
    out.subject = chosen->name;
    out.notes = summary.notes;
    Comparison(ledger, expected, summary, *chosen, out).run();
    return out;
}

}  // namespace membudget
