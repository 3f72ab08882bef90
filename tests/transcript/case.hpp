#pragma once

/// A golden case: input files, commands and what they must print, in one text file.
///
///     # Halving the micro-batch halves the activations and nothing else.
///     ==> spec.json <==
///     {"membudget": 1, "terms": {"activations": "6GB"}}
///
///     $ membudget estimate spec.json --format json | jq .verdict
///     "none"
///
///     $ membudget estimate absent.json
///     2> error: absent.json: no such file
///     -> 2
///
/// - Lines before the first `==> NAME <==` or `$ COMMAND` are a comment.
/// - `==> NAME <==` starts an input file; it may stand between commands too.
/// - `$ COMMAND` is run by the shell; one that ends in `\` goes on in the next line. Below it stand
///   its standard output, its standard error (each line after `2> `), and `-> EXIT` when not 0.
/// - One empty line before a marker is for the reader's eye and belongs to nothing.
/// - A line of an input or an output that looks like a marker, or begins with a backslash, has one
///   more backslash before it. `\ no newline at end` says just that of the line above it.

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "transcript/shell.hpp"

namespace transcript {

struct Input {
    std::string name;  ///< path relative to the case's folder
    std::string content;
};

struct Command {
    std::size_t line = 0;  ///< where it stands in the file, from 1
    std::string text;
    Outcome outcome;
};

struct Case {
    std::string comment;  ///< the lines before the first marker, as they are
    std::vector<std::variant<Input, Command>> steps;
};

/// Throws `std::runtime_error` ("line 3: ...") for a text that is no case.
[[nodiscard]] Case parse_case(std::string_view text);

/// The one way to write `a_case` down: `parse_case` gives it back.
[[nodiscard]] std::string render_case(const Case& a_case);

/// The lines in which a case notes an outcome.
[[nodiscard]] std::vector<std::string> render_outcome(const Outcome& outcome);

}  // namespace transcript
