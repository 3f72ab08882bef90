#include "step/block_run.hpp"

#include <algorithm>
#include <array>

#include "step/host.hpp"
#include "step/states.hpp"

namespace membudget {

namespace {
constexpr std::size_t kEventsPerOp = 12;  // about; more are no mistake

std::size_t at(int index) { return static_cast<std::size_t>(index); }
}  // namespace

BlockRun::BlockRun(const StepContext& context, const Block& block,
                   const std::optional<BlockInput>& input, std::vector<SharedTensor>& shared,
                   const RunOptions& options)
    : context_(context), block_(block), shared_(shared), options_(options),
      tape_(context.tape_terms, context.job.backend, context.memory), tensors_(block.tensors.size()),
      early_(block.ops.size(), -1), early_results_(block.ops.size()),
      shared_of_(context.model.shared.size(), -1), shared_alias_(context.model.shared.size()),
      made_(block.tensors.size(), false) {
    const Precision& precision = context.job.precision;
    tape_.set_autocast(precision.autocast);
    tape_.set_grad_enabled(options.grad_enabled);
    tape_.set_hooked(options.recompute && !options.reentrant);
    tape_.reserve(block.ops.size(), block.parameters.size());
    leaves_.reserve(block.parameters.size());
    for (const Parameter& parameter : block.parameters) {
        Leaf leaf;
        leaf.numel = parameter.elements().count();
        leaf.dtype = parameter.dtype != nullptr ? parameter.dtype : context.parameters;
        leaf.trainable = parameter.trainable || parameter.unreached;
        leaf.has_grad = options.gradients == GradientMode::add;
        leaf.collect = options.gradients == GradientMode::collect;
        if (options.gradients == GradientMode::consume)
            leaf.consume_scratch = update_scratch(context.job, parameter);
        else if (gradient_goes_to_host(context.job, parameter))
            leaf.consume_scratch = 0;
        leaf.shared_later = parameter.trainable && options.plan != nullptr &&
                            options.plan->is_used_before(options.run, options.prefix, parameter);
        leaves_.push_back(tape_.add_leaf(leaf));
    }
    activations_ = input ? input->dtype : context.parameters;
    if (input) {
        given_ = *input;
        Ref ref = input->owned
                      ? tape_.adopt(input->numel, *input->dtype, input->requires_grad, input->term)
                      : tape_.borrow(input->numel, *input->dtype, input->requires_grad);
        // [torch/utils/checkpoint.py detach_variable]
        if (options.reentrant) tape_.detach(ref);
        input_ = tape_.alias(ref);
        tensors_[at(block.input)] = std::move(ref);
    }
    bring_in_shared();
    plan_lifetimes();
}

void BlockRun::bring_in_shared() {
    for (const Op& op : block_.ops)
        for (const int output : op.outputs) made_[at(output)] = true;
    for (std::size_t i = 0; i < block_.tensors.size(); ++i) {
        const int index = block_.tensors[i].shared;
        if (index < 0) continue;
        shared_of_[at(index)] = static_cast<int>(i);
        const SharedTensor& given = shared_[at(index)];
        if (given.dtype == nullptr || made_[i]) continue;
        tensors_[i] = tape_.borrow(given.numel, *given.dtype, given.requires_grad);
        if (options_.reentrant && is_positional(context_.model.shared[at(index)])) tape_.detach(tensors_[i]);
        if (given.requires_grad) shared_alias_[at(index)] = tape_.alias(tensors_[i]);
    }
}

std::size_t BlockRun::scope_end(std::size_t op) const {
    // What the last op of a scope makes is its result: the enclosing scope owns it.
    std::size_t end = block_.ops.size();
    for (const Scope& scope : block_.scopes)
        if (at(scope.first_op) <= op && op + 1 < at(scope.end_op)) end = std::min(end, at(scope.end_op));
    return end;
}

void BlockRun::plan_lifetimes() {
    constexpr std::size_t kNever = static_cast<std::size_t>(-1);
    const std::size_t count = block_.ops.size();
    dies_.assign(block_.tensors.size(), 0);
    for (std::size_t i = 0; i < count; ++i) {
        const Op& op = block_.ops[i];
        for (const int input : op.inputs) dies_[at(input)] = std::max(dies_[at(input)], i + 1);
        for (const int output : op.outputs) {
            const Held held = block_.tensors[at(output)].held;
            const std::size_t end = held == Held::until_scope_end ? scope_end(i) : i + 1;
            dies_[at(output)] = std::max(dies_[at(output)], end);
        }
        const Kernel& kernel = context_.job.kernel(op.kind);
        if (kernel.first == nullptr || op.inputs.empty()) continue;
        for (std::size_t j = 0; j < i; ++j) {
            const auto& outputs = block_.ops[j].outputs;
            if (std::find(outputs.begin(), outputs.end(), op.inputs.front()) != outputs.end())
                early_[j] = static_cast<int>(i);
        }
    }
    if (block_.input >= 0 && block_.tensors[at(block_.input)].held == Held::until_scope_end)
        dies_[at(block_.input)] = count;
    if (block_.output >= 0) dies_[at(block_.output)] = kNever;
    for (std::size_t i = 0; i < block_.tensors.size(); ++i)
        if (const Held held = block_.tensors[i].held;
            block_.tensors[i].shared >= 0 || held == Held::until_model_end || held == Held::until_return)
            dies_[i] = kNever;
}

/// `cache.update(key, value)`: both are concatenated with the empty cache, which copies them, head by
/// head; the names of the function are bound to the copies
/// [transformers cache_utils.py DynamicLayer.update].
void BlockRun::update_cache(const Op& op) {
    const OpAttributes& a = op.attributes;
    const bool cut = a.form == AttentionForm::falcon;
    const std::int64_t heads = a.kv_heads > 0 ? a.kv_heads : a.heads;
    for (const std::size_t input : {std::size_t{1}, std::size_t{2}}) {
        Ref& tensor = tensors_[at(op.inputs[input])];
        const bool rotated = input == 1 && a.rotates;
        Ref x = tensor;
        if (!rotated && !cut && heads > 1) x = tape_.view(std::move(x), Tape::ViewGradient::copy);
        std::array<Ref, 1> parts{std::move(x)};
        Ref made = tape_.cat(parts);
        parts[0].reset();
        kept_.push_back(made);
        tensor = std::move(made);
        if (block_.tensors[at(op.inputs[input])].shared >= 0) note_shared(op.inputs[input], op);
    }
}

void BlockRun::outputs(std::vector<Event>& events) const {
    for (const Ref& ref : kept_) {
        const std::int64_t bytes = byte_count(ref.numel(), ref.dtype());
        events.push_back({bytes, rounding_of(bytes, context_.job.backend), 1, -1, tape_.term_of(ref),
                          {kNoOp, "outputs of the step before"}});
    }
}

void BlockRun::shared_outputs(std::vector<Event>& events) const {
    for (const int tensor : shared_of_) {
        if (tensor < 0 || !tensors_[at(tensor)]) continue;
        const Ref& ref = tensors_[at(tensor)];
        const std::int64_t bytes = byte_count(ref.numel(), ref.dtype());
        events.push_back({bytes, rounding_of(bytes, context_.job.backend), 1, -1, tape_.term_of(ref),
                          {kNoOp, "outputs of the step before"}});
    }
}

void BlockRun::run_op(std::size_t index) {
    const Op& op = block_.ops[index];
    const Job& job = context_.job;
    const TermId term = options_.recompute ? context_.recompute : context_.terms.intern(op.term);
    std::vector<Ref> locals;
    const auto caches = [&](const Op& which) {
        // Keys of another layer are in the cache already.
        return job.use_cache && which.kind == OpKind::attention && which.attributes.causal && made_[at(which.inputs[1])];
    };
    const auto call_of = [&](const Op& which) {
        KernelCall call(tape_, which, block_, job.extents, tensors_, leaves_, held_, locals, kept_, result_);
        call.dropout = job.dropout_override;
        call.imbalance = job.moe_imbalance;
        call.activations = activations_;
        call.cached = caches(which);
        return call;
    };
    tape_.book(term, static_cast<std::uint16_t>(index));
    if (caches(op)) update_cache(op);
    KernelCall call = call_of(op);
    call.early = std::move(early_results_[index]);
    const std::size_t held_before = held_.size();
    const bool records = tape_.grad_enabled();
    // Layers that only outputs read are checkpointed like the others, and nothing asks for them again.
    const Checkpointing& checkpointing = job.checkpointing;
    const bool forgets = checkpointing.enabled && checkpointing.every == 1 && !checkpointing.first;
    tape_.set_grad_enabled(records && op.reader != Reader::nobody && !(forgets && op.within_layer && op.reader == Reader::outputs));
    tape_.set_unreached(op.reader == Reader::outputs);
    const std::size_t kept_before = kept_.size();
    job.kernel(op.kind).run(call);
    if (op.attributes.keeps_logits && kept_.size() > kept_before && kept_.back().requires_grad())
        routers_.push_back(tape_.alias(kept_.back()));
    tape_.set_grad_enabled(records);
    if (op.attributes.stored) store(op);
    if (options_.recompute) kept_.clear();  // the outputs have what the first forward made
    call.early.reset();
    for (Ref& local : locals) locals_.emplace_back(std::move(local), scope_end(index));
    locals.clear();
    // What a name held goes when the function returns whose result takes it: `_`, of a second attention.
    if (held_.size() > held_before)
        for (; held_before > 0 && held_.size() > 1; held_.erase(held_.begin()))
            locals_.emplace_back(std::move(held_.front()), scope_end(index));
    const bool embeds = op.kind == OpKind::embedding || op.kind == OpKind::conv_patches || op.attributes.unfolded;
    if (block_.input < 0 && embeds) activations_ = &tensors_[at(op.outputs[0])].dtype();
    // Only the first has the hook: what `get_input_embeddings()` returns.
    const bool scales = index > 0 && block_.ops[index - 1].attributes.scaled;
    if (block_.input < 0 && !hooked_ && ((embeds && !op.attributes.scaled) || scales)) {
        if (options_.input_gradients && !op.attributes.hookless) tape_.require_grad(tensors_[at(op.outputs[0])]);
        hooked_ = true;
    }
    for (const int output : op.outputs) {
        const Ref& made = tensors_[at(output)];
        if (block_.tensors[at(output)].shared >= 0 && made) note_shared(output, op);
        if (forgets && block_.tensors[at(output)].of_checkpoint) kept_.push_back(made);
        if (output == block_.output && options_.output_is_checkpoint)
            tape_.rename(made, context_.checkpoint_inputs, "block output");
    }
    if (early_[index] >= 0) {
        const Op& later = block_.ops[at(early_[index])];
        tape_.book(options_.recompute ? context_.recompute : context_.terms.intern(later.term),
                   static_cast<std::uint16_t>(early_[index]));
        KernelCall first = call_of(later);
        early_results_[at(early_[index])] = job.kernel(later.kind).first(first);
    }
}

/// Keys and values enter a dictionary that is an argument of every layer. What runs a region again without reentrance
/// records a graph that no backward goes through: with them it keeps all it has saved on the way to them
/// [transformers cache_utils.py KVSharingDict; torch/utils/checkpoint.py _recomputation_hook].
void BlockRun::store(const Op& attention) {
    for (const std::size_t input : {std::size_t{1}, std::size_t{2}}) {
        const Ref& tensor = tensors_[at(attention.inputs[input])];
        stored_.push_back(tensor);
        if (!options_.recompute || options_.reentrant) continue;
        for (Ref& saved : tape_.saved_behind(tensor)) stored_.push_back(std::move(saved));
    }
}

void BlockRun::drop_stored(std::vector<Event>& events) {
    tape_.record_to(&events);
    for (Ref& ref : stored_) ref.reset();
    stored_.clear();
}

/// A shared tensor has been made; a recomputed one is of no interest to others.
void BlockRun::note_shared(int tensor, const Op& op) {
    const Ref& made = tensors_[at(tensor)];
    const std::size_t index = at(block_.tensors[at(tensor)].shared);
    if (made.requires_grad()) shared_alias_[index] = tape_.alias(made);
    if (options_.recompute) return;
    shared_[index] = {made.numel(), &made.dtype(), made.requires_grad(), tape_.term_of(made),
                      op.inputs.empty() && !op.parameters.empty() && op.attributes.same};
    // With a gradient it may die on another block's tape.
    if (made.requires_grad() || !options_.grad_enabled)
        tape_.rename(made, tape_.term_of(made), "block output");
}

void BlockRun::finish_op(std::size_t index) {
    // The function of a head is the model's: it returns when the loss is there.
    const bool last = index + 1 == block_.ops.size();
    if (last && options_.has_loss) {
        for (const int output : block_.ops.back().outputs) tensors_[at(output)].reset();
        return;
    }
    for (std::size_t i = 0; i < tensors_.size(); ++i)
        if (dies_[i] == index + 1) tensors_[i].reset();
    std::erase_if(locals_, [&](const auto& local) { return local.second <= index + 1; });
    if (!last) return;
    for (Ref& ref : held_) ref.reset();
    held_.clear();
}

void BlockRun::return_from_model(std::vector<Event>& events) {
    tape_.record_to(&events);
    for (std::size_t i = 0; i < tensors_.size(); ++i)
        if (dies_[i] == block_.ops.size()) tensors_[i].reset();
    locals_.clear();
    held_.clear();
}

void BlockRun::forward(std::vector<Event>& events, std::size_t begin, std::size_t end) {
    tape_.record_to(&events);
    events.reserve(events.size() + kEventsPerOp * (end - begin));
    for (std::size_t i = begin; i < end; ++i) {
        run_op(i);
        finish_op(i);
    }
    if (end != block_.ops.size()) return;
    if (block_.output >= 0) output_alias_ = tape_.alias(tensors_[at(block_.output)]);
    const bool kept = given_.beside_given && (options_.keeps_arguments || given_.beside_kept);
    if (!options_.recompute && !kept && !returns_given()) drop_beside(given_, events, context_.job.backend);
}

void BlockRun::drop_beside(const BlockInput& input, std::vector<Event>& events, Backend backend) {
    if (input.beside == 0) return;
    events.push_back({-input.beside, -rounding_of(input.beside, backend), 1, -1, input.beside_term,
                      {kNoOp, "result beside the output"}});
}

bool BlockRun::returns_given() const {
    return given_.beside > 0 && std::any_of(block_.ops.begin(), block_.ops.end(),
                                            [](const Op& op) { return op.attributes.chosen_before; });
}

void BlockRun::begin_reentrant_backward(std::vector<Event>& events) {
    if (!result_ && !returns_given()) return;
    const std::int64_t bytes = result_ ? byte_count(result_.numel(), result_.dtype()) : given_.beside;
    events.push_back({bytes, rounding_of(bytes, context_.job.backend), 1, -1,
                      context_.tape_terms.backward, {kNoOp, "zeros for an unused result"}});
}

void BlockRun::end_reentrant_backward(std::vector<Event>& events) {
    if (!result_ && !returns_given()) return;
    std::vector<Event> made;
    begin_reentrant_backward(made);
    for (Event& event : made) {
        event.bytes = -event.bytes;
        event.rounding = -event.rounding;
        events.push_back(event);
    }
    tape_.record_to(&events);
    result_.reset();
}

void BlockRun::keep_input() { input_name_ = tensors_[at(block_.input)]; }

void BlockRun::drop_input_name(std::vector<Event>& events) {
    tape_.record_to(&events);
    input_name_.reset();
}

void BlockRun::drop_kept(std::vector<Event>& events) {
    tape_.record_to(&events);
    for (Ref& ref : kept_) ref.reset();
    kept_.clear();
}

BlockInput BlockRun::hand_over_output() {
    Ref& output = tensors_[at(block_.output)];
    BlockInput next;
    next.numel = output.numel();
    next.dtype = &output.dtype();
    next.requires_grad = output.requires_grad();
    next.term = tape_.term_of(output);
    next.leaf = tape_.is_required(output);
    next.owned = !tape_.hand_over(output);
    output.reset();
    if (returns_given()) {
        next.beside = given_.beside;
        next.beside_term = given_.beside_term;
        next.beside_given = given_.beside_given;
        next.beside_kept = given_.beside_kept || options_.keeps_arguments;
        return next;
    }
    // Saved by a node, it costs nothing more and dies there.
    if (result_ && !options_.recompute) {
        next.beside_term = tape_.term_of(result_);
        const std::int64_t bytes = byte_count(result_.numel(), result_.dtype());
        if (!tape_.hand_over(result_)) next.beside = bytes;
        next.beside_given = std::any_of(block_.ops.begin(), block_.ops.end(),
                                        [](const Op& op) { return op.attributes.passed_on; });
        result_.reset();
    }
    return next;
}

void BlockRun::drop_output(std::vector<Event>& events) {
    tape_.record_to(&events);
    if (block_.output >= 0) tensors_[at(block_.output)].reset();
    for (const int tensor : shared_of_)
        if (tensor >= 0 && made_[at(tensor)]) tensors_[at(tensor)].reset();
    result_.reset();
}

void BlockRun::stop_early(std::vector<Event>& events) const {
    const std::size_t stop = std::min(tape_.last_save(), events.size());
    std::vector<std::int32_t> never;
    for (std::size_t i = stop; i < events.size(); ++i)
        if (events[i].bytes > 0) never.push_back(events[i].storage);
    std::erase_if(events, [&](const Event& event) {
        return std::find(never.begin(), never.end(), event.storage) != never.end();
    });
}

void BlockRun::end_autocast(std::vector<Event>& events) {
    tape_.record_to(&events);
    tape_.clear_autocast_cache();
}

bool BlockRun::reads_shared(std::size_t index) const {
    return shared_of_[index] >= 0 && !made_[at(shared_of_[index])];
}

bool BlockRun::makes_shared(std::size_t index) const {
    return shared_of_[index] >= 0 && made_[at(shared_of_[index])];
}

bool BlockRun::holds_shared(std::size_t index) const {
    return shared_of_[index] >= 0 && tensors_[at(shared_of_[index])];
}

bool BlockRun::saves_shared(std::size_t index) const {
    const int tensor = shared_of_[index];
    return tensor >= 0 && tensors_[at(tensor)] && tape_.saved_count(tensors_[at(tensor)]) > 0;
}

void BlockRun::drop_names(Held held, std::vector<Event>& events) {
    tape_.record_to(&events);
    for (std::size_t i = 0; i < tensors_.size(); ++i)
        if (block_.tensors[i].held == held && static_cast<int>(i) != block_.output)
            tensors_[i].reset();
}

void BlockRun::drop_shared(std::vector<Event>& events, std::size_t index) {
    const int tensor = shared_of_[index];
    if (tensor < 0) return;
    tape_.record_to(&events);
    tensors_[at(tensor)].reset();
}

void BlockRun::hand_over_shared(std::size_t index, BlockRun& reader) {
    const TermId term = shared_[index].term;
    Ref& mine = tensors_[at(shared_of_[index])];
    Ref& theirs = reader.tensors_[at(reader.shared_of_[index])];
    if (tape_.owns(mine)) reader.tape_.own(theirs, term);
    tape_.disown(mine);
    mine.reset();
    theirs.reset();
}

/// Puts the gradients that wait where the nodes of this block find them.
void BlockRun::seed(Tape::BoundaryGradient of_output, WaitingGradients& waiting) {
    for (std::size_t i = 0; i < leaves_.size() && !waiting.tied.empty(); ++i) {
        const Parameter& parameter = block_.parameters[i];
        const auto found = waiting.tied.find(storage_name(options_.prefix, parameter));
        if (found == waiting.tied.end() || !tape_.leaf_is_used(leaves_[i])) continue;
        tape_.seed_leaf(leaves_[i], found->second);
        waiting.tied.erase(found);
    }
    for (std::size_t i = 0; i < shared_alias_.size(); ++i) {
        if (!shared_alias_[i] || (options_.reentrant && reads_shared(i))) continue;
        tape_.seed(shared_alias_[i], waiting.shared[i]);
        waiting.shared[i] = {};
        if (options_.reentrant) arguments_.push_back(tape_.gradient_reference(shared_alias_[i]));
    }
    if (block_.output >= 0) {
        tape_.seed(output_alias_, of_output);
        if (options_.reentrant) arguments_.push_back(tape_.gradient_reference(output_alias_));
        if (result_) tape_.seed_foreign(result_);
    } else if (options_.has_loss && !block_.ops.empty()) {
        tape_.book(context_.tape_terms.backward, static_cast<std::uint16_t>(block_.ops.size() - 1));
        tape_.seed_loss();
    }
}

/// Zeros that a reentrant region made need a gradient, but no node of it takes that: it goes with the region.
void BlockRun::drop_leaf_gradients(std::vector<Event>& events, WaitingGradients& waiting) const {
    for (std::size_t i = 0; i < shared_alias_.size(); ++i) {
        Tape::BoundaryGradient& gradient = waiting.shared[i];
        if (shared_alias_[i] || !makes_shared(i) || !gradient.exists) continue;
        events.push_back({-gradient.bytes, -rounding_of(gradient.bytes, context_.job.backend), 1, -1,
                          gradient.term, {kNoOp, "gradient between blocks"}});
        gradient = {};
    }
}

/// What waits for a parameter's accumulation node becomes `.grad` unless there is one already; a view gives
/// way to a sum first.
TermId BlockRun::gradient_term(std::size_t shared, bool view) const {
    const bool becomes = shared_[shared].parameter && !view && options_.gradients == GradientMode::become;
    return becomes ? context_.tape_terms.gradients : context_.tape_terms.backward;
}

/// Takes the gradients that other blocks add to or use.
void BlockRun::take_gradients(WaitingGradients& waiting) {
    for (std::size_t i = 0; i < shared_alias_.size(); ++i) {
        if (!shared_alias_[i] || !reads_shared(i)) continue;
        tape_.add_outer_gradient(shared_alias_[i], waiting.shared[i]);
        waiting.shared[i] = tape_.gradient_of(shared_alias_[i]);
        const Ref gradient = tape_.gradient_reference(shared_alias_[i]);
        tape_.hand_over_gradient(shared_alias_[i]);
        if (!gradient) continue;
        // In a reentrant region a parameter's accumulation node takes it at once.
        if (options_.reentrant && shared_[i].parameter) waiting.shared[i].view = false;
        waiting.shared[i].term = gradient_term(i, waiting.shared[i].view);
        tape_.rename(gradient, waiting.shared[i].term, "gradient between blocks");
    }
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
        if (!tape_.leaf(leaves_[i]).shared_later) continue;
        const Parameter& parameter = block_.parameters[i];
        const Tape::BoundaryGradient gradient = tape_.take_leaf_gradient(leaves_[i]);
        if (!gradient.exists) continue;
        waiting.tied[storage_name(options_.prefix, parameter)] = gradient;
    }
}

Tape::BoundaryGradient BlockRun::backward(std::vector<Event>& events, Tape::BoundaryGradient of_output,
                                          WaitingGradients& waiting) {
    tape_.record_to(&events);
    events.reserve(events.size() + kEventsPerOp * block_.ops.size());
    seed(of_output, waiting);
    for (const Ref& logits : routers_) tape_.seed(logits, waiting.router);
    tape_.backward();
    if (tape_.left_count() > 0) waiting.router = tape_.left();
    arguments_.clear();
    if (options_.reentrant) drop_leaf_gradients(events, waiting);
    take_gradients(waiting);
    if (!input_) return {};
    const Tape::BoundaryGradient gradient = tape_.gradient_of(input_);
    tape_.hand_over_gradient(input_);
    return gradient;
}

void BlockRun::drop_input_gradients(std::vector<Event>& events) {
    tape_.record_to(&events);
    tape_.drop_input_gradients();
}

void BlockRun::drop_unreached(std::vector<Event>& events) {
    tape_.record_to(&events);
    tape_.release_unreached();
}

void BlockRun::release_collected(std::vector<Event>& events) {
    tape_.record_to(&events);
    tape_.release_collected();
}

}  // namespace membudget
