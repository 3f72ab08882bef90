#pragma once

/// What the columns of a table, or the keys of a JSON record, mean; by their names.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace membudget::trace {

enum class What {
    none, step, time, device, phase, used, total, free, allocated, reserved, max_allocated,
    max_reserved
};

struct Column {
    What what = What::none;
    std::int64_t unit = 0;   ///< bytes of its numbers; 0: not said
    [[nodiscard]] bool is_size() const { return what >= What::used; }
};

/// Bytes of a unit by its lower-case name ("mib", "gb", "bytes"); MB and GB are decimal, as written.
[[nodiscard]] std::optional<std::int64_t> unit_named(std::string_view name);

/// Reads "memory.used [MiB]", "mem_used_mb", "allocated (GB)", "max_reserved_bytes", ...
[[nodiscard]] Column column_named(std::string_view name);
[[nodiscard]] std::vector<Column> columns_of(const std::vector<std::string>& header);

}  // namespace membudget::trace
