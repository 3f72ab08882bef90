#include <fmt/format.h>

#include "report/chart.hpp"
#include "report/writers.hpp"

namespace membudget::report {
namespace {

/// Text that Markdown would read as markup is escaped; leading spaces, which show depth, are kept.
std::string escaped(std::string_view text) {
    std::string out;
    while (text.starts_with(' ')) {
        out += "&nbsp;";
        text.remove_prefix(1);
    }
    for (const char c : text) {
        if (c == '\n' || c == '\r') {
            out += ' ';
            continue;
        }
        if (std::string_view("|\\`*_[]<>#").find(c) != std::string_view::npos) out += '\\';
        out += c;
    }
    return out;
}

void append_table(std::string& out, const ReportTable& table) {
    if (!table.title.empty()) out += fmt::format("### {}\n\n", escaped(table.title));
    out += '|';
    for (const auto& column : table.columns) out += fmt::format(" {} |", escaped(column.title));
    out += "\n|";
    for (const auto& column : table.columns)
        out += column.align == Align::right ? " ---: |" : " :--- |";
    out += '\n';
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
        const bool total = r + table.total_rows >= table.rows.size();
        out += '|';
        for (const std::string& cell : table.rows[r])
            out += cell.empty() ? std::string(" |")
                                : fmt::format(" {0}{1}{0} |", total ? "**" : "", escaped(cell));
        out += '\n';
    }
}

void append_notes(std::string& out, const ReportNotes& notes) {
    if (!notes.title.empty()) out += fmt::format("### {}\n\n", escaped(notes.title));
    for (const ReportNote& note : notes.notes) {
        if (note.points.empty()) {
            out += fmt::format("- {}\n", escaped(note.head));
            continue;
        }
        if (!note.head.empty()) out += fmt::format("- **{}**\n", escaped(note.head));
        for (const auto& [label, text] : note.points)
            out += fmt::format("{}- {}: {}\n", note.head.empty() ? "" : "  ", escaped(label),
                               escaped(text));
    }
}

}  // namespace

std::string write_markdown(const ReportData& data, const WriteOptions&) {
    const Report report = make_report(data);
    std::string out = fmt::format("## {}\n", escaped(report.title));
    for (const std::string& fact : report.facts) out += fmt::format("\n{}\n", escaped(fact));
    for (const Headline& headline : report.headlines) {
        out += fmt::format("\n**{}**", escaped(headline.word));
        const char* separator = " ";
        for (const std::string& line : headline.lines) {
            out += separator + escaped(line);
            separator = "; ";
        }
        out += '\n';
    }
    for (const ReportSection& section : report.sections) {
        if (!section.drawing.empty()) out += fmt::format("\n```text\n{}```\n", section.drawing);
        if (section.chart)
            out += fmt::format("\n```text\n{}```\n", draw_chart(*section.chart, 80, false));
        if (section.table) {
            out += '\n';
            append_table(out, *section.table);
        }
        if (section.notes && !section.notes->notes.empty()) {
            out += '\n';
            append_notes(out, *section.notes);
        }
    }
    return out;
}

}  // namespace membudget::report
