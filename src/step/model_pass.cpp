#include "step/model_pass.hpp"

#include "step/host.hpp"

namespace membudget {

ModelPass::ModelPass(const Job& job, TermTable& terms, Communication& communication,
                     std::pmr::memory_resource* memory)
    : job_(job), model_(*job.model), communication_(communication),
      context_{job, *job.model, terms, {}, 0, 0, &communication.parameter_type(), memory},
      plan_(plan_of(model_, job.checkpointing)) {
    context_.tape_terms.backward = terms.intern("temporaries/backward");
    context_.tape_terms.gradients = terms.intern("gradients");
    context_.tape_terms.collected = terms.intern("communication/unsharded_gradients");
    context_.tape_terms.update = terms.intern("temporaries/optimizer_step");
    context_.recompute = terms.intern("temporaries/recompute");
    context_.tape_terms.recompute = context_.recompute;
    context_.tape_terms.cast_weights = terms.intern("activations/cast_weights");
    context_.checkpoint_inputs = terms.intern("activations/checkpoint_inputs");
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

ModelPass::HostCopies ModelPass::host_copies() const {
    HostCopies out;
    if (!job_.checkpointing.offload) return out;
    for (const Group& group : groups_)
        for (const std::size_t index : group.visits) {
            const Visit& visit = *visits_[index];
            if (!visit.layer.checkpointed) continue;
            const std::int64_t bytes = byte_count(visit.input->numel, *visit.input->dtype);
            out.count += group.count;
            out.bytes = detail::checked_add(out.bytes, detail::checked_mul(bytes, group.count));
            out.rounded = detail::checked_add(
                out.rounded, detail::checked_mul(pinned_size(bytes, job_.backend), group.count));
        }
    return out;
}

void ModelPass::drop_outputs(Phase phase, std::vector<StepNode>& out) {
    for (const Group& group : groups_) {
        if (visits_[group.visits.front()]->single) continue;
        StepNode unit;
        unit.phase = phase;
        unit.repeat = group.count;
        for (const std::size_t index : group.visits) {
            std::vector<Event> freed;
            visits_[index]->run->drop_kept(freed);
            if (!freed.empty())
                unit.children.push_back(node(phase, "outputs", visits_[index]->layer.block, std::move(freed)));
        }
        if (!unit.children.empty()) out.push_back(std::move(unit));
    }
    std::vector<Event> events;
    for (const auto& visit : visits_) {
        if (!visit->single) continue;
        visit->run->drop_kept(events);
        visit->run->drop_unreached(events);
    }
    for (std::size_t i = 0; i < shared_.size(); ++i) {
        if (maker_[i] < 0) continue;
        if (model_.shared[i].held != Held::until_outputs_end) {
            if (!shared_[i].requires_grad && outputs_refer_to(i)) maker_of(i).drop_shared(events, i);
            continue;
        }
        if (job_.keep_logits)  // backward is over: nothing refers to it any more
            maker_of(i).drop_shared(events, i);
        else
            drop_name(i, events);
    }
    if (!events.empty()) out.push_back(node(phase, "outputs", head_block(), std::move(events)));
}

void ModelPass::drop_loss(Phase phase, std::vector<StepNode>& out) {
    std::vector<Event> events;
    for (const auto& visit : visits_)
        if (visit->single) visit->run->drop_input_gradients(events);
    events.insert(events.end(), stored_.begin(), stored_.end());
    stored_.clear();
    // A reentrant region keeps what it got by name as long as its node lives.
    const bool reentrant = job_.checkpointing.enabled && job_.checkpointing.reentrant;
    for (const Group& group : groups_)
        for (const std::size_t index : group.visits) {
            const Visit& visit = *visits_[index];
            if (visit.single || !reentrant || !visit.layer.checkpointed || !visit.recorded || !visit.input->beside_given ||
                visit.input->beside_kept)
                continue;
            BlockRun::drop_beside(*visit.input, events, job_.backend);
            events.back().count = static_cast<std::int32_t>(group.count);
        }
    for (std::size_t i = 0; i < shared_.size(); ++i) {
        if (maker_[i] < 0) continue;
        if (!shared_[i].requires_grad || is_leaf(i)) maker_of(i).drop_shared(events, i);
        Tape::BoundaryGradient& gradient = waiting_.shared[i];  // that no block took
        if (gradient.exists)
            events.push_back({-gradient.bytes, -rounding_of(gradient.bytes, job_.backend), 1, -1, gradient.term,
                              {kNoOp, "gradient between blocks"}});
        gradient = {};
    }
    if (!events.empty())
        out.push_back(node(phase, "outputs", visits_.front()->layer.block, std::move(events)));
}

}  // namespace membudget
