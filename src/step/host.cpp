#include "step/host.hpp"

#include <string>

#include <fmt/format.h>

#include "step/states.hpp"

namespace membudget {

std::int64_t pinned_size(std::int64_t bytes, Backend backend) {
    if (backend == Backend::cpu) return bytes;
    std::int64_t rounded = 1;
    while (rounded < bytes) rounded = detail::checked_mul(rounded, 2);
    return rounded;
}

bool updates_on_host(const Job& job, const Parameter& parameter) {
    return job.optimizer.host && parameter.trainable && parameter.elements().count() >= job.optimizer.host->smallest;
}

bool gradient_goes_to_host(const Job& job, const Parameter& parameter) {
    return updates_on_host(job, parameter) && job.optimizer.host->gradients;
}

void add_host_update(const Job& job, std::vector<HostTerm>& terms) {
    if (!job.optimizer.host) return;
    constexpr std::string_view kSource = "torchao optim/cpu_offload.py; ATen/core/CachingHostAllocator.h";
    const Optimizer& row = *job.optimizer.row;
    std::int64_t elements = 0, pinned = 0;
    std::vector<std::int64_t> states(row.slots.size());
    for_each_tensor(*job.model, [&](const Parameter& parameter, std::int64_t copies) {
        if (!updates_on_host(job, parameter)) return;
        const std::int64_t own = parameter.elements().count();
        const Dtype& type = held_dtype(job.precision, parameter);
        const auto times = [copies](std::int64_t bytes) { return detail::checked_mul(bytes, copies); };
        elements = detail::checked_add(elements, times(own));
        pinned = detail::checked_add(pinned, times(pinned_size(byte_count(own, type), job.backend)));
        for (std::size_t i = 0; i < states.size(); ++i)
            states[i] = detail::checked_add(
                states[i], times(slot_bytes(row.slots[i], parameter.shape, type, chosen_dtype(job, i), job.optimizer.options).count()));
    });
    const auto add = [&](std::string path, std::int64_t bytes, std::string formula) {
        terms.push_back({std::move(path), bytes, {Basis::derived, Total::host, std::move(formula), std::string(kSource)}});
    };
    const std::string copied = fmt::format("copies of {} elements, each tensor rounded up to a power of two", group_digits(elements));
    add("host/parameters", pinned, copied);
    add("host/gradients", pinned, copied);
    for (std::size_t i = 0; i < states.size(); ++i)
        add(fmt::format("host/optimizer_states/{}", row.slots[i].name), states[i],
            fmt::format("{}: {} over {} elements", row.name, row.slots[i].rule, group_digits(elements)));
}

}  // namespace membudget
