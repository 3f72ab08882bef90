#pragma once

/// Part `report`: neutral tables and notes, and their dialects: text, JSON, Markdown, CSV.
/// Knows not where it goes.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/ledger.hpp"
#include "membudget/membudget.hpp"
#include "membudget/support.hpp"

namespace membudget {

enum class Align { left, right };

/// A neutral table: every cell is text already; the last row may be a total.
struct ReportTable {
    struct Column {
        std::string title;
        Align align = Align::left;
    };
    std::string id;      ///< "terms"
    std::string title;
    std::vector<Column> columns;
    std::vector<std::vector<std::string>> rows;
    bool total_row = false;
};

/// A list of short paragraphs under a title.
struct ReportNotes {
    std::string id;
    std::string title;
    std::vector<std::string> lines;
};

/// One section: a table or notes.
struct ReportSection {
    std::optional<ReportTable> table;
    std::optional<ReportNotes> notes;
};

/// A report for people; machine formats walk the data instead.
struct Report {
    std::string title;
    std::vector<ReportSection> sections;
};

/// One estimate with what belongs to it.
struct EstimateReport {
    std::string name;
    const Estimate* estimate = nullptr;
    std::vector<TechniqueSaving> techniques;
};

/// One side of a comparison against the first.
struct Delta {
    std::string name;
    std::vector<TermDelta> terms;
    std::vector<KnobChange> knobs;
    std::vector<std::string> measure_next;
};

/// Everything a writer may need; `deltas` only for `compare`.
struct ReportData {
    std::string command;
    std::vector<EstimateReport> reports;
    std::vector<Delta> deltas;
    Diagnostics errors;
};

[[nodiscard]] Report make_estimate_report(const EstimateReport& report);
[[nodiscard]] Report make_compare_report(const ReportData& data);

/// An output format.
struct Writer {
    std::string_view name;   ///< "json"
    std::string_view doc;
    /// Writes `data`; `report` is its form for people.
    std::string (*write)(const ReportData& data, const Report& report) = nullptr;
};
[[nodiscard]] Table<Writer> writers();

}  // namespace membudget
