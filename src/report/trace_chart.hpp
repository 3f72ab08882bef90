#pragma once

#include <string>

#include "membudget/report.hpp"

namespace membudget::report {

/// Live, reserved and device memory over the trace, 80 columns wide, without colour.
[[nodiscard]] std::string draw_levels(const TraceSubject& subject);

/// The same as a picture, with axes and units.
[[nodiscard]] std::string draw_levels_svg(const TraceSubject& subject, const std::string& title);

/// The first trace of a report that has figures.
[[nodiscard]] std::string draw_traces_svg(const ReportData& data);

/// The subject to show in full: by name, else the one with the highest peak; null when there is none.
[[nodiscard]] const TraceSubject* chosen_subject(const TraceSummary& summary, std::string_view name);

}  // namespace membudget::report
