#include "trace/snapshot_builder.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "trace/snapshot_words.hpp"

namespace membudget {

namespace {

std::string_view describe(ValueKind kind) {
    switch (kind) {
        case ValueKind::none: return "nothing";
        case ValueKind::boolean: return "a boolean";
        case ValueKind::integer: return "an integer";
        case ValueKind::unsigned_integer: return "a larger one";
        case ValueKind::real: return "a number with a fraction";
        case ValueKind::text: return "a text";
        case ValueKind::empty_list:
        case ValueKind::stack:
        case ValueKind::events:
        case ValueKind::event_lists:
        case ValueKind::blocks:
        case ValueKind::segments:
        case ValueKind::annotations: return "a list";
        default: return "an object of another kind";
    }
}

}  // namespace

void unexpected(std::string_view what, std::string_view wanted, const SnapshotValue& got) {
    throw SnapshotError(fmt::format("{}: expected {}; got {}", what, wanted, describe(got.kind)));
}

// --- values --------------------------------------------------------------------------------------

SnapshotBuilder::SnapshotBuilder() {
    for (const std::string_view word : kWords) stacks_.text(word);
}

void SnapshotBuilder::real(double value) {
    push(ValueKind::real, std::bit_cast<std::uint64_t>(value));
}

void SnapshotBuilder::text(std::string_view text) {
    if (stacks_.text_bytes() > kMaxTextBytes) throw SnapshotError("holds more text than any snapshot");
    push(ValueKind::text, text.empty() ? 0 : stacks_.text(text));
}

void SnapshotBuilder::put(std::uint32_t index) {
    if (stack_.empty()) throw SnapshotError("memoizes a value before there is one");
    // Numbers need not be consecutive, but a gap of millions is no pickler's work.
    if (index > memo_.size() + (1U << 16U) || index >= kIndexMask)
        throw SnapshotError("memoizes under a number that is out of order");
    if (index < memo_.size()) stack_runs_.forget();
    stack_.back().memo = index + 1;
    SnapshotValue& value = stack_.back();
    become(value, value.kind, value.data);
}

/// The value is now something else, also for whoever refers to it by its number.
void SnapshotBuilder::become(SnapshotValue& value, ValueKind kind, std::size_t index) {
    value.kind = kind;
    value.data = index;
    if (value.memo == 0) return;
    // An item that its list takes in is nothing to refer to again; nor are numbers memoized.
    const bool lasting = kind == ValueKind::text || kind == ValueKind::frame ||
                         kind == ValueKind::stack || kind == ValueKind::pair ||
                         kind == ValueKind::empty_list || kind == ValueKind::empty_dict;
    if (lasting && index > kIndexMask) throw SnapshotError("holds more objects than any snapshot");
    memo_.set(value.memo - 1, lasting ? (static_cast<std::uint32_t>(kind) << kIndexBits) |
                                            static_cast<std::uint32_t>(index)
                                      : static_cast<std::uint32_t>(ValueKind::other) << kIndexBits);
}

std::size_t SnapshotBuilder::pop_mark() {
    if (marks_.empty()) throw SnapshotError("ends a list that was not begun");
    const std::size_t first = marks_.back();
    marks_.pop_back();
    if (first > stack_.size()) throw SnapshotError("ends a list whose beginning is gone");
    return first;
}

/// The value just below the items that begin at `first`.
SnapshotValue& SnapshotBuilder::container(std::size_t first) {
    if (first == 0 || (!marks_.empty() && first <= marks_.back()))
        throw SnapshotError("adds items to nothing");
    return stack_[first - 1];
}

std::size_t SnapshotBuilder::pair_of(std::int64_t a, std::int64_t b) {
    const auto [at, added] = pair_index_.emplace(std::pair(a, b), pairs_.size());
    if (added) pairs_.emplace_back(a, b);
    if (pairs_.size() > kMaxWaiting) throw SnapshotError("holds more pools than any snapshot");
    return at->second;
}

void SnapshotBuilder::tuple(std::size_t n) {
    if (above_mark() < n) throw SnapshotError("makes a tuple of more values than there are");
    const std::size_t first = stack_.size() - n;
    const bool is_pair = n == 2 && stack_[first].kind == ValueKind::integer &&
                         stack_[first + 1].kind == ValueKind::integer;
    const std::size_t index = is_pair ? pair_of(static_cast<std::int64_t>(stack_[first].data),
                                                static_cast<std::int64_t>(stack_[first + 1].data))
                                      : 0;
    stack_.shrink(first);
    push(is_pair ? ValueKind::pair : ValueKind::other, index);
}

void SnapshotBuilder::tuple() {
    const std::size_t first = pop_mark();
    tuple(stack_.size() - first);
}

void SnapshotBuilder::collect(ValueKind empty) {
    const std::size_t first = pop_mark();
    stack_.insert(first, {0, 0, empty});
    if (empty == ValueKind::empty_dict)
        fill(stack_[first], first + 1);
    else
        extend(stack_[first], first + 1);
    stack_.shrink(first + 1);
}

// --- lists ---------------------------------------------------------------------------------------

void SnapshotBuilder::appends() {
    const std::size_t first = pop_mark();
    extend(container(first), first);
    stack_.shrink(first);
}

bool SnapshotBuilder::repeat_stack(std::string_view run) {
    const auto stack = stack_runs_.find(run);
    if (stack) become(stack_.back(), ValueKind::stack, *stack);
    return stack.has_value();
}

void SnapshotBuilder::made_by(std::string_view run) {
    if (run.size() <= StackRuns::kLongest && stack_.back().kind == ValueKind::stack)
        stack_runs_.keep(run, static_cast<StackId>(stack_.back().data));
}

void SnapshotBuilder::append() {
    if (above_mark() < 2) throw SnapshotError("adds items to nothing");
    const std::size_t first = stack_.size() - 1;
    extend(container(first), first);
    stack_.shrink(first);
}

void SnapshotBuilder::extend_stack(SnapshotValue& list, std::size_t first) {
    frames_.clear();
    if (list.kind == ValueKind::stack) {
        const auto before = stacks_.frames_of(static_cast<StackId>(list.data));
        frames_.assign(before.begin(), before.end());
    } else if (list.kind != ValueKind::empty_list) {
        throw SnapshotError("frames in a list of something else");
    }
    for (std::size_t i = first; i < stack_.size(); ++i) {
        if (stack_[i].kind != ValueKind::frame) unexpected("frames", "a frame", stack_[i]);
        frames_.push_back(static_cast<std::uint32_t>(stack_[i].data));
    }
    const StackId id = stacks_.stack(frames_);
    if (id > kMaxSmallThings) throw SnapshotError("holds more stacks than any snapshot");
    become(list, ValueKind::stack, id);
}

void SnapshotBuilder::extend_events(SnapshotValue& list, std::size_t first) {
    if (list.kind == ValueKind::empty_list) {
        if (event_logs_.size() >= kMaxEventLogs) throw SnapshotError("holds more devices than any snapshot");
        event_logs_.emplace_back();
        become(list, ValueKind::events, event_logs_.size() - 1);
    }
    if (list.kind != ValueKind::events) throw SnapshotError("events in a list of something else");
    TraceEvents& log = event_logs_[list.data];
    for (std::size_t i = first; i < stack_.size(); ++i) {
        const SnapshotValue& item = stack_[i];
        if (item.kind == ValueKind::event) {
            log.push_back(waiting_events_[item.data]);
            ++taken_events_;
        } else if (item.kind != ValueKind::other) {
            unexpected("device_traces", "an event", item);
        }
    }
    if (taken_events_ < waiting_events_.size()) return;
    waiting_events_.clear();
    taken_events_ = 0;
}

void SnapshotBuilder::extend(SnapshotValue& list, std::size_t first) {
    if (first == stack_.size()) return;
    const auto items = stack_.from(first);
    const auto all_are = [&](auto... kinds) {
        return std::ranges::all_of(items, [&](const SnapshotValue& item) {
            return ((item.kind == kinds) || ...);
        });
    };
    switch (items.front().kind) {
        case ValueKind::frame: return extend_stack(list, first);
        case ValueKind::event: return extend_events(list, first);
        case ValueKind::stack:
            // A block's history: of several entries the last is the block's own.
            return become(list, ValueKind::stack, items.back().kind == ValueKind::stack ? items.back().data : 0);
        case ValueKind::block:
            if (!all_are(ValueKind::block)) throw SnapshotError("blocks among something else");
            if (list.kind == ValueKind::empty_list) {
                blocks_.emplace_back();
                become(list, ValueKind::blocks, blocks_.size() - 1);
            }
            if (list.kind != ValueKind::blocks) throw SnapshotError("blocks in a list of something else");
            for (const SnapshotValue& item : items)
                blocks_[list.data].push_back(waiting_blocks_[item.data]);
            taken_blocks_ += items.size();
            if (taken_blocks_ == waiting_blocks_.size()) {
                waiting_blocks_.clear();
                taken_blocks_ = 0;
            }
            return;
        case ValueKind::segment:
            if (!all_are(ValueKind::segment)) throw SnapshotError("segments among something else");
            return become(list, ValueKind::segments, 0);
        case ValueKind::annotation:
            return become(list, ValueKind::annotations, 0);
        case ValueKind::empty_list:
        case ValueKind::events:
            if (list.kind == ValueKind::events) return;
            if (list.kind == ValueKind::empty_list) {
                event_lists_.emplace_back();
                if (event_lists_.size() > kMaxWaiting) throw SnapshotError("holds more lists than any snapshot");
                become(list, ValueKind::event_lists, event_lists_.size() - 1);
            }
            if (list.kind != ValueKind::event_lists || !all_are(ValueKind::empty_list, ValueKind::events))
                return become(list, ValueKind::other, 0);
            for (const SnapshotValue& item : items)
                event_lists_[list.data].push_back(
                    item.kind == ValueKind::events ? static_cast<std::uint32_t>(item.data) + 1 : 0);
            return;
        case ValueKind::integer:
            // JSON has no tuples: a pool's id comes as a list.
            if (list.kind == ValueKind::empty_list && items.size() == 2 && all_are(ValueKind::integer))
                return become(list, ValueKind::pair,
                              pair_of(static_cast<std::int64_t>(items[0].data),
                                      static_cast<std::int64_t>(items[1].data)));
            return become(list, ValueKind::other, 0);
        case ValueKind::other:
            if (list.kind == ValueKind::events) return extend_events(list, first);
            [[fallthrough]];
        default: become(list, ValueKind::other, 0);
    }
}

// --- the whole -----------------------------------------------------------------------------------

TraceDevice& SnapshotBuilder::device(Trace& trace, std::int64_t number) const {
    for (TraceDevice& known : trace.devices)
        if (known.device == number) return known;
    TraceDevice& added = trace.devices.emplace_back();
    added.device = static_cast<int>(number);
    added.has_segments = true;
    return added;
}

Trace SnapshotBuilder::finish() {
    if (stack_.size() != 1 || !marks_.empty()) throw SnapshotError("ends in the middle of a value");
    const ValueKind kind = stack_.front().kind;
    if (kind != ValueKind::segments && kind != ValueKind::snapshot)
        throw SnapshotError("expected a memory snapshot: a dict with 'segments', or a list of them");

    Trace trace;
    for (auto& [number, segment] : segments_)
        device(trace, number).segments.push_back(std::move(segment));
    if (event_lists_of_top_) {
        std::int64_t number = 0;
        for (const std::uint32_t log : event_lists_[*event_lists_of_top_]) {
            if (log != 0) {
                if (number >= kMaxDevices)
                    throw SnapshotError("device_traces: expected a list per device; there are too many");
                device(trace, number).events = std::exchange(event_logs_[log - 1], {});
            }
            ++number;
        }
    }
    std::ranges::sort(trace.devices, {}, &TraceDevice::device);
    for (TraceDevice& known : trace.devices)
        std::ranges::stable_sort(known.segments, {}, &TraceSegment::address);
    if (settings_of_top_) trace.settings = settings_[*settings_of_top_];

    // The end of a stretch closes the latest one of its name that is open.
    for (std::size_t i = 0; i < annotations_.size(); ++i) {
        TraceMarker& marker = annotations_[i];
        const auto open = std::find_if(
            trace.markers.rbegin(), trace.markers.rend(), [&](const TraceMarker& other) {
                return other.name == marker.name && other.device == marker.device;
            });
        if (annotation_ends_[i] && open != trace.markers.rend() && open->end_us == open->begin_us)
            open->end_us = marker.begin_us;
        else
            trace.markers.push_back(std::move(marker));
    }
    trace.stacks = std::move(stacks_);
    return trace;
}

}  // namespace membudget
