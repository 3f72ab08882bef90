#pragma once

/// Part `report`: neutral tables and notes, and their dialects: text, JSON, Markdown, CSV, SVG.
/// Knows not where it goes.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "membudget/diagnosis.hpp"
#include "membudget/ledger.hpp"
#include "membudget/membudget.hpp"
#include "membudget/support.hpp"

namespace membudget {

// --- what is reported ----------------------------------------------------------------------------

/// One estimate with what belongs to it.
struct EstimateReport {
    std::string name;
    const Estimate* estimate = nullptr;
    std::vector<TechniqueSaving> techniques;
};

/// An earlier estimate against which jobs are compared, from its JSON report.
struct Baseline {
    std::string file;
    std::string name;
    Bytes allocated;                            ///< point
    std::vector<std::pair<std::string, Bytes>> terms;  ///< leaves at the peak
    std::optional<Bytes> limit;                 ///< the most that a job may need; inclusive
    std::string allowance;                      ///< "5%", as the user wrote it
};

/// Reads what `estimate --format json` wrote. Another schema version than 1.x is unsupported.
[[nodiscard]] Result<Baseline> read_baseline(std::string_view text, std::string_view file);

/// One job of a comparison against the reference: the first job, or the baseline.
struct Delta {
    std::size_t report = 0;                     ///< index of the job in `ReportData::reports`
    std::vector<TermDelta> terms;               ///< reference -> job
    std::vector<KnobChange> knobs;              ///< empty against a baseline: its spec is unknown
    std::vector<std::string> measure_next;
};

/// A term in full, or an instant of the step, for `explain`.
struct Explanation {
    std::string path;                           ///< a leaf, or a prefix of several; empty: all
    std::string when = "peak";                  ///< the instant, as the user named it
    std::optional<Instant> at;                  ///< absent where only numbers are stated
    std::vector<LiveTensor> tensors;            ///< live at the instant under `path`
};

/// A step event by event, for `timeline`.
struct TimelineReport {
    const Timeline* timeline = nullptr;
    Instant peak;
};

/// A model, for `inspect`.
struct Inspection {
    std::string name;
    const Model* model = nullptr;
    std::vector<WeightReport> weights;          ///< files that were checked against it
};

/// One file of `trace`, or what `reconcile` compares with.
struct TraceReport {
    TraceSummary summary;
    std::vector<Finding> findings;
    std::string subject;                        ///< the one to show in full; empty: the highest
};

/// Rows of a table of the program, for `list`.
struct Listing {
    std::string kind;                           ///< "optimizers"
    std::vector<std::string> columns;           ///< the first is "name"
    std::vector<std::vector<std::string>> rows;
};

/// Everything a writer may need; what a command does not fill is absent.
struct ReportData {
    std::string command;
    std::vector<EstimateReport> reports;
    std::vector<Delta> deltas;
    std::optional<Baseline> baseline;
    std::optional<Explanation> explanation;
    std::vector<TraceReport> traces;
    std::optional<Reconciliation> reconciliation;
    std::optional<Receipt> receipt;             ///< evidence beside the terms of an estimate
    std::optional<TimelineReport> timeline;
    std::optional<Inspection> inspection;
    std::optional<Listing> listing;
    Diagnostics errors;                         ///< when not empty, nothing else counts
};

// --- its form for people -------------------------------------------------------------------------

enum class Align { left, right };

/// A neutral table: every cell is text already. Leading spaces of a first cell show its depth.
struct ReportTable {
    struct Column {
        std::string title;
        Align align = Align::left;
    };
    std::string title;
    std::vector<Column> columns;
    std::vector<std::vector<std::string>> rows;
    std::size_t total_rows = 0;                 ///< so many of the last rows are totals
};

/// A paragraph, or a heading with labelled points below it.
struct ReportNote {
    std::string head;
    std::vector<std::pair<std::string, std::string>> points;  ///< label, text
};

/// Notes under a title.
struct ReportNotes {
    std::string title;
    std::vector<ReportNote> notes;
};

/// One section: a chart of the step, a table, notes.
struct ReportSection {
    std::optional<ReportTable> table;
    std::optional<ReportNotes> notes;
    std::string drawing = {};                   ///< lines to be shown as they are
    std::optional<TimelineReport> chart = std::nullopt;
};

/// What matters most, in a word and a sentence.
struct Headline {
    Verdict verdict = Verdict::none;
    std::string word;                           ///< "FITS"
    std::vector<std::string> lines;
};

/// A report for people; machine formats walk the data instead.
struct Report {
    std::string title;
    std::vector<std::string> facts;
    std::vector<Headline> headlines;
    std::vector<ReportSection> sections;
};

/// The form that belongs to the command of `data`.
[[nodiscard]] Report make_report(const ReportData& data);

/// The verdict in one line, for a log: "over: NAME: 96.00 GB allocated, 80.00 GB usable: ...".
[[nodiscard]] std::string verdict_line(const EstimateReport& report);

/// The same for a job that grew beyond the limit of a baseline.
[[nodiscard]] std::string growth_line(const Baseline& baseline, const EstimateReport& report);

// --- formats -------------------------------------------------------------------------------------

/// How text meets its reader.
struct WriteOptions {
    bool colour = false;
    int width = 80;   ///< paragraphs are wrapped at this column
};

/// An output format.
struct Writer {
    std::string_view name;   ///< "json"
    std::string_view doc;
    std::string (*write)(const ReportData& data, const WriteOptions& options) = nullptr;
    std::string_view commands = {};  ///< the only ones that it can write, by spaces; empty: all
    bool lists_rows = false;        ///< writes all rows of what people get a summary of
};
[[nodiscard]] Table<Writer> writers();
/// Whether `writer` can write the report of `command`.
[[nodiscard]] bool writes(const Writer& writer, std::string_view command);
/// Names of the formats of `command`, in the order of the table.
[[nodiscard]] std::vector<std::string_view> formats_of(std::string_view command);

/// Breaks `text` at spaces so that no line is longer than `width`; a longer word stands alone.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, std::size_t width);

}  // namespace membudget
