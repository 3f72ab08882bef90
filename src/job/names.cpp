#include "membudget/job.hpp"

namespace membudget {

std::string_view name_of(Phase phase) {
    constexpr std::string_view kNames[] = {"forward", "loss", "backward", "optimizer_step"};
    return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace membudget
