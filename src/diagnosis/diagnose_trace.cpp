#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "diagnosis/finding.hpp"
#include "membudget/scenario.hpp"

/// Rules for traces. Levels are compared at the same phase of each step; the first step is left out,
/// because gradients and optimizer states come in it.

namespace membudget {
namespace {

using namespace diagnosis;

constexpr int kSame = 1;         ///< hundredths by which equal levels may differ
constexpr int kClear = 5;        ///< hundredths that are a difference worth a word
constexpr int kHalf = 50, kMost = 80, kTenth = 10, kQuarter = 25;
constexpr Bytes kWorthAWord = Bytes(std::int64_t{1} << 29);  ///< 512 MiB

std::string sized(Bytes bytes) { return format_bytes(bytes, Units::decimal); }

/// Names of the techniques that can lower a peak in `phase`: those that aim at `term`, or, without one, all.
std::string helpful_in(Phase phase, std::string_view term) {
    const auto aims_at = [&](std::string_view path) { return !path.empty() && first_component(path) == term; };
    std::string out;
    for (const Technique& technique : techniques()) {
        if (!technique.reaches(phase)) continue;
        if (!term.empty() && !aims_at(technique.term) &&
            std::none_of(technique.also.begin(), technique.also.end(), aims_at))
            continue;
        out += (out.empty() ? "" : ", ") + std::string(technique.name);
    }
    return out;
}

/// `a`, `b`, `c` ... with the middle left out when there are many.
std::string list_of(const std::vector<Bytes>& levels) {
    constexpr std::size_t kShown = 8;
    std::string out;
    for (std::size_t i = 0; i < levels.size(); ++i) {
        if (levels.size() > kShown && i == kShown / 2) {
            out += fmt::format(", ... {} more ...", levels.size() - kShown);
            i = levels.size() - kShown / 2;
        }
        out += (out.empty() ? "" : ", ") + sized(levels[i]);
    }
    return out;
}

/// How a row of levels behaves.
enum class Trend { unknown, steady, grows, varies };

Bytes lowest(const std::vector<Bytes>& levels, std::size_t begin, std::size_t end) {
    return *std::min_element(levels.begin() + static_cast<std::ptrdiff_t>(begin),
                             levels.begin() + static_cast<std::ptrdiff_t>(end));
}

Trend trend_of(const std::vector<Bytes>& levels) {
    constexpr std::size_t kFew = 3, kMany = 16;
    if (levels.size() < kFew) return Trend::unknown;
    const auto [low, high] = std::minmax_element(levels.begin(), levels.end());
    if (!at_least(*high - *low, kSame, *high) || *high == *low) return Trend::steady;
    bool rises = true;
    if (levels.size() < kMany) {
        for (std::size_t i = 1; i < levels.size(); ++i) rises = rises && levels[i] > levels[i - 1];
    } else {
        // Inputs of different lengths make levels go up and down: what counts is the floor.
        const std::size_t quarter = levels.size() / 4;
        for (std::size_t i = 1; i < 4; ++i)
            rises = rises && lowest(levels, i * quarter, (i + 1) * quarter) >
                                 lowest(levels, (i - 1) * quarter, i * quarter);
        rises = rises &&
                at_least(lowest(levels, 3 * quarter, levels.size()) - lowest(levels, 0, quarter),
                         kSame, *high);
    }
    return rises ? Trend::grows : Trend::varies;
}

/// Whether levels clearly rise and fall again. A maximum that was never reset only rises.
bool goes_up_and_down(const std::vector<Bytes>& levels) {
    int rises = 0, falls = 0;
    for (std::size_t i = 1; i < levels.size(); ++i) {
        const Bytes before = levels[i - 1], now = levels[i];
        rises += now > before && at_least(now - before, kSame, before);
        falls += now < before && at_least(before - now, kSame, before);
    }
    return falls >= 2 && rises >= 1;
}

class TraceDiagnosis {
public:
    explicit TraceDiagnosis(const TraceSubject& subject) : subject_(subject) {}

    std::vector<Finding> run() {
        failed_request();
        steps();
        earlier_peak();
        free_memory();
        outside();
        phase();
        return std::move(out_);
    }

private:
    void add(std::string_view name, std::vector<std::string> evidence) {
        out_.push_back(finding(name, std::move(evidence), subject_.name));
    }

    [[nodiscard]] std::vector<Bytes> column(std::optional<Bytes> StepLevel::*member) const {
        std::vector<Bytes> out;
        for (const StepLevel& step : subject_.steps)
            if (step.*member) out.push_back(*(step.*member));
        return out;
    }

    void failed_request() {
        if (!subject_.oom) return;
        const TraceOom& oom = *subject_.oom;
        add("trace.oom", {fmt::format("event {}: asked {}, {} free on the device", oom.event,
                                      sized(Bytes(oom.size)), sized(Bytes(oom.device_free))),
                          fmt::format("live then {} of {} reserved; at the end of the file {}",
                                      sized(Bytes(oom.live)), sized(Bytes(oom.reserved)),
                                      subject_.end_live ? sized(*subject_.end_live) : "unknown")});
        const Bytes cached(oom.reserved - oom.live), free(oom.device_free), asked(oom.size);
        if (cached + free < asked || !at_least(cached, kQuarter, Bytes(oom.reserved))) return;
        add("fragmentation",
            {fmt::format("at the failed request {} were reserved and not live, {} free on the "
                         "device: together not less than the {} that were asked for",
                         sized(cached), sized(free), sized(asked)),
             "a request fails only after every whole cached segment was freed: what was still "
             "cached lay beside live blocks"});
    }

    void steps() {
        const std::vector<Bytes> all = column(&StepLevel::live),
                                 reserved = column(&StepLevel::reserved);
        const std::vector<Bytes> peaks = column(&StepLevel::peak);
        const std::string where = fmt::format("levels at {}: {}", subject_.steps_by, list_of(all));
        const std::vector<Bytes> live(all.size() > 1 ? all.begin() + 1 : all.begin(), all.end());
        const Trend trend = trend_of(live);
        reserved_growth(all, reserved);
        if (trend == Trend::grows) {
            std::vector<std::string> evidence{where};
            const auto span = static_cast<std::int64_t>(live.size() - 1);
            evidence.push_back(fmt::format(
                "{} in {} steps, about {} per step", size_text(live.back() - live.front()), span,
                sized(Bytes((live.back() - live.front()).count() / span))));
            for (const Survivor& survivor : subject_.survivors)
                evidence.push_back(fmt::format(
                    "outlives its step, in {} steps: {}, {} blocks from {}", survivor.steps,
                    sized(survivor.bytes), survivor.blocks, survivor.stack));
            add("live.growth", std::move(evidence));
        }
        if (trend == Trend::steady && all.size() > 2) {
            if (all[1] > all[0] && at_least(all[1] - all[0], kClear, all[1]))
                add("live.first_step",
                    {where, fmt::format("first to second: {}", size_text(all[1] - all[0]))});
            else
                add("live.steady", {where});
        }
        const std::vector<Bytes> later(peaks.size() > 1 ? peaks.begin() + 1 : peaks.begin(),
                                       peaks.end());
        const std::vector<Bytes>& moving = trend == Trend::varies ? live : later;
        if (trend != Trend::grows && trend_of(moving) == Trend::varies &&
            goes_up_and_down(moving)) {
            const auto [low, high] = std::minmax_element(moving.begin(), moving.end());
            if (at_least(*high - *low, kClear, *high))
                add("live.shapes", {fmt::format("{} steps, between {} and {}", moving.size(),
                                                sized(*low), sized(*high))});
        }
    }

    void reserved_growth(const std::vector<Bytes>& live, const std::vector<Bytes>& reserved) {
        if (live.size() < 3 || reserved.size() != live.size()) return;
        const Bytes grown = reserved.back() - reserved.front(),
                    live_grown = live.back() - live.front();
        if (grown <= Bytes(0) || !at_least(grown, kClear, reserved.back())) return;
        if (live_grown > Bytes(0) && at_least(live_grown, kQuarter, grown)) return;
        const bool level = reserved.back() == reserved[reserved.size() - 2];
        add("reserved.growth",
            {fmt::format("reserved: {}", list_of(reserved)),
             fmt::format("allocated: {}", list_of(live)),
             level ? "reserved stays at its last level" : "reserved still grows at the end"});
    }

    void earlier_peak() {
        if (!subject_.is_series || subject_.steps.empty()) return;
        const StepLevel& last = subject_.steps.back();
        if (!last.live || !last.peak || !last.reserved || *last.reserved < kWorthAWord) return;
        if (at_least(*last.live, kHalf, *last.reserved) ||
            !at_least(*last.peak, kMost, *last.reserved))
            return;
        add("reserved.earlier_peak",
            {fmt::format("allocated {}, its maximum {}, reserved {}", sized(*last.live),
                         sized(*last.peak), sized(*last.reserved))});
    }

    void free_memory() {
        if (!subject_.free_at_peak || !subject_.reserved_at_peak) return;
        const TraceFreeMemory& free = *subject_.free_at_peak;
        const Bytes stuck(free.stuck), reserved = *subject_.reserved_at_peak;
        if (stuck >= kWorthAWord && at_least(stuck, kTenth, reserved))
            add("fragmentation",
                {fmt::format("at the peak {} of {} reserved are free beside live blocks, {} in "
                             "whole segments",
                             sized(stuck), sized(reserved), sized(Bytes(free.releasable)))});
        if (!subject_.free_at_end || !subject_.end_reserved) return;
        const TraceFreeMemory& end = *subject_.free_at_end;
        if (Bytes(end.releasable) >= kWorthAWord && end.releasable > end.stuck &&
            at_least(Bytes(end.releasable), kTenth, *subject_.end_reserved))
            add("releasable",
                {fmt::format("at the end {} of {} reserved are in whole free segments, {} beside "
                             "live blocks",
                             sized(Bytes(end.releasable)), sized(*subject_.end_reserved),
                             sized(Bytes(end.stuck)))});
    }

    void outside() {
        Bytes most(0);
        const StepLevel* at = nullptr;
        for (const StepLevel& step : subject_.steps)
            if (step.device && step.reserved && *step.device - *step.reserved > most) {
                most = *step.device - *step.reserved;
                at = &step;
            }
        constexpr Bytes kOrdinary = Bytes(std::int64_t{2} << 30);
        if (at == nullptr || most < kOrdinary || !at_least(most, kTenth, *at->device)) return;
        add("outside",
            {fmt::format("step {}: device {}, reserved {}: {} are not the allocator's", at->step,
                         sized(*at->device), sized(*at->reserved), sized(most))});
    }

    void phase() {
        if (subject_.is_series || subject_.peak_phase.empty() || !subject_.live_peak) return;
        std::vector<std::string> evidence{fmt::format("{} at event {}, allocating in {}",
                                                      size_text(*subject_.live_peak),
                                                      subject_.live_peak_at, subject_.peak_phase)};
        for (const Phase phase : kPhases)
            if (name_of(phase) == subject_.peak_phase) add_helpful(phase, evidence);
        add("peak.phase", std::move(evidence));
    }

    /// What can lower a peak in `phase`: for the large terms that are live there, or, where they are not
    /// known, for any.
    void add_helpful(Phase phase, std::vector<std::string>& evidence) const {
        constexpr std::size_t kMostTerms = 3;
        const std::size_t before = evidence.size();
        const SortedInstant* peak = subject_.sorted.empty() ? nullptr : &subject_.sorted.front();
        if (peak != nullptr && !at_least(unsorted_bytes(*peak), kHalf, peak->live))
            for (const SortedTerm& term : peak->terms) {
                const std::string names = helpful_in(phase, term.path);
                if (names.empty() || !at_least(term.bytes, kTenth, peak->live)) continue;
                if (evidence.size() == before + kMostTerms) break;
                evidence.push_back(fmt::format("{} of it are {}, which can be lowered there by: {}",
                                               sized(term.bytes), term.path, names));
            }
        if (evidence.size() == before)
            evidence.push_back("techniques that can lower this phase: " + helpful_in(phase, {}));
    }

    const TraceSubject& subject_;
    std::vector<Finding> out_;
};

/// Several ranks say the same: one finding stands for them.
bool is_repeated(const std::vector<Finding>& findings, const Finding& finding) {
    constexpr std::size_t kMostOfAKind = 3;
    const auto same = std::count_if(findings.begin(), findings.end(), [&](const Finding& other) {
        return other.kind == finding.kind;
    });
    return static_cast<std::size_t>(same) >= kMostOfAKind;
}

}  // namespace

std::vector<Finding> diagnose(const TraceSummary& summary, const Dimensions& dimensions) {
    std::vector<Finding> out;
    for (const OomMessage& message : summary.messages)
        for (Finding& finding : diagnose(message, dimensions)) {
            // A log that names no totals speaks of memory in passing: its own figures say more.
            if (finding.kind->name == "oom.undecidable" && !summary.subjects.empty()) continue;
            if (message.device) finding.subject = fmt::format("device {}", *message.device);
            if (!is_repeated(out, finding)) out.push_back(std::move(finding));
        }
    // A device whose request failed comes first; what the host holds is no reason for anything here.
    for (const bool failed : {true, false})
        for (const TraceSubject& subject : summary.subjects) {
            if (subject.device < 0 || subject.oom.has_value() != failed) continue;
            for (Finding& finding : TraceDiagnosis(subject).run())
                if (!is_repeated(out, finding)) out.push_back(std::move(finding));
        }
    for (const TraceSubject& subject : summary.subjects) {
        if (!subject.oom) continue;
        std::vector<std::string> evidence;
        const PrintedSize request{Bytes(subject.oom->size), Bytes(0)};
        for (const Candidate& candidate : candidates_for(request, dimensions))
            evidence.push_back(fmt::format("{} = {}", candidate.text, sized(candidate.bytes)));
        if (!evidence.empty())
            out.push_back(finding("request.candidates", std::move(evidence), subject.name));
    }
    return out;
}

}  // namespace membudget
