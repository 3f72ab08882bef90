#include "membudget/ledger.hpp"

#include <algorithm>
#include <iterator>
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
    const Location place = locate(step.root, step.profile.where);
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

std::vector<Term> make_terms(const Job& job, const Step& point, const Step& lower, const Step& upper,
                             Formulas wanted) {
    std::vector<Term> terms;
    std::optional<LiveFormulas> formulas;
    if (wanted == Formulas::all) formulas.emplace(job, point);
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
        term.formula = note.formula.empty() && formulas ? formulas->of(id) : note.formula;
        term.source = note.source.empty() && formulas ? formulas->source_of(id) : note.source;
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

/// Memory outside the allocator, as far as a term says so.
OutsideBytes sum_of(const std::vector<Term>& outside) {
    Bytes lower, point, upper;
    for (const Term& term : outside) {
        lower += term.lower;
        point += term.at_peak;
        upper += *term.upper;
    }
    return {lower.count(), point.count(), upper.count()};
}

std::string releasable_formula(const ReservedMemory& run, bool known_end) {
    std::string out = fmt::format("whole free segments at the peak, after {} replayed steps", run.steps);
    if (!known_end) out += "; none (lower bound) where memory is short: a retry gives them back";
    if (known_end && run.retries > 0)
        out += fmt::format("; {} requests of a step found the device full and had them given back", run.retries);
    return out;
}

/// What a replay found that the totals do not say.
void add_replay_warnings(Ledger& ledger, const ReservedMemory& run) {
    if (run.failed) {
        const FailedRequest& failed = *run.failed;
        if (failed.held - failed.live < failed.bytes) return;  // too much is live: nothing to explain
        ledger.warnings.push_back(
            {"allocator.no_memory",
             fmt::format("a request of {} in {} finds no memory, although {} of what is reserved is in no tensor: "
                         "it is free in pieces that are too small",
                         format_bytes(Bytes(failed.bytes), Units::decimal), name_of(failed.phase),
                         format_bytes(Bytes(failed.held - failed.live), Units::decimal))});
    } else if (run.retries > 0) {
        ledger.warnings.push_back(
            {"allocator.retries",
             fmt::format("{} requests of a step find the device full and have cached segments given back before "
                         "they are served: the job fits, and each time waits for the device",
                         run.retries)});
    }
}

/// Adds the terms that only `reserved` and `device` have, and both totals; returns the replays.
std::optional<ReservedRuns> add_outer_totals(Ledger& ledger, const Job& job, const BoundedSteps& steps) {
    constexpr std::string_view kSource =
        "c10/cuda/CUDACachingAllocator.cpp, simulated; on one stream, with cuBLAS workspaces where the device is known";
    std::vector<Term> outside = outside_terms(job);
    const OutsideBytes beside = sum_of(outside);
    const auto runs = simulate_reserved(job, steps, ledger.budget, beside);
    if (!runs) return std::nullopt;
    const auto add = [&](std::string_view path, std::int64_t ReservedMemory::*bytes, std::string formula) {
        const auto [least, most] = std::minmax({runs->lower.*bytes, runs->point.*bytes, runs->upper.*bytes});
        if (most == 0) return;
        Term term;
        term.path = path;
        term.total = Total::reserved;
        term.at_peak = term.max = Bytes(runs->point.*bytes);
        term.lower = Bytes(least);
        term.upper = Bytes(most);
        term.lifetime = "whole step";
        term.formula = std::move(formula);
        term.source = kSource;
        ledger.terms.push_back(std::move(term));
    };
    add("allocator/unsplit", &ReservedMemory::unsplit,
        "rests of up to 1 MiB that live blocks keep; torch.cuda.memory_allocated() counts them");
    add("allocator/cached/releasable", &ReservedMemory::releasable,
        releasable_formula(runs->point, ledger.budget.has_value()));
    add("allocator/cached/stuck", &ReservedMemory::stuck,
        fmt::format("free blocks in segments with live ones at the peak, after {} replayed steps", runs->point.steps));
    std::ranges::move(outside, std::back_inserter(ledger.terms));

    // The more there is outside, the sooner the allocator gives back: the ends of the device are not the
    // sums of the ends.
    const Bytes low = ledger.allocated.lower + Bytes(runs->lower.beyond_allocated());
    const Bytes point = ledger.allocated.point + Bytes(runs->point.beyond_allocated());
    const Bytes high = ledger.allocated.upper.value_or(point) + Bytes(runs->upper.beyond_allocated());
    const auto range = [&](const OutsideBytes& more) {
        const auto [least, most] =
            std::minmax({low + Bytes(more.lower), point + Bytes(more.point), high + Bytes(more.upper)});
        return TotalRange{least, point + Bytes(more.point),
                          ledger.allocated.upper ? std::optional(most) : std::nullopt};
    };
    ledger.reserved = range({});
    ledger.device = range(beside);
    sort_terms(ledger.terms);
    add_replay_warnings(ledger, runs->point);
    return runs;
}

std::optional<Budget> budget_of(const Job& job) {
    if (!job.device) return std::nullopt;
    return Budget{job.device->name, job.device->capacity, job.device->reserve, job.device->capacity_lower,
                  job.device->capacity_upper};
}

/// A job that was replayed is over where its smallest run fails, and fits where its largest does not;
/// any other is judged by its outermost total.
void judge(Ledger& ledger, const std::optional<ReservedRuns>& runs) {
    if (!ledger.budget) return;
    const TotalRange& total = ledger.device ? *ledger.device : ledger.allocated;
    const Bytes reserve = ledger.budget->reserve;
    const Bytes most = ledger.budget->capacity_upper.value_or(ledger.budget->capacity) - reserve;
    const Bytes least = ledger.budget->capacity_lower.value_or(ledger.budget->capacity) - reserve;
    ledger.headroom = ledger.budget->capacity - reserve - total.point;
    const bool over = runs ? runs->lower.failed.has_value() : total.lower > most;
    const bool fits = total.upper && (runs ? !runs->upper.failed : *total.upper <= least);
    ledger.verdict = over ? Verdict::over : fits ? Verdict::fits : Verdict::uncertain;
    if (!ledger.device)
        ledger.warnings.push_back(
            {"budget.allocated",
             "the budget is judged on the allocated total: the allocator's cache, the CUDA context and "
             "communication libraries come on top"});
}

/// What lies in the memory of the host; its books close alone.
void add_host(Ledger& ledger, const Step& step) {
    Bytes sum;
    for (const HostTerm& held : step.host) {
        const Bytes bytes(held.bytes);
        sum += bytes;
        Term term;
        term.path = held.path;
        term.total = Total::host;
        term.at_peak = term.max = term.lower = bytes;
        term.upper = bytes;
        term.basis = held.note.basis;
        term.lifetime = held.lifetime;
        term.formula = held.note.formula;
        term.source = held.note.source;
        ledger.terms.push_back(std::move(term));
    }
    if (!step.host.empty()) ledger.host = TotalRange{sum, sum, sum};
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

Ledger make_ledger(const Job& job, const std::optional<Budget>& budget, BookOptions options) {
    return make_ledger(job, simulate_step(job), budget, options);
}

Ledger make_ledger(const Job& job, const Step& point, const std::optional<Budget>& budget, BookOptions options) {
    const bool bounded = std::any_of(job.stated.begin(), job.stated.end(), [](const ResolvedTerm& term) {
        return term.lower != term.point || term.upper != term.point;
    });
    std::optional<Step> low, high;
    if (bounded) {
        low = simulate_step(job, Bound::lower, Detail::bytes);
        high = simulate_step(job, Bound::upper, Detail::bytes);
    }
    const Step& lower = low ? *low : point;
    const Step& upper = high ? *high : point;

    Ledger ledger;
    ledger.terms = make_terms(job, point, lower, upper, options.formulas);
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
    add_host(ledger, point);
    sort_terms(ledger.terms);
    ledger.budget = budget ? budget : budget_of(job);
    std::optional<ReservedRuns> runs;
    if (options.outermost == Outermost::device) runs = add_outer_totals(ledger, job, {lower, point, upper});
    judge(ledger, runs);
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
        if (term.total == Total::allocated) sums[std::string(first_component(term.path))] += term.at_peak;
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
