#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "membudget/spec.hpp"
#include "trace/columns.hpp"
#include "trace/log_readers.hpp"
#include "trace/log_text.hpp"

/// Figures per step as JSON: an array of records, one record per line, an object of arrays, or the
/// series that Megatron-LM's functional tests keep ({"mem-allocated-bytes": {"values": ...}}).

namespace membudget::trace {
namespace {

constexpr std::size_t kMostSamples = 10'000'000;

std::optional<double> number_of(const KeyTree& value) {
    if (value.is(KeyTree::Kind::integer)) return static_cast<double>(value.integer());
    if (!value.is(KeyTree::Kind::number)) return std::nullopt;
    const auto number = number_at(value.text());
    return number ? std::optional(number->value) : std::nullopt;
}

std::optional<std::int64_t> size_of(const KeyTree& value, std::int64_t unit) {
    const auto number = number_of(value);
    if (!number) return std::nullopt;
    if (unit == 0 && *number != 0 && *number < 1e6) return std::nullopt;
    return bytes_of(*number, std::max(unit, std::int64_t{1}));
}

/// Puts one value where its name says.
void put(TraceSample& sample, const Column& column, const KeyTree& value) {
    const auto size = column.is_size() ? size_of(value, column.unit) : std::nullopt;
    switch (column.what) {
        case What::none:
        case What::free:
        case What::device: break;
        case What::step:
            if (value.is(KeyTree::Kind::integer)) sample.step = value.integer();
            break;
        case What::time:
            if (const auto seconds = number_of(value);
                seconds && *seconds < 1e12 && *seconds > -1e12)
                sample.time_us = static_cast<std::int64_t>(*seconds * 1e6);
            break;
        case What::phase:
            if (value.is(KeyTree::Kind::string)) sample.phase = value.text();
            break;
        case What::used: sample.device_used = size; break;
        case What::total: sample.device_total = size; break;
        case What::allocated: sample.allocated = size; break;
        case What::reserved: sample.reserved = size; break;
        case What::max_allocated: sample.max_allocated = size; break;
        case What::max_reserved: sample.max_reserved = size; break;
    }
}

bool tells_memory(const TraceSample& sample) {
    return sample.allocated || sample.reserved || sample.max_allocated || sample.max_reserved ||
           sample.device_used;
}

class SampleReader {
public:
    void add_record(const KeyTree& record) {
        TraceSample sample;
        std::int64_t rank = 0;
        for (const auto& [key, value] : record.members()) {
            const Column column = column_named(key);
            if (column.what == What::device && value.is(KeyTree::Kind::integer))
                rank = value.integer();
            put(sample, column, value);
        }
        if (!tells_memory(sample)) return;
        if (rank < 0 || rank > 1'000'000) rank = 0;
        std::vector<TraceSample>& samples = by_rank_[rank];
        if (!sample.step && !sample.time_us)
            sample.step = static_cast<std::int64_t>(samples.size());
        samples.push_back(std::move(sample));
    }

    /// {"step": [1, 2], "allocated_gb": [3.0, 3.1]}
    void add_arrays(const KeyTree& object) {
        std::vector<TraceSample>& samples = by_rank_[0];
        for (const auto& [key, value] : object.members()) {
            const Column column = column_named(key);
            if (column.what == What::none || !value.is(KeyTree::Kind::array)) continue;
            const auto& items = value.items();
            if (items.size() > samples.size()) samples.resize(items.size());
            for (std::size_t i = 0; i < items.size(); ++i) put(samples[i], column, items[i]);
        }
        for (std::size_t i = 0; i < samples.size(); ++i)
            if (!samples[i].step && !samples[i].time_us)
                samples[i].step = static_cast<std::int64_t>(i);
        std::erase_if(samples, [](const TraceSample& sample) { return !tells_memory(sample); });
    }

    /// {"mem-allocated-bytes": {"start_step": 1, "step_interval": 5, "values": {"1": 5.6e10, ...}}}
    void add_series(const KeyTree& object) {
        std::map<std::int64_t, TraceSample> by_step;
        for (const auto& [key, value] : object.members()) {
            const Column column = column_named(key);
            const KeyTree* values =
                value.is(KeyTree::Kind::object) ? value.find("values") : nullptr;
            if (!column.is_size() || values == nullptr) continue;
            const auto whole = [&series = value](const char* name, std::int64_t otherwise) {
                const KeyTree* found = series.find(name);
                return found != nullptr && found->is(KeyTree::Kind::integer) ? found->integer()
                                                                             : otherwise;
            };
            if (values->is(KeyTree::Kind::array)) {
                const std::int64_t start =
                    std::clamp<std::int64_t>(whole("start_step", 0), 0, 1LL << 40);
                const std::int64_t every =
                    std::clamp<std::int64_t>(whole("step_interval", 1), 1, 1LL << 20);
                std::int64_t step = start;
                for (const KeyTree& item : values->items()) {
                    put(by_step[step], column, item);
                    step += every;
                }
            } else if (values->is(KeyTree::Kind::object)) {
                for (const auto& [step_text, item] : values->members()) {
                    std::int64_t step = 0;
                    const char* end = step_text.data() + step_text.size();
                    if (std::from_chars(step_text.data(), end, step).ptr == end)
                        put(by_step[step], column, item);
                }
            }
        }
        for (auto& [step, sample] : by_step) {
            sample.step = step;
            if (tells_memory(sample)) by_rank_[0].push_back(std::move(sample));
        }
    }

    [[nodiscard]] std::vector<TraceSeries> take() {
        std::vector<TraceSeries> out;
        for (auto& [rank, samples] : by_rank_)
            if (!samples.empty())
                out.push_back(
                    {fmt::format("rank {}", rank), static_cast<int>(rank), std::move(samples)});
        return out;
    }

private:
    std::map<std::int64_t, std::vector<TraceSample>> by_rank_;
};

void add(SampleReader& into, const KeyTree& tree) {
    if (tree.is(KeyTree::Kind::array)) {
        for (const KeyTree& item : tree.items())
            if (item.is(KeyTree::Kind::object)) into.add_record(item);
        return;
    }
    if (!tree.is(KeyTree::Kind::object)) return;
    const auto holds = [&](KeyTree::Kind kind) {
        return std::any_of(tree.members().begin(), tree.members().end(), [&](const auto& member) {
            return column_named(member.first).is_size() && member.second.is(kind);
        });
    };
    if (holds(KeyTree::Kind::array)) into.add_arrays(tree);
    else if (holds(KeyTree::Kind::object)) into.add_series(tree);
    else into.add_record(tree);
}

}  // namespace

bool recognise_json_samples(std::string_view head) {
    const std::string_view text = trimmed(head);
    if (text.empty() || (text.front() != '{' && text.front() != '[')) return false;
    // A known key, quoted, within the first bytes.
    for (std::size_t at = text.find('"'); at != std::string_view::npos;
         at = text.find('"', at + 1)) {
        const std::size_t end = text.find('"', at + 1);
        if (end == std::string_view::npos) return false;
        if (end - at < 60 && column_named(text.substr(at + 1, end - at - 1)).is_size()) return true;
        at = end;
    }
    return false;
}

Result<Trace> read_json_samples(TraceInput& input) {
    const auto read = input.read_all(std::size_t{1} << 28);
    if (!read) return read.errors();
    SampleReader samples;
    std::string_view text = *read;
    // One record per line, or one document.
    std::string_view rest = text;
    const std::string_view first = trimmed(take_line(rest));
    const bool lines = first.starts_with('{') && first.ends_with('}') && !trimmed(rest).empty();
    std::size_t count = 0;
    while (lines && !text.empty() && count < kMostSamples) {
        const std::string_view line = trimmed(take_line(text));
        if (line.empty()) continue;
        const auto tree = parse_json(line, input.name(), DuplicateKeys::last_wins);
        if (!tree) return tree.errors();
        if (tree->is(KeyTree::Kind::object)) samples.add_record(*tree);
        ++count;
    }
    if (!lines) {
        const auto tree = parse_json(text, input.name(), DuplicateKeys::last_wins);
        if (!tree) return tree.errors();
        add(samples, *tree);
    }
    Trace out;
    out.series = samples.take();
    if (out.series.empty())
        return refuse(input, "expected figures of memory per step; found none",
                      "known keys: step, allocated_bytes, reserved_gib, max_allocated_mb, ...; a "
                      "size without a unit is bytes");
    return out;
}

}  // namespace membudget::trace
