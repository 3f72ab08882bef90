#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <array>

#include "trace/delta_events.hpp"
#include "trace/log_readers.hpp"
#include "trace/log_text.hpp"

/// Memory timelines of torch.profiler [torch/profiler/_memory_profiler.py]:
///     export_memory_timeline      [times_us, [[0, parameter, optimizer state, ...], ...]]
///     export_memory_timeline_raw  [[time_ns, action, +-bytes, category], ...]
/// The HTML form is a picture and holds no numbers.

namespace membudget::trace {
namespace {

constexpr std::size_t kCategories = 8;
constexpr std::int64_t kPreexisting = 1;

/// Numbers by the depth at which they stand; everything else in the file is refused.
class TimelineSax : public nlohmann::json_sax<nlohmann::json> {
public:
    bool null() override { return refuse("null"); }
    bool boolean(bool) override { return refuse("a boolean"); }
    bool number_integer(number_integer_t value) override { return number(value); }
    bool number_unsigned(number_unsigned_t value) override {
        return value <= static_cast<number_unsigned_t>(INT64_MAX)
                   ? number(static_cast<std::int64_t>(value))
                   : refuse("a number beyond 2^63");
    }
    bool number_float(number_float_t value, const string_t&) override {
        return value > -9e18 && value < 9e18 ? number(static_cast<std::int64_t>(value))
                                             : refuse("a number beyond 2^63");
    }
    bool string(string_t&) override { return refuse("a string"); }
    bool binary(binary_t&) override { return refuse("binary data"); }
    bool start_object(std::size_t) override { return refuse("an object"); }
    bool key(string_t&) override { return refuse("an object"); }
    bool end_object() override { return refuse("an object"); }
    bool start_array(std::size_t) override {
        if (++depth_ > 3) return refuse("arrays in arrays in arrays in an array");
        if (depth_ == 3) nested_ = true;
        width_ = 0;
        return true;
    }
    bool end_array() override {
        if (depth_ == 2 && !nested_ && width_ == 4 && !first_row_done_) rows_of_four_ = true;
        if (depth_ == 2) {
            first_row_done_ = true;
            if (rows_of_four_ && !nested_ && width_ != 4)
                return refuse("a row that has not four numbers");
        }
        if (depth_ == 3 && width_ != kCategories + 1)
            return refuse("sizes that are not nine numbers");
        width_ = 0;
        --depth_;
        return true;
    }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception&) override {
        if (error_.empty()) error_ = fmt::format("wrong JSON at byte {}", position);
        return false;
    }

    [[nodiscard]] const std::string& error() const { return error_; }
    /// Numbers at depth 2: rows of four, or the times; at depth 3: sizes, nine each.
    std::vector<std::int64_t> rows, sizes;
    [[nodiscard]] bool is_raw() const { return !nested_; }

private:
    bool number(std::int64_t value) {
        ++width_;
        if (depth_ == 2) rows.push_back(value);
        else if (depth_ == 3) sizes.push_back(value);
        else return refuse("a number outside of rows");
        return true;
    }
    bool refuse(const char* what) {
        if (error_.empty()) error_ = fmt::format("got {}", what);
        return false;
    }

    int depth_ = 0;
    std::size_t width_ = 0;
    bool nested_ = false, rows_of_four_ = false, first_row_done_ = false;
    std::string error_;
};

void read_raw(const TimelineSax& sax, DeltaEvents& into) {
    for (std::size_t i = 0; i + 3 < sax.rows.size(); i += 4) {
        const std::int64_t time = sax.rows[i], category = sax.rows[i + 3];
        const bool known = category >= 0 && category < static_cast<std::int64_t>(kCategories);
        const std::int64_t bytes = sax.rows[i + 2];
        into.change(bytes,
                    known ? static_cast<TraceCategory>(category) : TraceCategory::unknown,
                    sax.rows[i + 1] == kPreexisting || time < 0 ? -1 : time / 1000);
    }
}

void read_levels(const TimelineSax& sax, DeltaEvents& into) {
    std::array<std::int64_t, kCategories> last{};
    const std::size_t instants = std::min(sax.rows.size(), sax.sizes.size() / (kCategories + 1));
    for (std::size_t i = 0; i < instants; ++i)
        // What goes, before what comes: the sum between two instants is no peak.
        for (const bool freed : {true, false})
            for (std::size_t c = 0; c < kCategories; ++c) {
                const std::int64_t now = sax.sizes[i * (kCategories + 1) + 1 + c];
                if (now < 0 || now > kLargestBytes || (now < last[c]) != freed) continue;
                into.change(now - last[c], static_cast<TraceCategory>(c), sax.rows[i]);
                last[c] = now;
            }
}

}  // namespace

bool recognise_timeline(std::string_view head) {
    std::string_view text = trimmed(head);
    if (!text.starts_with('[')) return false;
    text = trimmed(text.substr(1));
    if (!text.starts_with('[')) return false;
    text = trimmed(text.substr(1));
    return !text.empty() && (text.front() == '-' || (text.front() >= '0' && text.front() <= '9'));
}

Result<Trace> read_timeline(TraceInput& input) {
    const auto text = input.read_all();
    if (!text) return text.errors();
    TimelineSax sax;
    if (!nlohmann::json::sax_parse(*text, &sax))
        return refuse(input, fmt::format("expected a memory timeline of torch.profiler; {}",
                                         sax.error()));
    DeltaEvents events;
    if (sax.is_raw()) read_raw(sax, events);
    else read_levels(sax, events);
    Trace out;
    out.devices.push_back(std::move(events).finish(0));
    if (out.devices.front().events.empty())
        return refuse(input, "expected a memory timeline of torch.profiler; it holds no change");
    out.notes.emplace_back(
        "the profiler's timeline knows tensors and their categories, but neither "
        "reserved memory nor stacks");
    if (!sax.is_raw())
        out.notes.emplace_back("levels per instant: which blocks came and went is not in the file");
    return out;
}

bool recognise_timeline_html(std::string_view head) {
    return head.find("GPU Memory Timeline HTML") != std::string_view::npos;
}

Result<Trace> read_timeline_html(TraceInput& input) {
    return refuse(
        input, "expected numbers; this memory timeline is a picture (PNG) in HTML and holds none",
        "export it again: prof.export_memory_timeline(\"timeline.json\", device=\"cuda:0\")");
}

}  // namespace membudget::trace
