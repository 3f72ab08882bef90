// Arrays over parameters: the parameters themselves, master weights and gradients, cut into shards.

#include <algorithm>

#include <fmt/format.h>

#include "step/host.hpp"
#include "step/states.hpp"

namespace membudget {

namespace {

std::string size_formula(std::int64_t elements, const Dtype& type, std::int64_t degree) {
    std::string whole = fmt::format("{} elements x {} ({})", group_digits(elements),
                                    type.bits % 8 == 0 ? fmt::format("{} B", type.bits / 8)
                                                       : fmt::format("{} bits", type.bits),
                                    type.name);
    return degree > 1 ? fmt::format("{} / {} ranks", whole, degree) : whole;
}

}  // namespace

std::int64_t StateBooks::degree(Partition partition) const {
    return partition == Partition::whole ? 1 : job_.data.shard;
}

const std::vector<TensorGroup>& StateBooks::groups() {
    if (!groups_.empty()) return groups_;
    for (const Section& section : job_.model->sections)
        for (const int index : section.pattern) {
            TensorGroup& group = groups_.emplace_back();
            group.copies = section.count;
            for (const Parameter& parameter : job_.model->blocks[static_cast<std::size_t>(index)].parameters)
                if (parameter.tied_to.empty()) group.tensors.push_back(&parameter);
        }
    return groups_;
}

Share StateBooks::share_of_model(const std::vector<const Parameter*>& tensors) {
    for (const auto& [known, share] : model_shares_)
        if (known == tensors) return share;
    std::vector<Shape> shapes;
    auto next = tensors.begin();
    for (const Section& section : job_.model->sections) {
        std::vector<Shape> one;
        for (const int index : section.pattern)
            for (const Parameter& parameter : job_.model->blocks[static_cast<std::size_t>(index)].parameters)
                if (next != tensors.end() && *next == &parameter) {
                    one.emplace_back(parameter.shape);
                    ++next;
                }
        for (std::int64_t copy = 0; copy < section.count; ++copy)
            shapes.insert(shapes.end(), one.begin(), one.end());
    }
    const Share share = share_of(shapes, Partition::flat, *job_.data.sharding, job_.data.shard, 0);
    model_shares_.emplace_back(tensors, share);
    return share;
}

void StateBooks::alloc(std::vector<Event>& events, TermId term, std::int64_t size, std::int64_t copies,
                       const char* what) const {
    if (size == 0 || copies == 0) return;
    MEMBUDGET_ENSURE(copies <= INT32_MAX, "too many copies of a tensor");
    events.push_back({size, rounding_of(size, job_.backend), static_cast<std::int32_t>(copies), -1, term, {kNoOp, what}});
}

void StateBooks::buffer(std::vector<Event>& events, std::string_view path, std::int64_t size,
                        const char* what) {
    alloc(events, terms_.intern(path), size, 1, what);
}

void StateBooks::array(std::vector<Event>& events, const StateArray& a,
                       const std::vector<TensorGroup>& groups) {
    const Sharding& sharding = *job_.data.sharding;
    const std::int64_t n = degree(a.partition);
    const TermId real = terms_.intern(a.path);
    const bool one_buffer = a.partition == Partition::flat && n > 1 && !sharding.group_per_block;
    const auto book = [&](const Share& share, std::int64_t copies) {
        const std::int64_t held = share.held.count();
        const std::int64_t own = share.real.count();
        // The shard is one tensor: what it holds beyond this rank's part of the model is padding.
        alloc(events, real, byte_count(own, *a.type), copies, a.what);
        if (held == own) return;
        const TermId padding = terms_.intern(a.padding);
        notes_.put(padding, [&]() -> TermNote {
            return {Basis::exact, Total::allocated, fmt::format("equal shards over {} ranks ({})", n, sharding.name),
                    std::string(sharding.source)};
        });
        alloc(events, padding, byte_count(held, *a.type) - byte_count(own, *a.type), copies, "padding");
    };
    std::int64_t elements = 0;
    std::vector<Shape> of_block;
    std::vector<const Parameter*> of_model;
    for (const TensorGroup& group : groups) {
        of_block.clear();
        for (const Parameter* tensor : group.tensors) {
            if (a.covers && !a.covers(*tensor)) continue;
            const Shape shape(tensor->shape);
            const std::int64_t numel = tensor->elements().count();
            elements = detail::checked_add(elements, detail::checked_mul(numel, group.copies));
            if (n == 1)
                alloc(events, real, byte_count(numel, *a.type), group.copies, a.what);
            else if (a.partition == Partition::per_tensor)
                book(share_of(std::span(&shape, 1), a.partition, sharding, n, 0), group.copies);
            else if (one_buffer)
                of_model.push_back(tensor);
            else
                of_block.push_back(shape);
        }
        if (!of_block.empty()) book(share_of(of_block, a.partition, sharding, n, 0), group.copies);
    }
    if (!of_model.empty()) book(share_of_model(of_model), 1);
    if (elements == 0) return;
    notes_.add(real, [&]() -> TermNote {
        return {Basis::exact, Total::allocated, size_formula(elements, *a.type, n),
                std::string(n > 1 ? sharding.source : job_.precision.source)};
    });
}

void StateBooks::parameters(std::vector<Event>& events) {
    const Model& model = *job_.model;
    const Partition partition = job_.data.sharding->parameters;
    const auto held = [&](const Parameter& p) -> const Dtype& { return held_dtype(job_.precision, p); };
    const auto plain = [](const Parameter& p) { return p.stored.empty(); };
    std::vector<std::string_view> paths;
    for_each_tensor(model, [&](const Parameter& parameter, std::int64_t) {
        const std::string_view path = parameter_path(model, parameter);
        if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    });
    for (const std::string_view path : paths)
        for (const Dtype* type : types_of(model, plain, held))
            array(events,
                  {path, "padding/parameters", type, partition, "weight",
                   [&](const Parameter& p) {
                       return plain(p) && &held(p) == type && parameter_path(model, p) == path;
                   }},
                  groups());
    quantized(events);
}

void StateBooks::quantized(std::vector<Event>& events) {
    if (!job_.model->adapted) return;
    // Shards divide the codes; scales and tables are attributes of the weight that sharding does not see
    // [bitsandbytes nn/modules.py Params4bit.quant_state].
    const std::int64_t n = degree(job_.data.sharding->parameters);
    std::int64_t weights = 0;
    const Quantization* row = nullptr;
    job_.model->for_each_parameter([&](const std::string&, const Parameter& parameter, std::int64_t copies) {
        if (parameter.stored.empty()) return;
        row = parameter.quantization;
        weights += detail::checked_mul(parameter.elements().count(), copies);
        for (const StoredTensor& tensor : parameter.stored) {
            const TermId term =
                terms_.intern(tensor.codes ? "parameters/quantized" : "parameters/quantization_state");
            alloc(events, term, ceil_div(tensor.bytes(), tensor.codes ? n : 1).count(), copies,
                  tensor.codes ? "codes" : "scales");
        }
    });
    if (row == nullptr) return;
    notes_.put(terms_.intern("parameters/quantized"), [&]() -> TermNote {
        return {Basis::exact, Total::allocated,
                fmt::format("{} weights x {} bits ({}){}", group_digits(weights), row->bits, row->name,
                            n > 1 ? fmt::format(" / {} ranks", n) : ""),
                std::string(row->source)};
    });
    notes_.put(terms_.intern("parameters/quantization_state"), [&]() -> TermNote {
        return {Basis::exact, Total::allocated,
                fmt::format("{}: scales, zero points and tables of {} weights", row->name, group_digits(weights)),
                std::string(row->source)};
    });
}

const Dtype& StateBooks::gradient_type() const {
    const Precision& precision = job_.precision;
    return precision.gradients != nullptr ? *precision.gradients : *precision.parameters;
}

void StateBooks::gradients(std::vector<Event>& events, const std::vector<TensorGroup>& of) {
    const auto type_of = [&](const Parameter& p) -> const Dtype& { return gradient_dtype(job_.precision, p); };
    for (const Dtype* type : types_of(*job_.model, is_trained, type_of))
        array(events,
              {"gradients", "padding/gradients", type, job_.data.sharding->gradients, "gradient",
               [&](const Parameter& p) {
                   return p.trainable && &type_of(p) == type && !gradient_goes_to_host(job_, p);
               }},
              of);
}

std::vector<Event> StateBooks::gradients() {
    std::vector<Event> events;
    gradients(events, groups());
    return events;
}

std::vector<Event> StateBooks::gradients(const Block& block) {
    TensorGroup group;
    for (const Parameter& parameter : block.parameters)
        if (parameter.tied_to.empty()) group.tensors.push_back(&parameter);
    std::vector<Event> events;
    gradients(events, {group});
    return events;
}

void StateBooks::master_weights(std::vector<Event>& events) {
    const Precision& precision = job_.precision;
    if (precision.master_weights == nullptr) return;
    const Partition partition = job_.data.sharding->states;
    array(events,
          {"optimizer_states/master_weights", "padding/optimizer_states", precision.master_weights, partition,
           "master weight",
           [&](const Parameter& p) { return p.trainable && follows(precision, p); }},
          groups());
}

}  // namespace membudget
