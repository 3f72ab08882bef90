#include <fmt/format.h>

#include <algorithm>

#include "report/figures.hpp"
#include "report/forms.hpp"

namespace membudget::report {
namespace {

ReportNote note_of(const Term& term) {
    const auto size = [](Bytes bytes) {
        std::string exact = format_bytes(bytes, Units::exact);
        return bytes.count() < 1000 ? exact : fmt::format("{} = {}", exact, both_units(bytes));
    };
    ReportNote note{.head = term.path, .points = {{"at the peak", size(term.at_peak)}}};
    const auto add = [&](const char* label, std::string text) {
        if (!text.empty()) note.points.emplace_back(label, std::move(text));
    };
    if (term.max != term.at_peak) add("own maximum", size(term.max));
    if (!term.upper || *term.upper != term.at_peak || term.lower != term.at_peak)
        add("bounds", fmt::format("{} .. {}", format_bytes(term.lower, Units::exact),
                                  term.upper ? format_bytes(*term.upper, Units::exact) : "open"));
    add("formula", term.formula);
    add("lives", term.lifetime);
    add("basis", std::string(name_of(term.basis)));
    add("source", term.source);
    return note;
}

/// The largest live tensors; equal ones of all layers are one row.
ReportTable tensors_table(const std::vector<LiveTensor>& tensors) {
    constexpr std::size_t kShown = 25;
    Bytes whole;
    for (const LiveTensor& tensor : tensors) whole += tensor.bytes;
    const Scale& scale = scale_for(tensors.empty() ? Bytes(0) : tensors.front().bytes);
    ReportTable table;
    table.columns = {{"Live at the peak", Align::left},
                     {"tensor", Align::left},
                     {std::string(scale.decimal), Align::right},
                     {std::string(scale.binary), Align::right}};
    const auto add = [&](std::string op, std::string what, Bytes bytes) {
        table.rows.push_back({std::move(op), std::move(what), scale.in_decimal(bytes),
                              scale.in_binary(bytes)});
    };
    Bytes shown;
    for (std::size_t i = 0; i < std::min(kShown, tensors.size()); ++i) {
        add(tensors[i].op, tensors[i].what, tensors[i].bytes);
        shown += tensors[i].bytes;
    }
    if (tensors.size() > kShown)
        add(fmt::format("{} more", tensors.size() - kShown), "", whole - shown);
    add("together", "", whole);
    table.total_rows = 1;
    return table;
}

}  // namespace

Report explain_form(const ReportData& data) {
    const EstimateReport& of = data.reports.front();
    const Explanation& explanation = *data.explanation;
    const Ledger& ledger = of.estimate->ledger;
    const Bytes bytes = at_peak(ledger, explanation.path);

    Report report;
    report.title = fmt::format("{}: {}", of.name, explanation.path);
    report.facts = job_facts(of.estimate->job);
    report.facts.push_back(fmt::format("{} of the {} at the peak, in {}",
                                       format_bytes(bytes, Units::decimal),
                                       format_bytes(ledger.allocated.point, Units::decimal),
                                       place_in_prose(ledger.peak)));
    ReportNotes notes{.title = {}, .notes = {}};
    for (const Term& term : ledger.terms)
        if (is_at_or_below(term.path, explanation.path)) notes.notes.push_back(note_of(term));
    report.sections.push_back({std::nullopt, std::move(notes)});
    if (!explanation.tensors.empty())
        report.sections.push_back({tensors_table(explanation.tensors), std::nullopt});
    return report;
}

}  // namespace membudget::report
