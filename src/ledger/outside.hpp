#pragma once

/// What one process occupies on its device beside the caching allocator: context, libraries.

#include <string>
#include <string_view>
#include <vector>

#include "membudget/ledger.hpp"

namespace membudget {

/// Terms of the `device` total alone; none for a job whose `reserved` is not known, and none that
/// the spec states itself.
[[nodiscard]] std::vector<Term> outside_terms(const Job& job);

}  // namespace membudget
