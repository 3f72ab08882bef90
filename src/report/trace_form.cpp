#include <fmt/format.h>

#include <algorithm>

#include "report/figures.hpp"
#include "report/forms.hpp"
#include "report/trace_chart.hpp"

namespace membudget::report {
namespace {

constexpr std::size_t kMostSubjects = 24, kMostSteps = 16, kMostPhases = 16;

std::string cell(const Scale& scale, const std::optional<Bytes>& bytes) {
    return bytes ? scale.in_decimal(*bytes) : "";
}

Bytes peak_of(const TraceSubject& subject) {
    return std::max({subject.live_peak.value_or(Bytes(0)), subject.reserved_peak.value_or(Bytes(0)),
                     subject.device_peak.value_or(Bytes(0))});
}

Headline headline_of(const TraceSubject& subject) {
    Headline out{.verdict = Verdict::none, .word = "PEAK", .lines = {}};
    if (subject.live_peak) {
        out.lines.push_back(fmt::format(
            "{} live{}{}", both_units(*subject.live_peak),
            subject.reserved_at_peak
                ? fmt::format(", {} reserved then", both_units(*subject.reserved_at_peak))
                : "",
            subject.peak_phase.empty() ? "" : ", in " + subject.peak_phase));
    }
    if (subject.reserved_peak)
        out.lines.push_back(fmt::format("{} reserved at most", both_units(*subject.reserved_peak)));
    if (subject.device_peak)
        out.lines.push_back(
            fmt::format("{} used on the device at most{}", both_units(*subject.device_peak),
                        subject.device_total ? " of " + both_units(*subject.device_total) : ""));
    if (out.lines.empty()) out.lines.emplace_back("no figures");
    return out;
}

ReportTable subjects_table(const TraceSummary& summary) {
    Bytes top(0);
    for (const TraceSubject& subject : summary.subjects) top = std::max(top, peak_of(subject));
    const Scale& scale = scale_for(top);
    ReportTable table;
    const std::string unit(scale.decimal);
    table.columns = {{"Devices and ranks", Align::left}, {"figures", Align::right},
                     {"live peak " + unit, Align::right}, {"reserved " + unit, Align::right},
                     {"device " + unit, Align::right}};
    for (std::size_t i = 0; i < std::min(summary.subjects.size(), kMostSubjects); ++i) {
        const TraceSubject& subject = summary.subjects[i];
        table.rows.push_back({subject.name, group_digits(subject.events),
                              cell(scale, subject.live_peak), cell(scale, subject.reserved_peak),
                              cell(scale, subject.device_peak)});
    }
    if (summary.subjects.size() > kMostSubjects)
        table.rows.push_back(
            {fmt::format("{} more", summary.subjects.size() - kMostSubjects), "", "", "", ""});
    return table;
}

ReportTable shares_table(const char* title, const std::vector<LiveShare>& shares, Bytes whole) {
    const Scale& scale = scale_for(whole);
    ReportTable table;
    table.columns = {{title, Align::left},
                     {std::string(scale.decimal), Align::right},
                     {std::string(scale.binary), Align::right},
                     {"share", Align::right},
                     {"blocks", Align::right}};
    Bytes sum(0);
    std::int64_t blocks = 0;
    const auto row = [&](const std::string& name, Bytes bytes, std::int64_t count) {
        table.rows.push_back({name, scale.in_decimal(bytes), scale.in_binary(bytes),
                              share(bytes, whole), count == 0 ? "" : group_digits(count)});
    };
    for (const LiveShare& one : shares) {
        row(one.name, one.bytes, one.blocks);
        sum += one.bytes;
        blocks += one.blocks;
    }
    row("live at the peak", sum, blocks);
    table.total_rows = 1;
    return table;
}

/// The peak in the terms of a ledger, with what of it is certain.
ReportTable sorted_table(const TraceSubject& subject) {
    ReportTable table;
    if (subject.sorted.empty()) return table;
    const SortedInstant& peak = subject.sorted.front();
    const Scale& scale = scale_for(peak.live);
    table.columns = {{"At the peak, by term", Align::left},
                     {std::string(scale.decimal), Align::right},
                     {std::string(scale.binary), Align::right},
                     {"share", Align::right},
                     {"certain", Align::right},
                     {"by", Align::left}};
    const auto row = [&](const std::string& path, Bytes bytes, std::string certain, std::string by) {
        table.rows.push_back({path, scale.in_decimal(bytes), scale.in_binary(bytes),
                              share(bytes, peak.live), std::move(certain), std::move(by)});
    };
    for (const SortedTerm& term : peak.terms)
        row(term.path, term.bytes, scale.in_decimal(term.certain), term.by.front().name);
    if (!peak.unsorted.empty())
        row("unsorted", unsorted_bytes(peak), "", std::string(peak.unsorted.front().why));
    return table;
}

ReportTable phases_table(const TraceSubject& subject) {
    const Scale& scale = scale_for(peak_of(subject));
    ReportTable table;
    const std::string unit(scale.decimal);
    table.columns = {{"Phases", Align::left},
                     {"marks or allocations", Align::right},
                     {"peak " + unit, Align::right},
                     {"at its end " + unit, Align::right}};
    for (std::size_t i = 0; i < std::min(subject.phases.size(), kMostPhases); ++i) {
        const MarkedPeak& phase = subject.phases[i];
        table.rows.push_back({phase.name, group_digits(phase.count), scale.in_decimal(phase.peak),
                              scale.in_decimal(phase.end)});
    }
    if (subject.phases.size() > kMostPhases)
        table.rows.push_back(
            {fmt::format("{} more", subject.phases.size() - kMostPhases), "", "", ""});
    return table;
}

ReportTable steps_table(const TraceSubject& subject) {
    struct Column {
        const char* name;
        std::optional<Bytes> StepLevel::*member;
    };
    constexpr Column kColumns[] = {{"live", &StepLevel::live},
                                   {"peak", &StepLevel::peak},
                                   {"reserved", &StepLevel::reserved},
                                   {"device", &StepLevel::device}};
    const Scale& scale = scale_for(peak_of(subject));
    ReportTable table;
    table.columns = {{"Steps", Align::left}};
    std::vector<const Column*> shown;
    for (const Column& column : kColumns)
        if (std::any_of(subject.steps.begin(), subject.steps.end(),
                        [&](const StepLevel& step) { return (step.*column.member).has_value(); })) {
            shown.push_back(&column);
            table.columns.push_back(
                {fmt::format("{} {}", column.name, scale.decimal), Align::right});
        }
    const auto add = [&](const StepLevel& step) {
        std::vector<std::string> row{std::to_string(step.step)};
        for (const Column* column : shown) row.push_back(cell(scale, step.*(column->member)));
        table.rows.push_back(std::move(row));
    };
    const std::size_t count = subject.steps.size();
    const std::size_t head = count <= kMostSteps ? count : kMostSteps / 2;
    for (std::size_t i = 0; i < head; ++i) add(subject.steps[i]);
    if (count == head) return table;
    std::vector<std::string> gap{
        fmt::format("... {} more", group_digits(static_cast<std::int64_t>(count - kMostSteps)))};
    gap.resize(table.columns.size());
    table.rows.push_back(std::move(gap));
    for (std::size_t i = count - kMostSteps / 2; i < count; ++i) add(subject.steps[i]);
    return table;
}

ReportTable free_table(const TraceSubject& subject) {
    const Scale& scale = scale_for(peak_of(subject));
    ReportTable table;
    const std::string unit(scale.decimal);
    table.columns = {{"Reserved, not live", Align::left}, {"releasable " + unit, Align::right},
                     {"stuck " + unit, Align::right}, {"what it is", Align::left}};
    const auto any = [&](std::int64_t TraceFreeMemory::* part) {
        return (subject.free_at_peak && *subject.free_at_peak.*part > 0) ||
               (subject.free_at_end && *subject.free_at_end.*part > 0);
    };
    const bool pools = any(&TraceFreeMemory::private_pools);
    const bool streams = any(&TraceFreeMemory::other_streams);
    std::string meaning = "whole free segments; free blocks beside live ones";
    if (streams) {
        table.columns.insert(table.columns.end() - 1, {"of other streams " + unit, Align::right});
        meaning += "; those of them that only other streams can use";
    }
    if (pools) {
        table.columns.insert(table.columns.end() - 1, {"private pools " + unit, Align::right});
        meaning += "; of CUDA graphs, for their own use";
    }
    const auto add = [&](const char* when, const std::optional<TraceFreeMemory>& free) {
        if (!free) return;
        std::vector<std::string> row = {when, scale.in_decimal(Bytes(free->releasable)),
                                        scale.in_decimal(Bytes(free->stuck))};
        if (streams) row.push_back(scale.in_decimal(Bytes(free->other_streams)));
        if (pools) row.push_back(scale.in_decimal(Bytes(free->private_pools)));
        row.push_back(table.rows.empty() ? meaning : "");
        table.rows.push_back(std::move(row));
    };
    add("at the peak", subject.free_at_peak);
    add("at the end", subject.free_at_end);
    return table;
}

/// The facts of a message as a table: what it says, in both units.
ReportTable message_table(const OomMessage& message) {
    ReportTable table;
    table.columns = {{"The message", Align::left}, {"GB", Align::right}, {"GiB", Align::right}};
    const auto add = [&](const char* name, const std::optional<Bytes>& bytes) {
        if (bytes)
            table.rows.push_back({name, format_in_unit(*bytes, kGB), format_in_unit(*bytes, kGiB)});
    };
    const auto size = [](const std::optional<PrintedSize>& printed) {
        return printed ? std::optional(printed->bytes) : std::nullopt;
    };
    add("asked for", size(message.requested));
    add("capacity", size(message.capacity));
    add("allowed", size(message.allowed));
    add("free", size(message.free));
    add("allocated", size(message.allocated));
    add("  in private pools", size(message.private_pools));
    add("reserved", reserved_of(message));
    add("  of it in no tensor", size(message.unallocated ? message.unallocated : message.cached));
    add("this process", size(message.this_process));
    for (const ProcessUse& process : message.processes)
        table.rows.push_back({fmt::format("process {}", process.pid),
                              format_in_unit(process.used.bytes, kGB),
                              format_in_unit(process.used.bytes, kGiB)});
    add("other allocations", size(message.other_allocations));
    add("outside the allocator", outside_of(message));
    add("largest free block", size(message.largest_free));
    for (const XlaBuffer& buffer : message.buffers)
        add(("buffer " + buffer.shape).c_str(), buffer.size.bytes);
    return table;
}

void add_subject(Report& report, const TraceSubject& subject) {
    report.sections.push_back({std::nullopt, std::nullopt, draw_levels(subject)});
    if (report.sections.back().drawing.empty()) report.sections.pop_back();
    const auto table = [&](ReportTable one) {
        if (!one.rows.empty()) report.sections.push_back({std::move(one), std::nullopt});
    };
    const Bytes whole = subject.live_peak.value_or(Bytes(0));
    if (!subject.categories.empty())
        table(shares_table("At the peak, by category", subject.categories, whole));
    table(sorted_table(subject));
    if (!subject.stacks.empty())
        table(shares_table("At the peak, by stack", subject.stacks, whole));
    table(free_table(subject));
    if (subject.phases.size() > 1 || !subject.is_series) table(phases_table(subject));
    if (subject.steps.size() > 1) {
        ReportTable steps = steps_table(subject);
        steps.title = fmt::format("Told apart by {}", subject.steps_by);
        table(std::move(steps));
    }
}

}  // namespace

void add_findings(Report& report, std::span<const Finding> findings) {
    if (findings.empty()) return;
    ReportNotes notes{.title = "Findings", .notes = {}};
    for (const Finding& finding : findings) {
        ReportNote note;
        note.head =
            fmt::format("{}{}: {}", finding.kind->name,
                        finding.subject.empty() ? "" : fmt::format(" ({})", finding.subject),
                        finding.kind->title);
        for (const std::string& evidence : finding.evidence)
            note.points.emplace_back("evidence", evidence);
        note.points.emplace_back("does not prove", finding.kind->does_not_prove);
        note.points.emplace_back("measure next", finding.kind->next);
        notes.notes.push_back(std::move(note));
    }
    report.sections.push_back({std::nullopt, std::move(notes)});
}

Report trace_form(const ReportData& data) {
    Report report;
    for (const TraceReport& trace : data.traces) {
        const TraceSummary& summary = trace.summary;
        if (report.title.empty()) report.title = summary.file;
        if (data.traces.size() > 1)
            report.sections.push_back({std::nullopt, ReportNotes{summary.file, {}}});
        else if (const TraceReader* reader = trace_readers().find(summary.kind))
            report.facts.emplace_back(reader->doc);
        const TraceSubject* subject = chosen_subject(summary, trace.subject);
        if (subject != nullptr) {
            report.facts.push_back(fmt::format(
                "{}{}, {} {}", data.traces.size() > 1 ? summary.file + ": " : "", subject->name,
                group_digits(subject->events), subject->is_series ? "samples" : "events"));
            report.headlines.push_back(headline_of(*subject));
        }
        if (!summary.messages.empty())
            report.headlines.push_back(
                {Verdict::over,
                 "OUT OF MEMORY",
                 {trace.findings.empty() ? "" : std::string(trace.findings.front().kind->title)}});
        for (const OomMessage& message : summary.messages) {
            ReportTable table = message_table(message);
            if (!table.rows.empty()) report.sections.push_back({std::move(table), std::nullopt});
        }
        if (summary.subjects.size() > 1)
            report.sections.push_back({subjects_table(summary), std::nullopt});
        if (subject != nullptr) add_subject(report, *subject);
        add_findings(report, trace.findings);
        std::vector<std::string> notes = summary.notes;
        for (const OomMessage& message : summary.messages)
            notes.insert(notes.end(), message.notes.begin(), message.notes.end());
        if (subject != nullptr && !subject->complete)
            notes.emplace_back(
                "the events contradict each other or the state at the end: figures are "
                "approximate");
        add_notes(report, "Notes", notes);
    }
    return report;
}

}  // namespace membudget::report
