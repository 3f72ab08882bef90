#include "diagnosis/oom_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace membudget::diagnosis {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Units of these messages. All are powers of 1024, whatever they are called: PyTorch and XLA divide
/// so (c10 format_size; torch/cuda/memory.py memory_summary; tsl HumanReadableNumBytes).
struct Unit {
    std::string_view name;
    int power;
};
constexpr Unit kUnits[] = {
    {"bytes", 0}, {"byte", 0}, {"B", 0},   {"KiB", 1}, {"kB", 1}, {"KB", 1}, {"K", 1}, {"MiB", 2},
    {"MB", 2},    {"M", 2},    {"GiB", 3}, {"GB", 3},  {"G", 3},  {"TiB", 4}, {"TB", 4}, {"T", 4},
};

/// Length of the number at the start of `text`: digits with ',' between them and a fraction.
std::size_t number_length(std::string_view text) {
    std::size_t i = 0;
    while (i < text.size() && (is_digit(text[i]) || (i > 0 && text[i] == ',' &&
                                                     i + 1 < text.size() && is_digit(text[i + 1]))))
        ++i;
    if (i > 0 && i + 1 < text.size() && text[i] == '.' && is_digit(text[i + 1])) {
        ++i;
        while (i < text.size() && is_digit(text[i])) ++i;
    }
    return i;
}

std::string_view after(std::string_view text, std::string_view anchor) {
    const std::size_t at = text.find(anchor);
    if (at == std::string_view::npos) return {};
    text.remove_prefix(at + anchor.size());
    text.remove_prefix(std::min(text.find_first_not_of(" :=|\n\t"), text.size()));
    return text;
}

/// Length of a prefix such as "[rank0]: ", "(VllmWorker rank=1 pid=2978) ", "ERROR 03-19 07:27:53 ",
/// "[multiproc_executor.py:375] " at the start of `line`.
std::size_t prefix_length(std::string_view line) {
    std::size_t i = 0;
    const auto skip_blanks = [&] {
        while (i < line.size() && (line[i] == ' ' || line[i] == '\t')) ++i;
    };
    for (;;) {
        skip_blanks();
        const std::string_view rest = line.substr(i);
        const auto bracketed = [&](char open, char close, std::string_view content) {
            if (rest.empty() || rest.front() != open) return false;
            const std::size_t end = rest.find(close);
            if (end == std::string_view::npos || end > 60) return false;
            if (rest.substr(0, end).find(content) == std::string_view::npos) return false;
            i += end + 1;
            if (i < line.size() && line[i] == ':') ++i;
            return true;
        };
        if (bracketed('[', ']', "rank") || bracketed('[', ']', "Rank") ||
            bracketed('[', ']', ".py:") || bracketed('(', ')', "pid="))
            continue;
        if (rest.starts_with("ERROR ") || rest.starts_with("INFO ") ||
            rest.starts_with("WARNING ")) {
            i += rest.find(' ') + 1;
            continue;
        }
        // A date or a time: digits with '-', ':', '/', '.', ',' between them, two separators at least.
        std::size_t n = 0, separators = 0;
        while (n < rest.size() && (is_digit(rest[n]) || std::string_view("-:/.,").find(rest[n]) !=
                                                            std::string_view::npos)) {
            separators += !is_digit(rest[n]) && rest[n] != '.';
            ++n;
        }
        const bool ends = n < rest.size() && rest[n] == ' ';
        if (ends && n >= 5 && separators >= 1 && is_digit(rest[0]) &&
            rest.substr(0, n).find(',') == std::string_view::npos) {
            i += n;
            continue;
        }
        return i;
    }
}

}  // namespace

std::optional<FoundSize> size_at(std::string_view text) {
    const std::size_t digits = number_length(text);
    if (digits == 0) return std::nullopt;
    std::size_t at = digits;
    while (at < text.size() && text[at] == ' ') ++at;
    std::size_t end = at;
    while (end < text.size() && is_letter(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    const auto* unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                    [&](const Unit& row) { return row.name == word; });
    if (unit == std::end(kUnits)) return std::nullopt;

    std::string plain(text.substr(0, digits));
    std::erase(plain, ',');
    const std::size_t point = plain.find('.');
    const int decimals =
        point == std::string::npos ? 0 : static_cast<int>(plain.size() - point - 1);
    // Printed numbers have few digits; a double holds them exactly enough to name the nearest byte.
    double number = 0;
    if (std::from_chars(plain.data(), plain.data() + plain.size(), number).ec != std::errc())
        return std::nullopt;
    const double scale = std::pow(1024.0, unit->power);
    const double bytes = number * scale;
    if (!(bytes < static_cast<double>(kLargestBytes))) return std::nullopt;
    const double step = unit->power == 0 || number == 0 ? 0 : scale / std::pow(10.0, decimals);
    return FoundSize{{Bytes(static_cast<std::int64_t>(std::llround(bytes))),
                      Bytes(static_cast<std::int64_t>(std::llround(step)))},
                     end};
}

std::optional<PrintedSize> size_after(std::string_view text, std::string_view anchor) {
    const auto found = size_at(after(text, anchor));
    return found ? std::optional(found->size) : std::nullopt;
}

std::optional<PrintedSize> size_before(std::string_view text, std::string_view anchor) {
    for (std::size_t at = text.find(anchor); at != std::string_view::npos;
         at = text.find(anchor, at + 1)) {
        // Back over the unit and the number: no size is longer than this.
        std::size_t begin = at;
        while (begin > 0 && is_letter(text[begin - 1])) --begin;
        while (begin > 0 && text[begin - 1] == ' ') --begin;
        while (begin > 0 && (is_digit(text[begin - 1]) || text[begin - 1] == '.' ||
                             text[begin - 1] == ','))
            --begin;
        const auto found = size_at(text.substr(begin, at - begin));
        if (found && begin + found->length == at) return found->size;
    }
    return std::nullopt;
}

std::optional<std::int64_t> number_after(std::string_view text, std::string_view anchor) {
    const std::string_view rest = after(text, anchor);
    std::int64_t number = 0;
    const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (result.ec != std::errc()) return std::nullopt;
    return number;
}

std::size_t find_ignoring_case(std::string_view text, std::string_view what, std::size_t from) {
    if (from > text.size()) return std::string_view::npos;
    const auto at = std::search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(),
                                what.begin(), what.end(),
                                [](char a, char b) { return lower(a) == lower(b); });
    return at == text.end() ? std::string_view::npos : static_cast<std::size_t>(at - text.begin());
}

std::string as_one_line(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        line.remove_prefix(prefix_length(line));
        for (const char c : line) {
            const bool blank = c == ' ' || c == '\t' || c == '\r';
            if (!blank)
                out += c;
            else if (!out.empty() && out.back() != ' ')
                out += ' ';
        }
        if (!out.empty() && out.back() != ' ') out += ' ';
    }
    while (out.ends_with(' ')) out.pop_back();
    return out;
}

}  // namespace membudget::diagnosis
