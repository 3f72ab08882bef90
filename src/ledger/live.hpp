#pragma once

/// What is live at the peak, tensor by tensor, and the formulas made of it.

#include <string>
#include <vector>

#include "membudget/ledger.hpp"
#include "membudget/step.hpp"

namespace membudget {

/// What is live at the peak, largest first, from the profile alone: without events of every layer.
[[nodiscard]] std::vector<LiveTensor> live_at_peak(const Job& job);

/// Formulas of the terms that ops make: the tensors that are live at the peak.
class LiveFormulas {
public:
    LiveFormulas(const Job& job, const Step& step);
    [[nodiscard]] std::string of(TermId term) const;
    [[nodiscard]] std::string source_of(TermId term) const;

private:
    const Step& step_;
    const Job& job_;
    std::vector<LiveTensor> live_;
};

}  // namespace membudget
