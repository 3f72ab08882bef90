#include "step/states.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace membudget {

namespace {

/// Where a tensor lies after partitioning: what this rank holds, and how much of that is padding.
struct Shard {
    std::int64_t elements = 0;
    std::int64_t padding = 0;
};

/// Books allocations of model states, tensor by tensor, with the allocator's rounding.
class Books {
public:
    Books(const Job& job, TermTable& terms) : job_(job), terms_(terms) {}

    void alloc(std::vector<Event>& events, TermId term, std::int64_t bytes, std::int64_t copies,
               const char* what) const {
        if (bytes == 0 || copies == 0) return;
        const std::int64_t rounded =
            job_.backend == Backend::cuda ? align_up(Bytes(bytes), 512).count() : bytes;
        // A count beyond 32 bits would be a model of billions of equal tensors.
        MEMBUDGET_ENSURE(copies <= INT32_MAX, "too many copies of a tensor");
        events.push_back({bytes, rounded - bytes, static_cast<std::int32_t>(copies), -1, term,
                          {kNoOp, what}});
    }

    /// Frees everything that `events` from index `from` on allocated.
    static void free_all(const std::vector<Event>& allocated, std::vector<Event>& events) {
        for (const Event& event : allocated) {
            Event freed = event;
            freed.bytes = -freed.bytes;
            freed.rounding = -freed.rounding;
            events.push_back(freed);
        }
    }

    TermId term(std::string_view path) const { return terms_.intern(path); }

private:
    const Job& job_;
    TermTable& terms_;
};

/// This rank's part of one tensor of `elements`, cut along its first dimension.
Shard cut_tensor(const Parameter& parameter, std::int64_t degree) {
    const std::int64_t whole = parameter.elements().count();
    const std::int64_t rows = parameter.shape.empty() ? 1 : parameter.shape.front();
    if (rows == 0) return {};
    const std::int64_t held = detail::ceil_div(rows, degree) * (whole / rows);
    const std::int64_t real = std::min(held, detail::ceil_div(whole, degree));
    return {held, held - real};
}

/// This rank's part of a flat buffer of `whole` elements.
Shard cut_flat(std::int64_t whole, std::int64_t alignment, std::int64_t degree) {
    const std::int64_t unit = detail::checked_mul(alignment, degree);
    const std::int64_t held = detail::ceil_div(whole, unit) * unit / degree;
    return {held, held - detail::ceil_div(whole, degree)};
}

std::string size_formula(std::int64_t elements, const Dtype& type, std::int64_t degree) {
    const std::string whole =
        fmt::format("{} elements x {} ({})", group_digits(elements),
                    type.bits % 8 == 0 ? fmt::format("{} B", type.bits / 8)
                                       : fmt::format("{} bits", type.bits),
                    type.name);
    return degree > 1 ? fmt::format("{} / {} ranks", whole, degree) : whole;
}

}  // namespace

void note(std::vector<TermNote>& notes, TermId term, TermNote text) {
    if (notes.size() <= term) notes.resize(static_cast<std::size_t>(term) + 1);
    notes[term] = std::move(text);
}

std::vector<OwnParameter> own_parameters(const Model& model) {
    std::vector<OwnParameter> out;
    model.for_each_parameter([&](const std::string&, const Parameter& parameter, std::int64_t copies) {
        if (parameter.tied_to.empty()) out.push_back({&parameter, copies});
    });
    return out;
}

namespace {

/// The type of the tensor that the optimizer updates.
const Dtype& updated_dtype(const Precision& precision) {
    return precision.master_weights != nullptr ? *precision.master_weights : *precision.parameters;
}

/// Row, implementation and slot types for one parameter: the optimizer's, or its fallback's.
struct Updater {
    const Optimizer* row;
    const OptimizerImplementation* implementation;
    bool fallback;
};

Updater updater_of(const JobOptimizer& optimizer, const Parameter& parameter) {
    const Optimizer& row = *optimizer.row;
    if (row.handles != nullptr && !row.handles(parameter.component, parameter.shape))
        return {optimizer.fallback, optimizer.fallback_implementation, true};
    return {&row, optimizer.implementation, false};
}

/// The states of one job, booked group by group.
class StateBooks {
public:
    StateBooks(const Job& job, TermTable& terms, std::vector<TermNote>& notes)
        : job_(job), books_(job, terms), terms_(terms), notes_(notes),
          parameters_(own_parameters(*job.model)) {
        for (const OwnParameter& own : parameters_)
            whole_ += detail::checked_mul(own.parameter->elements().count(), own.copies);
    }

    States build();

private:
    /// Books one array over all parameters, partitioned, with its padding apart.
    void array(std::vector<Event>& events, std::string_view path, std::string_view padding,
               const Dtype& type, Partition partition, const char* what);
    void slots(std::vector<Event>& events);
    void temporaries(std::vector<Event>& events);
    [[nodiscard]] std::int64_t degree(Partition partition) const {
        return partition == Partition::whole ? 1 : job_.data.shard;
    }

    const Job& job_;
    Books books_;
    TermTable& terms_;
    std::vector<TermNote>& notes_;
    std::vector<OwnParameter> parameters_;
    std::int64_t whole_ = 0;
};

void StateBooks::array(std::vector<Event>& events, std::string_view path, std::string_view padding,
                       const Dtype& type, Partition partition, const char* what) {
    const Sharding& sharding = *job_.data.sharding;
    const std::int64_t n = degree(partition);
    const TermId term = books_.term(path);
    note(notes_, term, {Basis::exact, Total::allocated, size_formula(whole_, type, n),
                        std::string(n > 1 ? sharding.source : job_.precision.source)});
    const auto bytes = [&](std::int64_t elements) { return bytes_of(Elements(elements), type).count(); };
    const auto pad = [&](std::int64_t elements, std::int64_t copies) {
        if (elements == 0) return;
        const TermId id = books_.term(padding);
        note(notes_, id, {Basis::exact, Total::allocated,
                          fmt::format("shards of equal size over {} ranks ({})", n, sharding.name),
                          std::string(sharding.source)});
        books_.alloc(events, id, bytes(elements), copies, "padding");
    };
    if (n > 1 && partition == Partition::flat) {
        const Shard shard = cut_flat(whole_, sharding.flat_alignment, n);
        books_.alloc(events, term, bytes(shard.elements - shard.padding), 1, what);
        pad(shard.padding, 1);
        return;
    }
    for (const OwnParameter& own : parameters_) {
        const Shard shard = n > 1 ? cut_tensor(*own.parameter, n)
                                  : Shard{own.parameter->elements().count(), 0};
        books_.alloc(events, term, bytes(shard.elements - shard.padding), own.copies, what);
        pad(shard.padding, own.copies);
    }
}

void StateBooks::slots(std::vector<Event>& events) {
    const Sharding& sharding = *job_.data.sharding;
    const std::int64_t n = degree(sharding.states);
    const JobOptimizer& optimizer = job_.optimizer;
    const Dtype& updated = updated_dtype(job_.precision);
    for (const OwnParameter& own : parameters_) {
        const Updater updater = updater_of(optimizer, *own.parameter);
        if (updater.row == nullptr) continue;
        std::vector<std::int64_t> shape = own.parameter->shape;
        if (n > 1 && sharding.states == Partition::per_tensor && !shape.empty())
            shape.front() = detail::ceil_div(shape.front(), n);
        for (std::size_t i = 0; i < updater.row->slots.size(); ++i) {
            const StateSlot& slot = updater.row->slots[i];
            const Dtype* over = updater.fallback ? nullptr : optimizer.slot_dtypes[i];
            const Dtype& type = over != nullptr                     ? *over
                                : slot.dtype != nullptr             ? *slot.dtype
                                : job_.precision.states != nullptr  ? *job_.precision.states
                                                                    : updated;
            std::int64_t bytes = slot.size(shape, type, optimizer.options).count();
            // A flat partition cuts through tensors: each rank holds its share of every tensor.
            if (n > 1 && sharding.states == Partition::flat) bytes = detail::ceil_div(bytes, n);
            const TermId term = books_.term("optimizer_states/" + std::string(slot.name));
            note(notes_, term,
                 {Basis::exact, Total::allocated,
                  fmt::format("{}: {} over {} elements{}", updater.row->name, slot.rule,
                              group_digits(whole_), n > 1 ? fmt::format(" / {} ranks", n) : ""),
                  std::string(updater.row->source)});
            books_.alloc(events, term, bytes, own.copies, "state");
        }
    }
}

void StateBooks::temporaries(std::vector<Event>& events) {
    const Sharding& sharding = *job_.data.sharding;
    const std::int64_t n = degree(sharding.states);
    const Dtype& updated = updated_dtype(job_.precision);
    const TermId term = books_.term("temporaries/optimizer_step");
    std::string_view source;
    std::vector<Event> lists;
    for (const OwnParameter& own : parameters_) {
        const Updater updater = updater_of(job_.optimizer, *own.parameter);
        if (updater.implementation == nullptr) continue;
        source = updater.implementation->source;
        const int tenths = job_.steady ? updater.implementation->list_copies_tenths
                                       : updater.implementation->list_copies_tenths_first;
        const std::int64_t bytes = detail::ceil_div(bytes_of(own.parameter->elements(), updated).count(), n);
        if (tenths > 0)
            books_.alloc(lists, term, detail::checked_mul(bytes, tenths) / 10, own.copies, "foreach list");
    }
    events.insert(events.end(), lists.begin(), lists.end());
    for (const OwnParameter& own : parameters_) {
        const Updater updater = updater_of(job_.optimizer, *own.parameter);
        if (updater.implementation == nullptr || updater.implementation->tensor_scratch == nullptr) continue;
        const std::int64_t bytes = detail::ceil_div(
            updater.implementation->tensor_scratch(own.parameter->shape, updated, job_.optimizer.options)
                .count(), n);
        std::vector<Event> scratch;
        books_.alloc(scratch, term, bytes, 1, "scratch of one tensor");
        events.insert(events.end(), scratch.begin(), scratch.end());
        Books::free_all(scratch, events);
    }
    Books::free_all(lists, events);
    note(notes_, term, {Basis::derived, Total::allocated,
                        fmt::format("{} {}: intermediate lists or tensors of the update",
                                    job_.optimizer.row->name, job_.optimizer.implementation->name),
                        std::string(source)});
}

States StateBooks::build() {
    const Precision& precision = job_.precision;
    const Sharding& sharding = *job_.data.sharding;
    const Dtype& gradient_type = precision.gradients != nullptr ? *precision.gradients : *precision.parameters;
    States out;
    array(out.start, "parameters", "padding/parameters", *precision.parameters, sharding.parameters, "weight");
    if (precision.master_weights != nullptr)
        array(out.start, "optimizer_states/master_weights", "padding/optimizer_states",
              *precision.master_weights, sharding.states, "master weight");
    const bool gradients_stay = precision.gradient_buffer || !job_.zero_grad_to_none;
    std::vector<Event> gradients;
    if (!job_.optimizer.in_backward)
        array(gradients, "gradients", "padding/gradients", gradient_type, sharding.gradients, "gradient");
    if (gradients_stay) {
        out.start.insert(out.start.end(), gradients.begin(), gradients.end());
    } else {
        Books::free_all(gradients, out.zero_grad);
    }
    if (sharding.gradient_buckets && job_.data.ranks() > 1)
        array(out.start, "communication/ddp_buckets", "padding/ddp_buckets", gradient_type,
              Partition::whole, "bucket");
    if (job_.optimizer.ema != nullptr)
        array(out.start, "optimizer_states/ema", "padding/optimizer_states", *job_.optimizer.ema,
              Partition::whole, "moving average");

    out.optimizer_step.phase = Phase::optimizer_step;
    out.optimizer_step.pass = "step";
    std::vector<Event>& step = out.optimizer_step.events;
    std::vector<Event> copies;
    if (precision.gradient_copy != nullptr)
        array(copies, "temporaries/gradient_copy", "padding/gradients", *precision.gradient_copy,
              sharding.states, "gradient in the optimizer's type");
    step.insert(step.end(), copies.begin(), copies.end());
    const bool exist = job_.steady || job_.optimizer.row->states_at_construction;
    slots(exist ? out.start : step);
    if (!job_.optimizer.in_backward) temporaries(step);
    Books::free_all(copies, step);
    return out;
}

}  // namespace

std::int64_t update_scratch(const Job& job, const Parameter& parameter) {
    const Updater updater = updater_of(job.optimizer, parameter);
    if (updater.implementation == nullptr) return 0;
    const Dtype& updated = updated_dtype(job.precision);
    const std::int64_t list =
        bytes_of(parameter.elements(), updated).count() * updater.implementation->list_copies_tenths / 10;
    const std::int64_t scratch =
        updater.implementation->tensor_scratch == nullptr
            ? 0
            : updater.implementation->tensor_scratch(parameter.shape, updated, job.optimizer.options).count();
    return list + scratch;
}

States model_states(const Job& job, TermTable& terms, std::vector<TermNote>& notes) {
    return StateBooks(job, terms, notes).build();
}

}  // namespace membudget
