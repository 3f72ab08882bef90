#pragma once

/// The forms of reports for people, one per command, and what they share.

#include <span>

#include "membudget/report.hpp"

namespace membudget::report {

[[nodiscard]] Report estimate_form(const ReportData& data);
[[nodiscard]] Report compare_form(const ReportData& data);
[[nodiscard]] Report explain_form(const ReportData& data);
[[nodiscard]] Report inspect_form(const ReportData& data);
[[nodiscard]] Report timeline_form(const ReportData& data);
[[nodiscard]] Report list_form(const ReportData& data);
[[nodiscard]] Report trace_form(const ReportData& data);
[[nodiscard]] Report reconcile_form(const ReportData& data);

/// What a job is, in a few lines under the title of its report.
[[nodiscard]] std::vector<std::string> job_facts(const Job& job);
/// The verdict, the place of the peak and the dominant term.
[[nodiscard]] Headline headline_of(const Ledger& ledger);
/// "one sentence each" notes, or nothing when there are none.
void add_notes(Report& report, std::string title, std::span<const Warning> warnings);
void add_notes(Report& report, std::string title, std::span<const Assumption> assumptions);
void add_notes(Report& report, std::string title, std::span<const std::string> lines);
/// Findings with their evidence, what they do not prove and the next measurement.
void add_findings(Report& report, std::span<const Finding> findings);
/// What an earlier run measured, beside the terms as they are estimated now.
void add_evidence(Report& report, const Receipt& receipt, const Ledger& ledger);

}  // namespace membudget::report
