#pragma once

/// The dialects, one source each.

#include <string>

#include "membudget/report.hpp"

namespace membudget::report {

[[nodiscard]] std::string write_text(const ReportData& data, const WriteOptions& options);
[[nodiscard]] std::string write_json(const ReportData& data, const WriteOptions& options);
[[nodiscard]] std::string write_markdown(const ReportData& data, const WriteOptions& options);
[[nodiscard]] std::string write_csv(const ReportData& data, const WriteOptions& options);
[[nodiscard]] std::string write_pickle(const ReportData& data, const WriteOptions& options);
[[nodiscard]] std::string write_svg(const ReportData& data, const WriteOptions& options);

}  // namespace membudget::report
