#include <fmt/format.h>

#include <algorithm>

#include "report/chart.hpp"
#include "report/writers.hpp"

namespace membudget::report {
namespace {

/// Width on a terminal: code points, since every text we print is one column per code point or
/// close to it.
std::size_t columns_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

std::string padded(const std::string& cell, std::size_t width, Align align) {
    const std::size_t used = columns_of(cell);
    const std::string space(width > used ? width - used : 0, ' ');
    return align == Align::right ? space + cell : cell + space;
}

/// The escape sequences of a terminal, or nothing at all.
class Paint {
public:
    explicit Paint(bool on) : on_(on) {}
    [[nodiscard]] std::string bold(std::string_view text) const { return wrapped("1", text); }
    [[nodiscard]] std::string dim(std::string_view text) const { return wrapped("2", text); }
    [[nodiscard]] std::string verdict(Verdict verdict, std::string_view text) const {
        switch (verdict) {
            case Verdict::fits: return wrapped("1;32", text);
            case Verdict::over: return wrapped("1;31", text);
            case Verdict::uncertain: return wrapped("1;33", text);
            case Verdict::none: break;
        }
        return bold(text);
    }

private:
    [[nodiscard]] std::string wrapped(std::string_view code, std::string_view text) const {
        return on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
    }
    bool on_;
};

void append_line(std::string& out, std::string line) {
    while (line.ends_with(' ')) line.pop_back();
    out += line;
    out += '\n';
}

/// `lead`, then the words of `text`; later lines are indented below the first word.
void append_paragraph(std::string& out, const std::string& lead, std::string_view text, int width) {
    const std::size_t indent = columns_of(lead);
    const auto room = static_cast<std::size_t>(std::max(width, 40));
    std::string margin = lead;
    for (const std::string& line : wrap(text, room > indent + 20 ? room - indent : 20)) {
        append_line(out, margin + line);
        margin.assign(indent, ' ');
    }
}

/// Width of each column. A last column of prose gives way, so that rows end at `width`.
std::vector<std::size_t> column_widths(const ReportTable& table, int width) {
    std::vector<std::size_t> widths;
    for (const auto& column : table.columns) widths.push_back(columns_of(column.title));
    for (const auto& row : table.rows)
        for (std::size_t i = 0; i < row.size(); ++i)
            widths[i] = std::max(widths[i], columns_of(row[i]));
    constexpr std::size_t kFirstColumn = 22;  // tables below each other line up
    constexpr std::size_t kNarrowestProse = 28;
    widths.front() = std::max(widths.front(), kFirstColumn);
    std::size_t before = 2 * (widths.size() - 1);
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) before += widths[i];
    const auto room = static_cast<std::size_t>(width);
    if (table.columns.back().align == Align::left && before + widths.back() > room)
        widths.back() = std::min(widths.back(),
                                 room > before + kNarrowestProse ? room - before : kNarrowestProse);
    return widths;
}

void append_table(std::string& out, const ReportTable& table, const Paint& paint, int width) {
    if (!table.title.empty()) append_line(out, paint.bold(table.title));
    const auto widths = column_widths(table, width);
    const std::size_t last = widths.size() - 1;
    std::size_t whole = 2 * last;
    for (const std::size_t w : widths) whole += w;

    // A row is one line, and more where its last cell wraps.
    const auto append_row = [&](auto&& cell_at, auto&& style) {
        const auto lines = wrap(cell_at(last), widths[last]);
        for (std::size_t l = 0; l < lines.size(); ++l) {
            std::string line;
            for (std::size_t i = 0; i < last; ++i)
                line += padded(l == 0 ? cell_at(i) : "", widths[i], table.columns[i].align) + "  ";
            line += padded(lines[l], widths[last], table.columns[last].align);
            while (line.ends_with(' ')) line.pop_back();
            append_line(out, style(line));
        }
    };
    const auto bold = [&](const std::string& line) { return paint.bold(line); };
    const auto plain = [](const std::string& line) { return line; };
    append_row([&](std::size_t i) { return table.columns[i].title; }, bold);
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
        const bool total = r + table.total_rows >= table.rows.size();
        if (total && r + table.total_rows == table.rows.size() && r > 0)
            append_line(out, paint.dim(std::string(whole, '-')));
        const auto cell_at = [&](std::size_t i) { return table.rows[r][i]; };
        if (total)
            append_row(cell_at, bold);
        else
            append_row(cell_at, plain);
    }
}

void append_notes(std::string& out, const ReportNotes& notes, const Paint& paint, int width) {
    if (!notes.title.empty()) append_line(out, paint.bold(notes.title));
    for (const ReportNote& note : notes.notes) {
        if (note.points.empty()) {
            append_paragraph(out, notes.title.empty() ? "" : "- ", note.head, width);
            continue;
        }
        if (!note.head.empty()) append_paragraph(out, "", note.head, width);
        std::size_t label_width = 0;
        for (const auto& [label, text] : note.points)
            label_width = std::max(label_width, columns_of(label));
        for (const auto& [label, text] : note.points)
            append_paragraph(out, "  " + padded(label, label_width, Align::left) + "  ", text,
                             width);
    }
}

}  // namespace

std::string write_text(const ReportData& data, const WriteOptions& options) {
    const Report report = make_report(data);
    const Paint paint(options.colour);
    std::string out;
    if (!report.title.empty()) append_line(out, paint.bold(report.title));
    for (const std::string& fact : report.facts) append_paragraph(out, "", fact, options.width);
    for (const Headline& headline : report.headlines) {
        if (!out.empty()) out += '\n';
        append_line(out, paint.verdict(headline.verdict, headline.word) + "  " +
                             (headline.lines.empty() ? "" : headline.lines.front()));
        const std::string margin(columns_of(headline.word) + 2, ' ');
        for (std::size_t i = 1; i < headline.lines.size(); ++i)
            append_paragraph(out, margin, headline.lines[i], options.width);
    }
    for (const ReportSection& section : report.sections) {
        if (!out.empty()) out += '\n';
        out += section.drawing;
        if (section.chart) out += draw_chart(*section.chart, options.width, options.colour);
        if (section.table) append_table(out, *section.table, paint, options.width);
        if (section.notes) append_notes(out, *section.notes, paint, options.width);
    }
    return out;
}

}  // namespace membudget::report

namespace membudget {

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
    std::vector<std::string> lines;
    std::string line;
    std::size_t used = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        const std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t needed = report::columns_of(word);
        if (!line.empty() && used + 1 + needed > width) {
            lines.push_back(std::exchange(line, {}));
            used = 0;
        }
        if (!line.empty()) {
            line += ' ';
            ++used;
        }
        line += word;
        used += needed;
    }
    lines.push_back(std::move(line));
    return lines;
}

}  // namespace membudget
