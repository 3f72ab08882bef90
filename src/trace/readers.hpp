#pragma once

/// The functions behind the rows of `readers.cpp`, each in its own file.

#include "membudget/trace.hpp"

namespace membudget {

[[nodiscard]] bool recognise_snapshot_pickle(std::string_view head);
[[nodiscard]] Result<Trace> read_snapshot_pickle(TraceInput& input);
[[nodiscard]] bool recognise_snapshot_json(std::string_view head);
[[nodiscard]] Result<Trace> read_snapshot_json(TraceInput& input);
[[nodiscard]] bool recognise_snapshot_html(std::string_view head);
[[nodiscard]] Result<Trace> read_snapshot_html(TraceInput& input);

}  // namespace membudget
