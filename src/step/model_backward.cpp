#include "step/model_pass.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

namespace membudget {

// --- backward --------------------------------------------------------------------------------------

std::unique_ptr<BlockRun> ModelPass::rerun(const Visit& visit) {
    auto run = std::make_unique<BlockRun>(context_, block(visit.layer.block), visit.input, shared_,
                                          options(visit.layer, visit.run_index));
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
        const auto result = run->backward(events, gradient, waiting_);
        routers_of_unit_ += run->routers();
        end_of_block(layer, *run, events);
        return result;
    }
    if (!gradient.exists) return {};
    communication_.before_backward(layer, recompute);
    // The region's forward runs again; its input was kept.
    RunOptions how = options(visit.layer, visit.run_index);
    how.recompute = true;
    how.reentrant = job_.checkpointing.reentrant;
    how.output_is_checkpoint = false;
    const bool offloaded = job_.checkpointing.offload;
    std::optional<BlockInput> input = visit.input;
    if (offloaded) {
        input->owned = true;
        input->term = context_.recompute;
        const std::int64_t bytes = byte_count(input->numel, *input->dtype);
        recompute.push_back({bytes, rounding_of(bytes, job_.backend), 1, -1, context_.recompute,
                             {kNoOp, "input back from the host"}});
    }
    BlockRun again(context_, block(visit.layer.block), input, shared_, how);
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
    std::vector<Event> replaced;  // in the dictionary
    visit.run->drop_stored(replaced);
    recompute.insert(recompute.begin(), replaced.begin(), replaced.end());
    again.end_autocast(recompute);
    // The frame of a checkpoint keeps the host's copy; the device's is an argument of the recomputation.
    if (lazy && offloaded) again.drop_input_name(recompute);
    if (!lazy) {
        std::vector<Event> zeros;
        again.begin_reentrant_backward(zeros);
        recompute.insert(recompute.begin(), zeros.begin(), zeros.end());
    }
    auto result = again.backward(events, gradient, waiting_);
    routers_of_unit_ += again.routers();
    if (!lazy) again.end_reentrant_backward(events);
    if (lazy) {
        const auto unpack = events.begin() + static_cast<std::ptrdiff_t>(again.first_unpack());
        recompute.insert(recompute.begin(), events.begin(), unpack);
        events.erase(events.begin(), unpack);
    }
    end_of_block(layer, again, events);
    again.drop_output(events);
    // The graph behind a region's stored keys leads to its input, which has its gradient: both stay in the dictionary.
    const bool kept = !lazy && again.stores();
    again.drop_input_name(kept ? stored_ : events);
    if (kept) leave_stored(*visit.input, result);
    again.drop_stored(stored_);
    if (lazy && visit.recorded && visit.input->beside_given && !visit.input->beside_kept)
        BlockRun::drop_beside(*visit.input, events, job_.backend);
    for (const std::size_t index : visit.last_reader_of) maker_of(index).drop_shared(events, index);
    if (!visit.input->requires_grad) result = {};
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
        // A unit in which a later block is the first reader is simulated by itself; after its first block: see `backward`.
        if (i > 0 && !stays()) drop_shared_of(group.visits[i], events);
        nodes.push_back(node(Phase::backward, "backward", visit.layer.block, std::move(events)));
        position(nodes.back());
    }
    return gradient;
}

/// What the next block in backward lets go of, though the dictionary refers to it: its output, where it has saved it,
/// and the gradient of that.
void ModelPass::leave_stored(const BlockInput& input, const Tape::BoundaryGradient& gradient) {
    const auto leave = [&](std::int64_t bytes, TermId term, const char* what) {
        left_stored_.push_back({bytes, rounding_of(bytes, job_.backend), 1, -1, term, {kNoOp, what}});
    };
    if (!input.owned && !input.leaf) leave(byte_count(input.numel, *input.dtype), input.term, "block output");
    if (input.requires_grad && gradient.exists) leave(gradient.bytes, gradient.term, "gradient between blocks");
}

/// That block lets go of it in one of its nodes: not before the dictionary does. Where it hands it on, as the gradient of
/// a leaf, that is a copy [torch/csrc/autograd/functions/accumulate_grad.h].
void ModelPass::keep_stored(const std::vector<Event>& kept, std::span<StepNode> nodes) {
    for (const Event& event : kept) {
        free_all({event}, stored_);
        const bool delayed = std::any_of(nodes.begin(), nodes.end(), [&](StepNode& made) {
            const auto freed = std::find_if(made.events.begin(), made.events.end(), [&](const Event& one) {
                return one.bytes == stored_.back().bytes && std::string_view(one.label.what) == event.label.what;
            });
            if (freed == made.events.end()) return false;
            stored_.back() = *freed;
            made.events.erase(freed);
            return true;
        });
        if (!delayed) nodes.back().events.push_back(event);
    }
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
        const std::int64_t reduction = communication_.waiting();
        const WaitingGradients waiting = waiting_;
        routers_of_unit_ = 0;
        const std::vector<Event> taken = std::exchange(left_stored_, {});
        const Tape::BoundaryGradient after = backward_unit(rest, gradient, unit.children, fresh);
        fresh = false;
        const bool alike = after == gradient && waiting == waiting_ && reduction == communication_.waiting() && taken.empty();
        unit.repeat = alike ? group.count - done : 1;
        done += unit.repeat;
        routers_waiting_ -= detail::checked_mul(routers_of_unit_, unit.repeat);
        gradient = after;
        keep_stored(taken, unit.children);
        out.push_back(std::move(unit));
    }
}

void ModelPass::backward_single(Visit& visit, Tape::BoundaryGradient& gradient, std::vector<StepNode>& out) {
    const Block& one = block(visit.layer.block);
    std::vector<Event> events;
    const bool begins = &visit == visits_.back().get();
    const bool ends = &visit == visits_.front().get();
    if (begins) communication_.begin_backward(first_micro_batch_, events);
    communication_.before_backward(one, events);
    gradient = visit.run->backward(events, gradient, waiting_);
    routers_waiting_ += visit.run->left_for_routers();
    // FSDP's root group has no input that needs a gradient: its reduction waits for the end
    // [torch/distributed/fsdp/_fully_shard/_fsdp_state.py _root_post_backward_final_callback].
    if (!communication_.keeps_root()) end_of_block(one, *visit.run, events);
    if (ends) {
        if (communication_.keeps_root())
            for (const auto& made : visits_)
                if (made->single) end_of_block(block(made->layer.block), *made->run, events);
        communication_.end_backward(events);
    }
    out.push_back(node(Phase::backward, "backward", visit.layer.block, std::move(events)));
}

void ModelPass::backward(std::vector<StepNode>& out) {
    Tape::BoundaryGradient gradient;
    waiting_.shared.assign(model_.shared.size(), {});
    waiting_.tied.clear();
    waiting_.router = {};
    routers_waiting_ = 0;
    for (std::size_t g = groups_.size(); g-- > 0;) {
        Visit& first = *visits_[groups_[g].visits.front()];
        const auto drop = [&] {
            std::vector<Event> freed;
            if (!stays()) drop_shared_of(groups_[g].visits.front(), freed);
            if (!freed.empty()) out.push_back(node(Phase::backward, "backward", first.layer.block, std::move(freed)));
        };
        if (first.single) {
            drop();  // only a stem's own tensors can wait for the stem
            if (!stored_.empty() && !stays())  // the first layer's checkpoint was the last to refer to the dictionary
                out.push_back(node(Phase::backward, "backward", first.layer.block, std::exchange(stored_, {})));
            const std::vector<Event> taken = std::exchange(left_stored_, {});
            backward_single(first, gradient, out);
            keep_stored(taken, std::span(out).last(1));
        } else {
            backward_group(groups_[g], gradient, out);
            drop();
        }
    }
    if (routers_waiting_ <= 0) return;
    // Logits of frozen layers take no gradient in: the loss makes none for them. Its node booked one all the same.
    std::vector<Event> rest(static_cast<std::size_t>(routers_waiting_),
                            {-waiting_.router.bytes, -rounding_of(waiting_.router.bytes, job_.backend), 1, -1,
                             waiting_.router.term, {kNoOp, "gradient between blocks"}});
    out.push_back(node(Phase::backward, "backward", head_block(), std::move(rest)));
}

}  // namespace membudget
