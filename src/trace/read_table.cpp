#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "membudget/quantity.hpp"
#include "trace/columns.hpp"
#include "trace/log_readers.hpp"
#include "trace/log_text.hpp"

/// Tables, separated by commas, semicolons or tabs: GPU logs (nvidia-smi --query-gpu, with or without header and units) and
/// figures per step. Columns are recognised by name, without a header by what their cells hold.

namespace membudget::trace {
namespace {

using Record = std::vector<std::string>;

constexpr std::size_t kMostColumns = 1000;

/// "2023/06/22 18:56:56.252" or Unix seconds, in microseconds. Only differences mean anything: the
/// time zone is not in the file.
std::optional<std::int64_t> time_of(std::string_view cell) {
    int year = 0, month = 0, day = 0, hour = 0, minute = 0;
    double second = 0;
    const std::string text(cell);
    const auto part = [&](std::size_t at, std::size_t length, int& into) {
        if (at + length > text.size()) return false;
        const char* begin = text.data() + at;
        return std::from_chars(begin, begin + length, into).ptr == begin + length;
    };
    const bool date = text.size() >= 19 && (text[4] == '/' || text[4] == '-') && text[13] == ':';
    if (date && part(0, 4, year) && part(5, 2, month) && part(8, 2, day) && part(11, 2, hour) &&
        part(14, 2, minute)) {
        const auto seconds = number_at(std::string_view(text).substr(17));
        if (!seconds || !(seconds->value >= 0 && seconds->value < 100)) return std::nullopt;
        second = seconds->value;
        // Days since 1970 [H. Hinnant, chrono-compatible low-level date algorithms].
        const int y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400;
        const int yoe = y - era * 400,
                  doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
        const std::int64_t days =
            std::int64_t{era} * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
        return ((days * 24 + hour) * 60 + minute) * 60'000'000 +
               static_cast<std::int64_t>(second * 1e6);
    }
    const auto number = number_at(cell);
    if (!number || !trimmed(number->rest).empty() || !(std::abs(number->value) <= 1e12))
        return std::nullopt;
    return static_cast<std::int64_t>(number->value * 1e6);
}

bool has_letters(std::string_view cell) {
    return std::any_of(cell.begin(), cell.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    });
}

/// `cell` with its number as programs write it: a comma before three digits groups thousands, any other is
/// a decimal point.
std::string with_point(std::string_view cell) {
    std::string out;
    const auto is_digit = [&](std::size_t i) {
        return i < cell.size() && cell[i] >= '0' && cell[i] <= '9';
    };
    for (std::size_t i = 0; i < cell.size(); ++i) {
        if (cell[i] != ',' || i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
            out += cell[i];
            continue;
        }
        const bool groups = is_digit(i + 2) && is_digit(i + 3) && !is_digit(i + 4);
        if (!groups) out += '.';
    }
    return out;
}

/// "841 MiB" in bytes; without a unit of its own that of the column. "[N/A]" and its like are nothing.
std::optional<std::int64_t> size_of(const std::string& written, std::int64_t unit) {
    const std::string pointed =
        written.find(',') == std::string::npos ? std::string() : with_point(written);
    const std::string& cell = pointed.empty() ? written : pointed;
    const auto number = number_at(cell);
    if (!number) return std::nullopt;
    const std::string_view own = trimmed(number->rest);
    if (!own.empty()) {
        const auto named = unit_named(lowered(own));
        if (!named) return std::nullopt;
        unit = *named;
    }
    // A number without any unit is bytes when it is as large as bytes are.
    if (unit == 0 && number->value != 0 && number->value < 1e6) return std::nullopt;
    return bytes_of(number->value, std::max(unit, std::int64_t{1}));
}

std::optional<std::int64_t> whole(std::string_view cell) {
    std::int64_t value = 0;
    const auto end = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

/// Which column is what, in a table without a header: nvidia-smi's order is that of its query, but
/// memory.used and memory.total or memory.free follow each other in every one seen.
std::vector<Column> guess_columns(const std::vector<Record>& records) {
    std::vector<Column> out(records.front().size());
    for (std::size_t i = 0; i < out.size(); ++i)
        if (time_of(records.front()[i]) && i == 0) out[i].what = What::time;
    const auto cell_size = [&](const Record& record, std::size_t i) -> std::optional<std::int64_t> {
        if (i >= record.size()) return std::nullopt;
        const std::string& cell = record[i];
        const bool unit = has_letters(cell),
                   plain = cell.find_first_not_of("0123456789") == std::string::npos;
        if (!unit && !plain) return std::nullopt;
        return size_of(cell, kMiB);
    };
    for (std::size_t i = 1; i + 1 < out.size(); ++i) {
        bool pair = true, constant = true, labelled = false;
        std::optional<std::int64_t> first;
        for (const Record& record : records) {
            const auto a = cell_size(record, i), b = cell_size(record, i + 1);
            pair = pair && a && b;
            if (!pair) break;
            labelled = labelled || has_letters(record[i]);
            constant = constant && *b >= *a && (!first || *first == *b);
            first = *b;
        }
        // A power of ten of a utilisation or temperature is no memory: memory is thousands of MiB.
        if (!pair || (!labelled && *first < 500 * kMiB)) continue;
        out[i] = {What::used, kMiB};
        out[i + 1] = {constant ? What::total : What::free, kMiB};
        return out;
    }
    return {};
}

class TableReader {
public:
    explicit TableReader(const TraceInput& input) : input_(input) {}

    Result<Trace> read(std::string_view text) {
        separator_ = separator_of(text);
        if (!take_header(text)) return refuse_table();
        std::int64_t row = 0;
        while (!text.empty()) {
            const Record record = take_record(text, separator_);
            if (record.empty() || (record.size() == 1 && record[0].empty())) continue;
            if (is_header(record)) continue;  // a log that was started again
            add(record, row++);
        }
        std::erase_if(out_.series,
                      [](const TraceSeries& series) { return series.samples.empty(); });
        if (out_.series.empty()) return refuse_table();
        return std::move(out_);
    }

private:
    /// Finds the columns; `text` is left at the first record of data.
    bool take_header(std::string_view& text) {
        std::string_view rest = text;
        header_ = take_record(rest, separator_);
        if (header_.size() < 2 || header_.size() > kMostColumns) return false;
        columns_ = columns_of(header_);
        if (std::any_of(columns_.begin(), columns_.end(),
                        [](const Column& c) { return c.is_size(); })) {
            text = rest;
            complete_units();
            return true;
        }
        std::vector<Record> sample;
        std::string_view look = text;
        while (!look.empty() && sample.size() < 200) {
            Record record = take_record(look, separator_);
            if (record.size() == header_.size()) sample.push_back(std::move(record));
        }
        if (sample.empty()) return false;
        columns_ = guess_columns(sample);
        if (columns_.empty()) return false;
        out_.notes.emplace_back(
            "no header: the first two columns of sizes are taken as memory used "
            "and total or free, in MiB");
        header_.clear();
        return true;
    }

    /// Sizes without a unit are MiB where nvidia-smi made them.
    void complete_units() {
        for (Column& column : columns_) {
            if (!column.is_size()) continue;
            const bool device = column.what == What::used || column.what == What::total ||
                                column.what == What::free;
            if (device && (column.unit == 0 || column.unit == 1'000'000)) {
                if (column.unit != 0)
                    note("MB of a device's memory are MiB: the driver's tools count so");
                column.unit = kMiB;
            } else if (column.unit == 1'000'000 || column.unit == kGB) {
                note(
                    "MB and GB are read as written, as powers of 1000; many programs mean MiB and "
                    "GiB");
            }
        }
    }

    void note(const char* text) {
        if (std::find(out_.notes.begin(), out_.notes.end(), text) == out_.notes.end())
            out_.notes.emplace_back(text);
    }

    [[nodiscard]] bool is_header(const Record& record) const {
        return !header_.empty() && record == header_;
    }

    void add(const Record& record, std::int64_t row) {
        TraceSample sample;
        std::string device;
        std::optional<std::int64_t> used, total, free;
        for (std::size_t i = 0; i < std::min(record.size(), columns_.size()); ++i) {
            const std::string& cell = record[i];
            const Column& column = columns_[i];
            const auto size = column.is_size() ? size_of(cell, column.unit) : std::nullopt;
            switch (column.what) {
                case What::none: break;
                case What::step: sample.step = whole(cell); break;
                case What::time: sample.time_us = time_of(cell); break;
                case What::device: device = cell; break;
                case What::phase: sample.phase = cell; break;
                case What::used: used = size; break;
                case What::total: total = size; break;
                case What::free: free = size; break;
                case What::allocated: sample.allocated = size; break;
                case What::reserved: sample.reserved = size; break;
                case What::max_allocated: sample.max_allocated = size; break;
                case What::max_reserved: sample.max_reserved = size; break;
            }
        }
        if (!used && total && free && *total >= *free) used = *total - *free;
        sample.device_used = used;
        sample.device_total = total;
        if (!used && !sample.allocated && !sample.reserved && !sample.max_allocated &&
            !sample.max_reserved)
            return;
        if (!sample.step && !sample.time_us) sample.step = row;
        series_of(device, used.has_value()).samples.push_back(std::move(sample));
    }

    TraceSeries& series_of(const std::string& device, bool of_gpu) {
        const auto [at, is_new] = index_.try_emplace(device, out_.series.size());
        if (is_new) {
            int number = 0;
            const auto end = std::from_chars(device.data(), device.data() + device.size(), number);
            const bool whole = end.ec == std::errc() && end.ptr == device.data() + device.size();
            if (!whole) number = static_cast<int>(out_.series.size());
            out_.series.push_back({fmt::format("{} {}", of_gpu ? "GPU" : "rank",
                                               device.empty() ? "0" : device),
                                   number,
                                   {}});
        }
        return out_.series[at->second];
    }

    Diagnostic refuse_table() const {
        return refuse(input_, "expected a table with columns of memory; found none",
                      "known columns: memory.used [MiB], memory.total [MiB], allocated_bytes, "
                      "reserved_gib, max_allocated_mb, ...; a size without a unit needs one");
    }

    const TraceInput& input_;
    char separator_ = ',';
    Trace out_;
    Record header_;
    std::vector<Column> columns_;
    std::map<std::string, std::size_t> index_;
};

}  // namespace

bool recognise_table(std::string_view head) {
    const std::string text = to_utf8(std::string(head.substr(0, 1 << 14)));
    std::string_view rest = text;
    const Record first = take_record(rest, separator_of(rest));
    if (first.size() < 2 || first.size() > kMostColumns) return false;
    const auto columns = columns_of(first);
    if (std::any_of(columns.begin(), columns.end(), [](const Column& c) { return c.is_size(); }))
        return true;
    // Without a header: a time, then cells that are numbers or sizes.
    return time_of(first[0]).has_value() && !guess_columns({first}).empty();
}

Result<Trace> read_table(TraceInput& input) {
    auto text = input.read_all();
    if (!text) return text.errors();
    const std::string utf8 = to_utf8(std::move(*text));
    return TableReader(input).read(utf8);
}

}  // namespace membudget::trace
