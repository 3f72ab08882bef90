#include "step/plan.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace membudget {

namespace {

class Planner {
public:
    Planner(const Model& model, const Checkpointing& checkpointing)
        : model_(model), checkpointing_(checkpointing) {}

    Plan plan() {
        for (const Section& section : model_.sections) add(section);
        std::vector<Run> planned;
        for (std::size_t r = 0; r < runs_.size(); ++r) note_followers(r, planned);
        return {std::move(planned), {}};
    }

private:
    [[nodiscard]] const Block& block(int index) const {
        return model_.blocks[static_cast<std::size_t>(index)];
    }
    void append(const Section& section, std::vector<Layer> unit, std::int64_t count, std::int64_t at) {
        if (count > 0 && !unit.empty())
            runs_.push_back({section.prefix, std::move(unit), count, section.first_index + at});
    }
    /// The layers [begin, end) of a section, of which `on` says whether checkpointing reaches them.
    void add_stretch(const Section& section, std::int64_t begin, std::int64_t end, bool on);
    void add(const Section& section);
    void note_followers(std::size_t r, std::vector<Run>& planned) const;

    const Model& model_;
    const Checkpointing& checkpointing_;
    std::vector<Run> runs_;
    std::int64_t index_ = 0;  ///< of the next checkpointable layer
};

void Planner::add_stretch(const Section& section, std::int64_t begin, std::int64_t end, bool on) {
    if (end <= begin) return;
    const auto pattern = static_cast<std::int64_t>(section.pattern.size());
    // A unit covers whole patterns and whole strides of "every n-th".
    const std::int64_t unit_length = on ? std::lcm(pattern, checkpointing_.every) : pattern;
    const auto layer_at = [&](std::int64_t i) {
        const int b = section.pattern[static_cast<std::size_t>(i % pattern)];
        return Layer{b, block(b).checkpointable && checkpointing_.covers(index_ + i), false};
    };
    const std::int64_t copies = (end - begin) / unit_length;
    std::vector<Layer> unit, rest;
    for (std::int64_t i = 0; i < unit_length && copies > 0; ++i) unit.push_back(layer_at(begin + i));
    append(section, std::move(unit), copies, begin);
    const std::int64_t at = begin + copies * unit_length;
    for (std::int64_t i = at; i < end; ++i) rest.push_back(layer_at(i));
    append(section, std::move(rest), 1, at);
}

void Planner::add(const Section& section) {
    const Block& first = block(section.pattern.front());
    if (first.input < 0 || first.output < 0)
        return append(section, {{section.pattern.front(), false, false}}, 1, 0);
    const std::int64_t total =
        detail::checked_mul(static_cast<std::int64_t>(section.pattern.size()), section.count);
    const std::int64_t checkpointed =
        !checkpointing_.enabled ? 0
        : checkpointing_.first  ? std::clamp<std::int64_t>(*checkpointing_.first - index_, 0, total)
                                : total;
    add_stretch(section, 0, checkpointed, true);
    add_stretch(section, checkpointed, total, false);
    index_ += total;
}

/// A layer's output is the kept input of the next one if that is checkpointed. The last copy of a run may
/// have another follower than the others: it gets a run of its own then.
void Planner::note_followers(std::size_t r, std::vector<Run>& planned) const {
    Run run = runs_[r];
    const bool next = r + 1 < runs_.size() && runs_[r + 1].unit.front().checkpointed;
    for (std::size_t i = 0; i + 1 < run.unit.size(); ++i)
        run.unit[i].output_is_checkpoint = run.unit[i + 1].checkpointed;
    run.unit.back().output_is_checkpoint = run.unit.front().checkpointed;
    if (run.count == 1 || next == run.unit.front().checkpointed) {
        run.unit.back().output_is_checkpoint = next;
        planned.push_back(std::move(run));
        return;
    }
    Run last = run;
    last.count = 1;
    last.first_index = run.first_index + (run.count - 1) * static_cast<std::int64_t>(run.unit.size());
    last.unit.back().output_is_checkpoint = next;
    --run.count;
    planned.push_back(std::move(run));
    planned.push_back(std::move(last));
}

/// Which run is the first to use each parameter that has a second name.
void find_tied(const Model& model, Plan& plan) {
    std::set<std::string, std::less<>> tied;
    for (const Run& run : plan.runs)
        for (const Layer& layer : run.unit)
            for (const Parameter& parameter : model.blocks[static_cast<std::size_t>(layer.block)].parameters)
                if (!parameter.tied_to.empty()) tied.insert(parameter.tied_to);
    if (tied.empty()) return;
    for (std::size_t r = 0; r < plan.runs.size(); ++r)
        for (const Layer& layer : plan.runs[r].unit) {
            const Block& block = model.blocks[static_cast<std::size_t>(layer.block)];
            for (const Op& op : block.ops)
                for (const int index : op.parameters) {
                    std::string name =
                        storage_name(plan.runs[r].prefix, block.parameters[static_cast<std::size_t>(index)]);
                    if (tied.contains(name)) plan.first_use.try_emplace(std::move(name), static_cast<int>(r));
                }
        }
}

}  // namespace

std::string storage_name(std::string_view prefix, const Parameter& parameter) {
    return parameter.tied_to.empty() ? std::string(prefix) + parameter.name : parameter.tied_to;
}

bool Plan::is_used_before(int run, std::string_view prefix, const Parameter& parameter) const {
    if (first_use.empty()) return false;
    const auto found = first_use.find(storage_name(prefix, parameter));
    return found != first_use.end() && found->second < run;
}

Plan plan_of(const Model& model, const Checkpointing& checkpointing) {
    Plan plan = Planner(model, checkpointing).plan();
    find_tied(model, plan);
    return plan;
}

}  // namespace membudget
