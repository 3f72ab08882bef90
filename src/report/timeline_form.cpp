#include <fmt/format.h>

#include <algorithm>

#include "report/curve.hpp"
#include "report/figures.hpp"
#include "report/forms.hpp"

namespace membudget::report {
namespace {

struct GroupRow {
    std::string name;
    Bytes at_peak, max;
};

/// First components of the terms, from the bottom of the chart upwards.
std::vector<GroupRow> groups_of(const Step& step) {
    std::vector<GroupRow> out(step.terms.groups());
    for (std::size_t g = 0; g < out.size(); ++g) {
        out[g].name = step.terms.group_name(static_cast<int>(g));
        if (g < step.profile.group_max.size()) out[g].max = Bytes(step.profile.group_max[g]);
    }
    for (std::size_t i = 0; i < step.profile.at_peak.size(); ++i)
        out[static_cast<std::size_t>(step.terms.group(static_cast<TermId>(i)))].at_peak +=
            Bytes(step.profile.at_peak[i]);
    std::erase_if(out, [](const GroupRow& row) { return row.max == Bytes(0); });
    std::stable_sort(out.begin(), out.end(), [](const GroupRow& a, const GroupRow& b) {
        return rank_of(a.name) < rank_of(b.name);
    });
    return out;
}

/// The letters of the chart: what each is worth at the peak, and at most.
ReportTable legend(const Ledger& ledger, const Step& step) {
    const Scale& scale = scale_for(ledger.allocated.point);
    ReportTable table;
    table.columns = {{"Term", Align::left},
                     {fmt::format("at the peak ({})", scale.decimal), Align::right},
                     {fmt::format("own maximum ({})", scale.decimal), Align::right}};
    Bytes whole;
    for (const GroupRow& row : groups_of(step)) {
        table.rows.push_back({fmt::format("{} {}", style_of(row.name).letter, row.name),
                              scale.in_decimal(row.at_peak), scale.in_decimal(row.max)});
        whole += row.at_peak;
    }
    table.rows.push_back({"  allocated", scale.in_decimal(whole),
                          scale.in_decimal(ledger.additive_total)});
    table.total_rows = 1;
    return table;
}

ReportTable phases_table(const Ledger& ledger) {
    const Scale& scale = scale_for(ledger.allocated.point);
    ReportTable table;
    table.columns = {{"Highest in", Align::left},
                     {std::string(scale.decimal), Align::right},
                     {std::string(scale.binary), Align::right},
                     {"", Align::left}};
    for (const PhasePeak& phase : ledger.phases)
        table.rows.push_back({phase_in_prose(phase.phase), scale.in_decimal(phase.peak),
                              scale.in_binary(phase.peak),
                              phase.phase == ledger.peak.phase ? "the peak" : ""});
    return table;
}

}  // namespace

Report timeline_form(const ReportData& data) {
    const EstimateReport& of = data.reports.front();
    const Ledger& ledger = of.estimate->ledger;
    Report report;
    report.title = of.name;
    report.facts = job_facts(of.estimate->job);
    std::string peak = fmt::format("peak {} allocated, in {}", both_units(ledger.allocated.point),
                                   place_in_prose(ledger.peak));
    if (of.estimate->job.micro_batches > 1)
        peak += fmt::format(", micro-batch {} of {}", ledger.peak.micro_batch + 1,
                            of.estimate->job.micro_batches);
    report.facts.push_back(std::move(peak));
    report.sections.push_back({std::nullopt, std::nullopt, {}, data.timeline});
    report.sections.push_back({legend(ledger, data.timeline->timeline->step), std::nullopt});
    report.sections.push_back({phases_table(ledger), std::nullopt});
    ReportNotes notes{.title = {}, .notes = {}};
    notes.notes.push_back({"from left to right: allocations and frees in their order, not time; a "
                           "column shows the highest instant of its events; own maxima need not "
                           "coincide, their sum is no peak",
                           {}});
    report.sections.push_back({std::nullopt, std::move(notes)});
    return report;
}

}  // namespace membudget::report
