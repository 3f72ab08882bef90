#pragma once

#include <string>

#include "membudget/quantity.hpp"

namespace membudget::cli {

/// The most bytes that `--max-increase` allows over `baseline`: "5%" and "2.5%" of it, rounded
/// down, or a size. Inclusive.
[[nodiscard]] Result<Bytes> growth_limit(Bytes baseline, const std::string& text);

/// A size on the command line: with a unit, or a plain number of bytes as in a spec. A mistake is
/// told under the name of the flag.
[[nodiscard]] Result<Bytes> parse_size(const std::string& text, const char* flag);

}  // namespace membudget::cli
