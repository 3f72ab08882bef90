#include <algorithm>
#include <map>

#include "membudget/diagnosis.hpp"

namespace membudget {
namespace {

/// Requested bytes per term over the events of a step.
class Levels {
public:
    explicit Levels(const Timeline& timeline)
        : timeline_(timeline), now_(timeline.step.terms.size(), 0) {}

    void run() {
        for_each_stretch(timeline_, MicroBatches::distinct, [&](const Stretch& stretch) {
            const Phase phase = stretch.leaf->phase;
            InPhase& of_phase = phases_[phase];
            if (of_phase.highest.empty()) keep_highest(of_phase);
            for (const Event& event : stretch.leaf->events) {
                now_[event.term] += event.bytes * event.count;
                live_ += change_of(event);
                if (live_ > of_phase.live) keep_highest(of_phase);
            }
            of_phase.end = now_;
        });
    }

    void add_to(ExpectedTerms& out) const {
        for (const auto& [phase, levels] : phases_) {
            out.instants.push_back({InstantOf::highest, name_of(phase), groups(levels.highest)});
            out.instants.push_back({InstantOf::end, name_of(phase), groups(levels.end)});
        }
    }

private:
    struct InPhase {
        std::int64_t live = 0;   ///< at the highest, rounding included: as the ledger has it
        std::vector<std::int64_t> highest, end;
    };

    void keep_highest(InPhase& phase) {
        phase.live = live_;
        phase.highest = now_;
    }

    [[nodiscard]] std::vector<std::pair<std::string, Bytes>> groups(
        const std::vector<std::int64_t>& terms) const {
        std::map<std::string, Bytes> sums;
        for (std::size_t i = 0; i < terms.size(); ++i)
            sums[std::string(first_component(timeline_.step.terms.path(static_cast<TermId>(i))))] +=
                Bytes(terms[i]);
        std::erase_if(sums, [](const auto& group) { return group.second == Bytes(0); });
        return {sums.begin(), sums.end()};
    }

    const Timeline& timeline_;
    std::vector<std::int64_t> now_;
    std::int64_t live_ = 0;
    std::map<Phase, InPhase> phases_;
};

/// Tensors that are there before the step begins.
void add_lasting(const Timeline& timeline, ExpectedTerms& out) {
    std::map<std::string, std::map<Bytes, std::int64_t>> sizes;
    for_each_stretch(timeline, MicroBatches::distinct, [&](const Stretch& stretch) {
        if (std::string_view(stretch.leaf->pass) != "start") return;
        for (const Event& event : stretch.leaf->events)
            if (event.bytes > 0)
                sizes[std::string(first_component(timeline.step.terms.path(event.term)))][Bytes(event.bytes)] +=
                    event.count;
    });
    for (const auto& [group, of_group] : sizes)
        out.lasting.emplace_back(
            group, std::vector<std::pair<Bytes, std::int64_t>>(of_group.begin(), of_group.end()));
}

}  // namespace

ExpectedTerms expected_terms(const Job& job) {
    ExpectedTerms out;
    const Timeline timeline = make_timeline(job);
    Levels levels(timeline);
    levels.run();
    levels.add_to(out);
    if (timeline.model != nullptr) add_lasting(timeline, out);
    return out;
}

}  // namespace membudget
