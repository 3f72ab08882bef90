#pragma once

/// Blocks that are live at an instant, sorted into the terms of a ledger.
///
///     category of the file, or a frame that tells   -> certain
///     phase that made it, phase that let it go      -> inferred from how long it lives
///     from before the trace: as many of its size as there are gradients of it -> inferred
///     else                                          -> unsorted, on a line of its own

#include <span>
#include <string>
#include <vector>

#include "diagnosis/stack_words.hpp"
#include "membudget/diagnosis.hpp"

namespace membudget::diagnosis {

/// An instant that is asked for: after event `event`, when `live` bytes are live.
struct WantedInstant {
    InstantOf of = InstantOf::peak;
    std::string phase;
    std::size_t event = 0;
    std::int64_t live = 0;
};

/// What is live at each of `wanted`, in their order.
[[nodiscard]] std::vector<SortedInstant> sort_live(const TraceDevice& device, StackWords& words,
                                                   std::span<const WantedInstant> wanted);

}  // namespace membudget::diagnosis
