#pragma once

/// In which order the blocks of a model run, and which of them repeat alike.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/job.hpp"
#include "membudget/model.hpp"

namespace membudget {

/// A layer of a run: which block, whether it is checkpointed, and whether its output is the kept input of
/// a checkpointed one.
struct Layer {
    int block = 0;
    bool checkpointed = false;
    bool output_is_checkpoint = false;
    friend bool operator==(const Layer&, const Layer&) = default;
};

/// A stretch of layers that repeats; stems and heads are runs of one.
struct Run {
    std::string prefix;
    std::vector<Layer> unit;
    std::int64_t count = 1;
    std::int64_t first_index = 0;
};

/// The first and the last run whose ops use a parameter that has several names.
struct TiedUse {
    int first = 0, last = 0;
};

struct Plan {
    std::vector<Run> runs;  ///< in execution order
    std::map<std::string, TiedUse, std::less<>> tied;  ///< by the full name of the parameter with storage

    [[nodiscard]] const TiedUse* use_of(const std::string& prefix, const Parameter& parameter) const;
};
[[nodiscard]] Plan plan_of(const Model& model, const Checkpointing& checkpointing);

}  // namespace membudget
