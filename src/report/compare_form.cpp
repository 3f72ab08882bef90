#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/figures.hpp"
#include "report/forms.hpp"

namespace membudget::report {
namespace {

/// One column of the comparison: the reference or a job.
struct Column {
    std::string name;
    std::map<std::string, Bytes, std::less<>> groups;  ///< first path components at the peak
    Bytes allocated;
    const Ledger* ledger = nullptr;  ///< null for a baseline
};

Column column_of(const EstimateReport& report) {
    Column out{.name = report.name,
               .groups = {},
               .allocated = report.estimate->ledger.allocated.point,
               .ledger = &report.estimate->ledger};
    for (const auto& [group, bytes] : groups_at_peak(*out.ledger)) out.groups[group] = bytes;
    return out;
}

Column column_of(const Baseline& baseline) {
    Column out{.name = "baseline", .groups = {}, .allocated = baseline.allocated};
    for (const auto& [path, bytes] : baseline.terms)
        out.groups[std::string(first_component(path))] += bytes;
    return out;
}

/// Groups of any column, the largest of the reference first.
std::vector<std::string> groups_of(const std::vector<Column>& columns) {
    std::map<std::string, Bytes> largest;
    for (const Column& column : columns)
        for (const auto& [group, bytes] : column.groups)
            largest[group] = std::max(largest[group], bytes);
    std::vector<std::string> out;
    for (const auto& [group, bytes] : largest)
        if (bytes != Bytes(0)) out.push_back(group);
    std::stable_sort(out.begin(), out.end(), [&](const auto& a, const auto& b) {
        return largest[a] > largest[b];
    });
    return out;
}

/// Terms down, jobs across; the reference is the first column of each table.
ReportTable side_by_side(const std::vector<Column>& columns, const std::vector<std::string>& groups,
                         std::size_t begin, std::size_t end, const Scale& scale) {
    ReportTable table;
    std::vector<const Column*> shown{&columns.front()};
    for (std::size_t i = begin; i < end; ++i) shown.push_back(&columns[i]);
    table.columns.push_back({fmt::format("At the peak ({})", scale.decimal), Align::left});
    for (const Column* column : shown) table.columns.push_back({column->name, Align::right});

    const auto add = [&](std::string label, auto&& cell) {
        std::vector<std::string> row{std::move(label)};
        for (const Column* column : shown) row.push_back(cell(*column));
        table.rows.push_back(std::move(row));
    };
    for (const std::string& group : groups)
        add(group, [&](const Column& column) {
            const auto at = column.groups.find(group);
            return scale.in_decimal(at == column.groups.end() ? Bytes(0) : at->second);
        });
    add("allocated", [&](const Column& c) { return scale.in_decimal(c.allocated); });
    add("change", [&](const Column& c) -> std::string {
        if (&c == &columns.front()) return "";
        const Bytes change = c.allocated - columns.front().allocated;
        return (change > Bytes(0) ? "+" : "") + scale.in_decimal(change);
    });
    add("additive_total", [&](const Column& c) -> std::string {
        return c.ledger == nullptr ? "" : scale.in_decimal(c.ledger->additive_total);
    });
    add("peak in", [](const Column& c) -> std::string {
        return c.ledger == nullptr ? "" : std::string(name_of(c.ledger->peak.phase));
    });
    table.total_rows = 4;
    const bool judged = std::any_of(shown.begin(), shown.end(), [](const Column* column) {
        return column->ledger != nullptr && column->ledger->budget.has_value();
    });
    if (!judged) return table;
    add("verdict", [](const Column& c) -> std::string {
        return c.ledger == nullptr ? "" : std::string(word_for(c.ledger->verdict));
    });
    ++table.total_rows;
    return table;
}

std::string saving_sentence(Bytes from, Bytes to) {
    const std::string way = fmt::format("{} -> {}", format_bytes(from, Units::decimal),
                                        format_bytes(to, Units::decimal));
    if (to == from) return way + ", no change";
    const Bytes by = to < from ? from - to : to - from;
    const std::string part = share(by, from);
    return fmt::format("{}, {} {}{}", way, to < from ? "saves" : "adds",
                       format_bytes(by, Units::decimal),
                       part.empty() ? "" : fmt::format(" ({})", part));
}

Bytes group_of(const Column& column, std::string_view group) {
    const auto at = column.groups.find(group);
    return at == column.groups.end() ? Bytes(0) : at->second;
}

/// What one job changes against the reference, what that costs, and what to measure again.
ReportNote change_note(const Delta& delta, const Column& reference, const Column& job,
                       const std::vector<std::string>& groups) {
    ReportNote note{.head = job.name, .points = {}};
    const auto add = [&](std::string label, std::string text) {
        note.points.emplace_back(std::move(label), std::move(text));
    };
    add("peak", saving_sentence(reference.allocated, job.allocated));
    std::vector<const Technique*> seen;
    for (const KnobChange& knob : delta.knobs) {
        add("turns", fmt::format("{}: {} -> {}", knob.pointer, knob.from, knob.to));
        if (knob.technique != nullptr &&
            std::find(seen.begin(), seen.end(), knob.technique) == seen.end())
            seen.push_back(knob.technique);
    }
    for (const std::string& group : groups) {
        const Bytes from = group_of(reference, group), to = group_of(job, group);
        if (from != to) add("term", fmt::format("{}: {}", group, saving_sentence(from, to)));
    }
    for (const Technique* technique : seen) {
        add("technique", fmt::format("{}, aimed at {}", technique->name, technique->term));
        add("cost", std::string(technique->cost));
        add("limits", std::string(technique->limits));
    }
    for (const std::string& line : delta.measure_next) add("measure", line);
    return note;
}

/// Whether a job kept to the limit of its baseline.
Headline growth_headline(const Baseline& baseline, const Column& job) {
    const bool grown = job.allocated > *baseline.limit;
    // Where two decimals would hide on which side of the limit the job is, every byte is shown.
    const bool tied = job.allocated != *baseline.limit &&
                      format_bytes(job.allocated, Units::decimal) ==
                          format_bytes(*baseline.limit, Units::decimal);
    const auto size = [&](Bytes bytes) {
        return format_bytes(bytes, tied ? Units::exact : Units::decimal);
    };
    return {.verdict = grown ? Verdict::over : Verdict::fits,
            .word = grown ? "OVER THE LIMIT" : "WITHIN THE LIMIT",
            .lines = {fmt::format("{}: {} allocated, the limit is {}", job.name,
                                  size(job.allocated), size(*baseline.limit))}};
}

}  // namespace

Report compare_form(const ReportData& data) {
    std::vector<Column> columns;
    if (data.baseline) columns.push_back(column_of(*data.baseline));
    for (const EstimateReport& report : data.reports) columns.push_back(column_of(report));
    const std::size_t first = data.baseline ? 1 : 0;
    const auto groups = groups_of(columns);
    Bytes largest;
    for (const Column& column : columns) largest = std::max(largest, column.allocated);
    const Scale& scale = scale_for(largest);

    Report report;
    report.title = fmt::format("{} against {}", columns.size() == 2
                                                    ? columns.back().name
                                                    : fmt::format("{} jobs", columns.size() - 1),
                               data.baseline ? data.baseline->file : columns.front().name);
    if (data.reports.front().estimate->job.model == nullptr)
        report.facts.emplace_back("first-order scenarios of stated terms, not measured peaks");
    if (data.baseline && data.baseline->limit)
        report.facts.push_back(
            fmt::format("limit: {} allocated, {} above the baseline",
                        both_units(*data.baseline->limit), data.baseline->allowance));

    if (data.baseline && data.baseline->limit)
        for (auto job = columns.begin() + 1; job != columns.end(); ++job)
            report.headlines.push_back(growth_headline(*data.baseline, *job));

    constexpr std::size_t kAcross = 4;  // as many as fit beside the reference in 80 columns
    for (std::size_t begin = 1; begin < columns.size(); begin += kAcross)
        report.sections.push_back(
            {side_by_side(columns, groups, begin, std::min(begin + kAcross, columns.size()), scale),
             std::nullopt});

    ReportNotes changes{.title = "What each one changes", .notes = {}};
    for (const Delta& delta : data.deltas)
        changes.notes.push_back(
            change_note(delta, columns.front(), columns[delta.report + first], groups));
    if (!changes.notes.empty()) report.sections.push_back({std::nullopt, std::move(changes)});
    return report;
}

}  // namespace membudget::report
