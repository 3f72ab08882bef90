#include "trace/columns.hpp"

#include <algorithm>
#include <utility>

#include "trace/log_text.hpp"

namespace membudget::trace {
namespace {

struct Name {
    std::string_view words;   ///< joined by '_'
    What what;
};

constexpr Name kNames[] = {
    {"step", What::step},
    {"iteration", What::step},
    {"iter", What::step},
    {"global_step", What::step},
    {"timestamp", What::time},
    {"time", What::time},
    {"elapsed_sec", What::time},
    {"index", What::device},
    {"gpu", What::device},
    {"gpu_index", What::device},
    {"gpu_id", What::device},
    {"device", What::device},
    {"rank", What::device},
    {"phase", What::phase},
    {"memory_used", What::used},
    {"mem_used", What::used},
    {"used_memory", What::used},
    {"gpu_memory_used", What::used},
    {"device_used", What::used},
    {"memory_total", What::total},
    {"mem_total", What::total},
    {"gpu_memory_total", What::total},
    {"device_total", What::total},
    {"memory_free", What::free},
    {"mem_free", What::free},
    {"allocated", What::allocated},
    {"memory_allocated", What::allocated},
    {"mem_allocated", What::allocated},
    {"allocated_bytes_all_current", What::allocated},
    {"reserved", What::reserved},
    {"memory_reserved", What::reserved},
    {"mem_reserved", What::reserved},
    {"reserved_bytes_all_current", What::reserved},
    {"max_allocated", What::max_allocated},
    {"peak_allocated", What::max_allocated},
    {"max_memory_allocated", What::max_allocated},
    {"mem_max_allocated", What::max_allocated},
    {"peak_memory_alloc", What::max_allocated},
    {"allocated_bytes_all_peak", What::max_allocated},
    {"max_reserved", What::max_reserved},
    {"peak_reserved", What::max_reserved},
    {"max_memory_reserved", What::max_reserved},
    {"mem_max_reserved", What::max_reserved},
    {"peak_memory_reserved", What::max_reserved},
    {"reserved_bytes_all_peak", What::max_reserved},
};

constexpr std::pair<std::string_view, std::int64_t> kUnits[] = {
    {"b", 1},         {"byte", 1},          {"bytes", 1},    {"kb", 1000},     {"mb", 1'000'000},
    {"gb", 1'000'000'000}, {"kib", 1024},   {"mib", kMiB},   {"gib", kGiB},
};

What what_named(std::string_view words) {
    const auto* row = std::find_if(std::begin(kNames), std::end(kNames),
                                   [&](const Name& name) { return name.words == words; });
    return row == std::end(kNames) ? What::none : row->what;
}

}  // namespace

std::optional<std::int64_t> unit_named(std::string_view name) {
    for (const auto& [unit, bytes] : kUnits)
        if (unit == name) return bytes;
    return std::nullopt;
}

Column column_named(std::string_view name) {
    // Words in lower case with one '_' between them, whatever the file puts there.
    std::string words;
    for (const char c : lowered(trimmed(name))) {
        const bool part = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '%';
        if (part) words += c;
        else if (!words.empty() && words.back() != '_') words += '_';
    }
    while (words.ends_with('_')) words.pop_back();

    Column out{what_named(words), 0};
    if (out.what != What::none) {
        if (words.find("_bytes_") != std::string::npos) out.unit = 1;
        return out;
    }
    const std::size_t last = words.rfind('_');
    if (last == std::string::npos) return out;
    const auto unit = unit_named(std::string_view(words).substr(last + 1));
    if (!unit) return out;
    out.what = what_named(std::string_view(words).substr(0, last));
    out.unit = *unit;
    return out;
}

std::vector<Column> columns_of(const std::vector<std::string>& header) {
    std::vector<Column> out;
    out.reserve(header.size());
    for (const std::string& name : header) out.push_back(column_named(name));
    return out;
}

}  // namespace membudget::trace
