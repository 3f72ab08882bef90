#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <map>

#include "trace/delta_events.hpp"
#include "trace/log_readers.hpp"
#include "trace/log_text.hpp"

/// Chrome traces of torch.profiler with profile_memory=True: "[memory]" instants say by how much
/// memory changed (2021: block sizes alone), newer ones also the totals after it.
/// "ProfilerStep#N" and "Optimizer..." stretches mark steps and phases.

namespace membudget::trace {
namespace {

struct MemoryInstant {
    std::int64_t device_type = 0, device = 0, bytes = 0, time_us = 0;
    std::optional<std::int64_t> address, allocated, reserved;
};

/// Streams through the events and keeps what concerns memory.
class ChromeSax : public nlohmann::json_sax<nlohmann::json> {
public:
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t value) override {
        return number(static_cast<double>(value), value);
    }
    bool number_unsigned(number_unsigned_t value) override {
        return number(static_cast<double>(value), static_cast<std::int64_t>(value));
    }
    bool number_float(number_float_t value, const string_t&) override {
        return number(value, whole_of(value));
    }
    bool string(string_t& value) override {
        if (depth_ == kEvent && key_ == "name") name_ = value.substr(0, 200);
        else if (depth_ == kEvent && key_ == "cat") category_ = value.substr(0, 60);
        // Kineto writes times as text in some versions.
        else if (const auto found = number_at(value); found && trimmed(found->rest).empty())
            return number(found->value, whole_of(found->value));
        return true;
    }
    bool binary(binary_t&) override { return false; }
    bool key(string_t& value) override {
        key_ = value.substr(0, 60);
        return true;
    }
    bool start_object(std::size_t) override {
        if (++depth_ > kDeepest) return refuse("too deep");
        if (depth_ == kEvent) {
            name_.clear();
            category_.clear();
            instant_ = {};
            time_ = duration_ = 0;
            has_bytes_ = false;
        }
        return true;
    }
    bool end_object() override {
        if (depth_ == kEvent && in_events_) finish_event();
        --depth_;
        return true;
    }
    bool start_array(std::size_t) override {
        if (++depth_ > kDeepest) return refuse("too deep");
        if (depth_ == kEvent - 1) in_events_ = key_ == "traceEvents";
        return true;
    }
    bool end_array() override {
        --depth_;
        return true;
    }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception&) override {
        if (error.empty()) error = fmt::format("wrong JSON at byte {}", position);
        return false;
    }

    std::vector<MemoryInstant> instants;
    std::vector<TraceMarker> markers;
    std::string error;
    bool any_event = false;

private:
    /// { "traceEvents": [ { event, "args": { ... } } ] }
    static constexpr int kEvent = 3, kArguments = 4, kDeepest = 64;

    bool number(double value, std::int64_t whole) {
        if (depth_ == kEvent) {
            if (key_ == "ts") time_ = value;
            if (key_ == "dur") duration_ = value;
        } else if (depth_ == kArguments) {
            if (key_ == "Bytes") {
                instant_.bytes = whole;
                has_bytes_ = true;
            } else if (key_ == "Device Type") {
                instant_.device_type = whole;
            } else if (key_ == "Device Id") {
                instant_.device = whole;
            } else if (key_ == "Addr") {
                instant_.address = whole;
            } else if (key_ == "Total Allocated") {
                instant_.allocated = whole;
            } else if (key_ == "Total Reserved") {
                instant_.reserved = whole;
            }
        }
        return true;
    }

    /// Without its fraction; 0 when no integer holds it.
    static std::int64_t whole_of(double number) {
        return number > -9e18 && number < 9e18 ? static_cast<std::int64_t>(number) : 0;
    }

    void finish_event() {
        any_event = true;
        if (name_ == "[memory]" && has_bytes_) {
            instant_.time_us = whole_of(time_);
            instants.push_back(instant_);
        } else if (name_.starts_with("ProfilerStep#") || name_.starts_with("Optimizer.") ||
                   category_ == "user_annotation") {
            markers.push_back({name_, -1, whole_of(time_), whole_of(time_ + duration_)});
        }
    }

    bool refuse(const char* what) {
        error = what;
        return false;
    }

    int depth_ = 0;
    bool in_events_ = false, has_bytes_ = false;
    double time_ = 0, duration_ = 0;
    std::string key_, name_, category_;
    MemoryInstant instant_;
};

/// Device Type 0 is the CPU; all others are accelerators, of which a process has one kind.
int device_of(const MemoryInstant& instant) {
    if (instant.device_type == 0) return -1;
    return instant.device >= 0 && instant.device < 1024 ? static_cast<int>(instant.device) : 0;
}

std::optional<std::int64_t> plausible(std::optional<std::int64_t> bytes) {
    return bytes && *bytes >= 0 && *bytes <= kLargestBytes ? bytes : std::nullopt;
}

}  // namespace

bool recognise_chrome(std::string_view head) {
    const std::string_view text = trimmed(head);
    return text.starts_with('{') && (text.find("\"traceEvents\"") != std::string_view::npos ||
                                     text.find("\"schemaVersion\"") != std::string_view::npos);
}

Result<Trace> read_chrome(TraceInput& input) {
    const auto text = input.read_all();
    if (!text) return text.errors();
    ChromeSax sax;
    if (!nlohmann::json::sax_parse(*text, &sax))
        return refuse(input, fmt::format("expected a Chrome trace; {}", sax.error));
    if (sax.instants.empty())
        return refuse(input, "expected [memory] events in the Chrome trace; found none",
                      "record it with torch.profiler.profile(profile_memory=True)");
    // The profiler writes thread by thread.
    std::stable_sort(sax.instants.begin(), sax.instants.end(),
                     [](const auto& a, const auto& b) { return a.time_us < b.time_us; });
    std::map<int, DeltaEvents> devices;
    std::map<int, TraceSeries> totals;
    bool any_total = false;
    for (const MemoryInstant& instant : sax.instants) {
        const int device = device_of(instant);
        if (instant.address && *instant.address != 0)
            devices[device].change_at(static_cast<std::uint64_t>(*instant.address), instant.bytes,
                                      instant.time_us);
        else
            devices[device].change(instant.bytes, TraceCategory::unknown, instant.time_us);
        if (device < 0 || (!instant.allocated && !instant.reserved)) continue;
        any_total = true;
        TraceSample sample;
        sample.time_us = instant.time_us;
        sample.allocated = plausible(instant.allocated);
        sample.reserved = plausible(instant.reserved);
        TraceSeries& series = totals[device];
        series.name = fmt::format("GPU {} totals", device);
        series.device = device;
        series.samples.push_back(std::move(sample));
    }
    Trace out;
    for (auto& [device, events] : devices) out.devices.push_back(std::move(events).finish(device));
    for (auto& [device, series] : totals) out.series.push_back(std::move(series));
    out.markers = std::move(sax.markers);
    if (!any_total)
        out.notes.emplace_back("no totals in this trace: levels count from what was freed without "
                               "having been seen, so memory that stayed is missing");
    return out;
}

}  // namespace membudget::trace
