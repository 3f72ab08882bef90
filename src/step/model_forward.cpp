#include "step/model_pass.hpp"

#include <algorithm>

namespace membudget {

namespace {

bool same(const BlockInput& a, const BlockInput& b) {
    return a.numel == b.numel && a.dtype == b.dtype && a.requires_grad == b.requires_grad &&
           a.owned == b.owned && a.term == b.term && a.beside == b.beside && a.beside_kept == b.beside_kept;
}

bool is_loss(OpKind kind) {
    return kind == OpKind::causal_lm_loss || kind == OpKind::masked_lm_loss ||
           kind == OpKind::pooler_loss || kind == OpKind::classification_loss ||
           kind == OpKind::linear_loss || kind == OpKind::contrastive_loss;
}

/// The first op of the loss; without one the number of ops.
std::size_t loss_begin(const Block& block) {
    std::size_t begin = block.ops.size();
    for (std::size_t i = block.ops.size(); i-- > 0;)
        if (is_loss(block.ops[i].kind)) begin = i;
    return begin;
}

/// Whether what a stem makes has a name so long.
bool gives_held(const Block& stem, Held held) {
    return stem.output >= 0 && stem.tensors[static_cast<std::size_t>(stem.output)].held == held;
}

/// How many of the first ops it takes until the last one that reads a shared tensor has run.
std::size_t last_reader(const Block& block, std::size_t shared) {
    std::size_t end = 0;
    for (std::size_t i = 0; i < block.ops.size(); ++i)
        for (const int input : block.ops[i].inputs)
            if (block.tensors[static_cast<std::size_t>(input)].shared == static_cast<int>(shared)) end = i + 1;
    return end;
}

/// Whether the graph behind keys that a block stores refers to a shared tensor: they rotate by it.
bool stores_rotated_by(const Block& block, std::size_t shared) {
    if (std::none_of(block.ops.begin(), block.ops.end(), [](const Op& op) { return op.attributes.stored; })) return false;
    return std::any_of(block.ops.begin(), block.ops.end(), [&](const Op& op) {
        return op.kind == OpKind::rotary && std::any_of(op.inputs.begin(), op.inputs.end(), [&](int input) {
            return block.tensors[static_cast<std::size_t>(input)].shared == static_cast<int>(shared);
        });
    });
}

}  // namespace

RunOptions ModelPass::options(const Layer& layer, std::size_t run) const {
    RunOptions made;
    made.gradients = mode_;
    made.output_is_checkpoint = layer.output_is_checkpoint && !job_.checkpointing.offload;
    made.plan = &plan_;
    made.run = static_cast<int>(run);
    made.prefix = plan_.runs[run].prefix;
    return made;
}

/// Whether what a block makes needs a gradient: it has parameters that are trained, or reads something
/// that needs one.
bool ModelPass::is_recorded(const Block& one, const BlockInput& input, bool by_parameters) const {
    if (input.requires_grad) return true;
    for (const Tensor& tensor : one.tensors)
        if (tensor.shared >= 0 && shared_[static_cast<std::size_t>(tensor.shared)].requires_grad) return true;
    return by_parameters && std::any_of(one.parameters.begin(), one.parameters.end(),
                                        [](const Parameter& p) { return p.trainable; });
}

void ModelPass::note_makers(std::size_t index) {
    Visit& visit = *visits_[index];
    for (std::size_t i = 0; i < shared_.size(); ++i)
        if (visit.run->makes_shared(i)) maker_[i] = static_cast<int>(index);
}

/// A block has made a shared tensor that another one had made: the name is bound anew.
void ModelPass::rebind_shared(std::size_t index, std::vector<Event>& events) {
    Visit& visit = *visits_[index];
    for (std::size_t i = 0; i < shared_.size(); ++i) {
        if (maker_[i] < 0 || !visit.run->makes_shared(i) || !visit.run->holds_shared(i)) continue;
        if (maker_[i] != static_cast<int>(index)) maker_of(i).drop_shared(events, i);
        maker_[i] = static_cast<int>(index);
    }
}

std::size_t ModelPass::visit(const Layer& layer, std::size_t run_index, const BlockInput& input,
                             bool keep_input) {
    auto made = std::make_unique<Visit>();
    made->layer = layer;
    made->run_index = run_index;
    made->input = input;
    made->keeps_input = keep_input;
    RunOptions how = options(layer, run_index);
    how.grad_enabled = !layer.checkpointed;
    BlockInput given = input;
    const bool offloaded = layer.checkpointed && job_.checkpointing.offload;
    // The checkpoint holds it until its backward, if there is one.
    const bool recorded = is_recorded(block(layer.block), input, !layer.checkpointed || !job_.checkpointing.reentrant);
    made->recorded = recorded;
    if (layer.checkpointed && recorded && !offloaded) given.owned = false;
    how.keeps_arguments = layer.checkpointed && recorded;
    const Block& one = block(layer.block);
    made->run = std::make_unique<BlockRun>(context_, one, given, shared_, how);
    if (keep_input || offloaded) made->run->keep_input();  // an argument of the functions that run the block
    communication_.before_forward(one, made->forward);
    made->run->forward(made->forward, 0, made->run->ops());
    communication_.after_forward(one, made->forward);
    made->output = made->run->hand_over_output();
    if (offloaded && !keep_input) made->run->drop_input_name(made->forward);
    if (layer.checkpointed) {
        // A reentrant region is one node of its inputs: without one that needs a gradient there is none
        // [torch/utils/checkpoint.py CheckpointFunction].
        made->output.requires_grad = recorded;
        for (std::size_t i = 0; i < shared_.size(); ++i)
            if (made->run->makes_shared(i))
                shared_[i].requires_grad = recorded && !(model_.shared[i].in_dictionary && job_.checkpointing.reentrant);
    }
    made->run->end_autocast(made->autocast_end);
    visits_.push_back(std::move(made));
    rebind_shared(visits_.size() - 1, visits_.back()->forward);
    note_makers(visits_.size() - 1);
    return visits_.size() - 1;
}

/// A reentrant region saves what it gets by position, and lets go of it after its backward; the rest stays
/// with its node, as long as the loss does [torch/utils/checkpoint.py CheckpointFunction, ctx.run_function].
bool ModelPass::is_argument(std::size_t shared) const {
    return job_.checkpointing.reentrant && is_positional(model_.shared[shared]);
}

/// Whether a layer is the first to read a shared tensor that dies with its last reader: of all readers its
/// backward is the last. Other copies are not like it. So it is where a later layer of the unit is the first: what it
/// lets go of is gone when the backward of those before it begins.
bool ModelPass::reads_first(const Run& run) {
    bool first = false;
    for (std::size_t i = 0; i < run.unit.size(); ++i)
        for (const Tensor& tensor : block(run.unit[i].block).tensors) {
            if (tensor.shared < 0) continue;
            const auto index = static_cast<std::size_t>(tensor.shared);
            if (maker_[index] < 0) continue;  // made here
            const Layer& layer = run.unit[i];
            first = first || (i > 0 && !met_[index]);
            met_[index] = true;
            const bool dies = shared_[index].requires_grad || (layer.checkpointed && is_argument(index));
            if (!dies || read_[index]) continue;
            read_[index] = true;
            first = true;
        }
    return first;
}

void ModelPass::forward_run(std::size_t run_index, BlockInput& input, bool& keep_input,
                            std::vector<StepNode>& out) {
    const Run& run = plan_.runs[run_index];
    const auto length = static_cast<std::int64_t>(run.unit.size());
    std::int64_t done = 0;
    while (done < run.count) {
        // One copy is simulated; if it leaves what it found, all that follow are like it.
        Group group;
        group.first_index = run.first_index + done * length;
        group.unit_length = length;
        const BlockInput before = input;
        const bool alone = keep_input || reads_first(run);
        StepNode unit;
        unit.phase = Phase::forward;
        for (std::size_t i = 0; i < run.unit.size(); ++i) {
            const std::size_t index = visit(run.unit[i], run_index, input, keep_input && i == 0);
            if (chain_.layer < 0) chain_.layer = static_cast<int>(index);
            input = visits_[index]->output;
            group.visits.push_back(index);
            StepNode layer = node(Phase::forward, "forward", run.unit[i].block, visits_[index]->forward);
            layer.first_copy = group.first_index + static_cast<std::int64_t>(i);
            layer.copy_step = length;
            unit.children.push_back(std::move(layer));
        }
        keep_input = false;
        group.count = !alone && same(before, input) ? run.count - done : 1;
        done += group.count;
        unit.repeat = group.count;
        out.push_back(std::move(unit));
        groups_.push_back(std::move(group));
    }
}

/// A block of its own: the beginning of a chain, or its end.
ModelPass::Visit& ModelPass::add_single(std::size_t run_index, const std::optional<BlockInput>& input) {
    auto made = std::make_unique<Visit>();
    made->layer = plan_.runs[run_index].unit.front();
    made->run_index = run_index;
    made->single = true;
    made->input = input;
    RunOptions how = options(made->layer, run_index);
    how.input_gradients = job_.input_gradients;
    how.has_loss = run_index + 1 == plan_.runs.size();
    made->run = std::make_unique<BlockRun>(context_, block(made->layer.block), input, shared_, how);
    visits_.push_back(std::move(made));
    groups_.push_back({{visits_.size() - 1}, 1, 0, 1});
    return *visits_.back();
}

/// Whether nothing but the stem that reads it refers to a shared tensor: it never had a name, or a copy in the words'
/// type takes it.
bool ModelPass::goes_with_reader(std::size_t shared) const {
    const Held held = model_.shared[shared].held;
    return held == Held::until_last_read ||
           (held == Held::until_return && shared_[shared].dtype != context_.parameters);
}

void ModelPass::forward_stem(std::size_t run_index, BlockInput& input, std::vector<StepNode>& out) {
    Visit& stem = add_single(run_index, std::nullopt);
    chain_ = {static_cast<int>(visits_.size() - 1), -1};
    const Block& one = block(stem.layer.block);
    std::vector<Event> events;
    communication_.before_forward(one, events);
    // What an earlier chain made for this stem alone (words without their images) has no name beyond it.
    std::size_t done = 0;
    for (std::size_t i = 0; i < shared_.size(); ++i) {
        if (maker_[i] < 0 || !stem.run->reads_shared(i) || !goes_with_reader(i)) continue;
        const std::size_t read = last_reader(one, i);
        if (read > done) stem.run->forward(events, done, read);
        done = std::max(done, read);
        drop_name(i, events);
    }
    stem.run->forward(events, done, stem.run->ops());
    communication_.after_forward(one, events);
    note_makers(visits_.size() - 1);
    if (one.output >= 0) input = stem.run->hand_over_output();
    out.push_back(node(Phase::forward, "forward", stem.layer.block, std::move(events)));
}

void ModelPass::forward_end(std::size_t run_index, const BlockInput& last, std::vector<StepNode>& out) {
    BlockInput input = last;
    input.beside = 0;
    Visit& end = add_single(run_index, input);
    const Block& one = block(end.layer.block);
    const std::size_t loss = loss_begin(one);
    const auto base_end = std::min(static_cast<std::size_t>(one.base_model_end), loss);
    std::vector<Event> first, names, second;
    communication_.before_forward(one, first);
    communication_.after_forward(one, first);
    end.run->forward(first, 0, base_end);
    rebind_shared(visits_.size() - 1, first);
    if (base_end == loss) note_makers(visits_.size() - 1);
    end_of_chain(names);
    if (!last.beside_kept) BlockRun::drop_beside(last, names, job_.backend);
    if (base_end < loss) end.run->forward(second, base_end, loss);
    note_makers(visits_.size() - 1);
    const int stem = visits_[static_cast<std::size_t>(chain_.stem)]->layer.block;
    out.push_back(node(Phase::forward, "forward", end.layer.block, std::move(first)));
    out.push_back(node(Phase::forward, "forward", stem, std::move(names)));
    if (!second.empty()) out.push_back(node(Phase::forward, "forward", end.layer.block, std::move(second)));
}

void ModelPass::forward(GradientMode mode, bool first_micro_batch, std::vector<StepNode>& out) {
    mode_ = mode;
    first_micro_batch_ = first_micro_batch;
    visits_.clear();
    groups_.clear();
    shared_.assign(model_.shared.size(), {});
    maker_.assign(model_.shared.size(), -1);
    read_.assign(model_.shared.size(), false);
    met_.assign(model_.shared.size(), false);
    stored_.clear();

    BlockInput input;
    bool keep_input = false;
    for (std::size_t r = 0; r < plan_.runs.size(); ++r) {
        const Block& first = block(plan_.runs[r].unit.front().block);
        if (first.input < 0) {
            forward_stem(r, input, out);
            keep_input = gives_held(first, Held::until_model_end) || gives_held(first, Held::until_return);
        } else if (first.output < 0) {
            forward_end(r, input, out);
        } else {
            forward_run(r, input, keep_input, out);
        }
    }
}

/// The function that runs a chain's blocks returns.
void ModelPass::end_of_chain(std::vector<Event>& events) {
    const auto stem = static_cast<std::size_t>(chain_.stem);
    visits_[stem]->run->drop_model_names(events);
    if (chain_.layer >= 0 && !gives_held(block(visits_[stem]->layer.block), Held::until_return)) {
        const Visit& layer = *visits_[static_cast<std::size_t>(chain_.layer)];
        if (layer.keeps_input) layer.run->drop_input_name(events);
    }
    for (std::size_t i = stem; i < visits_.size(); ++i)  // arguments of checkpoints stay
        if (!visits_[i]->layer.checkpointed || !visits_[i]->recorded) visits_[i]->run->drop_stored(events);
    for (std::size_t i = 0; i < shared_.size(); ++i)
        if (const Held held = model_.shared[i].held;
            maker_[i] >= chain_.stem && held != Held::until_outputs_end && held != Held::until_return)
            drop_name(i, events);
}

/// The model's own forward returns: locals that were not those of a function within it.
void ModelPass::return_from_model(std::vector<Event>& events) {
    visits_.back()->run->return_from_model(events);
    for (const auto& visit : visits_) {
        if (visit->single) visit->run->drop_returned_names(events);
        if (visit->keeps_input) visit->run->drop_input_name(events);
    }
    for (std::size_t i = 0; i < shared_.size(); ++i)
        if (maker_[i] >= 0 && model_.shared[i].held == Held::until_return) drop_name(i, events);
}

/// Zeros that are told to need a gradient (T5's bias where blocks are checkpointed): without a reentrant
/// region their accumulation node holds them, and their gradient, as long as the loss holds the graph.
bool ModelPass::is_leaf(std::size_t shared) const {
    if (!shared_[shared].requires_grad || job_.checkpointing.reentrant) return false;
    const Block& maker = block(visits_[static_cast<std::size_t>(maker_[shared])]->layer.block);
    for (const Op& op : maker.ops)
        for (const int output : op.outputs)
            if (maker.tensors[static_cast<std::size_t>(output)].shared == static_cast<int>(shared))
                return op.inputs.empty() && op.parameters.empty();
    return false;
}

/// No function refers to a shared tensor any more: it dies unless something saved it.
void ModelPass::drop_name(std::size_t index, std::vector<Event>& events) {
    BlockRun& maker = maker_of(index);
    if (!maker.holds_shared(index)) return;
    Visit* reader = nullptr;
    for (const auto& visit : visits_)
        if (reader == nullptr && visit->run->reads_shared(index) &&
            ((visit->layer.checkpointed && visit->recorded) || visit->run->saves_shared(index)))
            reader = visit.get();
    if (is_leaf(index)) return;
    if (model_.shared[index].in_dictionary && visits_[static_cast<std::size_t>(maker_[index])]->layer.checkpointed)
        return maker.drop_shared(events, index);  // until its maker runs again, the dictionary holds it
    const bool carries = shared_[index].requires_grad || is_argument(index);
    if (reader == nullptr || (carries && maker.saves_shared(index)))
        maker.drop_shared(events, index);
    else if (carries && reader->layer.checkpointed)
        reader->last_reader_of.push_back(index);
    else if (carries)
        maker.hand_over_shared(index, *reader->run);
}

std::size_t ModelPass::first_use(std::size_t shared) const {
    for (std::size_t index = 0; index < visits_.size(); ++index)
        if (visits_[index]->run->reads_shared(shared)) return index;
    return visits_.size();
}

/// Whether layers that outputs alone read have saved a shared tensor: it is there as long as those are kept.
bool ModelPass::outputs_refer_to(std::size_t shared) const {
    if (!job_.keep_logits) return false;
    return std::ranges::any_of(visits_, [&](const auto& visit) {
        const Block& one = block(visit->layer.block);
        return std::ranges::any_of(one.ops, [&](const Op& op) {
            return op.reader == Reader::outputs && std::ranges::any_of(op.inputs, [&](int input) {
                       return one.tensors[static_cast<std::size_t>(input)].shared == static_cast<int>(shared);
                   });
        });
    });
}

/// Backward has passed a block: what it was the last to refer to of a stem's tensors is gone, and
/// with the stem itself what nobody read.
void ModelPass::drop_shared_of(std::size_t passed, std::vector<Event>& events) {
    for (std::size_t i = 0; i < shared_.size(); ++i) {
        if (maker_[i] < 0 || shared_[i].requires_grad || model_.shared[i].held == Held::until_outputs_end ||
            is_argument(i) || outputs_refer_to(i))
            continue;
        const Visit& stem = *visits_[static_cast<std::size_t>(maker_[i])];
        if (!stem.single || block(stem.layer.block).input >= 0) continue;
        const std::size_t use = first_use(i);
        const bool at_stem = visits_[passed].get() == &stem;
        const bool kept = std::any_of(visits_.begin(), visits_.end(), [&](const auto& visit) {
            return visit->layer.checkpointed && stores_rotated_by(block(visit->layer.block), i);
        });
        if (kept ? at_stem : use == passed || (use == visits_.size() && at_stem)) maker_of(i).drop_shared(events, i);
    }
}

void ModelPass::loss(std::vector<StepNode>& out) {
    std::vector<Event> events;
    Visit& last = *visits_.back();
    const Block& head = block(last.layer.block);
    const std::size_t begin = loss_begin(head);
    last.run->forward(events, begin, last.run->ops());
    out.push_back(node(Phase::loss, "loss", last.layer.block, std::move(events)));
    std::vector<Event> names;
    return_from_model(names);
    if (!names.empty()) out.push_back(node(Phase::forward, "return", last.layer.block, std::move(names)));
    end_of_forward(out);
}

/// The loss is computed inside the model's forward: what happens before backward belongs to it.
void ModelPass::end_of_forward(std::vector<StepNode>& out) {
    if (job_.carry_outputs) carry_outputs(out);
    if (job_.micro_batches > 1) {  // loss / micro-batches, one number
        const std::int64_t bytes = byte_count(1, dtype::fp32);
        const std::int32_t rounding = rounding_of(bytes, job_.backend);
        const TermId term = context_.terms.intern("activations/loss");
        const Label label{kNoOp, "scaled loss"};
        out.push_back(node(Phase::forward, "loss scaled", head_block(),
                           {{bytes, rounding, 1, -1, term, label}, {-bytes, -rounding, 1, -1, term, label}}));
    }
    if (job_.precision.autocast != nullptr) autocast_exits(out);
    if (!job_.keep_logits) drop_outputs(Phase::loss, out);  // `del outputs`, before backward begins
}

/// The zeros that `is_leaf` tells of and their gradients, which the loss holds, as allocations.
void ModelPass::leaves_of_graph(std::vector<Event>& events) const {
    for (std::size_t i = 0; i < shared_.size(); ++i) {
        if (maker_[i] < 0 || !is_leaf(i)) continue;
        const std::int64_t bytes = byte_count(shared_[i].numel, *shared_[i].dtype);
        for (const TermId term : {shared_[i].term, context_.tape_terms.backward})
            events.push_back({bytes, rounding_of(bytes, job_.backend), 1, -1, term, {kNoOp, "leaves of the loss"}});
    }
}

/// `outputs = model(...)` has returned: those of the pass before go.
void ModelPass::carry_outputs(std::vector<StepNode>& out) {
    outputs_.clear();
    visits_.back()->run->outputs(outputs_);
    for (const Group& group : groups_)
        for (const std::size_t index : group.visits) {
            if (visits_[index]->single) {
                visits_[index]->run->required(outputs_);
                continue;
            }
            const std::size_t before = outputs_.size();
            visits_[index]->run->outputs(outputs_);
            for (std::size_t i = before; i < outputs_.size(); ++i)
                outputs_[i].count = static_cast<std::int32_t>(group.count);
        }
    if (job_.checkpointing.enabled && job_.checkpointing.reentrant) visits_.front()->run->shared_outputs(outputs_);
    for (std::size_t i = 0; i < shared_.size(); ++i)
        if (maker_[i] >= 0 && model_.shared[i].held == Held::until_outputs_end) {
            const std::int64_t bytes = byte_count(shared_[i].numel, *shared_[i].dtype);
            outputs_.push_back({bytes, rounding_of(bytes, job_.backend), 1, -1, shared_[i].term,
                                {kNoOp, "outputs of the step before"}});
        }
    leaves_of_graph(outputs_);
    if (outputs_carried_) {
        std::vector<Event> freed = outputs_;
        for (Event& event : freed) {
            event.bytes = -event.bytes;
            event.rounding = -event.rounding;
        }
        out.push_back(node(Phase::forward, "outputs", head_block(), std::move(freed)));
    }
    outputs_carried_ = true;
}

void ModelPass::autocast_exits(std::vector<StepNode>& out) {
    for (std::size_t g = groups_.size(); g-- > 0;) {
        const Group& group = groups_[g];
        StepNode unit;
        unit.phase = Phase::forward;
        unit.repeat = group.count;
        for (const std::size_t index : group.visits) {
            Visit& visit = *visits_[index];
            if (visit.single) visit.run->end_autocast(visit.autocast_end);
            // A cast that a node has saved lives on; where nothing goes, nothing happens.
            if (!visit.autocast_end.empty())
                unit.children.push_back(
                    node(Phase::forward, "autocast exit", visit.layer.block, visit.autocast_end));
        }
        if (!unit.children.empty()) out.push_back(std::move(unit));
    }
}

}  // namespace membudget
