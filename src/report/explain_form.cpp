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

/// Where an instant is: "backward, at layers.31.mlp.down_proj (recompute)".
std::string place_of(const Instant& at) {
    return place_in_prose({.phase = at.stretch.leaf->phase,
                           .op = at.op,
                           .pass = at.stretch.leaf->pass,
                           .micro_batch = at.stretch.micro_batch});
}

/// "log-softmax of head loss, until its backward".
std::string life_of(const LiveTensor& tensor) {
    std::string out = tensor.what.empty() ? tensor.term : tensor.what;
    if (!tensor.op.empty()) out += " of " + tensor.op;
    if (tensor.freed_by.empty()) return out + ", stays";
    const std::size_t of = tensor.freed_by.find(" of ");
    if (of != std::string::npos && tensor.freed_by.substr(of + 4) == tensor.op)
        return out + ", until its " + tensor.freed_by.substr(0, of);
    return out + ", until " + tensor.freed_by;
}

/// The largest live tensors, and why they are there; equal ones of all layers are one row.
ReportTable tensors_table(const Explanation& explanation) {
    constexpr std::size_t kShown = 25;
    const std::vector<LiveTensor>& tensors = explanation.tensors;
    Bytes whole, rounding;
    for (const LiveTensor& tensor : tensors) {
        whole += tensor.bytes;
        rounding += tensor.rounding;
    }
    const Scale& scale = scale_for(tensors.empty() ? Bytes(0) : tensors.front().bytes);
    ReportTable table;
    table.columns = {{explanation.when == "peak" ? "Live at the peak" : "Live then", Align::left},
                     {std::string(scale.decimal), Align::right},
                     {"copies", Align::right},
                     {"what it is", Align::left}};
    Bytes shown;
    for (std::size_t i = 0; i < std::min(kShown, tensors.size()); ++i) {
        const LiveTensor& tensor = tensors[i];
        table.rows.push_back({tensor.term, scale.in_decimal(tensor.bytes),
                              std::to_string(tensor.copies), life_of(tensor)});
        shown += tensor.bytes;
    }
    if (tensors.size() > kShown)
        table.rows.push_back({fmt::format("{} more", tensors.size() - kShown),
                              scale.in_decimal(whole - shown), "", ""});
    // Rounding is a term of its own: it belongs to the whole, not to one of the others.
    const bool all = explanation.path.empty();
    if (all && rounding != Bytes(0))
        table.rows.push_back({"allocator/rounding", scale.in_decimal(rounding), "", ""});
    const Bytes sum = all ? whole + rounding : whole;
    table.rows.push_back({"together", scale.in_decimal(sum), "", fmt::format("= {}", format_bytes(sum, Units::binary))});
    table.total_rows = 1;
    return table;
}

}  // namespace

Report explain_form(const ReportData& data) {
    const EstimateReport& of = data.reports.front();
    const Explanation& explanation = *data.explanation;
    const Ledger& ledger = of.estimate->ledger;

    Report report;
    report.title = explanation.path.empty() ? of.name : fmt::format("{}: {}", of.name, explanation.path);
    report.facts = job_facts(of.estimate->job);
    if (explanation.path.empty() || explanation.when != "peak")
        report.facts.push_back(fmt::format(
            "{} live at {}{}: {}", both_units(explanation.at->live),
            explanation.when == "peak" ? "the " : "the highest instant of ", explanation.when,
            place_of(*explanation.at)));
    if (!explanation.path.empty()) {
        report.facts.push_back(fmt::format("{} of the {} at the peak, in {}",
                                           format_bytes(at_peak(ledger, explanation.path), Units::decimal),
                                           format_bytes(ledger.allocated.point, Units::decimal),
                                           place_in_prose(ledger.peak)));
        ReportNotes notes{.title = {}, .notes = {}};
        for (const Term& term : ledger.terms)
            if (is_at_or_below(term.path, explanation.path)) notes.notes.push_back(note_of(term));
        report.sections.push_back({std::nullopt, std::move(notes)});
    }
    if (!explanation.tensors.empty())
        report.sections.push_back({tensors_table(explanation), std::nullopt});
    return report;
}

}  // namespace membudget::report
