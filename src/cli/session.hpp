#pragma once

/// What all subcommands share: reading their command line, and saying what came out.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>

#include "cli/commands.hpp"
#include "cli/output_file.hpp"
#include "membudget/membudget.hpp"
#include "membudget/report.hpp"

namespace membudget::cli {

/// One subcommand's run, from its command line to its exit code.
class Session {
public:
    /// `footer` holds the examples of the help.
    Session(std::string_view command, Streams& streams, std::string footer);

    /// Options and positionals are added here before `parse`.
    [[nodiscard]] CLI::App& app() { return app_; }

    /// Reads the command line and opens `--output`. An exit code when that ends the run: help was
    /// asked for, or the command line is wrong.
    [[nodiscard]] std::optional<ExitCode> parse(Arguments arguments);

    /// Whether the format that was asked for lists every row instead of a summary of them.
    [[nodiscard]] bool lists_rows() const { return writer_->lists_rows; }

    /// Prints `error:` and `hint:` lines, and for `--format json` the envelope. 2 or 3.
    ExitCode fail(const Diagnostics& errors);
    /// A mistake in how the program was called.
    ExitCode fail_usage(std::string message, std::string hint = {});
    /// Writes the report; `code` is returned unless that fails. `verdict` is said on stderr when
    /// the run fails and its report does not stand on the terminal.
    ExitCode finish(const ReportData& data, ExitCode code = ExitCode::done,
                    std::string_view verdict = {});

private:
    void add_common_options();

    std::string command_;
    Streams& streams_;
    CLI::App app_;
    std::string format_ = "text", output_ = "-", colour_ = "auto";
    const Writer* writer_ = nullptr;
    OutputFile file_;
};

/// Prints the lines of `errors`.
void print(const Diagnostics& errors, std::ostream& to);
/// `message` with hints, as a diagnostic of the command line.
[[nodiscard]] Diagnostics usage_error(std::string message, std::string hint = {});
/// What is wrong when `files` name standard input ("-") more than once; empty when nothing is.
[[nodiscard]] std::string misuse_of_standard_input(const std::vector<std::string>& files);
/// True when the arguments ask for JSON: a wrong command line gets its envelope too.
[[nodiscard]] bool asks_for_json(Arguments arguments);

/// 1 when `--strict` or the verdict says so, for a job that counts.
[[nodiscard]] ExitCode exit_code_for(Verdict verdict, bool strict);

}  // namespace membudget::cli
