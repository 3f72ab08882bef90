#pragma once

/// Stated terms in time: which are live in which phase, and what they replace.

#include <array>
#include <string>
#include <vector>

#include "membudget/job.hpp"
#include "membudget/step.hpp"
#include "step/states.hpp"

namespace membudget {

class StatedTerms {
public:
    /// Interns the stated paths of `step`.
    StatedTerms(const Job& job, Bound bound, Step& step, Notes notes);

    /// What is allocated and freed when the step enters `phase`. A term that is live both in
    /// backward and in the optimizer step stays through the micro-batches after the first.
    [[nodiscard]] std::vector<Event> enter(Phase phase, bool first_micro_batch);

    /// Removes the derived events whose term is at or below a stated path.
    void drop_replaced(std::vector<Event>& events) const;
    void drop_replaced(StepNode& node) const;

    /// First path components that are neither stated nor derived, for a job without a model.
    [[nodiscard]] std::vector<std::string> missing() const;

private:
    struct Row {
        TermId term;
        std::int64_t bytes;
        std::array<bool, 4> phases;
        bool live = false;
    };
    [[nodiscard]] bool replaced(TermId term) const;

    const Job& job_;
    Step& step_;
    std::vector<Row> rows_;
};

}  // namespace membudget
