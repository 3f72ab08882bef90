#pragma once

#include <string>

#include <CLI/App.hpp>

namespace membudget::cli {

/// The help of a subcommand, at most 80 columns wide: usage, options by group in the order in which
/// they were added, footer, exit status.
[[nodiscard]] std::string help_text(const CLI::App& app);

}  // namespace membudget::cli
