#include "step/stated.hpp"

#include <algorithm>

namespace membudget {

StatedTerms::StatedTerms(const Job& job, Bound bound, Step& step, Notes notes)
    : job_(job), step_(step) {
    for (const ResolvedTerm& stated : job.stated) {
        const Bytes bytes = bound == Bound::lower   ? stated.lower
                            : bound == Bound::upper ? stated.upper
                                                    : stated.point;
        const TermId term = step.terms.intern(stated.path);
        rows_.push_back({term, bytes.count(), stated.phases, false});
        notes.put(term, [&]() -> TermNote {
            return {Basis::stated, Total::allocated, stated.formula, "the spec"};
        });
    }
}

std::vector<Event> StatedTerms::enter(Phase phase, bool first_micro_batch) {
    std::vector<Event> events;
    const auto index = [](Phase p) { return static_cast<std::size_t>(p); };
    for (Row& row : rows_) {
        const bool always = std::all_of(row.phases.begin(), row.phases.end(), [](bool b) { return b; });
        const bool outlasts = row.phases[index(Phase::backward)] &&
                              row.phases[index(Phase::optimizer_step)];
        const bool wanted = always || row.phases[index(phase)] || (outlasts && !first_micro_batch);
        if (wanted == row.live) continue;
        events.push_back({wanted ? row.bytes : -row.bytes, 0, 1, -1, row.term, {kNoOp, "stated"}});
        row.live = wanted;
    }
    // Frees come first: what is not live in a phase does not add to it.
    std::stable_sort(events.begin(), events.end(),
                     [](const Event& a, const Event& b) { return a.bytes < 0 && b.bytes > 0; });
    return events;
}

bool StatedTerms::replaced(TermId term) const {
    const std::string& path = step_.terms.path(term);
    return std::any_of(rows_.begin(), rows_.end(), [&](const Row& row) {
        return is_at_or_below(path, step_.terms.path(row.term));
    });
}

void StatedTerms::drop_replaced(std::vector<Event>& events) const {
    if (rows_.empty()) return;
    std::erase_if(events, [&](const Event& event) {
        return event.label.what != std::string_view("stated") && replaced(event.term);
    });
}

void StatedTerms::drop_replaced(StepNode& node) const {
    if (rows_.empty()) return;
    for (StepNode& child : node.children) drop_replaced(child);
    drop_replaced(node.events);
}

std::vector<std::string> StatedTerms::missing() const {
    std::vector<std::string> out;
    for (const std::string_view group :
         {"parameters", "gradients", "optimizer_states", "activations", "temporaries"}) {
        const bool stated = std::any_of(job_.stated.begin(), job_.stated.end(), [&](const ResolvedTerm& t) {
            return is_at_or_below(t.path, group);
        });
        const bool derived = job_.anonymous_parameters > 0 &&
                             (group == "parameters" || group == "gradients" || group == "optimizer_states");
        if (!stated && !derived) out.emplace_back(group);
    }
    return out;
}

}  // namespace membudget
