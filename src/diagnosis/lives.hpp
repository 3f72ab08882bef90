#pragma once

/// The lives of the blocks that are live at chosen instants: in which phase each was made, and in which
/// it was let go.

#include <map>
#include <span>
#include <vector>

#include "diagnosis/stack_words.hpp"
#include "membudget/trace.hpp"

namespace membudget::diagnosis {

/// A stretch of events in one phase; forward and loss are one.
struct PhaseRun {
    std::uint32_t number = 0;
    StackPhase phase = StackPhase::none;
    std::uint32_t forwards = 0;   ///< forward passes begun so far
};

struct Life {
    std::int64_t size = 0;
    StackId stack = 0;
    TraceCategory category = TraceCategory::unknown;
    bool before = false;          ///< made before the first event
    bool ended = false;           ///< let go within the trace, in run `died`
    bool by_zero_grad = false;
    PhaseRun born = {}, died = {};
    StackPhase made_in = StackPhase::none;  ///< by its own stack; `born` is the run around it
};

/// How many blocks of which size.
using Sizes = std::map<std::int64_t, std::int64_t>;

struct Lives {
    std::vector<std::vector<Life>> at;  ///< by wanted instant
    PhaseRun last;                      ///< the run in which the trace ends
    /// Blocks that outlive the backward pass, and the optimizer's step, that made them: of the pass
    /// that left most behind.
    Sizes left_by_backward, left_by_optimizer;
};

/// `events`: after which events lives are asked for, in any order.
[[nodiscard]] Lives lives_at(const TraceDevice& device, StackWords& words,
                             std::span<const std::size_t> events);

}  // namespace membudget::diagnosis
