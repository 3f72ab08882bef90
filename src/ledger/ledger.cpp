#include "membudget/ledger.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ledger/live.hpp"
#include "ledger/outside.hpp"
#include "ledger/reserved.hpp"

namespace membudget {

std::string_view name_of(Verdict verdict) {
    constexpr std::string_view kNames[] = {"fits", "uncertain", "over", "none"};
    return kNames[static_cast<std::size_t>(verdict)];
}

namespace {

std::int64_t value(const TermBytes& bytes, TermId id) { return id < bytes.size() ? bytes[id] : 0; }

/// The same term in another run's table; bytes 0 when it does not occur there.
std::int64_t value_by_path(const Step& step, const std::string& path) {
    for (std::size_t i = 0; i < step.terms.size(); ++i)
        if (step.terms.path(static_cast<TermId>(i)) == path)
            return value(step.profile.at_peak, static_cast<TermId>(i));
    return 0;
}

PeakPlace peak_place(const Job& job, const Step& step) {
    PeakPlace out;
    const Place place = locate(step.root, step.profile.where);
    if (place.leaf == nullptr) return out;
    out.phase = place.leaf->phase;
    out.pass = place.leaf->pass;
    out.micro_batch = place.micro_batch;
    const auto index = static_cast<std::size_t>(step.profile.where.event);
    if (index < place.leaf->events.size())
        out.op = op_name(job.model.get(), *place.leaf, place.leaf->first_copy + place.copy * place.leaf->copy_step,
                         place.leaf->events[index].label.op);
    return out;
}

/// When a term is live, from its first component: a sentence, not a measurement.
std::string_view lifetime_of(std::string_view path) {
    const auto under = [&](std::string_view group) { return path.starts_with(group); };
    if (under("parameters") || under("optimizer_states") || under("padding")) return "whole step";
    if (under("gradients")) return "backward to the optimizer step";
    if (under("activations")) return "forward to backward";
    if (under("temporaries/optimizer_step")) return "optimizer step";
    if (under("temporaries")) return "within an op or a block";
    if (under("communication/ddp_buckets")) return "whole step";
    if (under("communication")) return "around a block";
    return "whole step";
}

std::vector<Term> make_terms(const Job& job, const Step& point, const Step& lower, const Step& upper) {
    std::vector<Term> terms;
    const LiveFormulas formulas(job, point);
    for (std::size_t i = 0; i < point.terms.size(); ++i) {
        const auto id = static_cast<TermId>(i);
        const std::int64_t max = value(point.profile.max, id);
        if (max == 0) continue;  // interned, never used
        Term term;
        term.path = point.terms.path(id);
        term.at_peak = Bytes(value(point.profile.at_peak, id));
        term.max = Bytes(max);
        term.lower = Bytes(&lower == &point ? term.at_peak.count() : value_by_path(lower, term.path));
        term.upper = Bytes(&upper == &point ? term.at_peak.count() : value_by_path(upper, term.path));
        const TermNote& note = point.notes[i];
        term.total = note.total;
        term.basis = note.basis;
        term.lifetime = lifetime_of(term.path);
        term.formula = note.formula.empty() ? formulas.of(id) : note.formula;
        term.source = note.source.empty() ? formulas.source_of(id) : note.source;
        terms.push_back(std::move(term));
    }
    return terms;
}

/// Largest at the peak first, then by path.
void sort_terms(std::vector<Term>& terms) {
    std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
        if (a.at_peak != b.at_peak) return a.at_peak > b.at_peak;
        return a.path < b.path;
    });
}

/// The allocator's share at the ends of the interval, from the runs with those terms.
struct ReservedRuns {
    ReservedMemory lower, point, upper;
};

std::optional<ReservedRuns> replay_runs(const Job& job, const Step& point, const Step& lower, const Step& upper) {
    const auto at_point = simulate_reserved(job, point, Bound::point);
    if (!at_point) return std::nullopt;
    ReservedRuns out{*at_point, *at_point, *at_point};
    if (&lower != &point) {
        const auto low = simulate_reserved(job, lower, Bound::lower);
        const auto high = simulate_reserved(job, upper, Bound::upper);
        if (!low || !high) return std::nullopt;
        out.lower = *low;
        out.upper = *high;
    }
    // Before a request fails, a retry gives whole free segments back
    // [c10/cuda/CUDACachingAllocator.cpp release_cached_blocks].
    out.lower.releasable = 0;
    return out;
}

/// Adds the terms that only `reserved` and `device` have, and both totals.
void add_outer_totals(Ledger& ledger, const Job& job, const ReservedRuns& runs) {
    constexpr std::string_view kSource =
        "c10/cuda/CUDACachingAllocator.cpp, simulated; on one stream, without cuBLAS workspaces";
    const auto add = [&](std::string_view path, std::int64_t ReservedMemory::*bytes, std::string formula) {
        if (runs.point.*bytes == 0 && runs.upper.*bytes == 0) return;
        Term term;
        term.path = path;
        term.total = Total::reserved;
        term.at_peak = term.max = Bytes(runs.point.*bytes);
        term.lower = Bytes(runs.lower.*bytes);
        term.upper = Bytes(runs.upper.*bytes);
        term.lifetime = "whole step";
        term.formula = std::move(formula);
        term.source = kSource;
        ledger.terms.push_back(std::move(term));
    };
    add("allocator/unsplit", &ReservedMemory::unsplit,
        "rests of up to 1 MiB that live blocks keep; torch.cuda.memory_allocated() counts them");
    add("allocator/cached/releasable", &ReservedMemory::releasable,
        fmt::format("whole free segments at the peak, after {} replayed steps; none (lower bound) where memory is "
                    "short: a retry gives them back",
                    runs.point.steps));
    add("allocator/cached/stuck", &ReservedMemory::stuck,
        fmt::format("free blocks in segments with live ones at the peak, after {} replayed steps", runs.point.steps));
    const auto beyond = [](const ReservedMemory& run) { return Bytes(run.beyond_allocated()); };
    TotalRange reserved = ledger.allocated;
    reserved.lower += beyond(runs.lower);
    reserved.point += beyond(runs.point);
    if (reserved.upper) *reserved.upper += beyond(runs.upper);
    ledger.reserved = reserved;

    TotalRange device = reserved;
    for (Term& term : outside_terms(job)) {
        device.lower += term.lower;
        device.point += term.at_peak;
        if (device.upper) *device.upper += *term.upper;
        ledger.terms.push_back(std::move(term));
    }
    ledger.device = device;
    sort_terms(ledger.terms);
}

void judge(Ledger& ledger, const Job& job, const std::optional<Budget>& budget) {
    if (budget)
        ledger.budget = budget;
    else if (job.device)
        ledger.budget = Budget{job.device->name, job.device->capacity, job.device->reserve,
                               job.device->capacity_lower, job.device->capacity_upper};
    if (!ledger.budget) return;
    const TotalRange& total = ledger.device     ? *ledger.device
                              : ledger.reserved ? *ledger.reserved
                                                : ledger.allocated;
    const Bytes usable = ledger.budget->capacity - ledger.budget->reserve;
    ledger.headroom = usable - total.point;
    const Bytes reserve = ledger.budget->reserve;
    if (total.lower > ledger.budget->capacity_upper.value_or(ledger.budget->capacity) - reserve)
        ledger.verdict = Verdict::over;
    else if (total.upper &&
             *total.upper <= ledger.budget->capacity_lower.value_or(ledger.budget->capacity) - reserve)
        ledger.verdict = Verdict::fits;
    else
        ledger.verdict = Verdict::uncertain;
    if (!ledger.device)
        ledger.warnings.push_back(
            {"budget.allocated",
             "the budget is judged on the allocated total: the allocator's cache, the CUDA context and "
             "communication libraries come on top"});
}

std::vector<std::string> what_to_measure(const Ledger& ledger) {
    std::vector<std::string> out;
    switch (ledger.peak.phase) {
        case Phase::forward:
        case Phase::loss:
            out.emplace_back(
                "torch.cuda.max_memory_allocated() after forward and loss, with reset_peak_memory_stats() "
                "before them");
            break;
        case Phase::backward:
            out.emplace_back(
                "torch.cuda.max_memory_allocated() over loss.backward() alone, in the second step (states "
                "exist from then on)");
            break;
        case Phase::optimizer_step:
            out.emplace_back(
                "torch.cuda.max_memory_allocated() over optimizer.step() alone, in the first and in the "
                "second step");
            break;
    }
    out.emplace_back(
        "torch.cuda.max_memory_reserved() and nvidia-smi beside it: what lies between allocated and the "
        "device");
    return out;
}

}  // namespace

Ledger make_ledger(const Job& job, const std::optional<Budget>& budget) {
    const Step point = simulate_step(job);
    const bool bounded = std::any_of(job.stated.begin(), job.stated.end(), [](const ResolvedTerm& term) {
        return term.lower != term.point || term.upper != term.point;
    });
    std::optional<Step> low, high;
    if (bounded) {
        low = simulate_step(job, Bound::lower);
        high = simulate_step(job, Bound::upper);
    }
    const Step& lower = low ? *low : point;
    const Step& upper = high ? *high : point;

    Ledger ledger;
    ledger.terms = make_terms(job, point, lower, upper);
    ledger.allocated = {Bytes(lower.profile.peak), Bytes(point.profile.peak), Bytes(upper.profile.peak)};
    ledger.assumptions = job.assumptions;
    ledger.warnings = job.warnings;
    if (point.open_above) {
        ledger.allocated.upper.reset();
        for (const std::string& group : point.unknown_terms)
            ledger.warnings.push_back(
                {"terms.unknown",
                 fmt::format("{}: neither stated nor derivable from a parameter count; the upper bound is "
                             "open",
                             group)});
    }
    ledger.additive_total = Bytes(point.additive_total);
    ledger.peak = peak_place(job, point);
    for (const Phase phase : kPhases)
        ledger.phases.push_back({phase, Bytes(point.phase_peaks[static_cast<std::size_t>(phase)])});
    const auto groups = groups_at_peak(ledger);
    if (!groups.empty()) {
        ledger.dominant = groups.front().first;
        ledger.dominant_bytes = groups.front().second;
    }
    sort_terms(ledger.terms);
    if (const auto runs = replay_runs(job, point, lower, upper)) add_outer_totals(ledger, job, *runs);
    judge(ledger, job, budget);
    ledger.measure_next = what_to_measure(ledger);
    return ledger;
}

Bytes at_peak(const Ledger& ledger, std::string_view path) {
    Bytes sum;
    for (const Term& term : ledger.terms)
        if (is_at_or_below(term.path, path)) sum += term.at_peak;
    return sum;
}

std::vector<std::pair<std::string, Bytes>> groups_at_peak(const Ledger& ledger) {
    std::map<std::string, Bytes> sums;
    for (const Term& term : ledger.terms)
        if (term.total == Total::allocated) sums[term.path.substr(0, term.path.find('/'))] += term.at_peak;
    std::vector<std::pair<std::string, Bytes>> out(sums.begin(), sums.end());
    std::stable_sort(out.begin(), out.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    return out;
}

std::vector<TermDelta> diff(const Ledger& a, const Ledger& b) {
    std::map<std::string, TermDelta> rows;
    for (const Term& term : a.terms) rows[term.path].from = term.at_peak;
    for (const Term& term : b.terms) rows[term.path].to = term.at_peak;
    std::vector<TermDelta> out;
    for (auto& [path, delta] : rows) {
        delta.path = path;
        out.push_back(std::move(delta));
    }
    return out;
}

}  // namespace membudget
