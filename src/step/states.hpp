#pragma once

/// Model states: parameters, master weights, gradients held in buffers, optimizer states; and what the
/// optimizer step allocates.

#include <cstdint>
#include <string>
#include <vector>

#include "membudget/autograd.hpp"
#include "membudget/job.hpp"
#include "membudget/step.hpp"

namespace membudget {

/// A parameter with a storage of its own, and how many copies of its block there are.
struct OwnParameter {
    const Parameter* parameter = nullptr;
    std::int64_t copies = 1;
};
/// Every parameter but tied ones, in the order of the model.
[[nodiscard]] std::vector<OwnParameter> own_parameters(const Model& model);

/// Bytes of scratch while the optimizer updates this one tensor (optimizer in backward).
[[nodiscard]] std::int64_t update_scratch(const Job& job, const Parameter& parameter);

/// What lives from step to step.
struct States {
    std::vector<Event> start;      ///< allocated before the step
    std::vector<Event> end;        ///< of `start`: what the step's end frees (nothing else does)
    StepNode optimizer_step;       ///< states of a first step, copies, temporaries
    std::vector<Event> zero_grad;  ///< frees the gradients that backward left
};
[[nodiscard]] States model_states(const Job& job, TermTable& terms, std::vector<TermNote>& notes);

/// Puts the note of a term; the table of notes grows as needed.
void note(std::vector<TermNote>& notes, TermId term, TermNote text);

}  // namespace membudget
