#pragma once

#include <string_view>
#include <vector>

#include "membudget/spec.hpp"

namespace membudget {

/// A document with more mistakes than this is not read to its end: it is no spec, and a list of two
/// million mistakes helps nobody.
inline constexpr std::size_t kMostMistakes = 200;

/// For each member of `object`, true when an earlier member has the same key.
[[nodiscard]] std::vector<bool> repeated_members(const KeyTree& object);

/// The one diagnostic for a key that stands twice; `pointer` is the second one's.
void report_duplicate(std::string_view pointer, std::string_view key, Diagnostics& errors);

/// Reports every repeated key in `tree` and below, in the order of the document.
void report_duplicates(const KeyTree& tree, std::string_view pointer, Diagnostics& errors);

/// Keeps of each repeated key the place of the first and the value of the last.
void fold_duplicates(KeyTree& tree);

}  // namespace membudget
