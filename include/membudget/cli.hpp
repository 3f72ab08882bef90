#pragma once

/// Part `cli`: one file per subcommand; the only place with CLI11, the terminal and exit codes.

#include <functional>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

namespace membudget {

enum class ExitCode : int {
    done = 0,
    over = 1,          ///< over budget, uncertain under --strict, growth beyond --max-increase
    bad_input = 2,     ///< bad usage, bad input, unwritable output
    unsupported = 3,   ///< valid input that is not supported
    defect = 70,       ///< a defect of ours
};

/// Where a run reads and talks.
struct Streams {
    std::ostream& out;
    std::ostream& err;
    bool colour = false;   ///< stdout is a terminal and NO_COLOR is not set
    int width = 80;       ///< paragraphs are wrapped here; the same in every pipe
    /// Writes at once to stderr where that is a terminal, for progress; else empty.
    std::function<void(std::string_view)> talk = {};
};

/// Runs one command line (without the program's name).
[[nodiscard]] ExitCode run_cli(std::span<const std::string> arguments, Streams& streams);

}  // namespace membudget
