#include "membudget/membudget.hpp"
#include "membudget/step.hpp"

#include <fmt/format.h>

#include <algorithm>
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

/// What `technique` does for this job, or nothing when it is turned already, has no meaning here,
/// or leads to a job that cannot be estimated.
std::optional<TechniqueSaving> saving_of(const Technique& technique, const Document& document,
                                         const Estimate& now) {
    if (technique.patch == nullptr) return std::nullopt;
    const auto patch = technique.patch(document.tree, now.job);
    if (!patch) return std::nullopt;
    const auto changed = with_patch(document, *patch);
    if (!changed) return std::nullopt;
    const auto job = resolve_document(*changed);
    if (!job) return std::nullopt;

    TechniqueSaving out;
    out.technique = &technique;
    out.term = technique.term;
    out.term_bytes = at_peak(now.ledger, out.term);
    const bool own_is_live = out.term_bytes > Bytes(0);
    Bytes with_others = out.term_bytes;
    for (const std::string_view other : technique.also)
        if (!other.empty()) with_others += at_peak(now.ledger, other);
    out.change = describe_patch(document.tree, changed->tree);

    const Phase phase = now.ledger.peak.phase;
    const auto is_idle = [&out](std::string why) {
        out.helps_at_peak = false;
        out.note = std::move(why);
        return out;
    };
    if (with_others == Bytes(0)) return is_idle(fmt::format("{} is not live at the peak", out.term));
    if (!technique.reaches(phase)) return is_idle(fmt::format("the peak is in the {}", name_of(phase)));

    const Step then = simulate_step(*job, Bound::point, Detail::bytes);
    out.term_saves = out.term_bytes - at_peak(then, out.term);
    for (const std::string_view other : technique.also) {
        if (other.empty() || own_is_live) continue;
        const Bytes bytes = at_peak(now.ledger, other);
        const Bytes saves = bytes - at_peak(then, other);
        if (saves <= *out.term_saves) continue;
        out.term = other;
        out.term_bytes = bytes;
        out.term_saves = saves;
    }
    out.peak_saves = now.ledger.allocated.point - Bytes(then.profile.peak);
    if (*out.term_saves == Bytes(0) && is_stated(now.job, out.term)) {
        // The file states the term as it is now; only its author knows what it would become.
        out.term_saves.reset();
        out.peak_saves.reset();
        out.note = fmt::format("state what {} becomes to know the saving", out.term);
    } else if (*out.peak_saves <= Bytes(0)) {
        return is_idle("the peak stays");
    }
    return out;
}

}  // namespace

std::vector<TechniqueSaving> technique_savings(const Document& document, const Estimate& estimate) {
    std::vector<TechniqueSaving> out;
    Document base = document;
    base.tree.remove("scenarios");
    base.model = estimate.job.unadapted;
    const auto rows = techniques();
    std::vector<std::optional<TechniqueSaving>> found(rows.size());
    // The dearest stand last in the table and are begun first.
    for_each_index(found.size(), [&](std::size_t i) {
        const std::size_t row = found.size() - 1 - i;
        found[row] = saving_of(rows.rows()[row], base, estimate);
    });
    for (auto& saving : found)
        if (saving) out.push_back(std::move(*saving));
    const auto at_most = [](const TechniqueSaving& s) { return s.peak_saves.value_or(s.term_bytes); };
    std::stable_sort(out.begin(), out.end(), [&](const auto& a, const auto& b) {
        if (a.helps_at_peak != b.helps_at_peak) return a.helps_at_peak;
        return at_most(a) > at_most(b);
    });
    return out;
}

}  // namespace membudget
