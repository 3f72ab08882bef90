#include "report/writers.hpp"

#include <fmt/format.h>

#include "report/figures.hpp"
#include "report/forms.hpp"

namespace membudget {
namespace {

constexpr Writer kWriters[] = {
    {"text", "tables and notes for people", report::write_text},
    {"json", "schema 1.0: every number in bytes, for scripts", report::write_json},
    {"markdown", "the text report as Markdown, for pull requests", report::write_markdown},
    {"csv", "one row per term, in bytes (RFC 4180)", report::write_csv},
    {"svg", "live and reserved memory over the trace", report::write_trace_svg, "trace"},
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
    {"inspect", report::inspect_form},
    {"list", report::list_form},
    {"trace", report::trace_form},
    {"reconcile", report::reconcile_form},
};
static_assert(names_are_unique(kForms));

}  // namespace

Table<Writer> writers() { return Table<Writer>(kWriters); }

std::vector<std::string_view> formats_of(std::string_view command) {
    std::vector<std::string_view> out;
    for (const Writer& writer : kWriters)
        if (writer.command.empty() || writer.command == command) out.push_back(writer.name);
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
