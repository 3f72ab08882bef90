#pragma once

/// Forward, loss and backward of one micro-batch over all blocks.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "membudget/step.hpp"
#include "step/block_run.hpp"
#include "step/communication.hpp"
#include "step/plan.hpp"

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
    /// Inputs of checkpointed blocks that wait on the host, how many and how large; after `forward`.
    struct HostCopies {
        std::int64_t count = 0, bytes = 0, rounded = 0;
    };
    [[nodiscard]] HostCopies host_copies() const;
    /// The loop's name for the loss goes, and with it the graph's nodes.
    void drop_loss(Phase phase, std::vector<StepNode>& out);

private:
    /// One layer, stem or head as simulated forward: kept until its backward.
    struct Visit {
        Layer layer;
        std::size_t run_index = 0;
        bool single = false;  ///< the beginning or the end of a chain
        std::optional<BlockInput> input;
        bool recorded = true;   ///< of a layer: what it makes needs a gradient
        bool keeps_input = false;
        std::unique_ptr<BlockRun> run;
        std::vector<Event> forward, autocast_end;
        BlockInput output;
        /// Checkpointed, it is the last to hold these of `Model::shared`, until its backward is done.
        std::vector<std::size_t> last_reader_of;
    };
    /// Consecutive copies that behave alike: `visits` is one unit.
    struct Group {
        std::vector<std::size_t> visits;
        std::int64_t count = 1;
        std::int64_t first_index = 0;
        std::int64_t unit_length = 1;
    };

    /// The chain under way: visits that began it and ran its first layer; -1: none yet.
    struct Chain {
        int stem = -1, layer = -1;
    };

    std::size_t visit(const Layer& layer, std::size_t run_index, const BlockInput& input, bool keep_input);
    Visit& add_single(std::size_t run_index, const std::optional<BlockInput>& input);
    void forward_stem(std::size_t run_index, BlockInput& input, std::vector<StepNode>& out);
    void forward_run(std::size_t run_index, BlockInput& input, bool& keep_input, std::vector<StepNode>& out);
    void forward_end(std::size_t run_index, const BlockInput& last, std::vector<StepNode>& out);
    [[nodiscard]] bool is_recorded(const Block& one, const BlockInput& input, bool by_parameters) const;
    [[nodiscard]] bool is_argument(std::size_t shared) const;
    [[nodiscard]] bool goes_with_reader(std::size_t shared) const;
    [[nodiscard]] bool is_leaf(std::size_t shared) const;
    /// What a reentrant region did not get by position stays as long as the loss does: see `is_argument`.
    [[nodiscard]] bool stays() const { return job_.checkpointing.enabled && job_.checkpointing.reentrant; }
    [[nodiscard]] bool reads_first(const Run& run);
    void note_makers(std::size_t visit);
    void rebind_shared(std::size_t visit, std::vector<Event>& events);
    void end_of_chain(std::vector<Event>& events);
    void return_from_model(std::vector<Event>& events);
    void drop_name(std::size_t shared, std::vector<Event>& events);
    [[nodiscard]] bool outputs_refer_to(std::size_t shared) const;
    void drop_shared_of(std::size_t visit, std::vector<Event>& events);
    void carry_outputs(std::vector<StepNode>& out);
    void leaves_of_graph(std::vector<Event>& events) const;
    void end_of_forward(std::vector<StepNode>& out);
    void autocast_exits(std::vector<StepNode>& out);
    /// The first visit that reads the shared tensor, or the number of visits.
    [[nodiscard]] std::size_t first_use(std::size_t shared) const;
    void backward_group(const Group& group, Tape::BoundaryGradient& gradient, std::vector<StepNode>& out);
    void leave_stored(const BlockInput& input, const Tape::BoundaryGradient& gradient);
    void keep_stored(const std::vector<Event>& kept, std::span<StepNode> nodes);
    void backward_single(Visit& visit, Tape::BoundaryGradient& gradient, std::vector<StepNode>& out);
    Tape::BoundaryGradient backward_unit(const Group& group, Tape::BoundaryGradient gradient,
                                         std::vector<StepNode>& nodes, bool fresh);
    Tape::BoundaryGradient backward_visit(const Visit& visit, BlockRun* run,
                                          Tape::BoundaryGradient gradient, std::vector<Event>& recompute,
                                          std::vector<Event>& events);
    void end_of_block(const Block& block, BlockRun& run, std::vector<Event>& events);
    std::unique_ptr<BlockRun> rerun(const Visit& visit);
    [[nodiscard]] BlockRun& maker_of(std::size_t shared) {
        return *visits_[static_cast<std::size_t>(maker_[shared])]->run;
    }
    [[nodiscard]] int head_block() const { return visits_.back()->layer.block; }
    [[nodiscard]] const Block& block(int index) const {
        return model_.blocks[static_cast<std::size_t>(index)];
    }
    [[nodiscard]] StepNode node(Phase phase, const char* pass, int block_index,
                                std::vector<Event> events) const;
    [[nodiscard]] RunOptions options(const Layer& layer, std::size_t run) const;

    const Job& job_;
    const Model& model_;
    Communication& communication_;
    StepContext context_;
    const Plan plan_;

    // Of the micro-batch under way.
    GradientMode mode_ = GradientMode::become;
    bool first_micro_batch_ = true;
    std::vector<SharedTensor> shared_;
    std::vector<int> maker_;                 ///< of each shared tensor: its visit; -1: not made
    std::vector<bool> read_;                 ///< whether a layer has read it that lets go of it
    std::vector<bool> met_;                  ///< whether any layer has read it
    Chain chain_;
    WaitingGradients waiting_;
    std::int64_t routers_waiting_ = 0;       ///< gradients of routers' logits that no layer has taken in yet
    std::int64_t routers_of_unit_ = 0;       ///< those that the unit under way has taken in
    std::vector<std::unique_ptr<Visit>> visits_;
    std::vector<Group> groups_;
    std::vector<Event> outputs_;
    std::vector<Event> stored_;              ///< what goes with the dictionary that layers have stored it in
    std::vector<Event> left_stored_;         ///< of that, what the next block in backward lets go of
    bool outputs_carried_ = false;           ///< those of the pass before are still alive
};

}  // namespace membudget
