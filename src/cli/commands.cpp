#include "cli/commands.hpp"

namespace membudget::cli {
namespace {

constexpr Command kCommands[] = {
    {"estimate", "the ledger of one job: what is live at the peak, and whether it fits",
     "membudget estimate spec.json --budget 80GB", run_estimate},
    {"compare", "jobs side by side: scenarios of one spec, several specs, or an earlier estimate",
     "membudget compare spec.json", run_compare},
    {"explain", "one term: its formula and its source; or what is live at an instant, and why",
     "membudget explain spec.json activations", run_explain},
    {"trace", "a measured run: what was live and reserved, its peak, and what that means",
     "membudget trace snapshot.pickle", run_trace},
    {"reconcile", "an estimate and a measured run side by side, term by term",
     "membudget reconcile spec.json snapshot.pickle", run_reconcile},
    {"timeline", "the step as a curve: what is live over its events, phase by phase",
     "membudget timeline spec.json", run_timeline},
    {"inspect", "a model's parameters: counts and bytes per component, and every tensor",
     "membudget inspect llama-3.1-8b", run_inspect},
    {"list", "the names that a spec may use: optimizers, precisions, devices, ...",
     "membudget list optimizers", run_list},
};
static_assert(names_are_unique(kCommands));

}  // namespace

Table<Command> commands() { return Table<Command>(kCommands); }

}  // namespace membudget::cli
