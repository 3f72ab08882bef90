#pragma once

/// Forward, loss and backward of one micro-batch over all blocks.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "membudget/step.hpp"
#include "step/block_run.hpp"
#include "step/communication.hpp"

namespace membudget {

class ModelPass {
public:
    ModelPass(const Job& job, TermTable& terms, Communication& communication,
              std::pmr::memory_resource* memory);

    /// Each appends its nodes. One micro-batch is forward, loss, backward, in this order.
    void forward(GradientMode mode, bool first_micro_batch, std::vector<StepNode>& out);
    void loss(std::vector<StepNode>& out);
    void backward(std::vector<StepNode>& out);
    /// The loop's name for the outputs goes (logits).
    void drop_outputs(Phase phase, std::vector<StepNode>& out);
    /// The outputs of the step before are alive when this one begins.
    void begin_with_outputs() { outputs_carried_ = true; }
    /// What the outputs and the loss refer to after backward, as allocations; after `loss`.
    [[nodiscard]] const std::vector<Event>& outputs() const { return outputs_; }
    /// The loop's name for the loss goes, and with it the graph's nodes.
    void drop_loss(Phase phase, std::vector<StepNode>& out);

private:
    /// A layer of a run: which block, whether it is checkpointed, and whether its output is the kept
    /// input of a checkpointed one.
    struct Layer {
        int block = 0;
        bool checkpointed = false;
        bool output_is_checkpoint = false;
        friend bool operator==(const Layer&, const Layer&) = default;
    };
    /// A stretch of layers that repeats.
    struct Run {
        std::string prefix;
        std::vector<Layer> unit;
        std::int64_t count = 1;
        std::int64_t first_index = 0;
    };
    /// One layer as simulated forward: kept until its backward.
    struct Visit {
        Layer layer;
        std::string prefix;
        BlockInput input;
        bool keeps_input = false;
        std::unique_ptr<BlockRun> run;
        std::vector<Event> forward, autocast_end;
        BlockInput output;
    };
    /// Consecutive copies that behave alike: `visits` is one unit.
    struct Group {
        std::vector<std::size_t> visits;
        std::int64_t count = 1;
        std::int64_t first_index = 0;
        std::int64_t unit_length = 1;
    };

    void plan_runs();
    void append_run(const std::string& prefix, std::vector<Layer> unit, std::int64_t count,
                    std::int64_t first_index);
    std::size_t visit(const Layer& layer, const std::string& prefix, const BlockInput& input,
                      bool keep_input);
    void forward_run(const Run& run, BlockInput& input, bool& keep_input, std::vector<StepNode>& out);
    void carry_outputs(std::vector<StepNode>& out);
    void end_of_forward(std::vector<StepNode>& out);
    void autocast_exits(std::vector<StepNode>& out);
    void end_of_base_model(std::vector<Event>& events);
    /// The first group whose blocks read the shared tensor, or the number of groups.
    [[nodiscard]] std::size_t first_use(std::size_t shared) const;
    void backward_group(const Group& group, Tape::BoundaryGradient& gradient, std::vector<StepNode>& out);
    Tape::BoundaryGradient backward_unit(const Group& group, Tape::BoundaryGradient gradient,
                                         std::vector<StepNode>& nodes, bool fresh);
    Tape::BoundaryGradient backward_visit(const Visit& visit, BlockRun* run,
                                          Tape::BoundaryGradient gradient, std::vector<Event>& recompute,
                                          std::vector<Event>& events);
    void end_of_block(const Block& block, BlockRun& run, std::vector<Event>& events);
    std::unique_ptr<BlockRun> rerun(const Visit& visit);
    [[nodiscard]] const Block& block(int index) const {
        return model_.blocks[static_cast<std::size_t>(index)];
    }
    [[nodiscard]] StepNode node(Phase phase, const char* pass, int block_index,
                                std::vector<Event> events) const;
    RunOptions options(const Layer& layer, const std::string& prefix) const;

    const Job& job_;
    const Model& model_;
    Communication& communication_;
    StepContext context_;
    std::vector<Run> runs_;
    std::vector<std::string> tied_;          ///< names whose storage the head shares

    // Of the micro-batch under way.
    GradientMode mode_ = GradientMode::become;
    bool first_micro_batch_ = true;
    std::vector<SharedTensor> shared_;
    std::unique_ptr<BlockRun> stem_, head_;
    std::vector<std::unique_ptr<Visit>> visits_;
    std::vector<Group> groups_;
    std::vector<Event> outputs_;
    bool outputs_carried_ = false;           ///< those of the pass before are still alive
    std::size_t loss_begin_ = 0;
    int stem_block_ = -1, head_block_ = -1;
};

}  // namespace membudget
