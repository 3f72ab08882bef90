#include "step/model_pass.hpp"

#include <algorithm>
#include <numeric>

namespace membudget {

namespace {

bool same(const BlockInput& a, const BlockInput& b) {
    return a.numel == b.numel && a.dtype == b.dtype && a.requires_grad == b.requires_grad &&
           a.owned == b.owned && a.term == b.term && a.beside == b.beside;
}

bool same(const Tape::BoundaryGradient& a, const Tape::BoundaryGradient& b) {
    return a.exists == b.exists && a.view == b.view && a.bytes == b.bytes;
}

/// Whether a block's output needs a gradient once its forward has been recorded.
bool is_recorded(const Block& block, const BlockInput& input) {
    return input.requires_grad || std::any_of(block.parameters.begin(), block.parameters.end(),
                                              [](const Parameter& p) { return p.trainable; });
}

bool is_loss(OpKind kind) {
    return kind == OpKind::causal_lm_loss || kind == OpKind::masked_lm_loss ||
           kind == OpKind::pooler_loss || kind == OpKind::linear_loss;
}

}  // namespace

ModelPass::ModelPass(const Job& job, TermTable& terms, Communication& communication,
                     std::pmr::memory_resource* memory)
    : job_(job), model_(*job.model), communication_(communication),
      context_{job, *job.model, terms, {}, 0, 0, &communication.parameter_type(), memory} {
    context_.tape_terms.backward = terms.intern("temporaries/backward");
    context_.tape_terms.gradients = terms.intern("gradients");
    context_.tape_terms.collected = terms.intern("communication/unsharded_gradients");
    context_.tape_terms.update = terms.intern("temporaries/optimizer_step");
    context_.recompute = terms.intern("temporaries/recompute");
    context_.tape_terms.recompute = context_.recompute;
    context_.tape_terms.cast_weights = terms.intern("activations/cast_weights");
    context_.checkpoint_inputs = terms.intern("activations/checkpoint_inputs");
    plan_runs();
}

// --- which layers, in which runs -------------------------------------------------------------------

void ModelPass::append_run(const std::string& prefix, std::vector<Layer> unit, std::int64_t count,
                           std::int64_t first_index) {
    if (count > 0 && !unit.empty()) runs_.push_back({prefix, std::move(unit), count, first_index});
}

void ModelPass::plan_runs() {
    const Checkpointing& checkpointing = job_.checkpointing;
    std::int64_t index = 0;  // of the next checkpointable layer
    for (const Section& section : model_.sections) {
        for (const int b : section.pattern)
            for (const Parameter& parameter : block(b).parameters)
                if (!parameter.tied_to.empty()) tied_.push_back(parameter.tied_to);
        const Block& first = block(section.pattern.front());
        if (first.input < 0) {
            stem_block_ = section.pattern.front();
            continue;
        }
        if (first.output < 0) {
            head_block_ = section.pattern.front();
            continue;
        }
        const auto pattern = static_cast<std::int64_t>(section.pattern.size());
        // A unit covers whole patterns and whole strides of "every n-th".
        const auto layers_until = [&](std::int64_t begin, std::int64_t end, bool on) {
            if (end <= begin) return;
            const std::int64_t unit_length = on ? std::lcm(pattern, checkpointing.every) : pattern;
            std::int64_t at = begin;
            const auto layer_at = [&](std::int64_t i) {
                const int b = section.pattern[static_cast<std::size_t>(i % pattern)];
                return Layer{b, block(b).checkpointable && checkpointing.covers(index + i), false};
            };
            const std::int64_t copies = (end - begin) / unit_length;
            std::vector<Layer> unit;
            for (std::int64_t i = 0; i < unit_length && copies > 0; ++i) unit.push_back(layer_at(at + i));
            append_run(section.prefix, unit, copies, section.first_index + at);
            at += copies * unit_length;
            std::vector<Layer> rest;
            for (std::int64_t i = at; i < end; ++i) rest.push_back(layer_at(i));
            append_run(section.prefix, rest, 1, section.first_index + at);
        };
        const std::int64_t total = detail::checked_mul(pattern, section.count);
        const std::int64_t checkpointed =
            !checkpointing.enabled ? 0
            : checkpointing.first  ? std::clamp<std::int64_t>(*checkpointing.first - index, 0, total)
                                   : total;
        layers_until(0, checkpointed, true);
        layers_until(checkpointed, total, false);
        index += total;
    }
    // A layer's output is the kept input of the next one if that is checkpointed. The last copy of a
    // run may have another follower than the others: it gets a run of its own then.
    std::vector<Run> planned;
    for (std::size_t r = 0; r < runs_.size(); ++r) {
        Run run = runs_[r];
        const bool next = r + 1 < runs_.size() && runs_[r + 1].unit.front().checkpointed;
        for (std::size_t i = 0; i + 1 < run.unit.size(); ++i)
            run.unit[i].output_is_checkpoint = run.unit[i + 1].checkpointed;
        run.unit.back().output_is_checkpoint = run.unit.front().checkpointed;
        if (run.count == 1 || next == run.unit.front().checkpointed) {
            run.unit.back().output_is_checkpoint = next;
            planned.push_back(std::move(run));
            continue;
        }
        Run last = run;
        last.count = 1;
        last.first_index = run.first_index +
                           (run.count - 1) * static_cast<std::int64_t>(run.unit.size());
        last.unit.back().output_is_checkpoint = next;
        --run.count;
        planned.push_back(std::move(run));
        planned.push_back(std::move(last));
    }
    runs_ = std::move(planned);
}

// --- forward ---------------------------------------------------------------------------------------

RunOptions ModelPass::options(const Layer& layer, const std::string& prefix) const {
    RunOptions made;
    made.gradients = mode_;
    made.output_is_checkpoint = layer.output_is_checkpoint;
    made.prefix = prefix;
    return made;
}

StepNode ModelPass::node(Phase phase, const char* pass, int block_index,
                         std::vector<Event> events) const {
    StepNode made;
    made.phase = phase;
    made.pass = pass;
    made.block = block_index;
    made.events = std::move(events);
    return made;
}

std::size_t ModelPass::visit(const Layer& layer, const std::string& prefix, const BlockInput& input,
                             bool keep_input) {
    auto made = std::make_unique<Visit>();
    made->layer = layer;
    made->prefix = prefix;
    made->input = input;
    made->keeps_input = keep_input;
    RunOptions how = options(layer, prefix);
    how.grad_enabled = !layer.checkpointed;
    BlockInput given = input;
    if (layer.checkpointed) given.owned = false;  // the checkpoint holds it until its backward
    made->run = std::make_unique<BlockRun>(context_, block(layer.block), given, shared_, how);
    if (keep_input) made->run->keep_input();
    communication_.before_forward(block(layer.block), made->forward);
    made->run->forward(made->forward, 0, made->run->ops());
    communication_.after_forward(block(layer.block), made->forward);
    made->output = made->run->hand_over_output();
    // A reentrant region is one node of its inputs: without one that needs a gradient there is none
    // [torch/utils/checkpoint.py CheckpointFunction].
    if (layer.checkpointed)
        made->output.requires_grad = job_.checkpointing.reentrant
                                         ? input.requires_grad
                                         : is_recorded(block(layer.block), input);
    made->run->end_autocast(made->autocast_end);
    visits_.push_back(std::move(made));
    return visits_.size() - 1;
}

void ModelPass::forward_run(const Run& run, BlockInput& input, bool& keep_input,
                            std::vector<StepNode>& out) {
    const auto length = static_cast<std::int64_t>(run.unit.size());
    std::int64_t done = 0;
    while (done < run.count) {
        // One copy is simulated; if it leaves what it found, all that follow are like it.
        Group group;
        group.first_index = run.first_index + done * length;
        group.unit_length = length;
        const BlockInput before = input;
        const bool kept = keep_input;
        StepNode unit;
        unit.phase = Phase::forward;
        for (std::size_t i = 0; i < run.unit.size(); ++i) {
            const std::size_t index = visit(run.unit[i], run.prefix, input, keep_input && i == 0);
            input = visits_[index]->output;
            group.visits.push_back(index);
            StepNode layer = node(Phase::forward, "forward", run.unit[i].block, visits_[index]->forward);
            layer.first_copy = group.first_index + static_cast<std::int64_t>(i);
            layer.copy_step = length;
            unit.children.push_back(std::move(layer));
        }
        keep_input = false;
        group.count = !kept && same(before, input) ? run.count - done : 1;
        done += group.count;
        unit.repeat = group.count;
        out.push_back(std::move(unit));
        groups_.push_back(std::move(group));
    }
}

void ModelPass::forward(GradientMode mode, bool first_micro_batch, std::vector<StepNode>& out) {
    mode_ = mode;
    first_micro_batch_ = first_micro_batch;
    head_.reset();
    stem_.reset();
    visits_.clear();
    groups_.clear();
    shared_.assign(model_.shared.size(), {});

    const auto prefix_of = [&](int b) -> const std::string& {
        for (const Section& section : model_.sections)
            if (section.pattern.front() == b) return section.prefix;
        MEMBUDGET_ENSURE(false, "a block without a section");
        return model_.sections.front().prefix;
    };
    RunOptions how;
    how.gradients = mode;
    how.pending = &tied_;
    how.prefix = prefix_of(stem_block_);
    how.input_gradients = job_.input_gradients;
    how.output_is_checkpoint = !runs_.empty() && runs_.front().unit.front().checkpointed;
    stem_ = std::make_unique<BlockRun>(context_, block(stem_block_), std::nullopt, shared_, how);
    std::vector<Event> events;
    communication_.before_forward(block(stem_block_), events);
    stem_->forward(events, 0, stem_->ops());
    communication_.after_forward(block(stem_block_), events);
    BlockInput input = stem_->hand_over_output();
    out.push_back(node(Phase::forward, "forward", stem_block_, std::move(events)));

    const Block& stem = block(stem_block_);
    bool keep_input =
        stem.tensors[static_cast<std::size_t>(stem.output)].held == Held::until_model_end;
    for (const Run& run : runs_) forward_run(run, input, keep_input, out);

    how = {};
    how.gradients = mode;
    how.later = &tied_;
    how.prefix = prefix_of(head_block_);
    const BlockInput last = input;
    input.beside = 0;
    head_ = std::make_unique<BlockRun>(context_, block(head_block_), input, shared_, how);
    const Block& head = block(head_block_);
    loss_begin_ = head.ops.size();
    for (std::size_t i = head.ops.size(); i-- > 0;)
        if (is_loss(head.ops[i].kind)) loss_begin_ = i;
    const auto base_end = std::min(static_cast<std::size_t>(head.base_model_end), loss_begin_);
    std::vector<Event> first, names, second;
    communication_.before_forward(head, first);
    communication_.after_forward(head, first);
    head_->forward(first, 0, base_end);
    end_of_base_model(names);
    BlockRun::drop_beside(last, names, job_.backend);
    head_->forward(second, base_end, loss_begin_);
    out.push_back(node(Phase::forward, "forward", head_block_, std::move(first)));
    out.push_back(node(Phase::forward, "forward", stem_block_, std::move(names)));
    out.push_back(node(Phase::forward, "forward", head_block_, std::move(second)));
}

void ModelPass::end_of_base_model(std::vector<Event>& events) {
    stem_->drop_model_names(events);
    if (!visits_.empty() && visits_.front()->keeps_input) visits_.front()->run->drop_input_name(events);
    for (std::size_t i = 0; i < shared_.size(); ++i) {
        const bool saved = std::any_of(visits_.begin(), visits_.end(), [&](const auto& visit) {
            return visit->run->saves_shared(i) || visit->layer.checkpointed;
        });
        if (!saved) {
            stem_->drop_shared(events, i);
            shared_[i] = {};
        }
    }
}

void ModelPass::loss(std::vector<StepNode>& out) {
    std::vector<Event> events;
    head_->forward(events, loss_begin_, head_->ops());
    out.push_back(node(Phase::loss, "loss", head_block_, std::move(events)));
    std::vector<Event> names;
    head_->return_from_model(names);
    if (!names.empty()) out.push_back(node(Phase::forward, "return", head_block_, std::move(names)));
    end_of_forward(out);
}

/// The loss is computed inside the model's forward: what happens before backward belongs to it.
void ModelPass::end_of_forward(std::vector<StepNode>& out) {
    if (job_.carry_outputs) carry_outputs(out);
    if (job_.micro_batches > 1) {  // loss / micro-batches, one number
        const std::int64_t bytes = byte_count(1, dtype::fp32);
        const std::int64_t rounding = rounding_of(bytes, job_.backend);
        const TermId term = context_.terms.intern("activations/loss");
        const Label label{kNoOp, "scaled loss"};
        out.push_back(node(Phase::forward, "loss scaled", head_block_,
                           {{bytes, rounding, 1, -1, term, label}, {-bytes, -rounding, 1, -1, term, label}}));
    }
    if (job_.precision.autocast != nullptr) autocast_exits(out);
    if (!job_.keep_logits) drop_outputs(Phase::loss, out);  // `del outputs`, before backward begins
}

/// `outputs = model(...)` has returned: those of the pass before go.
void ModelPass::carry_outputs(std::vector<StepNode>& out) {
    outputs_.clear();
    head_->outputs(outputs_);
    for (const Group& group : groups_)
        for (const std::size_t index : group.visits) {
            const std::size_t before = outputs_.size();
            visits_[index]->run->outputs(outputs_);
            for (std::size_t i = before; i < outputs_.size(); ++i)
                outputs_[i].count = static_cast<std::int32_t>(group.count);
        }
    if (job_.checkpointing.enabled && job_.checkpointing.reentrant) stem_->shared_outputs(outputs_);
    if (outputs_carried_) {
        std::vector<Event> freed = outputs_;
        for (Event& event : freed) {
            event.bytes = -event.bytes;
            event.rounding = -event.rounding;
        }
        out.push_back(node(Phase::forward, "outputs", head_block_, std::move(freed)));
    }
    outputs_carried_ = true;
}

void ModelPass::autocast_exits(std::vector<StepNode>& out) {
    // A cast that a node has saved lives on; where nothing goes, nothing happens in this phase.
    const auto append = [&](int block_index, std::vector<Event> ends, std::vector<StepNode>& to) {
        if (!ends.empty()) to.push_back(node(Phase::forward, "autocast exit", block_index, std::move(ends)));
    };
    std::vector<Event> ends;
    head_->end_autocast(ends);
    append(head_block_, std::move(ends), out);
    for (const Group& group : groups_) {
        StepNode unit;
        unit.phase = Phase::forward;
        unit.repeat = group.count;
        for (const std::size_t index : group.visits)
            append(visits_[index]->layer.block, visits_[index]->autocast_end, unit.children);
        if (!unit.children.empty()) out.push_back(std::move(unit));
    }
    std::vector<Event> last;
    stem_->end_autocast(last);
    append(stem_block_, std::move(last), out);
}

// --- backward --------------------------------------------------------------------------------------

std::unique_ptr<BlockRun> ModelPass::rerun(const Visit& visit) {
    auto run = std::make_unique<BlockRun>(context_, block(visit.layer.block), visit.input, shared_,
                                          options(visit.layer, visit.prefix));
    std::vector<Event> ignored;
    run->forward(ignored, 0, run->ops());
    (void)run->hand_over_output();
    if (!job_.keep_logits) run->drop_kept(ignored);
    run->end_autocast(ignored);
    return run;
}

Tape::BoundaryGradient ModelPass::backward_visit(const Visit& visit, BlockRun* run,
                                                 Tape::BoundaryGradient gradient,
                                                 std::vector<Event>& recompute,
                                                 std::vector<Event>& events) {
    const Block& layer = block(visit.layer.block);
    if (!visit.layer.checkpointed) {
        communication_.before_backward(layer, events);
        const auto result = run->backward(events, gradient);
        end_of_block(layer, *run, events);
        return result;
    }
    if (!gradient.exists) return {};
    communication_.before_backward(layer, recompute);
    // The region's forward runs again; its input was kept.
    RunOptions how = options(visit.layer, visit.prefix);
    how.recompute = true;
    how.output_is_checkpoint = false;
    BlockRun again(context_, block(visit.layer.block), visit.input, shared_, how);
    again.keep_input();
    again.forward(recompute, 0, again.ops());
    // Reentrant backward runs the whole forward first and holds its output. Without reentrance the
    // first saved tensor that backward asks for starts it, and it stops once the last one is there
    // [torch/utils/checkpoint.py _CheckpointFrame, early_stop].
    const bool lazy = !job_.checkpointing.reentrant;
    if (lazy) {
        again.drop_output(recompute);
        again.stop_early(recompute);
    }
    again.end_autocast(recompute);
    if (!lazy) {
        std::vector<Event> zeros;
        again.begin_reentrant_backward(zeros);
        recompute.insert(recompute.begin(), zeros.begin(), zeros.end());
    }
    auto result = again.backward(events, gradient);
    if (!lazy) again.end_reentrant_backward(events);
    if (lazy) {
        const auto unpack = events.begin() + static_cast<std::ptrdiff_t>(again.first_unpack());
        recompute.insert(recompute.begin(), events.begin(), unpack);
        events.erase(events.begin(), unpack);
    }
    end_of_block(layer, again, events);
    again.drop_output(events);
    again.drop_input_name(events);
    if (!visit.input.requires_grad) result = {};
    return result;
}

void ModelPass::end_of_block(const Block& block, BlockRun& run, std::vector<Event>& events) {
    communication_.reduce(block, events);
    run.release_collected(events);
    communication_.reduced(block, first_micro_batch_, events);
}

Tape::BoundaryGradient ModelPass::backward_unit(const Group& group, Tape::BoundaryGradient gradient,
                                                std::vector<StepNode>& nodes, bool fresh) {
    for (std::size_t i = group.visits.size(); i-- > 0;) {
        Visit& visit = *visits_[group.visits[i]];
        std::unique_ptr<BlockRun> again;
        if (!fresh && !visit.layer.checkpointed) again = rerun(visit);
        std::vector<Event> recompute, events;
        gradient = backward_visit(visit, again ? again.get() : visit.run.get(), gradient, recompute, events);
        const auto position = [&](StepNode& made) {
            made.first_copy = group.first_index + (group.count - 1) * group.unit_length +
                              static_cast<std::int64_t>(i);
            made.copy_step = -group.unit_length;
        };
        if (!recompute.empty()) {
            nodes.push_back(node(Phase::backward, "recompute", visit.layer.block, std::move(recompute)));
            position(nodes.back());
        }
        nodes.push_back(node(Phase::backward, "backward", visit.layer.block, std::move(events)));
        position(nodes.back());
    }
    return gradient;
}

void ModelPass::backward_group(const Group& group, Tape::BoundaryGradient& gradient,
                               std::vector<StepNode>& out) {
    std::int64_t done = 0;
    bool fresh = true;
    while (done < group.count) {
        StepNode unit;
        unit.phase = Phase::backward;
        Group rest = group;
        rest.count = group.count - done;
        const std::int64_t waiting = communication_.waiting();
        const Tape::BoundaryGradient after = backward_unit(rest, gradient, unit.children, fresh);
        fresh = false;
        const bool alike = same(after, gradient) && waiting == communication_.waiting();
        unit.repeat = alike ? group.count - done : 1;
        done += unit.repeat;
        gradient = after;
        out.push_back(std::move(unit));
    }
}

void ModelPass::backward(std::vector<StepNode>& out) {
    std::vector<Event> events;
    communication_.begin_backward(first_micro_batch_, events);
    communication_.before_backward(block(head_block_), events);
    Tape::BoundaryGradient gradient = head_->backward(events, {});
    // FSDP's root group has no input that needs a gradient: its reduction waits for the end
    // [torch/distributed/fsdp/_fully_shard/_fsdp_state.py _root_post_backward_final_callback].
    const bool later = communication_.keeps_root();
    if (!later) end_of_block(block(head_block_), *head_, events);
    out.push_back(node(Phase::backward, "backward", head_block_, std::move(events)));
    for (std::size_t g = groups_.size(); g-- > 0;) backward_group(groups_[g], gradient, out);
    std::vector<Event> last;
    // A reentrant region's arguments that are no inputs stay with its node, as long as the loss does
    // [torch/utils/checkpoint.py CheckpointFunction, ctx.run_function].
    const bool stay = job_.checkpointing.enabled && job_.checkpointing.reentrant;
    for (std::size_t i = 0; i < shared_.size(); ++i)
        if (shared_[i].dtype != nullptr && !stay) stem_->drop_shared(last, i);
    communication_.before_backward(block(stem_block_), last);
    stem_->backward(last, gradient);
    end_of_block(block(stem_block_), *stem_, last);
    if (later) end_of_block(block(head_block_), *head_, last);
    communication_.end_backward(last);
    out.push_back(node(Phase::backward, "backward", stem_block_, std::move(last)));
}

void ModelPass::drop_outputs(Phase phase, std::vector<StepNode>& out) {
    if (job_.use_cache)
        for (const Group& group : groups_) {
            StepNode unit;
            unit.phase = phase;
            unit.repeat = group.count;
            for (const std::size_t index : group.visits) {
                std::vector<Event> freed;
                visits_[index]->run->drop_kept(freed);
                unit.children.push_back(
                    node(phase, "outputs", visits_[index]->layer.block, std::move(freed)));
            }
            out.push_back(std::move(unit));
        }
    std::vector<Event> events;
    head_->drop_kept(events);
    stem_->drop_input_gradients(events);
    if (!events.empty()) out.push_back(node(phase, "outputs", head_block_, std::move(events)));
}

void ModelPass::drop_loss(Phase phase, std::vector<StepNode>& out) {
    std::vector<Event> events;
    for (std::size_t i = 0; i < shared_.size(); ++i)
        if (shared_[i].dtype != nullptr) stem_->drop_shared(events, i);
    if (!events.empty()) out.push_back(node(phase, "outputs", stem_block_, std::move(events)));
}

}  // namespace membudget
