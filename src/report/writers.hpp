#pragma once

/// The dialects, one source each.

#include <string>
#include <string_view>
#include <vector>

#include "membudget/report.hpp"

namespace membudget::report {

[[nodiscard]] std::string write_text(const ReportData& data, const WriteOptions& options);
[[nodiscard]] std::string write_json(const ReportData& data, const WriteOptions& options);
[[nodiscard]] std::string write_markdown(const ReportData& data, const WriteOptions& options);
[[nodiscard]] std::string write_csv(const ReportData& data, const WriteOptions& options);

/// Breaks `text` at spaces so that no line is longer than `width`; a longer word stands alone.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, std::size_t width);

}  // namespace membudget::report
