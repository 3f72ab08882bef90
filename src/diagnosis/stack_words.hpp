#pragma once

/// What a stack tells: the phase of the step, the term of a block, and the line of the user's program.

#include <string>
#include <string_view>
#include <vector>

#include "membudget/trace.hpp"

namespace membudget::diagnosis {

/// Phase of a block by the stack that allocated it.
enum class StackPhase : std::uint8_t { none, other, forward, loss, backward, optimizer_step };
[[nodiscard]] std::string_view name_of(StackPhase phase);

/// A frame that says whose memory a block is.
struct TellingFrame {
    std::string_view function;  ///< part of its name
    std::string_view file;      ///< part of its path, with '/'; empty: of any file
    std::string_view term;      ///< first component of a ledger's paths
    std::string_view rule;      ///< for people
};

/// Answers per stack, each worked out once.
class StackWords {
public:
    explicit StackWords(const TraceStacks& stacks);

    [[nodiscard]] StackPhase phase_of(StackId stack);
    /// The phase of an allocation during the trace, after one in phase `before`. The threads of the
    /// autograd engine have no Python frames: where stacks hold nothing else, none means backward.
    [[nodiscard]] StackPhase phase_after(StackPhase before, StackId stack);
    /// The frame that tells the term; null: none does.
    [[nodiscard]] const TellingFrame* told_by(StackId stack);
    [[nodiscard]] bool in_zero_grad(StackId stack) const;
    /// "train.py:42 step": the innermost frame that is neither C++ nor PyTorch's own; else the
    /// innermost Python frame; else "(no stack)".
    [[nodiscard]] std::string place_of(StackId stack) const;

private:
    static constexpr std::uint8_t kUnknown = 0xFF;
    [[nodiscard]] const TellingFrame* find_telling(StackId stack) const;

    const TraceStacks& stacks_;
    std::vector<std::uint8_t> phases_, told_;
    bool only_python_ = false;
};

}  // namespace membudget::diagnosis
