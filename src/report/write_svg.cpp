#include <algorithm>

#include <fmt/format.h>

#include "report/curve.hpp"
#include "report/figures.hpp"
#include "report/trace_chart.hpp"
#include "report/writers.hpp"

/// A stacked area chart of one step. Coordinates are whole tenths of a pixel, so that the same step
/// gives the same bytes anywhere.

namespace membudget::report {
namespace {

constexpr int kWidth = 1120, kHeight = 560;
constexpr int kLeft = 84, kRight = 400, kTop = 92, kBottom = 82;
constexpr int kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr std::size_t kColumns = 636;
constexpr std::size_t kLeastColumns = 22;

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '"': out += "&quot;"; break;
            default: out += c;
        }
    }
    return out;
}

/// One band of the stack: a ledger term, or all that are too small to be seen.
struct Band {
    std::string name;
    std::string colour;
    Bytes at_peak, max;
};

/// The colour of the n-th term of a group: the group's own, then lighter ones.
std::string shade(std::string_view rgb, std::size_t n) {
    const int percent = static_cast<int>(std::min<std::size_t>(n, 4)) * 16;
    std::string out = "#";
    for (std::size_t i = 1; i < 7; i += 2) {
        const int value = std::stoi(std::string(rgb.substr(i, 2)), nullptr, 16);
        out += fmt::format("{:02x}", value + (255 - value) * percent / 100);
    }
    return out;
}

struct Bands {
    std::vector<Band> rows;                ///< bottom first
    std::vector<std::size_t> of_term;
};

/// Terms from the bottom of the stack upwards; what never reaches 1.5 % of the peak is one band.
Bands bands_of(const Step& step) {
    const auto value = [](const TermBytes& bytes, std::size_t i) { return i < bytes.size() ? bytes[i] : 0; };
    std::vector<std::size_t> shown;
    for (std::size_t i = 0; i < step.terms.size(); ++i)
        if (value(step.profile.max, i) > step.profile.peak / 1000 * 15) shown.push_back(i);
    const auto path = [&](std::size_t i) -> const std::string& {
        return step.terms.path(static_cast<TermId>(i));
    };
    std::stable_sort(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
        const std::size_t of_a = rank_of(first_component(path(a)));
        const std::size_t of_b = rank_of(first_component(path(b)));
        return of_a != of_b ? of_a < of_b : value(step.profile.max, a) > value(step.profile.max, b);
    });
    Bands out;
    out.of_term.assign(step.terms.size(), shown.size());
    std::vector<std::size_t> used(rank_of("") + 1);
    for (const std::size_t i : shown) {
        const std::size_t rank = rank_of(first_component(path(i)));
        out.of_term[i] = out.rows.size();
        out.rows.push_back({path(i), shade(style_at(rank).rgb, used[rank]++),
                            Bytes(value(step.profile.at_peak, i)), Bytes(value(step.profile.max, i))});
    }
    Band rest{"smaller terms", "#c9ccd1", Bytes(0), Bytes(0)};
    for (std::size_t i = 0; i < step.terms.size(); ++i)
        if (out.of_term[i] == shown.size()) rest.at_peak += Bytes(value(step.profile.at_peak, i));
    out.rows.push_back(std::move(rest));
    return out;
}

/// Places in the drawing, in tenths of a pixel.
class Scales {
public:
    Scales(const Curve& curve, Bytes peak) : columns_(curve.columns.size()) {
        // The axis ends at the first round level above the peak.
        std::int64_t unit = 1;
        while (peak.count() / unit >= 10) unit *= 10;
        for (const std::int64_t step : {unit / 5, unit / 2, unit}) {
            step_ = std::max<std::int64_t>(step, 1);
            if (peak.count() / step_ <= 8) break;
        }
        top_ = (peak.count() / step_ + 1) * step_;
    }
    [[nodiscard]] std::int64_t x(std::size_t column) const {
        return kLeft * 10 + static_cast<std::int64_t>(column * static_cast<std::size_t>(kPlotWidth) * 10 /
                                                      std::max<std::size_t>(columns_, 1));
    }
    [[nodiscard]] std::int64_t y(Bytes level) const {
        const double share = ratio(level, Bytes(top_));
        return (kTop + kPlotHeight) * 10 - static_cast<std::int64_t>(share * kPlotHeight * 10 + 0.5);
    }
    [[nodiscard]] std::int64_t step() const { return step_; }
    [[nodiscard]] std::int64_t top() const { return top_; }

private:
    std::size_t columns_;
    std::int64_t step_ = 1, top_ = 1;
};

std::string at(std::int64_t tenths) {
    return tenths % 10 == 0 ? fmt::format("{}", tenths / 10)
                            : fmt::format("{}.{}", tenths / 10, tenths % 10);
}

void text(std::string& out, std::int64_t x, std::int64_t y, std::string_view style,
          std::string_view words) {
    out += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", at(x), at(y), style.empty() ? "" : " ",
                       style, escaped(words));
}

void line(std::string& out, std::int64_t x1, std::int64_t y1, std::int64_t x2, std::int64_t y2,
          std::string_view style) {
    out += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>\n", at(x1), at(y1), at(x2),
                       at(y2), style);
}

/// Horizontal lines with their level in GB on the left, and the same level in GiB on the right.
void append_grid(std::string& out, const Scales& scales, const Scale& unit) {
    constexpr std::int64_t kEnd = (kLeft + kPlotWidth) * 10;
    for (std::int64_t level = 0; level <= scales.top(); level += scales.step()) {
        const std::int64_t y = scales.y(Bytes(level));
        line(out, kLeft * 10, y, kEnd, y, "class=\"grid\"");
        text(out, (kLeft - 8) * 10, y + 40, "class=\"end\"", unit.in_decimal(Bytes(level)));
        text(out, kEnd + 80, y + 40, "class=\"dim\"", unit.in_binary(Bytes(level)));
    }
    text(out, (kLeft - 8) * 10, (kTop - 14) * 10, "class=\"end dim\"", unit.decimal);
    text(out, kEnd + 80, (kTop - 14) * 10, "class=\"dim\"", unit.binary);
}

void append_bands(std::string& out, const Curve& curve, const Bands& bands, const Scales& scales) {
    std::vector<Bytes> below(curve.columns.size());
    for (std::size_t b = 0; b < bands.rows.size(); ++b) {
        std::string upper, lower;
        bool any = false;
        for (std::size_t c = 0; c < curve.columns.size(); ++c) {
            const Bytes from = below[c];
            const Bytes to = from + curve.columns[c].series[b];
            any = any || to > from;
            upper += fmt::format("{}{} {} H{}", c == 0 ? "M" : " L", at(scales.x(c)), at(scales.y(to)),
                                 at(scales.x(c + 1)));
            lower = fmt::format(" L{} {} H{}", at(scales.x(c + 1)), at(scales.y(from)), at(scales.x(c))) +
                    lower;
            below[c] = to;
        }
        if (any)
            out += fmt::format("<path fill=\"{}\" d=\"{}{} Z\"><title>{}</title></path>\n",
                               bands.rows[b].colour, upper, lower, escaped(bands.rows[b].name));
    }
}

/// Which phase is where, and which micro-batch.
void append_phases(std::string& out, const Curve& curve, const Scales& scales) {
    constexpr std::int64_t kBase = (kTop + kPlotHeight) * 10;
    std::int64_t micro_batch = kNoMicroBatch;
    const bool several = std::any_of(curve.segments.begin(), curve.segments.end(),
                                     [](const CurveSegment& s) { return s.micro_batch > 0; });
    for (const CurveSegment& segment : curve.segments) {
        if (segment.start) continue;
        const std::int64_t from = scales.x(segment.first);
        const std::int64_t to = scales.x(segment.first + segment.columns);
        line(out, from, kTop * 10, from, kBase + 60, "class=\"phase\"");
        const bool step = segment.phase == Phase::optimizer_step;
        const std::string name = step ? "step" : std::string(name_of(segment.phase));
        const bool narrow = to - from < 10 * static_cast<std::int64_t>(7 * name.size());
        if (!narrow || segment.phase == Phase::loss || step)
            text(out, (from + to) / 2, kBase + (narrow && !step ? 300 : 180), "class=\"middle\"", name);
        if (!several || segment.micro_batch == kNoMicroBatch || segment.micro_batch == micro_batch) continue;
        micro_batch = segment.micro_batch;
        text(out, from + 30, kBase + 460, "class=\"dim\"",
             segment.alike > 1 ? fmt::format("micro-batches {} to {}, alike", micro_batch + 1,
                                             micro_batch + segment.alike)
                               : fmt::format("micro-batch {}", micro_batch + 1));
    }
    line(out, kLeft * 10, kBase, (kLeft + kPlotWidth) * 10, kBase, "class=\"axis\"");
    text(out, kLeft * 10, kBase + 680, "class=\"dim\"",
         "allocations and frees in their order (not time); each column shows the highest of its instants");
}

void append_legend(std::string& out, const Bands& bands, const Scale& unit) {
    constexpr std::int64_t kX = (kLeft + kPlotWidth + 78) * 10;
    std::int64_t y = (kTop + 4) * 10;
    text(out, kX + 3000, (kTop - 14) * 10, "class=\"end dim\"", fmt::format("{} at the peak", unit.decimal));
    for (std::size_t b = bands.rows.size(); b-- > 0;) {
        const Band& band = bands.rows[b];
        out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", at(kX),
                           at(y - 100), band.colour);
        text(out, kX + 180, y, "", band.name);
        text(out, kX + 3000, y, "class=\"end\"", unit.in_decimal(band.at_peak));
        y += 200;
    }
}

constexpr std::string_view kStyle =
    "<style>text{font:12px sans-serif;fill:#22262b}.title{font-size:17px;font-weight:bold}"
    ".dim{fill:#6a717a}.end{text-anchor:end}.middle{text-anchor:middle}"
    ".grid{stroke:#d9dce0;stroke-width:1}.axis{stroke:#22262b;stroke-width:1}"
    ".phase{stroke:#22262b;stroke-width:1;stroke-dasharray:2 3}"
    ".peak{stroke:#b3261e;stroke-width:1.5}.peaktext{fill:#b3261e;font-weight:bold}</style>\n";

}  // namespace

std::string write_svg(const ReportData& data, const WriteOptions&) {
    if (data.command == "trace") return draw_traces_svg(data);
    const EstimateReport& of = data.reports.front();
    const Ledger& ledger = of.estimate->ledger;
    const Timeline& timeline = *data.timeline->timeline;
    const Bands bands = bands_of(timeline.step);
    const Curve curve = make_curve(timeline, kColumns, kLeastColumns, bands.of_term, bands.rows.size());
    const Scales scales(curve, ledger.allocated.point);
    const Scale& unit = scale_for(ledger.allocated.point);

    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n",
        kWidth, kHeight);
    out += kStyle;
    out += fmt::format("<rect width=\"{}\" height=\"{}\" fill=\"#ffffff\"/>\n", kWidth, kHeight);
    text(out, kLeft * 10, 280, "class=\"title\"", of.name);
    text(out, kLeft * 10, 480, "class=\"dim\"",
         fmt::format("live bytes over one training step; peak {} allocated, in {}",
                     both_units(ledger.allocated.point), place_in_prose(ledger.peak)));
    append_grid(out, scales, unit);
    append_bands(out, curve, bands, scales);
    append_phases(out, curve, scales);
    const std::int64_t x = (scales.x(curve.peak_column) + scales.x(curve.peak_column + 1)) / 2;
    const std::int64_t y = scales.y(ledger.allocated.point);
    const bool left = x > (kLeft + kPlotWidth / 2) * 10;
    line(out, x, y - 160, x, y, "class=\"peak\"");
    text(out, left ? x - 50 : x + 50, y - 80, left ? "class=\"peaktext end\"" : "class=\"peaktext\"",
         fmt::format("peak {}", format_bytes(ledger.allocated.point, Units::decimal)));
    append_legend(out, bands, unit);
    out += "</svg>\n";
    return out;
}

}  // namespace membudget::report
