// What a job keeps in the memory of the host beside checkpoints: `training.offload`.

#include <algorithm>

#include <fmt/format.h>

#include "job/resolver.hpp"

namespace membudget {

namespace {
constexpr std::string_view kPointer = "/training/offload";
constexpr std::string_view kStates = "optimizer_states";
constexpr std::string_view kGradients = "gradients";
}  // namespace

bool Resolver::offloads_states() const {
    return std::ranges::any_of(spec_.training.offload, [](const auto& asked) { return asked.first == kStates; });
}

/// Terms that CPUOffloadOptimizer moves, or what is wrong with them.
void Resolver::offload() {
    const auto& asked = spec_.training.offload;
    if (asked.empty()) return;
    HostUpdate host;
    bool states = false;
    for (const auto& [term, place] : asked) {
        const std::string pointer = pointer_child(kPointer, term);
        if (place.name != "host") {
            problems_.invalid(pointer, fmt::format("expected 'host'; got '{}'", place.name));
        } else if (term == kStates) {
            states = true;
        } else if (term == kGradients) {
            host.gradients = true;
        } else {
            problems_.unsupported(pointer, fmt::format("offloading of {} is not modelled yet", term),
                                  "optimizer_states can wait on the host, and gradients beside them");
        }
    }
    if (host.gradients && !states)
        problems_.unsupported(pointer_child(kPointer, kGradients),
                              "offloading of gradients without the optimizer's states is not modelled yet");
    if (!states) return;
    job_.optimizer.host = host;
    check_host_update();
    assume("training.offload",
           fmt::format("tensors of at least {} elements are updated on the host, from copies in pinned memory; what "
                       "is smaller stays on the device", host.smallest),
           "torchao optim/cpu_offload.py CPUOffloadOptimizer");
}

void Resolver::check_host_update() {
    const JobOptimizer& optimizer = job_.optimizer;
    const std::string states = pointer_child(kPointer, kStates);
    const auto refuse = [&](bool asked, std::string_view what) {
        if (asked) problems_.unsupported(states, fmt::format("an update on the host {} is not modelled yet", what));
    };
    refuse(job_.data.ranks() > 1, "of several ranks");
    refuse(job_.precision.master_weights != nullptr || job_.precision.gradient_buffer ||
               job_.precision.gradients != nullptr,
           "with master weights or main gradients");
    refuse(job_.model == nullptr, "of a count of parameters, whose tensors are not known,");
    refuse(optimizer.row->paged || optimizer.fallback != nullptr ||
               std::ranges::any_of(optimizer.row->slots, [](const StateSlot& slot) { return slot.quantized; }),
           fmt::format("by {}", optimizer.row->name));
    if (optimizer.in_backward)
        problems_.invalid(states, "expected an update after backward; got an optimizer that runs in backward",
                          "leave out one of the two");
    if (optimizer.clip)
        problems_.invalid("/training/optimizer/clip",
                          "expected no clipping: backward copies gradients to the host before they are clipped",
                          "clipping has no effect on an update on the host");
    if (!job_.zero_grad_to_none)
        problems_.invalid("/training/zero_grad", "expected set_to_none, which an update on the host demands; got zero");
    if (optimizer.host->gradients && job_.micro_batches > 1)
        problems_.invalid("/training/gradient_accumulation_steps",
                          fmt::format("expected 1 where gradients go to the host; got {}", job_.micro_batches),
                          "they are let go of as they appear, so they cannot accumulate");
}

}  // namespace membudget
