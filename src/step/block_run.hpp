#pragma once

/// One copy of a block, run forward and backward on a tape of its own.

#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "membudget/autograd.hpp"
#include "membudget/job.hpp"
#include "membudget/model.hpp"
#include "step/plan.hpp"

namespace membudget {

/// Whether layers get a tensor of `Model::shared` by position: a reentrant checkpoint detaches and saves such arguments.
[[nodiscard]] inline bool is_positional(const Tensor& shared) { return shared.held == Held::until_scope_end; }

/// What all blocks of a step share.
struct StepContext {
    const Job& job;
    const Model& model;
    TermTable& terms;
    TapeTerms tape_terms;
    TermId recompute = 0;
    TermId checkpoint_inputs = 0;
    const Dtype* parameters = nullptr;  ///< the type in which blocks see their parameters
    std::pmr::memory_resource* memory = std::pmr::get_default_resource();  ///< of the tapes
};

/// The tensor that comes into a block.
struct BlockInput {
    std::int64_t numel = 0;
    const Dtype* dtype = nullptr;
    bool requires_grad = false;
    bool owned = true;  ///< the block frees it; else the block before does
    bool leaf = false;  ///< it needs a gradient of its own, and lives as long as the loss
    TermId term = 0;
    /// What the block before returned beside it and nobody else holds: freed when this block returns.
    std::int64_t beside = 0;
    TermId beside_term = 0;
    bool beside_given = false;  ///< this block gets it, and so does its recomputation
    bool beside_kept = false;   ///< a block before got it too, whose checkpoint keeps it for as long
};

/// A tensor of `Model::shared`, once its maker has run.
struct SharedTensor {
    std::int64_t numel = 0;
    const Dtype* dtype = nullptr;  ///< null: it does not exist in this job
    bool requires_grad = false;
    TermId term = 0;
    bool parameter = false;  ///< a parameter that blocks read as a tensor
};

/// Gradients that wait between blocks in backward, beside the one of the chain.
struct WaitingGradients {
    std::vector<Tape::BoundaryGradient> shared;  ///< by index of `Model::shared`
    std::map<std::string, Tape::BoundaryGradient, std::less<>> tied;  ///< by the parameter's full name
    Tape::BoundaryGradient router;  ///< of each router's logits, from a loss that they have joined
    friend bool operator==(const WaitingGradients&, const WaitingGradients&) = default;
};

/// How parameters treat their gradients in this pass.
enum class GradientMode {
    become,   ///< the first gradient becomes `.grad`
    add,      ///< `.grad` exists: gradients are added to it
    collect,  ///< gradients are reduced to shards at the end of the block
    consume,  ///< the optimizer runs inside backward and frees each gradient
};

/// Options of one run.
struct RunOptions {
    GradientMode gradients = GradientMode::become;
    bool grad_enabled = true;   ///< false: forward of a checkpointed block
    bool keeps_arguments = false;  ///< a checkpoint: what the block is given waits for its recomputation
    bool recompute = false;     ///< everything is booked under temporaries/recompute
    bool output_is_checkpoint = false;  ///< the output is the saved input of a checkpointed block
    bool reentrant = false;     ///< backward of a reentrant region: its arguments are leaves of their own
    bool has_loss = false;      ///< backward begins here
    const Plan* plan = nullptr; ///< tells which parameters other runs use too
    int run = 0;                ///< which run of the plan this is
    std::string_view prefix;    ///< of the block's parameter names
    bool input_gradients = false;  ///< of a stem: the embeddings' output needs a gradient
};

class BlockRun {
public:
    BlockRun(const BlockRun&) = delete;
    BlockRun& operator=(const BlockRun&) = delete;
    ~BlockRun() { tape_.record_to(nullptr); }

    BlockRun(const StepContext& context, const Block& block, const std::optional<BlockInput>& input,
             std::vector<SharedTensor>& shared, const RunOptions& options);

    /// Runs ops [begin, end) into `events`.
    void forward(std::vector<Event>& events, std::size_t begin, std::size_t end);
    [[nodiscard]] std::size_t ops() const { return block_.ops.size(); }

    /// Of a head: the model's forward returns after the loss, and its names go.
    void return_from_model(std::vector<Event>& events);
    /// A dictionary that all layers get loses the keys and values of this one.
    void drop_stored(std::vector<Event>& events);
    [[nodiscard]] bool stores() const { return !stored_.empty(); }
    /// Routers whose logits take a gradient in, and gradients that this block has left for such.
    [[nodiscard]] std::int64_t routers() const { return static_cast<std::int64_t>(routers_.size()); }
    [[nodiscard]] std::int64_t left_for_routers() const { return tape_.left_count(); }
    /// What kernels have made outputs of the model (`outputs.logits`) goes.
    void drop_kept(std::vector<Event>& events);
    /// What the outputs of the model refer to, as allocations: logits, cached keys and values.
    void outputs(std::vector<Event>& events) const;
    /// The stem's tensors for all blocks, as allocations.
    void shared_outputs(std::vector<Event>& events) const;
    /// Keeps the input's name: `inputs_embeds` of the function that runs the blocks.
    void keep_input();
    void drop_input_name(std::vector<Event>& events);

    /// The output goes to the next block; says what that receives.
    BlockInput hand_over_output();
    /// The loop's name for what the last block returned beside its output goes.
    static void drop_beside(const BlockInput& input, std::vector<Event>& events, Backend backend);
    /// A reentrant region's backward gets zeros for the results that nobody used, and holds them until
    /// it ends [torch/csrc/autograd/python_function.cpp, materialize_grads].
    void begin_reentrant_backward(std::vector<Event>& events);
    void end_reentrant_backward(std::vector<Event>& events);
    /// The block returns beside its output what it was given beside its input.
    [[nodiscard]] bool returns_given() const;
    /// The output was only needed by the forward of a recomputation.
    void drop_output(std::vector<Event>& events);
    /// Drops what was allocated after the last tensor was saved: a forward that only recomputes stops
    /// there. Call after the output is dropped.
    void stop_early(std::vector<Event>& events) const;
    /// How many of backward's events come before it needs a saved tensor.
    [[nodiscard]] std::size_t first_unpack() const { return tape_.first_unpack(); }
    /// Autocast exits.
    void end_autocast(std::vector<Event>& events);
    /// The block reads the shared tensor, or makes it.
    [[nodiscard]] bool reads_shared(std::size_t index) const;
    [[nodiscard]] bool makes_shared(std::size_t index) const;
    [[nodiscard]] bool holds_shared(std::size_t index) const;
    /// True when a saved tensor refers to the shared tensor.
    [[nodiscard]] bool saves_shared(std::size_t index) const;
    /// The stem's `until_model_end` tensors but its output: their names go.
    void drop_model_names(std::vector<Event>& events) { drop_names(Held::until_model_end, events); }
    /// The same of the `until_return` tensors.
    void drop_returned_names(std::vector<Event>& events) { drop_names(Held::until_return, events); }
    /// The name of a shared tensor that this block made goes.
    void drop_shared(std::vector<Event>& events, std::size_t index);
    /// A shared tensor dies with the saved ones of `reader`, in its backward; all names are gone.
    void hand_over_shared(std::size_t index, BlockRun& reader);

    /// Backward of the block; the gradient of its input lives on, and so do those that wait.
    Tape::BoundaryGradient backward(std::vector<Event>& events, Tape::BoundaryGradient of_output,
                                    WaitingGradients& waiting);
    void release_collected(std::vector<Event>& events);
    /// The outputs' names for results that the loss does not read go, and with them the graph behind.
    void drop_unreached(std::vector<Event>& events);
    /// `.grad` of the embeddings' output goes with the graph.
    void drop_input_gradients(std::vector<Event>& events);
    /// The same once backward has run, as allocations.
    void required(std::vector<Event>& events) const { tape_.required(events); }

private:
    void bring_in_shared();
    void drop_names(Held held, std::vector<Event>& events);
    void plan_lifetimes();
    void note_shared(int tensor, const Op& op);
    void store(const Op& attention);
    [[nodiscard]] TermId gradient_term(std::size_t shared, bool view) const;
    void seed(Tape::BoundaryGradient of_output, WaitingGradients& waiting);
    void drop_leaf_gradients(std::vector<Event>& events, WaitingGradients& waiting) const;
    void take_gradients(WaitingGradients& waiting);
    void run_op(std::size_t index);
    void finish_op(std::size_t index);
    void update_cache(const Op& op);
    [[nodiscard]] std::size_t scope_end(std::size_t op) const;

    const StepContext& context_;
    const Block& block_;
    std::vector<SharedTensor>& shared_;
    RunOptions options_;
    Tape tape_;
    std::vector<std::size_t> leaves_;
    std::vector<Ref> tensors_;       ///< names, by tensor of the block
    std::vector<std::size_t> dies_;  ///< per tensor: after how many ops its name ends
    std::vector<int> early_;         ///< per op: the op whose `Kernel::first` runs after it; -1
    std::vector<Ref> early_results_; ///< per op
    std::vector<Ref> held_;          ///< until the block's forward returns
    /// Locals of functions, with the number of ops after which the function returns.
    std::vector<std::pair<Ref, std::size_t>> locals_;
    std::vector<Ref> kept_;
    std::vector<Ref> routers_;       ///< aliases for the gradients of their logits
    std::vector<Ref> stored_;        ///< in a dictionary of the model's
    std::vector<Ref> arguments_;     ///< a reentrant region's gradients, until its backward returns
    Ref input_name_;
    bool hooked_ = false;            ///< of a stem: the module of its input embeddings has run
    Ref result_;                     ///< what the block returns beside its output
    BlockInput given_;
    Ref input_;                      ///< alias for the boundary gradient
    Ref output_alias_;
    std::vector<int> shared_of_;     ///< index of Model::shared -> tensor of the block; -1
    std::vector<Ref> shared_alias_;  ///< aliases for their gradients; none where there is no gradient
    std::vector<bool> made_;         ///< per tensor: an op of the block makes it
    const Dtype* activations_ = nullptr;
};

}  // namespace membudget
