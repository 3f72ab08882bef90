#include "report/writers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/figures.hpp"
#include "report/forms.hpp"

namespace membudget {
namespace {

constexpr Writer kWriters[] = {
    {"text", "tables and notes for people", report::write_text},
    {"json", "schema 1.0: every number in bytes, for scripts", report::write_json, {}, true},
    {"markdown", "the text report as Markdown, for pull requests", report::write_markdown},
    {"csv", "one row per term, in bytes (RFC 4180)", report::write_csv, {}, true},
    {"svg", "the curve of a step, stacked by term, or of a trace", report::write_svg,
     "timeline trace"},
    {"pickle", "the steps of a job as a PyTorch memory snapshot, for torch.cuda._memory_viz",
     report::write_pickle, "timeline"},
};
static_assert(names_are_unique(kWriters));

/// The form of each command's report.
struct Form {
    std::string_view name;
    Report (*make)(const ReportData& data);
};
constexpr Form kForms[] = {
    {"estimate", report::estimate_form},
    {"compare", report::compare_form},
    {"explain", report::explain_form},
    {"timeline", report::timeline_form},
    {"inspect", report::inspect_form},
    {"list", report::list_form},
    {"trace", report::trace_form},
    {"reconcile", report::reconcile_form},
};
static_assert(names_are_unique(kForms));

}  // namespace

Table<Writer> writers() { return Table<Writer>(kWriters); }

bool writes(const Writer& writer, std::string_view command) {
    std::string_view left = writer.commands;
    if (left.empty()) return true;
    while (!left.empty()) {
        const std::size_t end = std::min(left.find(' '), left.size());
        if (left.substr(0, end) == command) return true;
        left.remove_prefix(std::min(end + 1, left.size()));
    }
    return false;
}

std::vector<std::string_view> formats_of(std::string_view command) {
    std::vector<std::string_view> out;
    for (const Writer& writer : kWriters)
        if (writes(writer, command)) out.push_back(writer.name);
    return out;
}

Report make_report(const ReportData& data) {
    const Form* form = Table<Form>(kForms).find(data.command);
    MEMBUDGET_ENSURE(form != nullptr, "every command has a form of its report");
    return form->make(data);
}

std::string verdict_line(const EstimateReport& report) {
    const Ledger& ledger = report.estimate->ledger;
    return fmt::format("{}: {}: {}", name_of(ledger.verdict), report.name,
                       report::verdict_sentence(ledger));
}

std::string growth_line(const Baseline& baseline, const EstimateReport& report) {
    const Bytes point = report.estimate->ledger.allocated.point;
    return fmt::format("grown: {}: {} allocated, {} over {}; the limit is {} ({})", report.name,
                       format_bytes(point, Units::exact),
                       format_bytes(point - baseline.allocated, Units::decimal), baseline.file,
                       format_bytes(*baseline.limit, Units::exact), baseline.allowance);
}

}  // namespace membudget
