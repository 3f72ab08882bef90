#include <fmt/format.h>

#include <algorithm>

#include "report/figures.hpp"
#include "report/forms.hpp"

namespace membudget::report {
namespace {

ReportTable lines_table(const char* title, const std::vector<ReconciledLine>& lines,
                        const Scale& scale) {
    ReportTable table;
    table.columns = {{fmt::format("{} ({})", title, scale.decimal), Align::left},
                     {"estimate", Align::right},
                     {"bounds", Align::right},
                     {"measured", Align::right},
                     {"residual", Align::right},
                     {"", Align::right},
                     {"measured as", Align::left}};
    for (const ReconciledLine& line : lines) {
        const auto residual = line.residual();
        const std::string percent =
            residual && line.estimate != Bytes(0)
                ? fmt::format("{:+.2f} %", 100 * ratio(*residual, line.estimate))
                : "";
        table.rows.push_back({line.path, scale.in_decimal(line.estimate),
                              line.lower == line.estimate && line.upper == line.estimate
                                  ? ""
                                  : bounds({line.lower, line.estimate, line.upper}, scale),
                              line.measured ? scale.in_decimal(*line.measured) : "",
                              residual ? fmt::format("{}{}", *residual > Bytes(0) ? "+" : "",
                                                     scale.in_decimal(*residual))
                                       : "",
                              percent, line.measured_as + (line.confirmed() ? "; confirmed" : "")});
    }
    return table;
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
    ReportTable table;
    table.title = fmt::format("Evidence from {}", receipt.trace);
    table.columns = {{fmt::format("measured ({})", scale.decimal), Align::left},
                     {"estimate now", Align::right},
                     {"then", Align::right},
                     {"measured", Align::right},
                     {"", Align::left}};
    for (const ReceiptLine& line : receipt.lines) {
        const auto now = estimate_of(ledger, line.path);
        // Requested bytes leave rounding out: what counts as unchanged may differ by that.
        const bool same =
            now && (line.path == "allocated"
                        ? *now - at_peak(ledger, "allocator/rounding") == line.estimate ||
                              *now == line.estimate
                        : *now == line.estimate);
        table.rows.push_back({line.path, now ? scale.in_decimal(*now) : "",
                              scale.in_decimal(line.estimate), scale.in_decimal(line.measured),
                              !same            ? "another job: the estimate was another then"
                              : line.confirmed ? "confirmed"
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
    for (const auto* lines : {&own.totals, &own.phases, &own.terms})
        for (const ReconciledLine& line : *lines)
            top = std::max({top, line.estimate, line.measured.value_or(Bytes(0))});
    const Scale& scale = scale_for(top);
    const auto add = [&](const char* title, const std::vector<ReconciledLine>& lines) {
        if (!lines.empty())
            report.sections.push_back({lines_table(title, lines, scale), std::nullopt});
    };
    add("Totals", own.totals);
    add("Phases", own.phases);
    add("Terms", own.terms);
    add_findings(report, own.findings);
    add_notes(report, "Notes", own.notes);
    return report;
}

}  // namespace membudget::report
