#include "report/chart.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "report/curve.hpp"
#include "report/figures.hpp"

namespace membudget::report {
namespace {

constexpr std::size_t kRows = 16;
constexpr std::size_t kMargin = 10;      // for the axis: "  33.19 |"
constexpr std::size_t kLeastColumns = 5; // of a phase: room for "loss"

/// The band of each term: the rank of its group.
std::vector<std::size_t> bands_of(const TermTable& terms) {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < terms.size(); ++i)
        out.push_back(rank_of(first_component(terms.path(static_cast<TermId>(i)))));
    return out;
}

/// The band whose share of the stack covers `level`; null above it.
const GroupStyle* band_at(const Curve::Column& column, std::span<const GroupStyle* const> bands,
                          double level) {
    double sum = 0;
    for (std::size_t i = 0; i < column.series.size(); ++i) {
        sum += static_cast<double>(column.series[i].count());
        if (sum > level) return bands[i];
    }
    return nullptr;
}

std::string_view fitting(std::initializer_list<std::string_view> names, std::size_t room) {
    for (const std::string_view name : names)
        if (name.size() <= room) return name;
    return "";
}

std::string_view label_of(const CurveSegment& segment) {
    const std::size_t room = segment.columns - 1;
    if (segment.start) return "";
    switch (segment.phase) {
        case Phase::forward: return fitting({"forward", "fwd"}, room);
        case Phase::loss: return fitting({"loss"}, room);
        case Phase::backward: return fitting({"backward", "bwd"}, room);
        case Phase::optimizer_step: break;
    }
    return fitting({"optimizer step", "optimizer", "optim", "opt"}, room);
}

/// Letters of one row, colour changing only where the letter does.
class Row {
public:
    explicit Row(bool colour) : colour_(colour) {}
    void put(const GroupStyle* style) {
        if (style == nullptr) {
            blanks_ += 1;
            return;
        }
        end(style);
        text_.append(blanks_, ' ');
        blanks_ = 0;
        if (colour_ && current_ != style) text_ += fmt::format("\x1b[{}m", style->terminal);
        current_ = style;
        text_ += style->letter;
    }
    [[nodiscard]] std::string take() {
        end(nullptr);
        return std::move(text_);
    }

private:
    void end(const GroupStyle* next) {
        if (colour_ && current_ != nullptr && (next != current_ || blanks_ > 0)) {
            text_ += "\x1b[0m";
            current_ = nullptr;
        }
    }
    const bool colour_;
    std::string text_;
    std::size_t blanks_ = 0;
    const GroupStyle* current_ = nullptr;
};

void append_peak_mark(std::string& out, const TimelineReport& report, std::size_t column,
                      std::size_t columns, Phase phase) {
    const std::string size = format_bytes(report.peak.live, Units::decimal);
    std::string line(kMargin + column, ' ');
    line += 'v';
    // Beside the mark, on the side with more room.
    for (const std::string& text : {fmt::format("peak {} in {}", size, phase_in_prose(phase)),
                                    fmt::format("peak {}", size)}) {
        if (column + 2 + text.size() <= columns) {
            line += ' ' + text;
            break;
        }
        if (column > text.size()) {
            line.replace(kMargin + column - text.size() - 1, text.size(), text);
            break;
        }
    }
    out += line + '\n';
}

/// The phases under the axis; micro-batches under them where there are several.
void append_axis(std::string& out, const Curve& curve) {
    std::string ticks(kMargin - 1, ' ');
    std::string phases(kMargin, ' ');
    std::string batches(kMargin, ' ');
    ticks += '+';
    std::int64_t micro_batch = kNoMicroBatch;
    const auto at_column = [](std::string& line, std::size_t column, const std::string& text) {
        line.resize(std::max(line.size(), kMargin + column), ' ');
        line += text;
    };
    for (const CurveSegment& segment : curve.segments) {
        ticks += (segment.start ? '-' : '|') + std::string(segment.columns - 1, '-');
        at_column(phases, segment.first, std::string(label_of(segment)));
        if (segment.start || segment.micro_batch == kNoMicroBatch ||
            segment.micro_batch == micro_batch)
            continue;
        micro_batch = segment.micro_batch;
        at_column(batches, segment.first,
                  segment.alike > 1
                      ? fmt::format("|{} to {}, alike", micro_batch + 1, micro_batch + segment.alike)
                      : fmt::format("|micro-batch {}", micro_batch + 1));
    }
    out += ticks + '\n' + phases + '\n';
    if (micro_batch > 0) out += batches + '\n';
}

}  // namespace

std::string draw_chart(const TimelineReport& report, int width, bool colour) {
    const TermTable& terms = report.timeline->step.terms;
    const std::size_t bands = rank_of("") + 1;
    const auto room = static_cast<std::size_t>(std::max(width, 60)) - kMargin;
    const Curve curve = make_curve(*report.timeline, room, kLeastColumns, bands_of(terms), bands);
    std::vector<const GroupStyle*> styles;
    for (std::size_t i = 0; i < bands; ++i) styles.push_back(&style_at(i));

    std::string out;
    const Scale& scale = scale_for(report.peak.live);
    append_peak_mark(out, report, curve.peak_column, curve.columns.size(),
                     report.peak.stretch.leaf->phase);
    const auto peak = static_cast<double>(report.peak.live.count());
    for (std::size_t row = kRows; row-- > 0;) {
        // A quarter of the height has its level written at its upper edge.
        const std::size_t top = row + 1;
        const Bytes level(report.peak.live.count() / static_cast<std::int64_t>(kRows) *
                          static_cast<std::int64_t>(top));
        const std::string label =
            top == kRows ? fmt::format("{} {}", scale.in_decimal(report.peak.live), scale.decimal)
            : top % 4 == 0 ? scale.in_decimal(level)
                           : "";
        Row cells(colour);
        for (const Curve::Column& column : curve.columns)
            cells.put(band_at(column, styles,
                              peak * (static_cast<double>(row) + 0.5) / static_cast<double>(kRows)));
        out += fmt::format("{:>{}}|{}\n", label, kMargin - 1, cells.take());
    }
    append_axis(out, curve);
    return out;
}

}  // namespace membudget::report
