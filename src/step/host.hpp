#pragma once

/// What a step keeps in the memory of the host: rules of pinned memory, and of an update that runs there.

#include <cstdint>
#include <vector>

#include "membudget/step.hpp"

namespace membudget {

/// Pinned memory comes in powers of two [aten/src/ATen/core/CachingHostAllocator.h allocate, roundSize];
/// without a device nothing is pinned.
[[nodiscard]] std::int64_t pinned_size(std::int64_t bytes, Backend backend);

/// Whether the host updates the parameter: it is trained and not too small for the way there
/// [torchao optim/cpu_offload.py CPUOffloadOptimizer.__init__].
[[nodiscard]] bool updates_on_host(const Job& job, const Parameter& parameter);

/// Whether the device lets go of its gradient as soon as backward has made it [the same, backward_hook].
[[nodiscard]] bool gradient_goes_to_host(const Job& job, const Parameter& parameter);

/// Copies of parameters and gradients in pinned memory, and the states, which are not pinned. The step counts of
/// the states, 4 B for each tensor, are left out.
void add_host_update(const Job& job, std::vector<HostTerm>& terms);

}  // namespace membudget
