#pragma once

/// What a stack tells: the phase of the step, and the line of the user's program.

#include <string>
#include <string_view>
#include <vector>

#include "membudget/trace.hpp"

namespace membudget::diagnosis {

/// Phase of a block by the stack that allocated it.
enum class StackPhase : std::uint8_t { none, other, forward, loss, backward, optimizer_step };
[[nodiscard]] std::string_view name_of(StackPhase phase);

/// Answers per stack, each worked out once.
class StackWords {
public:
    explicit StackWords(const TraceStacks& stacks)
        : stacks_(stacks), phases_(stacks.size(), kUnknown) {}

    [[nodiscard]] StackPhase phase_of(StackId stack);
    /// "train.py:42 step": the innermost frame that is neither C++ nor PyTorch's own; else the
    /// innermost Python frame; else "(no stack)".
    [[nodiscard]] std::string place_of(StackId stack) const;

private:
    static constexpr std::uint8_t kUnknown = 0xFF;
    const TraceStacks& stacks_;
    std::vector<std::uint8_t> phases_;
};

}  // namespace membudget::diagnosis
