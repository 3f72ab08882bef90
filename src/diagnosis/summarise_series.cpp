#include <algorithm>
#include <map>

#include "diagnosis/summarise.hpp"

namespace membudget::diagnosis {
namespace {

std::optional<Bytes> bytes_of(const std::optional<std::int64_t>& value) {
    return value ? std::optional(Bytes(*value)) : std::nullopt;
}

void raise(std::optional<Bytes>& highest, const std::optional<std::int64_t>& value) {
    if (value && (!highest || Bytes(*value) > *highest)) highest = Bytes(*value);
}

StepLevel level_of(const TraceSample& sample, std::int64_t index) {
    StepLevel out;
    out.step = sample.step.value_or(index);
    out.live = bytes_of(sample.allocated);
    out.peak = bytes_of(sample.max_allocated);
    out.reserved = bytes_of(sample.reserved ? sample.reserved : sample.max_reserved);
    out.device = bytes_of(sample.device_used);
    return out;
}

/// The phase that most samples name: levels compare only at the same one.
std::string commonest_phase(const TraceSeries& series) {
    std::map<std::string, std::size_t> counts;
    for (const TraceSample& sample : series.samples) ++counts[sample.phase];
    const auto most =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == counts.end() ? "" : most->first;
}

std::vector<MarkedPeak> phases_of(const TraceSeries& series) {
    std::vector<MarkedPeak> out;
    for (const TraceSample& sample : series.samples) {
        if (sample.phase.empty()) continue;
        auto at = std::find_if(out.begin(), out.end(),
                               [&](const MarkedPeak& phase) { return phase.name == sample.phase; });
        if (at == out.end()) at = out.insert(out.end(), MarkedPeak{sample.phase, 0, {}, {}});
        ++at->count;
        const auto live = sample.allocated.value_or(0);
        at->peak = std::max({at->peak, Bytes(live), Bytes(sample.max_allocated.value_or(0))});
        at->end = Bytes(live);
        constexpr std::size_t kMost = 64;
        if (out.size() >= kMost) break;
    }
    return out;
}

}  // namespace

TraceSubject subject_of(const TraceSeries& series, std::size_t columns) {
    TraceSubject out;
    out.name = series.name;
    out.device = series.device;
    out.is_series = true;
    out.events = static_cast<std::int64_t>(series.samples.size());
    const std::string phase = commonest_phase(series);
    const bool stepped =
        std::any_of(series.samples.begin(), series.samples.end(),
                    [](const TraceSample& sample) { return sample.step.has_value(); });
    out.curve.axis = stepped ? "step" : "sample";

    const std::size_t bucket =
        std::max<std::size_t>(1, (series.samples.size() + columns - 1) / columns);
    std::int64_t index = 0;
    for (const TraceSample& sample : series.samples) {
        const std::int64_t at = sample.step.value_or(index);
        const bool higher =
            sample.allocated && (!out.live_peak || Bytes(*sample.allocated) > *out.live_peak);
        const bool max_higher = sample.max_allocated &&
                                (!out.live_peak || Bytes(*sample.max_allocated) > *out.live_peak);
        if (higher || max_higher) {
            out.live_peak_at = at;
            out.reserved_at_peak = bytes_of(sample.reserved);
            out.peak_phase = sample.phase;
        }
        raise(out.live_peak, sample.allocated);
        raise(out.live_peak, sample.max_allocated);
        raise(out.reserved_peak, sample.reserved);
        raise(out.reserved_peak, sample.max_reserved);
        raise(out.device_peak, sample.device_used);
        raise(out.device_total, sample.device_total);
        if (!out.start_live) out.start_live = bytes_of(sample.allocated);
        if (!out.start_reserved) out.start_reserved = bytes_of(sample.reserved);
        if (sample.allocated) out.end_live = bytes_of(sample.allocated);
        if (sample.reserved) out.end_reserved = bytes_of(sample.reserved);
        if (sample.phase == phase) out.steps.push_back(level_of(sample, index));

        if (static_cast<std::size_t>(index) % bucket == 0)
            out.curve.points.push_back({.at = at, .live = {}, .reserved = {}, .device = {}});
        CurvePoint& point = out.curve.points.back();
        raise(point.live, sample.allocated ? sample.allocated : sample.max_allocated);
        raise(point.reserved, sample.reserved ? sample.reserved : sample.max_reserved);
        raise(point.device, sample.device_used);
        ++index;
    }
    out.phases = phases_of(series);
    if (out.steps.size() > 1)
        out.steps_by = !phase.empty() ? "reports of \"" + phase + "\""
                       : stepped      ? "steps of the log"
                                      : "samples";
    if (!out.live_peak) out.peak_phase.clear();
    return out;
}

}  // namespace membudget::diagnosis
