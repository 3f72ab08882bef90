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
};

/// A stretch of layers that repeats; stems and heads are runs of one.
struct Run {
    std::string prefix;
    std::vector<Layer> unit;
    std::int64_t count = 1;
    std::int64_t first_index = 0;
};

/// Full name of the parameter that has the storage of `parameter`, itself or the one it is tied to.
[[nodiscard]] std::string storage_name(std::string_view prefix, const Parameter& parameter);

struct Plan {
    std::vector<Run> runs;  ///< in execution order
    /// The first run whose ops use a parameter that has several names, by the one with storage.
    std::map<std::string, int, std::less<>> first_use;

    /// Whether a run before `run` uses the parameter too: its backward comes later.
    [[nodiscard]] bool is_used_before(int run, std::string_view prefix, const Parameter& parameter) const;
};
[[nodiscard]] Plan plan_of(const Model& model, const Checkpointing& checkpointing);

}  // namespace membudget
