// One training step of one rank: model states, micro-batches, optimizer step, as a tree of events.

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <memory_resource>
#include <span>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "membudget/step.hpp"
#include "step/fold.hpp"
#include "step/host.hpp"
#include "step/model_pass.hpp"
#include "step/states.hpp"
#include "step/stated.hpp"

namespace membudget {

std::string_view name_of(Basis basis) {
    constexpr std::string_view kNames[] = {"exact", "derived", "calibrated", "assumed", "stated"};
    return kNames[static_cast<std::size_t>(basis)];
}

std::string_view name_of(Total total) {
    constexpr std::string_view kNames[] = {"allocated", "reserved", "device", "host"};
    return kNames[static_cast<std::size_t>(total)];
}

namespace {

StepNode leaf(Phase phase, const char* pass, std::vector<Event> events) {
    StepNode node;
    node.phase = phase;
    node.pass = pass;
    node.events = std::move(events);
    return node;
}

std::string_view unit_of(Rows rows) {
    switch (rows) {
        case Rows::one: return "x 1";
        case Rows::batch: return "sequences";
        case Rows::positions: return "positions";
        case Rows::tokens: return "tokens";
        case Rows::target_tokens: return "target tokens";
        case Rows::target_positions: return "target positions";
        case Rows::images: return "images";
        case Rows::patches: return "patches";
        case Rows::image_tokens: return "tokens of images";
    }
    return "";
}

/// Model states of a count of parameters without an architecture: one array each.
void anonymous_states(const Job& job, Step& step, Notes notes, std::vector<Event>& start) {
    const Precision& precision = job.precision;
    const Sharding& sharding = *job.data.sharding;
    const auto array = [&](std::string_view path, Bytes whole, Partition partition,
                           std::string formula, std::string_view source) {
        const std::int64_t n = partition == Partition::whole ? 1 : job.data.shard;
        const TermId term = step.terms.intern(path);
        start.push_back({ceil_div(whole, n).count(), 0, 1, -1, term, {kNoOp, ""}});
        if (n > 1) formula += fmt::format(" / {} ranks", n);
        notes.put(term, [&]() -> TermNote {
            return {Basis::exact, Total::allocated, std::move(formula), std::string(source)};
        });
    };
    const auto plain = [&](std::string_view path, const Dtype& type, Partition partition) {
        array(path, bytes_of(Elements(job.anonymous_parameters), type), partition,
              fmt::format("{} parameters x {} B ({})", group_digits(job.anonymous_parameters),
                          type.bits / 8, type.name),
              precision.source);
    };
    plain("parameters", *precision.parameters, sharding.parameters);
    plain("gradients", precision.gradients != nullptr ? *precision.gradients : *precision.parameters,
          sharding.gradients);
    const Dtype& updated = updated_dtype(precision);
    if (precision.master_weights != nullptr)
        plain("optimizer_states/master_weights", *precision.master_weights, sharding.states);
    // Without shapes the count is taken as one tensor.
    const std::array<std::int64_t, 1> shape{job.anonymous_parameters};
    for (std::size_t i = 0; i < job.optimizer.row->slots.size(); ++i) {
        const StateSlot& slot = job.optimizer.row->slots[i];
        if (slot.paged_from > 0 && job.anonymous_parameters >= slot.paged_from) continue;
        array("optimizer_states/" + std::string(slot.name),
              slot_bytes(slot, shape, updated, chosen_dtype(job, i), job.optimizer.options), sharding.states,
              fmt::format("{}: {} over {} parameters", job.optimizer.row->name, slot.rule,
                          group_digits(job.anonymous_parameters)),
              job.optimizer.row->source);
    }
}

void move_to(StepNode& node, Phase phase) {
    node.phase = phase;
    for (StepNode& child : node.children) move_to(child, phase);
}

/// Visits the inputs in runs of one shape and type.
template <class Visit>
void for_each_run(std::span<const ModelInput> inputs, Visit visit) {
    while (!inputs.empty()) {
        const ModelInput& one = inputs.front();
        const auto end = std::find_if_not(inputs.begin(), inputs.end(), [&](const ModelInput& other) {
            return other.rows == one.rows && other.width == one.width && other.dtype == one.dtype;
        });
        const auto length = static_cast<std::size_t>(end - inputs.begin());
        visit(inputs.first(length));
        inputs = inputs.subspan(length);
    }
}

/// What the tapes of a simulation write to first, kept for the thread's next one: malloc tidies up all that is
/// free whenever a block of this size comes back.
std::span<std::byte> room_for_tapes() {
    constexpr std::size_t kBytes = std::size_t{1} << 18U;
    thread_local const auto room = std::make_unique_for_overwrite<std::byte[]>(kBytes);
    return {room.get(), kBytes};
}

/// Builds the tree of one job.
class StepBuilder {
public:
    StepBuilder(const Job& job, Bound bound, Detail detail)
        : job_(job), bound_(bound), notes_(detail == Detail::bytes ? nullptr : &step_.notes) {}

    Step build() {
        std::vector<Event> start;
        if (job_.model != nullptr && job_.model->step_unsupported.empty()) {
            derive();
        } else if (job_.anonymous_parameters > 0) {
            anonymous_states(job_, step_, notes_, start);
            state_only(std::move(start));
        } else {
            state_only({});
        }
        return std::move(step_);
    }

    /// The same, of what another job with the same micro-batches has made of them.
    Step build(const Step& like) {
        step_.terms = like.terms;
        step_.root = like.root;
        StateBooks books(job_, step_.terms, notes_);
        for (StepNode& node : step_.root.children) {
            if (node.pass == kStart) node.events = start(books);
            if (node.pass == kUpdate) node.events = books.optimizer_step();
        }
        return std::move(step_);
    }

private:
    /// Passes that the optimizer decides.
    static constexpr std::string_view kStart = "start", kUpdate = "step";

    void derive();
    [[nodiscard]] std::vector<Event> start(StateBooks& books) {
        std::vector<Event> events = books.start();
        inputs(events);
        return events;
    }
    void inputs(std::vector<Event>& start);
    void offloaded();
    void state_only(std::vector<Event> start);
    [[nodiscard]] StepNode micro_batch(GradientMode mode, bool first);
    /// Stated terms where `phase` begins. What ends there is freed in the phase before, so that a
    /// phase counts nothing that is over; without a model the phase is a leaf even if nothing
    /// begins in it, so that it has a peak.
    void stated(std::vector<StepNode>& out, Phase phase, const std::vector<Event>& events) {
        const auto begins = std::find_if(events.begin(), events.end(),
                                         [](const Event& event) { return event.bytes > 0; });
        if (begins != events.begin())
            out.push_back(leaf(phase == Phase::forward ? Phase::backward
                                                       : kPhases[static_cast<std::size_t>(phase) - 1],
                               "stated", {events.begin(), begins}));
        if (begins != events.end() || job_.model == nullptr)
            out.push_back(leaf(phase, "stated", {begins, events.end()}));
    }

    const Job& job_;
    const Bound bound_;
    Step step_;
    Notes notes_;
    std::pmr::monotonic_buffer_resource tapes_{room_for_tapes().data(), room_for_tapes().size()};
    std::unique_ptr<StatedTerms> stated_;
    std::unique_ptr<ModelPass> pass_;
};

void StepBuilder::state_only(std::vector<Event> start) {
    // Parameters and states live always; gradients from backward to the optimizer step.
    stated_ = std::make_unique<StatedTerms>(job_, bound_, step_, notes_);
    stated_->drop_replaced(start);
    std::vector<Event> gradients;
    const TermId gradient_term = step_.terms.intern("gradients");
    std::erase_if(start, [&](const Event& event) {
        if (event.term == gradient_term) gradients.push_back(event);
        return event.term == gradient_term;
    });
    std::vector<StepNode>& out = step_.root.children;
    out.push_back(leaf(Phase::forward, "start", std::move(start)));
    StepNode first;
    first.micro_batch = true;
    for (const Phase phase : {Phase::forward, Phase::loss, Phase::backward})
        stated(first.children, phase, stated_->enter(phase, true));
    if (!gradients.empty()) first.children.push_back(leaf(Phase::backward, "backward", gradients));
    out.push_back(std::move(first));
    if (job_.micro_batches > 1) {
        StepNode rest;
        rest.repeat = job_.micro_batches - 1;
        rest.micro_batch = true;
        for (const Phase phase : {Phase::forward, Phase::loss, Phase::backward})
            stated(rest.children, phase, stated_->enter(phase, false));
        if (!rest.children.empty()) out.push_back(std::move(rest));
    }
    stated(out, Phase::optimizer_step, stated_->enter(Phase::optimizer_step, false));
    out.push_back(leaf(Phase::optimizer_step, "step", {}));
    step_.unknown_terms = stated_->missing();
    step_.open_above = !step_.unknown_terms.empty();
}

StepNode StepBuilder::micro_batch(GradientMode mode, bool first) {
    StepNode whole;
    whole.micro_batch = true;
    std::vector<StepNode>& nodes = whole.children;
    stated(nodes, Phase::forward, stated_->enter(Phase::forward, first));
    pass_->forward(mode, first, nodes);
    stated(nodes, Phase::loss, stated_->enter(Phase::loss, first));
    pass_->loss(nodes);
    stated(nodes, Phase::backward, stated_->enter(Phase::backward, first));
    pass_->backward(nodes);
    return whole;
}

/// The batch waits on the device before the step begins.
void StepBuilder::inputs(std::vector<Event>& start) {
    const TermId term = step_.terms.intern("activations/inputs");
    std::vector<ModelInput> inputs = job_.model->inputs;
    if (job_.extents.padding_mask && reads_tokens(*job_.model)) inputs.push_back({"attention mask"});
    const auto type_of = [&](const ModelInput& input) -> const Dtype& {
        return input.dtype != nullptr ? *input.dtype : *job_.precision.parameters;
    };
    for_each_run(inputs, [&](std::span<const ModelInput> equal) {
        const ModelInput& one = equal.front();
        const std::int64_t bytes =
            byte_count(detail::checked_mul(job_.extents.rows(one.rows), one.width), type_of(one));
        start.push_back({bytes, rounding_of(bytes, job_.backend), static_cast<std::int32_t>(equal.size()), -1, term,
                         {kNoOp, one.rows == Rows::images ? "images and labels" : "token ids and labels"}});
    });
    notes_.put(term, [&]() -> TermNote {
        std::string formula;
        for_each_run(inputs, [&](std::span<const ModelInput> equal) {
            const ModelInput& one = equal.front();
            std::string names(one.name);
            for (std::size_t i = 1; i < equal.size(); ++i)
                names += fmt::format("{}{}", i > 1 ? ", " : " and ", equal[i].name);
            formula += fmt::format("{}{}{} {}{} x {} B ({} {})", formula.empty() ? "" : " + ",
                                   equal.size() > 1 ? fmt::format("{} x ", equal.size()) : "",
                                   group_digits(job_.extents.rows(one.rows)), unit_of(one.rows),
                                   one.width > 1 ? fmt::format(" x {}", group_digits(one.width)) : "",
                                   type_of(one).bits / 8, type_of(one).name, names);
        });
        return {Basis::exact, Total::allocated, std::move(formula), "arguments of the class's forward"};
    });
}

void StepBuilder::derive() {
    StateBooks books(job_, step_.terms, notes_);
    Communication communication(job_, books);
    pass_ = std::make_unique<ModelPass>(job_, step_.terms, communication, &tapes_);
    stated_ = std::make_unique<StatedTerms>(job_, bound_, step_, notes_);
    std::vector<StepNode>& out = step_.root.children;
    out.push_back(leaf(Phase::forward, kStart.data(), start(books)));

    const bool stay = books.gradients_stay();
    const GradientMode later = job_.optimizer.in_backward ? GradientMode::consume
                               : communication.reduces()  ? GradientMode::collect
                                                          : GradientMode::add;
    const bool becomes = !job_.optimizer.in_backward && !communication.reduces() && !books.gradients_exist();
    const std::int64_t n = job_.micro_batches;
    if (job_.carry_outputs && job_.steady) pass_->begin_with_outputs();
    std::vector<StepNode> ends;  // what the loop lets go of before the next micro-batch, or at last
    const auto run = [&](GradientMode mode, bool first) {
        StepNode made = micro_batch(mode, first);
        ends.clear();
        if (job_.carry_outputs) return made;
        pass_->drop_outputs(Phase::backward, ends);
        pass_->drop_loss(Phase::backward, ends);
        return made;
    };
    const auto ended = [&](StepNode one) {
        one.children.insert(one.children.end(), ends.begin(), ends.end());
        return one;
    };
    StepNode current = run(becomes ? GradientMode::become : later, true);
    if (n > 1) {
        out.push_back(ended(std::move(current)));
        current = run(later, false);
        if (n > 2) {  // those between are like the last one, but for when its outputs go
            out.push_back(ended(current));
            out.back().repeat = n - 2;
        }
    }
    out.push_back(std::move(current));

    stated(out, Phase::optimizer_step, stated_->enter(Phase::optimizer_step, false));
    out.push_back(leaf(Phase::optimizer_step, kUpdate.data(), books.optimizer_step()));
    for (StepNode& end : ends) {
        move_to(end, Phase::optimizer_step);
        out.push_back(std::move(end));
    }
    if (!stay && !job_.optimizer.in_backward) {
        std::vector<Event> freed;
        free_all(books.gradients(), freed);
        out.push_back(leaf(Phase::optimizer_step, "zero_grad", std::move(freed)));
    }
    if (job_.carry_outputs && job_.steady)
        out.insert(out.begin() + 1, leaf(Phase::forward, "outputs before", pass_->outputs()));
    stated_->drop_replaced(step_.root);
    offloaded();
}

/// The largest that the host holds: at the end of forward, when every checkpoint has its copy there.
void StepBuilder::offloaded() {
    add_host_update(job_, step_.host);
    const ModelPass::HostCopies copies = pass_->host_copies();
    if (copies.count == 0) return;
    std::string formula = fmt::format("inputs of {} checkpointed blocks, {} bytes", group_digits(copies.count),
                                      group_digits(copies.bytes));
    if (copies.rounded != copies.bytes) formula += ", each rounded up to a power of two";
    step_.host.push_back({"host/checkpoint_inputs", copies.rounded,
                          {Basis::derived, Total::host, std::move(formula),
                           "torch.autograd.graph.save_on_cpu; ATen/core/CachingHostAllocator.h"},
                          "forward to backward"});
}

/// Gives every tensor a term of its own: the ledger term, the op, the tensor's role.
class Refiner {
public:
    Refiner(Step& step, const Model* model) : step_(step), model_(model) {}

    void refine(StepNode& node) {
        for (StepNode& child : node.children) refine(child);
        for (Event& event : node.events) event.term = term_of(event, node.block);
    }

private:
    TermId term_of(const Event& event, int block_index) {
        const std::string_view what = event.label.what;
        const bool crosses = what == "block output" || what == "gradient between blocks" ||
                             what == "gradient of tied weight";
        const bool has_op = !crosses && model_ != nullptr && block_index >= 0 && event.label.op != kNoOp;
        const Key key{event.term, has_op ? block_index : -1, has_op ? event.label.op : kNoOp, what};
        const auto found = terms_.find(key);
        if (found != terms_.end()) return found->second;
        std::string op;
        if (has_op) {
            const Block& block = model_->blocks[static_cast<std::size_t>(block_index)];
            op = block.name;
            if (event.label.op < block.ops.size()) op += " " + block.ops[event.label.op].name;
        }
        const TermId term =
            step_.terms.intern(fmt::format("{}\n{}\n{}", step_.terms.path(event.term), op, what));
        terms_.emplace(key, term);
        return term;
    }

    using Key = std::tuple<TermId, int, std::uint16_t, std::string_view>;
    Step& step_;
    const Model* model_;
    std::map<Key, TermId> terms_;
};

/// Fills in what follows from the tree.
void fold_tree(Step& step) {
    step.notes.resize(step.terms.size());
    Fold whole = fold(step.root, step.terms);
    step.profile = std::move(whole.profile);
    for (const Phase phase : kPhases) {
        const auto index = static_cast<std::size_t>(phase);
        step.phase_peaks[index] = whole.phases[index].value_or(0);
    }
    for (const std::int64_t bytes : step.profile.group_max)
        step.additive_total = detail::checked_add(step.additive_total, bytes);
}

}  // namespace

Step simulate_step(const Job& job, Bound bound, Detail detail) {
    Step step = StepBuilder(job, bound, detail).build();
    if (detail == Detail::tensors) Refiner(step, job.model.get()).refine(step.root);
    fold_tree(step);
    return step;
}

Step with_other_optimizer(const Step& step, const Job& job) {
    Step out = StepBuilder(job, Bound::point, Detail::bytes).build(step);
    fold_tree(out);
    return out;
}

namespace {

void unroll_node(const StepNode& node, std::vector<std::int64_t>& copies, const EventVisitor& visit) {
    if (node.repeat != 1) copies.push_back(0);
    for (std::int64_t copy = 0; copy < node.repeat; ++copy) {
        if (node.repeat != 1) copies.back() = copy;
        for (const StepNode& child : node.children) unroll_node(child, copies, visit);
        for (const Event& event : node.events) visit(event, node, copies);
    }
    if (node.repeat != 1) copies.pop_back();
}

/// Walks to leaf number `left`, counting down; remembers the copies on the way.
bool find_leaf(const StepNode& node, std::int32_t& left, std::span<const std::int64_t> copies,
               Location& place) {
    std::int64_t copy = 0;
    if (node.repeat != 1 && !copies.empty()) {
        copy = copies.front();
        copies = copies.subspan(1);
    }
    if (node.children.empty()) {
        if (left-- != 0) return false;
        place.leaf = &node;
        return true;
    }
    for (const StepNode& child : node.children) {
        if (!find_leaf(child, left, copies, place)) {
            if (child.micro_batch) place.micro_batch += child.repeat;
            continue;
        }
        if (node.micro_batch)
            place.micro_batch += copy;
        else if (node.repeat != 1 && place.copy == 0)
            place.copy = copy;
        return true;
    }
    return false;
}

}  // namespace

void unroll(const StepNode& root, const EventVisitor& visit) {
    std::vector<std::int64_t> copies;
    unroll_node(root, copies, visit);
}

Location locate(const StepNode& root, const Where& where) {
    Location place;
    if (where.leaf < 0) return place;
    std::int32_t left = where.leaf;
    find_leaf(root, left, where.copies, place);
    return place;
}

}  // namespace membudget
