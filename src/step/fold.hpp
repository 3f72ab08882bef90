#pragma once

/// Profiles put together in place, and the profile of a whole step.

#include <array>
#include <optional>
#include <span>

#include "membudget/step.hpp"

namespace membudget {

/// sum = sum, and then n copies of `part`. Both are of one table of terms.
void append(Profile& sum, const Profile& part, std::int64_t copies);
/// sum = sum, and then the events of leaf `leaf`. `highest` becomes the highest total above the start
/// of `sum` that its allocations reach; without one the least number there is.
void append(Profile& sum, std::span<const Event> events, const TermTable& terms, std::int32_t leaf,
            std::int64_t& highest);

/// The profile of a step's tree and the highest level in each phase, above the start; absent where a
/// phase does not occur.
struct Fold {
    Profile profile;
    std::array<std::optional<std::int64_t>, 4> phases;
};
[[nodiscard]] Fold fold(const StepNode& root, const TermTable& terms);

}  // namespace membudget
