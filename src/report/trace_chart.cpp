#include "report/trace_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/figures.hpp"

namespace membudget::report {
namespace {

constexpr std::size_t kRows = 14, kMargin = 10, kColumns = 68;

Bytes highest(const CurvePoint& point) {
    return std::max({point.live.value_or(Bytes(0)), point.reserved.value_or(Bytes(0)),
                     point.device.value_or(Bytes(0))});
}

Bytes top_of(const TraceSubject& subject) {
    Bytes top(0);
    for (const CurvePoint& point : subject.curve.points) top = std::max(top, highest(point));
    return top;
}

/// The points of one column of the chart, the highest of each kind.
CurvePoint column_of(const LevelCurve& curve, std::size_t column, std::size_t columns) {
    const std::size_t begin = column * curve.points.size() / columns;
    const std::size_t end = std::max(begin + 1, (column + 1) * curve.points.size() / columns);
    CurvePoint out{.at = curve.points[begin].at, .live = {}, .reserved = {}, .device = {}};
    const auto raise = [](std::optional<Bytes>& into, const std::optional<Bytes>& value) {
        if (value && (!into || *value > *into)) into = value;
    };
    for (std::size_t i = begin; i < std::min(end, curve.points.size()); ++i) {
        raise(out.live, curve.points[i].live);
        raise(out.reserved, curve.points[i].reserved);
        raise(out.device, curve.points[i].device);
    }
    return out;
}

char letter_at(const CurvePoint& point, double level) {
    const auto covers = [&](const std::optional<Bytes>& bytes) {
        return bytes && static_cast<double>(bytes->count()) > level;
    };
    if (covers(point.live)) return '#';
    if (covers(point.reserved)) return '.';
    return covers(point.device) ? ':' : ' ';
}

bool any(const LevelCurve& curve, std::optional<Bytes> CurvePoint::*member) {
    return std::any_of(curve.points.begin(), curve.points.end(),
                       [&](const CurvePoint& point) { return (point.*member).has_value(); });
}

std::string legend_of(const LevelCurve& curve, const Scale& scale) {
    std::string out;
    const auto add = [&](bool shown, std::string_view text) {
        if (shown) out += fmt::format("{}{}", out.empty() ? "" : "   ", text);
    };
    add(any(curve, &CurvePoint::live), "# live");
    add(any(curve, &CurvePoint::reserved), ". reserved");
    add(any(curve, &CurvePoint::device), ": device, all processes");
    return fmt::format("{}{}   ({}, highest of each column)\n", std::string(kMargin, ' '), out,
                       scale.decimal);
}

/// Text inside an element or an attribute of XML.
std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '<') out += "&lt;";
        else if (c == '>') out += "&gt;";
        else if (c == '&') out += "&amp;";
        else if (c == '"') out += "&quot;";
        else if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
    return out;
}

/// A step of the axis of bytes that gives four to eight lines: 1, 2 or 5 times a power of ten.
double tick_for(double top) {
    double tick = std::pow(10, std::floor(std::log10(std::max(top, 1e-9) / 4)));
    for (const double factor : {1.0, 2.0, 5.0, 10.0})
        if (top / (tick * factor) <= 8) return tick * factor;
    return tick * 10;
}

/// Line of one kind of level as the points of a step function.
std::string path_of(const TraceSubject& subject, std::optional<Bytes> CurvePoint::*member,
                    double x0, double width, double y0, double height, double top, bool closed) {
    std::string out;
    const auto& points = subject.curve.points;
    const double step = width / static_cast<double>(points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
        const auto& value = points[i].*member;
        if (!value) continue;
        const double y = y0 - height * static_cast<double>(value->count()) / top;
        const double x = x0 + step * static_cast<double>(i);
        if (out.empty()) out = closed ? fmt::format("M{:.1f},{:.1f} L{:.1f},{:.1f}", x, y0, x, y)
                                      : fmt::format("M{:.1f},{:.1f}", x, y);
        else out += fmt::format(" L{:.1f},{:.1f}", x, y);
        out += fmt::format(" L{:.1f},{:.1f}", x + step, y);
    }
    if (closed && !out.empty()) out += fmt::format(" L{:.1f},{:.1f} Z", x0 + width, y0);
    return out;
}

/// The name without its folders: a title has room for that.
std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

const TraceSubject* chosen_subject(const TraceSummary& summary, std::string_view name) {
    const TraceSubject* best = nullptr;
    for (const TraceSubject& subject : summary.subjects) {
        if (!name.empty() && subject.name == name) return &subject;
        const bool higher =
            best == nullptr || (subject.device >= 0) > (best->device >= 0) ||
            ((subject.device >= 0) == (best->device >= 0) && top_of(subject) > top_of(*best));
        if (higher) best = &subject;
    }
    return best;
}

std::string draw_levels(const TraceSubject& subject) {
    const LevelCurve& curve = subject.curve;
    const Bytes top = top_of(subject);
    if (curve.points.size() < 2 || top == Bytes(0)) return "";
    const Scale& scale = scale_for(top);
    const std::size_t columns = std::min(kColumns, std::max<std::size_t>(curve.points.size(), 2));
    // Few samples get several characters each, so that a chart of four steps is no sliver.
    const std::size_t wide = columns < kColumns / 2 ? kColumns / columns : 1;
    std::string out = legend_of(curve, scale);
    for (std::size_t row = 0; row < kRows; ++row) {
        const double level = static_cast<double>(top.count()) *
                             (static_cast<double>(kRows - row) - 1) / static_cast<double>(kRows);
        const bool labelled = row == 0 || row == kRows / 2;
        const double label = static_cast<double>(top.count()) * static_cast<double>(kRows - row) /
                             static_cast<double>(kRows) / static_cast<double>(scale.decimal_unit);
        std::string line =
            labelled ? fmt::format("{:>8.2f} |", label) : std::string(kMargin - 1, ' ') + "|";
        for (std::size_t column = 0; column < columns; ++column)
            line.append(wide, letter_at(column_of(curve, column, columns), level));
        while (line.ends_with(' ')) line.pop_back();
        out += line + '\n';
    }
    out += fmt::format("{:>8.2f} +{}\n", 0.0, std::string(columns * wide, '-'));
    const std::string first = fmt::format("{} {}", curve.axis, curve.points.front().at);
    const std::string last =
        std::to_string(subject.is_series ? curve.points.back().at : subject.events);
    const std::size_t room = columns * wide;
    out += std::string(kMargin, ' ') + first +
           std::string(room > first.size() + last.size() ? room - first.size() - last.size() : 1,
                       ' ') +
           last + '\n';
    return out;
}

std::string draw_levels_svg(const TraceSubject& subject, const std::string& title) {
    constexpr double kWidth = 900, kHeight = 420, kLeft = 70, kRight = 20, kTop = 50, kBottom = 60;
    const Bytes top = std::max(top_of(subject), Bytes(1));
    const Scale& scale = scale_for(top);
    const double width = kWidth - kLeft - kRight, height = kHeight - kTop - kBottom,
                 y0 = kHeight - kBottom;
    const double units = static_cast<double>(top.count()) / static_cast<double>(scale.decimal_unit);
    const double tick = tick_for(units), ceiling = std::ceil(units / tick) * tick;
    const double bytes = ceiling * static_cast<double>(scale.decimal_unit);

    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
        "{1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n"
        "<text x=\"{2}\" y=\"22\" font-size=\"15\">{3}</text>\n",
        kWidth, kHeight, kLeft, escaped(title));
    for (double at = 0; at <= ceiling + tick / 2; at += tick) {
        const double y = y0 - height * at / ceiling;
        out += fmt::format(
            "<line x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\" stroke=\"#ddd\"/>"
            "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
            kLeft, y, kWidth - kRight, kLeft - 8, y + 4, at);
    }
    struct Layer {
        std::optional<Bytes> CurvePoint::*member;
        const char *name, *fill, *stroke;
    };
    constexpr Layer kLayers[] = {{&CurvePoint::device, "device, all processes", "none", "#999999"},
                                 {&CurvePoint::reserved, "reserved", "none", "#d95f02"},
                                 {&CurvePoint::live, "live", "#7fb3d5", "#1f618d"}};
    double legend = kLeft;
    for (const Layer& layer : kLayers) {
        if (!any(subject.curve, layer.member)) continue;
        const bool closed = layer.fill != std::string_view("none");
        out += fmt::format("<path d=\"{}\" fill=\"{}\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
                           path_of(subject, layer.member, kLeft, width, y0, height, bytes, closed),
                           layer.fill, layer.stroke);
        out += fmt::format("<rect x=\"{0}\" y=\"32\" width=\"12\" height=\"10\" fill=\"{1}\"/>"
                           "<text x=\"{2}\" y=\"41\">{3}</text>\n",
                           legend, layer.stroke, legend + 17, layer.name);
        legend += 60 + 7 * static_cast<double>(std::string_view(layer.name).size());
    }
    const std::string last = std::to_string(subject.is_series && !subject.curve.points.empty()
                                                ? subject.curve.points.back().at
                                                : subject.events);
    out += fmt::format(
        "<line x1=\"{0}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"black\"/>\n"
        "<text x=\"{0}\" y=\"{3}\">{4}</text><text x=\"{2}\" y=\"{3}\" "
        "text-anchor=\"end\">{5}</text>\n"
        "<text x=\"{6}\" y=\"{7}\" text-anchor=\"middle\">{8}</text>\n"
        "<text x=\"16\" y=\"{9}\" transform=\"rotate(-90 16 {9})\" "
        "text-anchor=\"middle\">{10}</text>\n"
        "</svg>\n",
        kLeft, y0, kWidth - kRight, y0 + 18,
        subject.curve.points.empty() ? 0 : subject.curve.points.front().at, last, kLeft + width / 2,
        y0 + 38, subject.curve.axis, kTop + height / 2, scale.decimal);
    return out;
}

std::string draw_traces_svg(const ReportData& data) {
    for (const TraceReport& trace : data.traces)
        if (const TraceSubject* subject = chosen_subject(trace.summary, trace.subject))
            return draw_levels_svg(*subject,
                                   fmt::format("{}: {}", file_name(trace.summary.file), subject->name));
    return draw_levels_svg({}, data.traces.empty() ? "" : data.traces.front().summary.file);
}

}  // namespace membudget::report
