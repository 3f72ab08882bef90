#include <fmt/format.h>

#include <algorithm>

#include "report/figures.hpp"
#include "report/forms.hpp"

namespace membudget::report {
namespace {

/// "+1.78 %"; nothing where the estimate is so small that a percentage says nothing.
std::string residual_percent(Bytes residual, Bytes estimate) {
    constexpr double kMost = 10;
    if (estimate == Bytes(0)) return "";
    const double relative = ratio(residual, estimate);
    return relative > kMost || relative < -kMost ? "" : fmt::format("{:+.2f} %", 100 * relative);
}

std::string with_sign(Bytes residual, const Scale& scale) {
    return (residual > Bytes(0) ? "+" : "") + scale.in_decimal(residual);
}

ReportTable lines_table(const char* title, const std::vector<ReconciledLine>& lines,
                        const Scale& scale) {
    const bool sorted = std::ranges::any_of(lines, [](const auto& line) { return line.certain.has_value(); });
    ReportTable table;
    table.columns = {{fmt::format("{} ({})", title, scale.decimal), Align::left},
                     {"estimate", Align::right},
                     {"bounds", Align::right},
                     {"measured", Align::right}};
    if (sorted) table.columns.push_back({"certain", Align::right});
    table.columns.insert(table.columns.end(), {{"residual", Align::right},
                                               {"", Align::right},
                                               {"measured as", Align::left}});
    for (const ReconciledLine& line : lines) {
        const auto residual = line.residual();
        std::vector<std::string> row = {
            line.path, scale.in_decimal(line.estimate),
            line.lower == line.estimate && line.upper == line.estimate
                ? ""
                : bounds({line.lower, line.estimate, line.upper}, scale),
            line.measured ? scale.in_decimal(*line.measured) : ""};
        if (sorted) row.push_back(line.certain ? scale.in_decimal(*line.certain) : "");
        row.push_back(residual ? with_sign(*residual, scale) : "");
        row.push_back(residual ? residual_percent(*residual, line.estimate) : "");
        row.push_back(line.measured_as + (line.confirmed() ? "; confirmed" : ""));
        table.rows.push_back(std::move(row));
    }
    return table;
}

/// Terms at one instant of a phase: "phases/backward/end/gradients" is a row of "End of backward".
ReportTable phase_terms_table(std::span<const ReconciledLine> lines, std::string title,
                              const Scale& scale) {
    ReportTable table;
    table.columns = {{std::move(title), Align::left}, {"estimate", Align::right},
                     {"measured", Align::right},      {"certain", Align::right},
                     {"residual", Align::right},      {"", Align::right}};
    for (const ReconciledLine& line : lines) {
        const Bytes measured = line.measured.value_or(Bytes(0));
        const Bytes residual = measured - line.estimate;
        table.rows.push_back(
            {line.path.substr(line.path.rfind('/') + 1), scale.in_decimal(line.estimate),
             scale.in_decimal(measured), scale.in_decimal(line.certain.value_or(Bytes(0))),
             with_sign(residual, scale), residual_percent(residual, line.estimate)});
    }
    return table;
}

void add_phase_terms(Report& report, std::span<const ReconciledLine> lines, const Scale& scale) {
    const auto instant_of = [](const ReconciledLine& line) {
        return std::string_view(line.path).substr(0, line.path.rfind('/'));
    };
    for (std::size_t first = 0; first < lines.size();) {
        const std::string_view instant = instant_of(lines[first]);
        std::size_t last = first;
        while (last < lines.size() && instant_of(lines[last]) == instant) ++last;
        const std::string_view in_phases = instant.substr(instant.find('/') + 1);
        const std::size_t slash = in_phases.find('/');
        const std::string phase = in_words(in_phases.substr(0, slash));
        report.sections.push_back(
            {phase_terms_table(lines.subspan(first, last - first),
                               fmt::format("{} of {} ({})",
                                           in_phases.substr(slash + 1) == "end" ? "End" : "Highest",
                                           phase, scale.decimal),
                               scale),
             std::nullopt});
        first = last;
    }
}

/// "phases/backward/end/gradients", and not "phases/backward".
bool is_of_a_phase(std::string_view path) {
    return path.starts_with("phases/") && std::ranges::count(path, '/') > 1;
}

/// What the estimate says now where the receipt has `path`; absent when it has no such number.
std::optional<Bytes> estimate_of(const Ledger& ledger, const std::string& path) {
    if (path == "allocated") return ledger.allocated.point;
    const auto total = [](const std::optional<TotalRange>& range) {
        return range ? std::optional(range->point) : std::nullopt;
    };
    if (path == "reserved") return total(ledger.reserved);
    if (path == "device") return total(ledger.device);
    for (const PhasePeak& phase : ledger.phases)
        if (path == fmt::format("phases/{}", name_of(phase.phase))) return phase.peak;
    const bool exists =
        std::any_of(ledger.terms.begin(), ledger.terms.end(),
                    [&](const Term& term) { return is_at_or_below(term.path, path); });
    return exists ? std::optional(at_peak(ledger, path)) : std::nullopt;
}

}  // namespace

void add_evidence(Report& report, const Receipt& receipt, const Ledger& ledger) {
    Bytes top(0);
    for (const ReceiptLine& line : receipt.lines)
        top = std::max({top, line.estimate, line.measured});
    const Scale& scale = scale_for(top);
    const auto unchanged = [&](const ReceiptLine& line, const std::optional<Bytes>& now) {
        if (!now) return line.estimate == Bytes(0);
        // Requested bytes leave rounding out: what counts as unchanged may differ by that.
        const Bytes rounding = line.path == "allocated" ? at_peak(ledger, "allocator/rounding") : Bytes(0);
        return *now == line.estimate || *now - rounding == line.estimate;
    };
    ReportTable table;
    table.title = fmt::format("Evidence from {}", receipt.trace);
    table.columns = {{fmt::format("measured ({})", scale.decimal), Align::left},
                     {"estimate now", Align::right},
                     {"then", Align::right},
                     {"measured", Align::right},
                     {"", Align::left}};
    for (const ReceiptLine& line : receipt.lines) {
        // The terms of each phase are for programs: a page of them stands in JSON.
        if (is_of_a_phase(line.path)) continue;
        const auto now = estimate_of(ledger, line.path);
        table.rows.push_back({line.path, now ? scale.in_decimal(*now) : "",
                              scale.in_decimal(line.estimate), scale.in_decimal(line.measured),
                              !unchanged(line, now) ? "another job: the estimate was another then"
                              : line.confirmed      ? "confirmed"
                                                    : "not confirmed"});
    }
    report.sections.push_back({std::move(table), std::nullopt});
}

Report reconcile_form(const ReportData& data) {
    const Reconciliation& own = *data.reconciliation;
    Report report;
    report.title = fmt::format("{} and {}", own.name, own.file);
    report.facts.push_back(fmt::format("measured: {}", own.subject));
    Bytes top(0);
    for (const auto* lines : {&own.totals, &own.phases, &own.terms, &own.phase_terms})
        for (const ReconciledLine& line : *lines)
            top = std::max({top, line.estimate, line.measured.value_or(Bytes(0))});
    const Scale& scale = scale_for(top);
    const auto add = [&](const char* title, const std::vector<ReconciledLine>& lines) {
        if (!lines.empty())
            report.sections.push_back({lines_table(title, lines, scale), std::nullopt});
    };
    add("Totals", own.totals);
    add("Phases", own.phases);
    add("Terms at the peak", own.terms);
    add_phase_terms(report, own.phase_terms, scale);
    add_findings(report, own.findings);
    add_notes(report, "Notes", own.notes);
    return report;
}

}  // namespace membudget::report
