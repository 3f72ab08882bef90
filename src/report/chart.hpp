#pragma once

/// A step's curve in characters, for terminals and for Markdown.

#include <string>

#include "membudget/report.hpp"

namespace membudget::report {

/// Lines of at most `width` columns, each with its line end. Groups of terms are told apart by
/// letters; colour only repeats what the letters say.
[[nodiscard]] std::string draw_chart(const TimelineReport& report, int width, bool colour);

}  // namespace membudget::report
