#pragma once

#include <span>
#include <string>

#include "membudget/diagnosis.hpp"

namespace membudget::diagnosis {

/// `instant` with blocks that the trace alone cannot sort put to the term that `expected` has tensors of
/// exactly their size and at least their number of. It takes the spec's word, so it is never certain.
[[nodiscard]] SortedInstant by_size_of_spec(SortedInstant instant, const ExpectedTerms& expected);

/// The rules behind a term's bytes, for people: one alone by its name, else each with its share.
[[nodiscard]] std::string rules_of(std::span<const LiveShare> rules);
/// The reasons why blocks are unsorted, each with its bytes.
[[nodiscard]] std::string reasons_of(std::span<const UnsortedBlocks> blocks);

}  // namespace membudget::diagnosis
