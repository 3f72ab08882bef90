#include <algorithm>
#include <map>

#include "membudget/diagnosis.hpp"

namespace membudget {
namespace {

std::string_view group_of(std::string_view path) { return path.substr(0, path.find('/')); }

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
            sums[std::string(group_of(timeline_.step.terms.path(static_cast<TermId>(i))))] +=
                Bytes(terms[i]);
        std::erase_if(sums, [](const auto& group) { return group.second == Bytes(0); });
        return {sums.begin(), sums.end()};
    }

    const Timeline& timeline_;
    std::vector<std::int64_t> now_;
    std::int64_t live_ = 0;
    std::map<Phase, InPhase> phases_;
};

/// Tensors of the step's start, which no part of it frees.
void add_lasting(const Timeline& timeline, ExpectedTerms& out) {
    std::map<std::string, std::map<Bytes, std::int64_t>> sizes;
    const auto end = find_instant(timeline, name_of(Phase::forward));
    if (!end) return;
    for (const LiveTensor& tensor : live_at(timeline, *end))
        if (tensor.freed_by.empty() && tensor.copies > 0)
            sizes[std::string(group_of(tensor.term))][Bytes(tensor.bytes.count() / tensor.copies)] +=
                tensor.copies;
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
