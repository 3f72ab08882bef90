#pragma once

#include <string>

#include "membudget/quantity.hpp"

namespace membudget::cli {

/// The most bytes that `--max-increase` allows over `baseline`: "5%" and "2.5%" of it, rounded
/// down, or a size. Inclusive.
[[nodiscard]] Result<Bytes> growth_limit(Bytes baseline, const std::string& text);

}  // namespace membudget::cli
