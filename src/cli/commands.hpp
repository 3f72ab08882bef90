#pragma once

/// The subcommands, as rows: dispatch, `--help` and "did you mean" read them.

#include <span>
#include <string>
#include <string_view>

#include "membudget/cli.hpp"
#include "membudget/support.hpp"

namespace membudget::cli {

using Arguments = std::span<const std::string>;

struct Command {
    std::string_view name;
    std::string_view doc;
    std::string_view example;
    ExitCode (*run)(Arguments arguments, Streams& streams) = nullptr;
};
[[nodiscard]] Table<Command> commands();

ExitCode run_estimate(Arguments arguments, Streams& streams);
ExitCode run_compare(Arguments arguments, Streams& streams);
ExitCode run_explain(Arguments arguments, Streams& streams);
ExitCode run_trace(Arguments arguments, Streams& streams);
ExitCode run_reconcile(Arguments arguments, Streams& streams);
ExitCode run_timeline(Arguments arguments, Streams& streams);
ExitCode run_inspect(Arguments arguments, Streams& streams);
ExitCode run_list(Arguments arguments, Streams& streams);

}  // namespace membudget::cli
