#pragma once

/// The parts of the JSON report that speak of measured runs.

#include <nlohmann/json.hpp>

#include "membudget/report.hpp"

namespace membudget::report {

void add_traces(nlohmann::ordered_json& out, const ReportData& data);
void add_reconciliation(nlohmann::ordered_json& out, const ReportData& data);
void add_evidence(nlohmann::ordered_json& out, const ReportData& data);

}  // namespace membudget::report
