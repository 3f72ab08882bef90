#pragma once

/// Model states: parameters, master weights, gradients, optimizer states, cut into shards; and what the
/// optimizer step allocates.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/autograd.hpp"
#include "membudget/job.hpp"
#include "membudget/step.hpp"

namespace membudget {

/// Equal groups of tensors: the copies of a block.
struct TensorGroup {
    std::vector<const Parameter*> tensors;
    std::int64_t copies = 1;
};

/// One array over some tensors: a type, a way of cutting it, the terms of what is real and of what is
/// padding in it, and which parameters it covers.
struct StateArray {
    std::string_view path, padding;
    const Dtype* type = nullptr;
    Partition partition = Partition::whole;
    const char* what = "";
    std::function<bool(const Parameter&)> covers;
};

/// Notes of terms, made only where somebody reads them: their text costs as much as the events.
class Notes {
public:
    /// Without a table nobody does.
    explicit Notes(std::vector<TermNote>* table) : table_(table) {}

    /// Puts the note that `make` returns; the table grows as needed.
    template <class Make>
    void put(TermId term, Make&& make) {
        if (table_ != nullptr) at(term) = make();
    }
    /// The same where none is.
    template <class Make>
    void put_first(TermId term, Make&& make) {
        if (table_ != nullptr && at(term).formula.empty()) at(term) = make();
    }
    /// Puts the note of a further part of a term: the formulas add up.
    template <class Make>
    void add(TermId term, Make&& make) {
        if (table_ == nullptr) return;
        TermNote& there = at(term);
        TermNote more = make();
        if (!there.formula.empty() && there.formula != more.formula)
            more.formula = there.formula + " + " + more.formula;
        there = std::move(more);
    }

private:
    TermNote& at(TermId term) {
        if (table_->size() <= term) table_->resize(static_cast<std::size_t>(term) + 1);
        return (*table_)[term];
    }
    std::vector<TermNote>* table_;
};

/// Books model states of one job, tensor by tensor, with the allocator's rounding.
class StateBooks {
public:
    StateBooks(const Job& job, TermTable& terms, Notes notes);

    /// What lives before the step begins and stays after it.
    [[nodiscard]] std::vector<Event> start();
    /// The optimizer step: clipping before it, states that a first step makes, copies of gradients, temporaries.
    [[nodiscard]] std::vector<Event> optimizer_step();
    /// Allocation of the gradients that backward leaves, of the whole model or of one block's copy.
    [[nodiscard]] std::vector<Event> gradients();
    [[nodiscard]] std::vector<Event> gradients(const Block& block);
    /// True when gradients live in buffers, or are kept between steps.
    [[nodiscard]] bool gradients_stay() const;
    /// True when they are there as the step begins: what is kept was made by the step before.
    [[nodiscard]] bool gradients_exist() const;

    /// Bytes of one contiguous buffer, allocated under `path`.
    void buffer(std::vector<Event>& events, std::string_view path, std::int64_t bytes, const char* what);
    [[nodiscard]] TermId term(std::string_view path) { return terms_.intern(path); }
    [[nodiscard]] const Dtype& gradient_type() const;

private:
    [[nodiscard]] bool in_buffers() const;
    void array(std::vector<Event>& events, const StateArray& array, const std::vector<TensorGroup>& groups);
    /// The parameters, under the terms that tell apart what becomes of them.
    void parameters(std::vector<Event>& events);
    void quantized(std::vector<Event>& events);
    void blas_workspaces(std::vector<Event>& events);
    void gradients(std::vector<Event>& events, const std::vector<TensorGroup>& groups);
    void master_weights(std::vector<Event>& events);
    void alloc(std::vector<Event>& events, TermId term, std::int64_t bytes, std::int64_t copies,
               const char* what) const;
    void persistent(std::vector<Event>& events);
    /// Books all slots as arrays in a flat partition, where each has an element per parameter.
    bool slots_as_arrays(std::vector<Event>& events);
    void slots(std::vector<Event>& events);
    void slots_of(std::vector<Event>& events, const Parameter& parameter, std::int64_t copies);
    /// Of the parameters that the optimizer updates itself, or of those that its fallback does.
    void temporaries(std::vector<Event>& events, bool fallback);
    void clipping(std::vector<Event>& events);
    [[nodiscard]] TermId slot_term(const StateSlot& slot);
    /// The whole model's.
    [[nodiscard]] const std::vector<TensorGroup>& groups();
    /// This rank's part of the one buffer in which all copies of `tensors` lie, in the model's order.
    [[nodiscard]] Share share_of_model(const std::vector<const Parameter*>& tensors);
    [[nodiscard]] std::int64_t degree(Partition partition) const;
    const Job& job_;
    TermTable& terms_;
    Notes notes_;
    std::vector<TensorGroup> groups_;  ///< made when first asked for
    /// Parameters, gradients and states of the same tensors are cut alike.
    std::vector<std::pair<std::vector<const Parameter*>, Share>> model_shares_;
    std::vector<std::pair<const StateSlot*, TermId>> slot_terms_;
    std::int64_t trainable_ = 0;  ///< elements of the parameters that are trained
};

/// The type of the tensor that the optimizer updates: the master weights, or the parameters.
[[nodiscard]] const Dtype& updated_dtype(const Precision& precision);
/// The same for a parameter that may have a type of its own, of which there is no second copy.
[[nodiscard]] const Dtype& updated_dtype(const Precision& precision, const Parameter& parameter);
/// Whether the precision's rules of master weights and main gradients apply to a parameter: not to what
/// is held in a type of its own.
[[nodiscard]] bool follows(const Precision& precision, const Parameter& parameter);
/// The type in which a parameter is held.
[[nodiscard]] const Dtype& held_dtype(const Precision& precision, const Parameter& parameter);
/// The type of its accumulated gradient.
[[nodiscard]] const Dtype& gradient_dtype(const Precision& precision, const Parameter& parameter);
/// Term under which a parameter is booked: "parameters", unless adapters, freezing or a quantized base
/// make a difference between them.
[[nodiscard]] std::string_view parameter_path(const Model& model, const Parameter& parameter);
/// The type that the job chooses for slot `slot` of its optimizer: the spec's, or the precision's for
/// a slot of no type of its own; null: as the optimizer's row says.
[[nodiscard]] const Dtype* chosen_dtype(const Job& job, std::size_t slot);

[[nodiscard]] inline bool is_trained(const Parameter& parameter) { return parameter.trainable; }

/// Visits every tensor that the model holds, and in how many copies: what is tied to another is not
/// there a second time.
template <class Visit>
void for_each_tensor(const Model& model, Visit visit) {
    for (const Section& section : model.sections)
        for (const int index : section.pattern)
            for (const Parameter& parameter : model.blocks[static_cast<std::size_t>(index)].parameters)
                if (parameter.tied_to.empty()) visit(parameter, section.count);
}

/// Each type once, in the order of first use, that `type_of` gives to a parameter which `covers` takes.
template <class Covers, class TypeOf>
std::vector<const Dtype*> types_of(const Model& model, Covers covers, TypeOf type_of) {
    std::vector<const Dtype*> out;
    for_each_tensor(model, [&](const Parameter& parameter, std::int64_t) {
        if (!covers(parameter)) return;
        const Dtype* type = &type_of(parameter);
        if (std::find(out.begin(), out.end(), type) == out.end()) out.push_back(type);
    });
    return out;
}

/// Appends frees of everything that `allocated` allocates.
void free_all(const std::vector<Event>& allocated, std::vector<Event>& events);

/// Bytes of scratch while the optimizer updates this one tensor (optimizer in backward).
[[nodiscard]] std::int64_t update_scratch(const Job& job, const Parameter& parameter);

}  // namespace membudget
