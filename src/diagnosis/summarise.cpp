#include "diagnosis/summarise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "diagnosis/sort_live.hpp"
#include "diagnosis/stack_words.hpp"

namespace membudget {
namespace diagnosis {
namespace {

constexpr std::size_t kMostStacks = 12;
constexpr std::size_t kMostPhases = 64;

/// "ProfilerStep#12" is one stretch of "ProfilerStep".
std::string without_number(const std::string& name) {
    const std::size_t last = name.find_last_not_of("0123456789");
    if (last == std::string::npos || last + 1 == name.size()) return name;
    return name.substr(0, name[last] == '#' ? last : last + 1);
}

bool contains_ignoring_case(std::string_view text, std::string_view lower) {
    const auto at =
        std::search(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
            return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
        });
    return at != text.end();
}

/// One pass over the events of a device: levels, steps, phases, what outlives its step.
class Walk {
public:
    Walk(const Trace& trace, const TraceDevice& device, std::size_t columns, TraceSubject& into)
        : device_(device), words_(trace.stacks), out_(into) {
        choose_boundaries(trace);
        const std::size_t events = std::max<std::size_t>(1, device.events.size());
        bucket_ = (events + columns - 1) / columns;
    }

    void run(const TraceReplay& totals) {
        live_ = totals.start.live;
        reserved_ = totals.start.reserved;
        has_reserved_ = device_.has_segments || totals.reserved_peak > 0;
        for (std::size_t i = 0; i < device_.events.size(); ++i) step_over(i, device_.events[i]);
        finish_step();
        if (phase_ >= StackPhase::forward && !ends_.contains(phase_))
            end_phase(device_.events.size() - 1);
        finish_phases();
    }

    StackWords& words() { return words_; }

    /// A second pass over the events is worth it: something says whose memory blocks are.
    [[nodiscard]] bool tells_terms() const { return !highest_.empty() || has_categories_; }

    /// The highest instant and the end of each phase that the stacks tell.
    [[nodiscard]] std::vector<WantedInstant> instants_of_phases() const {
        std::vector<WantedInstant> out;
        for (const auto& [phase, instant] : highest_) {
            out.push_back(instant);
            if (const auto end = ends_.find(phase); end != ends_.end()) out.push_back(end->second);
        }
        return out;
    }

private:
    /// The run of a phase is over before event `index`; the run that the trace cuts off counts where
    /// there is no other.
    void enter(StackPhase phase, std::size_t index) {
        if (phase_ >= StackPhase::forward && index > 0) end_phase(index - 1);
        phase_ = phase;
    }
    void end_phase(std::size_t index) {
        ends_[phase_] = {InstantOf::end, std::string(name_of(phase_)), index, live_};
    }

    /// Steps end where marks of the file say so, else after each run of the optimizer.
    void choose_boundaries(const Trace& trace) {
        const auto collect = [&](std::string_view word) {
            for (const TraceMarker& marker : trace.markers)
                if ((marker.device < 0 || marker.device == device_.device) &&
                    contains_ignoring_case(marker.name, word))
                    boundaries_.push_back(marker.end_us);
            std::sort(boundaries_.begin(), boundaries_.end());
        };
        for (const std::string_view word : {"profilerstep", "optimizer.step"}) {
            collect(word);
            if (boundaries_.empty()) continue;
            out_.steps_by = fmt::format("ends of {}",
                                        word == "profilerstep" ? "ProfilerStep" : "optimizer.step");
            break;
        }
        by_stack_ = boundaries_.empty();
        for (const TraceMarker& marker : trace.markers)
            if ((marker.device < 0 || marker.device == device_.device) &&
                marker.end_us > marker.begin_us)
                markers_.push_back(&marker);
        std::stable_sort(markers_.begin(), markers_.end(), [](const auto* a, const auto* b) {
            return a->begin_us < b->begin_us;
        });
        marked_ = !markers_.empty();
    }

    void step_over(std::size_t index, const TraceEvent& event) {
        if (event.time_us >= 0)
            while (next_boundary_ < boundaries_.size() &&
                   event.time_us > boundaries_[next_boundary_]) {
                ++next_boundary_;
                finish_step();
            }
        if (marked_ && event.time_us >= 0) enter_marks(event.time_us);
        const bool is_alloc = event.action == TraceAction::alloc;
        if (is_alloc) {
            const StackPhase phase = words_.phase_after(phase_, event.stack);
            if (by_stack_ && in_optimizer_ &&
                (phase == StackPhase::forward || phase == StackPhase::loss)) {
                out_.steps_by = "runs of the optimizer, by stack";
                finish_step();
            }
            has_categories_ = has_categories_ || event.category != TraceCategory::unknown;
            if (phase == StackPhase::optimizer_step) in_optimizer_ = true;
            else if (phase >= StackPhase::forward) in_optimizer_ = false;
            if (phase >= StackPhase::forward && phase != phase_) enter(phase, index);
            live_ += event.size;
            blocks_[event.address] = {step_, event.stack, event.size};
        } else if (event.action == TraceAction::free_completed) {
            live_ -= event.size;
            blocks_.erase(event.address);
        } else if (event.action == TraceAction::segment_alloc ||
                   event.action == TraceAction::segment_map) {
            reserved_ += event.size;
        } else if (event.action == TraceAction::segment_free ||
                   event.action == TraceAction::segment_unmap) {
            reserved_ -= event.size;
        }
        step_peak_ = std::max(step_peak_, live_);
        if (phase_ >= StackPhase::forward) {
            MarkedPeak& phase = by_phase_[phase_];
            if (Bytes(live_) > phase.peak) {
                phase.peak = Bytes(live_);
                highest_[phase_] = {InstantOf::highest, std::string(name_of(phase_)), index, live_};
            }
            phase.end = Bytes(live_);
            if (is_alloc) ++phase.count;
        }
        for (const auto& open : open_) {
            open.second->peak = std::max(open.second->peak, Bytes(live_));
            open.second->end = Bytes(live_);
        }
        if (index % bucket_ == 0)
            out_.curve.points.push_back(
                {.at = static_cast<std::int64_t>(index), .live = {}, .reserved = {}, .device = {}});
        CurvePoint& point = out_.curve.points.back();
        point.live = std::max(point.live.value_or(Bytes(live_)), Bytes(live_));
        if (has_reserved_)
            point.reserved = std::max(point.reserved.value_or(Bytes(reserved_)), Bytes(reserved_));
    }

    void enter_marks(std::int64_t time) {
        std::erase_if(open_, [&](const auto& open) { return open.first < time; });
        for (; next_mark_ < markers_.size() && markers_[next_mark_]->begin_us <= time;
             ++next_mark_) {
            const TraceMarker& marker = *markers_[next_mark_];
            const std::string name = without_number(marker.name);
            if (marks_.size() >= kMostPhases && !marks_.contains(name)) continue;
            MarkedPeak& peak = marks_[name];
            peak.name = name;
            ++peak.count;
            // Stretches nest a few deep; a file that says otherwise is not worth the time.
            constexpr std::size_t kDeepest = 32;
            if (marker.end_us >= time && open_.size() < kDeepest)
                open_.emplace_back(marker.end_us, &peak);
        }
    }

    void finish_step() {
        out_.steps.push_back(
            {.step = step_,
             .live = Bytes(live_),
             .peak = Bytes(step_peak_),
             .reserved = has_reserved_ ? std::optional(Bytes(reserved_)) : std::nullopt,
             .device = {}});
        // What the step before left behind and this one did not free. States come in the first.
        std::map<StackId, std::pair<std::int64_t, std::int64_t>> left;
        if (step_ >= 2)
            for (const auto& [address, block] : blocks_)
                if (block.step == step_ - 1) {
                    auto& [bytes, count] = left[block.stack];
                    bytes += block.size;
                    ++count;
                }
        for (const auto& [stack, sums] : left) {
            Survivor& survivor = survivors_[words_.place_of(stack)];
            survivor.bytes += Bytes(sums.first);
            survivor.blocks += sums.second;
            if (survivor.steps == 0 || last_left_[survivor.stack] != step_) ++survivor.steps;
            survivor.stack = words_.place_of(stack);
            last_left_[survivor.stack] = step_;
        }
        ++step_;
        step_peak_ = live_;
        in_optimizer_ = false;
        if (out_.steps.size() > kMostSteps) out_.steps.erase(out_.steps.begin());
    }

    void finish_phases() {
        // Without a boundary the one "step" is the whole trace.
        if (out_.steps.size() < 2) {
            out_.steps.clear();
            out_.steps_by.clear();
        }
        for (auto& [name, survivor] : survivors_)
            if (survivor.steps >= 2) out_.survivors.push_back(std::move(survivor));
        std::stable_sort(out_.survivors.begin(), out_.survivors.end(),
                         [](const Survivor& a, const Survivor& b) { return a.bytes > b.bytes; });
        if (out_.survivors.size() > kMostStacks) out_.survivors.resize(kMostStacks);
        for (auto& [name, peak] : marks_)
            if (peak.peak > Bytes(0)) out_.phases.push_back(peak);
        for (auto& [phase, peak] : by_phase_) {
            peak.name = name_of(phase);
            out_.phases.push_back(peak);
        }
    }

    static constexpr std::size_t kMostSteps = 100'000;
    struct Block {
        std::int64_t step;
        StackId stack;
        std::int64_t size;
    };

    const TraceDevice& device_;
    StackWords words_;
    TraceSubject& out_;
    std::vector<std::int64_t> boundaries_;
    std::vector<const TraceMarker*> markers_;
    std::size_t next_boundary_ = 0, next_mark_ = 0, bucket_ = 1;
    bool by_stack_ = true, marked_ = false, has_categories_ = false, in_optimizer_ = false, has_reserved_ = false;
    std::int64_t live_ = 0, reserved_ = 0, step_ = 1, step_peak_ = 0;
    StackPhase phase_ = StackPhase::none;
    std::unordered_map<std::uint64_t, Block> blocks_;
    std::map<std::string, Survivor> survivors_;
    std::map<std::string, std::int64_t> last_left_;
    std::map<std::string, MarkedPeak> marks_;
    std::map<StackPhase, MarkedPeak> by_phase_;
    std::map<StackPhase, WantedInstant> highest_, ends_;
    std::vector<std::pair<std::int64_t, MarkedPeak*>> open_;
};

std::vector<LiveShare> largest(std::map<std::string, LiveShare>& by_name, std::size_t most) {
    std::vector<LiveShare> out;
    for (auto& [name, share] : by_name) {
        share.name = name;
        out.push_back(std::move(share));
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const LiveShare& a, const LiveShare& b) { return a.bytes > b.bytes; });
    if (out.size() <= most) return out;
    LiveShare rest{fmt::format("{} more", out.size() - most + 1), {}, 0};
    for (std::size_t i = most - 1; i < out.size(); ++i) {
        rest.bytes += out[i].bytes;
        rest.blocks += out[i].blocks;
    }
    out.resize(most - 1);
    out.push_back(std::move(rest));
    return out;
}

/// What was live at the peak: by category where the file knows it, else by where it was allocated.
void add_live_at_peak(const TraceDevice& device, const TraceReplay& totals, StackWords& words,
                      TraceSubject& out) {
    std::map<std::string, LiveShare> categories, stacks;
    std::int64_t seen = 0;
    for (const LiveBlock& block : live_after(device, totals.peak.event)) {
        const bool before = block.event == std::numeric_limits<std::size_t>::max();
        const StackPhase phase = words.phase_of(block.stack);
        std::string category;
        if (block.category != TraceCategory::unknown)
            category = name_of(block.category);
        else if (phase == StackPhase::none)
            category = before ? "from before the trace" : "allocated without a stack";
        else
            category = phase == StackPhase::other
                           ? "allocated elsewhere"
                           : fmt::format("allocated in {}", name_of(phase));
        if (before && block.category == TraceCategory::unknown && phase != StackPhase::none)
            category += ", before the trace";
        for (LiveShare* share : {&categories[category], &stacks[words.place_of(block.stack)]}) {
            share->bytes += Bytes(block.requested);
            ++share->blocks;
        }
        seen += block.requested;
    }
    if (totals.peak.live > seen) {
        LiveShare& rest = categories["from before the trace"];
        rest.bytes += Bytes(totals.peak.live - seen);
        LiveShare& place = stacks["(from before the trace)"];
        place.bytes += Bytes(totals.peak.live - seen);
    }
    out.categories = largest(categories, kMostStacks);
    if (stacks.size() > 1 || !stacks.contains("(no Python stack)"))
        out.stacks = largest(stacks, kMostStacks);
}

/// Terms, where a category or a stack tells any.
void add_sorted(const TraceDevice& device, const TraceReplay& totals, Walk& walk,
                TraceSubject& out) {
    if (!walk.tells_terms()) return;
    std::vector<WantedInstant> wanted = walk.instants_of_phases();
    wanted.insert(wanted.begin(),
                  {InstantOf::peak, out.peak_phase, totals.peak.event, totals.peak.live});
    out.sorted = sort_live(device, walk.words(), wanted);
    if (std::ranges::all_of(out.sorted, [](const auto& instant) { return instant.terms.empty(); }))
        out.sorted.clear();
}

}  // namespace

TraceSubject subject_of(const Trace& trace, const TraceDevice& device, std::size_t columns) {
    TraceSubject out;
    out.device = device.device;
    out.name = device.device < 0 ? "host" : fmt::format("device {}", device.device);
    out.events = static_cast<std::int64_t>(device.events.size());
    out.curve.axis = "event";
    const TraceReplay totals = replay(device);
    out.complete = totals.complete;
    out.oom = totals.oom;
    out.start_live = Bytes(totals.start.live);
    out.end_live = Bytes(totals.end.live);
    out.live_peak = Bytes(totals.peak.live);
    out.live_peak_at = static_cast<std::int64_t>(totals.peak.event);
    const bool has_reserved = device.has_segments || totals.reserved_peak > 0;
    if (has_reserved) {
        out.start_reserved = Bytes(totals.start.reserved);
        out.end_reserved = Bytes(totals.end.reserved);
        out.reserved_peak = Bytes(totals.reserved_peak);
        out.reserved_at_peak = Bytes(totals.peak.reserved);
    }
    Walk walk(trace, device, columns, out);
    walk.run(totals);
    add_live_at_peak(device, totals, walk.words(), out);
    if (totals.peak.event < device.events.size()) {
        const StackPhase phase = walk.words().phase_of(device.events[totals.peak.event].stack);
        if (phase >= StackPhase::forward) out.peak_phase = name_of(phase);
    }
    add_sorted(device, totals, walk, out);
    if (device.has_segments) {
        out.free_at_end = free_memory(device.segments);
        if (!device.events.empty())
            out.free_at_peak = free_memory(segments_after(device, totals.peak.event));
    }
    return out;
}

}  // namespace diagnosis

Result<TraceSummary> summarise(const Trace& trace, std::size_t columns) {
    TraceSummary out;
    out.file = trace.file;
    out.kind = trace.reader;
    out.notes = trace.notes;
    try {
        columns = std::max<std::size_t>(columns, 1);
        for (const TraceDevice& device : trace.devices)
            if (!device.events.empty() || device.has_segments)
                out.subjects.push_back(diagnosis::subject_of(trace, device, columns));
        for (const TraceSeries& series : trace.series)
            out.subjects.push_back(diagnosis::subject_of(series, columns));
        // Accelerators first, in their order; the host is a side matter.
        std::stable_sort(out.subjects.begin(), out.subjects.end(),
                         [](const TraceSubject& a, const TraceSubject& b) {
                             return (a.device < 0) < (b.device < 0);
                         });
    } catch (const OverflowError&) {
        return Diagnostic{Trouble::invalid, trace.file, "",
                          "the sizes in this trace add up to more than 2^63 bytes", ""};
    }
    if (trace.message) out.messages = parse_oom(*trace.message);
    return out;
}

}  // namespace membudget
