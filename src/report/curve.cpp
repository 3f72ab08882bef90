#include "report/curve.hpp"

#include <algorithm>
#include <iterator>

namespace membudget::report {
namespace {

// From the bottom of the stack upwards: what stays below what comes and goes.
constexpr GroupStyle kStyles[] = {
    {"parameters", 'P', 34, "#3b6fb6"},
    {"optimizer_states", 'O', 36, "#3a9e8f"},
    {"gradients", 'G', 33, "#d9a441"},
    {"activations", 'A', 32, "#7bae4b"},
    {"temporaries", 'T', 31, "#cf5c4c"},
    {"communication", 'C', 35, "#8d6bb8"},
    {"workspace", 'W', 90, "#a0785a"},
    {"padding", 'D', 90, "#8a8f98"},
    {"allocator", 'R', 90, "#5f6670"},
    {"", 'X', 90, "#b0a090"},
};

/// What goes as the model's forward returns stands with the loss that was computed in it.
bool same_segment(const CurveSegment& segment, const Stretch& stretch, bool start) {
    const Phase phase = stretch.leaf->phase;
    return (segment.phase == phase || (segment.phase == Phase::loss && phase == Phase::forward)) &&
           segment.start == start && segment.micro_batch == stretch.micro_batch;
}

/// Consecutive stretches of one phase and micro-batch.
std::vector<CurveSegment> segments_of(const Timeline& timeline) {
    std::vector<CurveSegment> out;
    for_each_stretch(timeline, MicroBatches::distinct, [&](const Stretch& stretch) {
        const bool start = std::string_view(stretch.leaf->pass) == "start";
        if (out.empty() || !same_segment(out.back(), stretch, start))
            out.push_back({stretch.leaf->phase, start, stretch.micro_batch, stretch.alike, 0, 0, 0});
        out.back().events += static_cast<std::int64_t>(stretch.leaf->events.size());
    });
    return out;
}

/// Gives each segment its columns: the least, and a share of the rest by its events. Phases of stated
/// numbers have no events of their own to measure them by: they are equally long.
void lay_out(std::vector<CurveSegment>& segments, bool by_events, std::size_t width,
             std::size_t least) {
    std::int64_t events = 0;
    std::size_t used = 0;
    const auto weight = [&](const CurveSegment& segment) -> std::int64_t {
        return segment.start ? 0 : by_events ? segment.events : 1;
    };
    for (CurveSegment& segment : segments) {
        segment.columns = segment.start ? std::max<std::size_t>(1, least / 4) : least;
        used += segment.columns;
        events += weight(segment);
    }
    const auto rest = static_cast<double>(width > used ? width - used : 0);
    double exact = 0;
    std::size_t given = 0, at = 0;
    for (CurveSegment& segment : segments) {
        if (events > 0)
            exact += rest * static_cast<double>(weight(segment)) / static_cast<double>(events);
        const auto until = static_cast<std::size_t>(exact + 0.5);
        segment.columns += until - given;
        given = until;
        segment.first = at;
        at += segment.columns;
    }
}

}  // namespace

std::size_t rank_of(std::string_view group) {
    const auto* end = std::prev(std::end(kStyles));
    return static_cast<std::size_t>(
        std::find_if(std::begin(kStyles), end, [&](const GroupStyle& row) { return row.name == group; }) -
        std::begin(kStyles));
}

const GroupStyle& style_at(std::size_t rank) { return kStyles[rank]; }

const GroupStyle& style_of(std::string_view group) { return style_at(rank_of(group)); }

Curve make_curve(const Timeline& timeline, std::size_t width, std::size_t least,
                 const std::vector<std::size_t>& series_of, std::size_t series) {
    Curve curve;
    curve.segments = segments_of(timeline);
    lay_out(curve.segments, timeline.model != nullptr, width, least);
    const CurveSegment* last = curve.segments.empty() ? nullptr : &curve.segments.back();
    curve.columns.resize(last == nullptr ? 0 : last->first + last->columns);

    Curve::Column now{Bytes(0), std::vector<Bytes>(series)};
    Bytes highest;
    std::size_t segment = 0;
    std::int64_t event_of_segment = 0;
    std::size_t drawn = 0;  // columns that hold something
    const auto draw = [&](std::size_t column) {
        for (; drawn <= column; ++drawn) curve.columns[drawn] = now;
        if (now.live > curve.columns[column].live) curve.columns[column] = now;
    };
    for_each_stretch(timeline, MicroBatches::distinct, [&](const Stretch& stretch) {
        const bool start = std::string_view(stretch.leaf->pass) == "start";
        while (!same_segment(curve.segments[segment], stretch, start)) {
            const CurveSegment& done = curve.segments[segment++];
            if (done.columns > 0) draw(done.first + done.columns - 1);
            event_of_segment = 0;
        }
        const CurveSegment& here = curve.segments[segment];
        for (const Event& event : stretch.leaf->events) {
            now.live += Bytes(change_of(event));
            now.series[series_of[event.term]] += Bytes(detail::checked_mul(event.bytes, event.count));
            now.series[series_of[kRounding]] +=
                Bytes(detail::checked_mul(event.rounding, event.count));
            const auto column = here.first + static_cast<std::size_t>(event_of_segment++ *
                                                 static_cast<std::int64_t>(here.columns) / here.events);
            // The start is there as a whole before the step begins.
            if (here.start && event_of_segment < here.events) continue;
            draw(here.start ? here.first : column);
            if (now.live > highest) {
                highest = now.live;
                curve.peak_column = column;
            }
        }
    });
    if (!curve.columns.empty()) draw(curve.columns.size() - 1);
    return curve;
}

}  // namespace membudget::report
