#pragma once

/// The readers of everything that is no memory snapshot. Each recognises its kind by the first bytes.

#include <string>
#include <string_view>

#include "membudget/trace.hpp"

namespace membudget::trace {

[[nodiscard]] bool recognise_timeline(std::string_view head);
[[nodiscard]] Result<Trace> read_timeline(TraceInput& input);

[[nodiscard]] bool recognise_chrome(std::string_view head);
[[nodiscard]] Result<Trace> read_chrome(TraceInput& input);

[[nodiscard]] bool recognise_timeline_html(std::string_view head);
[[nodiscard]] Result<Trace> read_timeline_html(TraceInput& input);

[[nodiscard]] bool recognise_json_samples(std::string_view head);
[[nodiscard]] Result<Trace> read_json_samples(TraceInput& input);

[[nodiscard]] bool recognise_table(std::string_view head);
[[nodiscard]] Result<Trace> read_table(TraceInput& input);

/// Any text: step logs and out-of-memory messages among other lines. The last resort.
[[nodiscard]] bool recognise_text(std::string_view head);
[[nodiscard]] Result<Trace> read_text_log(TraceInput& input);

/// A diagnostic about the content of `input`.
[[nodiscard]] Diagnostic refuse(const TraceInput& input, std::string message,
                                std::string hint = {});

}  // namespace membudget::trace
