#include "membudget/estimating.hpp"
#include "membudget/step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <latch>
#include <optional>
#include <utility>
#include <vector>

namespace membudget {
namespace {

/// True when a stated term holds `path`, lies below it, or above it.
bool is_stated(const Job& job, std::string_view path) {
    return std::any_of(job.stated.begin(), job.stated.end(), [&](const ResolvedTerm& term) {
        return is_at_or_below(path, term.path) || is_at_or_below(term.path, path);
    });
}

/// Bytes at or below `path` at the peak of a step: what the ledger of the step would say, without
/// the books that nobody reads.
Bytes at_peak(const Step& step, std::string_view path) {
    Bytes sum;
    for (std::size_t id = 0; id < step.profile.at_peak.size(); ++id)
        if (is_at_or_below(step.terms.path(static_cast<TermId>(id)), path))
            sum += Bytes(step.profile.at_peak[id]);
    return sum;
}

std::string describe_patch(const KeyTree& from, const KeyTree& to) {
    std::string out;
    for (const KnobChange& knob : changed_knobs(from, to))
        out += fmt::format("{}{}: {} -> {}", out.empty() ? "" : "; ", knob.pointer, knob.from,
                           knob.to);
    return out;
}

/// A job with a technique turned on: what of a saving does not depend on the ledger.
struct Trial {
    const Technique& technique;
    KeyTree tree;  ///< of the changed document
    Job job;
    bool optimizer_alone = false;  ///< is another
};

/// A job as it is.
struct Base {
    const Ledger* ledger = nullptr;
    const Step* step = nullptr;  ///< null: not kept
};

/// Whether `patch` turns nothing but the optimizer's knobs.
bool patches_optimizer_alone(const KeyTree& patch) {
    const KeyTree* training = patch.find("training");
    return patch.members().size() == 1 && training != nullptr && training->members().size() == 1 &&
           training->find("optimizer") != nullptr;
}

/// Whether the micro-batches of the job have no part in its optimizer.
bool updates_after_backward(const Job& job) {
    return job.model != nullptr && job.stated.empty() && !job.optimizer.in_backward && !job.optimizer.host;
}

/// Nothing when `technique` is turned already, has no meaning here, or leads to a job that cannot be
/// estimated.
std::optional<Trial> trial_of(const Technique& technique, const Document& document, const Job& now) {
    if (technique.patch == nullptr) return std::nullopt;
    const auto patch = technique.patch(document.tree, now);
    if (!patch) return std::nullopt;
    auto changed = with_patch(document, *patch);
    if (!changed) return std::nullopt;
    auto job = resolve_document(*changed);
    if (!job) return std::nullopt;
    const bool alone =
        patches_optimizer_alone(*patch) && updates_after_backward(now) && updates_after_backward(*job);
    return Trial{technique, std::move(changed->tree), std::move(*job), alone};
}

/// What the technique of `trial` does for the job `now`, which is `base`; `before` is its key tree.
TechniqueSaving saving_of(const Trial& trial, const KeyTree& before, const Job& now, const Base& base) {
    const Technique& technique = trial.technique;
    const Ledger& ledger = *base.ledger;
    TechniqueSaving out;
    out.technique = &technique;
    out.term = technique.term;
    out.term_bytes = at_peak(ledger, out.term);
    const bool own_is_live = out.term_bytes > Bytes(0);
    Bytes with_others = out.term_bytes;
    for (const std::string_view other : technique.also)
        if (!other.empty()) with_others += at_peak(ledger, other);
    out.change = describe_patch(before, trial.tree);

    const Phase phase = ledger.peak.phase;
    const auto is_idle = [&out](std::string why) {
        out.helps_at_peak = false;
        out.note = std::move(why);
        return out;
    };
    if (with_others == Bytes(0)) return is_idle(fmt::format("{} is not live at the peak", out.term));
    if (!technique.reaches(phase)) return is_idle(fmt::format("the peak is in the {}", name_of(phase)));

    const Step then = trial.optimizer_alone && base.step != nullptr
                          ? with_other_optimizer(*base.step, trial.job)
                          : simulate_step(trial.job, Bound::point, Detail::bytes);
    out.term_saves = out.term_bytes - at_peak(then, out.term);
    for (const std::string_view other : technique.also) {
        if (other.empty() || own_is_live) continue;
        const Bytes bytes = at_peak(ledger, other);
        const Bytes saves = bytes - at_peak(then, other);
        if (saves <= *out.term_saves) continue;
        out.term = other;
        out.term_bytes = bytes;
        out.term_saves = saves;
    }
    out.peak_saves = ledger.allocated.point - Bytes(then.profile.peak);
    if (*out.term_saves == Bytes(0) && is_stated(now, out.term)) {
        // The file states the term as it is now; only its author knows what it would become.
        out.term_saves.reset();
        out.peak_saves.reset();
        out.note = fmt::format("state what {} becomes to know the saving", out.term);
    } else if (*out.peak_saves <= Bytes(0)) {
        return is_idle("the peak stays");
    }
    return out;
}

/// Trials of one document, which may run side by side, and what came of them.
class Trials {
public:
    Trials(const Document& document, const Job& job) : job_(job), base_(document), found_(techniques().rows().size()) {
        base_.tree.remove("scenarios");
        base_.model = job.unadapted;
    }

    [[nodiscard]] std::size_t count() const { return found_.size(); }

    /// Tries technique `i`; `base` is asked for once the changed job is known. Without a ledger there is nothing to try.
    template <class BaseOf>
    void run(std::size_t i, const BaseOf& base_of) {
        // The dearest stand last in the table and are begun first.
        const std::size_t row = found_.size() - 1 - i;
        try {
            const auto trial = trial_of(techniques().rows()[row], base_, job_);
            if (!trial) return;
            if (const Base now = base_of(); now.ledger != nullptr)
                found_[row] = saving_of(*trial, base_.tree, job_, now);
        } catch (const OverflowError&) {
            // Its bytes leave the 64-bit range: it saves nothing.
        }
    }

    /// The best first, then those that do not help at this peak.
    [[nodiscard]] std::vector<TechniqueSaving> take() {
        std::vector<TechniqueSaving> out;
        for (auto& saving : found_)
            if (saving) out.push_back(std::move(*saving));
        const auto at_most = [](const TechniqueSaving& s) { return s.peak_saves.value_or(s.term_bytes); };
        std::stable_sort(out.begin(), out.end(), [&](const auto& a, const auto& b) {
            if (a.helps_at_peak != b.helps_at_peak) return a.helps_at_peak;
            return at_most(a) > at_most(b);
        });
        return out;
    }

private:
    const Job& job_;
    Document base_;
    std::vector<std::optional<TechniqueSaving>> found_;
};

}  // namespace

std::vector<TechniqueSaving> technique_savings(const Document& document, const Estimate& estimate) {
    Trials trials(document, estimate.job);
    Team team;
    team.for_each_index(trials.count(), [&](std::size_t i) { trials.run(i, [&] { return Base{&estimate.ledger}; }); });
    return trials.take();
}

Result<AdvisedEstimate> advised_estimate(const Document& document, const std::optional<Bytes>& budget,
                                         BookOptions options) {
    Team team;
    return advised_estimate(document, team, budget, options);
}

Result<AdvisedEstimate> advised_estimate(const Document& document, Team& team, const std::optional<Bytes>& budget,
                                         BookOptions options) {
    try {
        auto job = checked_job(document);
        if (!job) return job.errors();
        std::optional<Step> step;
        std::optional<Result<Ledger>> ledger;
        std::latch made(1);
        Trials trials(document, *job);
        // The ledger is begun first: whoever waits for it knows that a thread is at it.
        team.for_each_index(1 + trials.count(), [&](std::size_t i) {
            if (i > 0) {
                trials.run(i - 1, [&] {
                    made.wait();
                    return ledger && *ledger ? Base{&**ledger, &*step} : Base{};
                });
                return;
            }
            struct Announce {
                std::latch& made;
                ~Announce() { made.count_down(); }
            } const announce{made};
            step = simulate_step(*job);
            ledger = checked_ledger(document, *job, *step, budget, options);
        });
        if (!*ledger) return ledger->errors();
        std::vector<TechniqueSaving> savings = trials.take();
        return AdvisedEstimate{{std::move(*job), std::move(**ledger)}, std::move(savings)};
    } catch (const OverflowError& error) {
        return out_of_range(document, error);
    }
}

}  // namespace membudget
