#pragma once

/// Builds a trace from the values of a PyTorch memory snapshot as they appear, in the order of a
/// pickle: a container first, then its items, then "these belong to it". Nothing is kept as a tree:
/// a dict that is complete is known by its keys for what it is (an event, a block, a frame, ...),
/// and its list takes it in.
///
/// Format: pytorch/pytorch torch/csrc/cuda/Module.cpp (THCPModule_memorySnapshot),
/// torch/cuda/_memory_viz.py; the eras since 2.0 differ in which keys there are.

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/trace.hpp"
#include "trace/memo.hpp"
#include "trace/stack_runs.hpp"

namespace membudget {

/// Why a file is no snapshot; caught by its reader.
class SnapshotError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Limits that no real file comes near; a hostile one stops here.
inline constexpr std::size_t kMaxWaiting = std::size_t{1} << 20;      ///< items without a list
inline constexpr std::size_t kMaxSmallThings = std::size_t{1} << 22;  ///< frames, stacks, segments
inline constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMaxEventLogs = std::size_t{1} << 14;
inline constexpr std::int64_t kMaxDevices = 4096;

/// What a value on the stack is, or became.
enum class ValueKind : std::uint8_t {
    none, boolean, integer, unsigned_integer, real, text, pair,
    empty_list, empty_dict,
    frame, stack, event, events, event_lists, block, blocks, segment, segments,
    annotation, annotations, settings, divisions, snapshot,
    other,   ///< something that a snapshot may hold and that nobody needs
};

/// `data`: the number, or an index into the table of its kind. `memo`: what refers to it, plus one.
/// Trivial: a dict under construction has an array of them, of which it fills few.
struct SnapshotValue {
    std::uint64_t data;
    std::uint32_t memo;
    ValueKind kind;
};

/// The values under construction. Its room is set aside at once and touched as it fills.
class ValueStack {
public:
    static constexpr std::size_t kCapacity = std::size_t{1} << 20;

    [[nodiscard]] bool empty() const { return size_ == 0; }
    [[nodiscard]] std::size_t size() const { return size_; }
    SnapshotValue& operator[](std::size_t i) { return values_[i]; }
    const SnapshotValue& operator[](std::size_t i) const { return values_[i]; }
    SnapshotValue& back() { return values_[size_ - 1]; }
    [[nodiscard]] const SnapshotValue& back() const { return values_[size_ - 1]; }
    [[nodiscard]] const SnapshotValue& front() const { return values_[0]; }
    [[nodiscard]] std::span<const SnapshotValue> from(std::size_t first) const {
        return {values_.get() + first, size_ - first};
    }
    void push(const SnapshotValue& value) {
        if (size_ == kCapacity) throw SnapshotError("values are nested or listed too deep");
        values_[size_++] = value;
    }
    void shrink(std::size_t size) { size_ = size; }
    /// Puts `value` before the values from `first` on.
    void insert(std::size_t first, const SnapshotValue& value) {
        push(value);
        std::rotate(values_.get() + first, values_.get() + size_ - 1, values_.get() + size_);
    }

private:
    std::unique_ptr<SnapshotValue[]> values_ = std::make_unique_for_overwrite<SnapshotValue[]>(kCapacity);
    std::size_t size_ = 0;
};

/// Throws: `what` should have been `wanted`.
[[noreturn]] void unexpected(std::string_view what, std::string_view wanted, const SnapshotValue& got);

class SnapshotBuilder {
public:
    SnapshotBuilder();

    void push(ValueKind kind, std::uint64_t data = 0) {
        stack_.push({data, 0, kind});
    }
    void integer(std::int64_t value) { push(ValueKind::integer, static_cast<std::uint64_t>(value)); }
    void real(double value);
    void text(std::string_view text);

    void mark() {
        if (marks_.size() >= kMaxMarks) throw SnapshotError("values are nested too deep");
        marks_.push_back(static_cast<std::uint32_t>(stack_.size()));
    }
    /// The items since the last mark join the list, or the dict, below it.
    void appends();
    void set_items();
    /// The same for one item, or one pair, without a mark.
    void append();
    void set_item();
    /// The items since the last mark, or the last `n`, become a tuple.
    void tuple();
    void tuple(std::size_t n);
    /// The items since the last mark become a container of this kind.
    void collect(ValueKind empty);
    /// How many values lie above the last mark.
    [[nodiscard]] std::size_t above_mark() const {
        return marks_.empty() ? stack_.size() : stack_.size() - marks_.back();
    }

    /// The empty list on top becomes the stack that the same bytes, `run`, made of a list before, by
    /// nothing but references; false: they did not yet.
    [[nodiscard]] bool repeat_stack(std::string_view run);
    /// The list on top was made by the references `run`, and nothing else.
    void made_by(std::string_view run);
    [[nodiscard]] bool begins_list() const {
        return !stack_.empty() && stack_.back().kind == ValueKind::empty_list;
    }

    void memoize() { put(memo_.size()); }
    void put(std::uint32_t index);
    void get(std::uint32_t index) {
        const std::uint32_t packed = memo_.get(index);
        if (packed == Memo::kNone) throw SnapshotError("refers to a value that is not there");
        stack_.push({packed & kIndexMask, index + 1, static_cast<ValueKind>(packed >> kIndexBits)});
    }

    /// The trace, when the one value that is left is a snapshot.
    [[nodiscard]] Trace finish();

private:
    static constexpr std::size_t kMaxMarks = std::size_t{1} << 12;
    static constexpr unsigned kIndexBits = 27;
    static constexpr std::uint32_t kIndexMask = (1U << kIndexBits) - 1;

    /// The known keys of a dict under construction.
    struct Fields;

    void fill(SnapshotValue& dict, std::size_t first);
    void extend(SnapshotValue& list, std::size_t first);
    [[nodiscard]] std::size_t pop_mark();
    SnapshotValue& container(std::size_t first);
    void become(SnapshotValue& value, ValueKind kind, std::size_t index);
    [[nodiscard]] std::size_t pair_of(std::int64_t a, std::int64_t b);

    void make_event(SnapshotValue& dict, const Fields& fields);
    void make_frame(SnapshotValue& dict, const Fields& fields);
    void make_block(SnapshotValue& dict, const Fields& fields);
    void make_segment(SnapshotValue& dict, const Fields& fields);
    void make_annotation(SnapshotValue& dict, const Fields& fields);
    void make_settings(SnapshotValue& dict, const Fields& fields);
    void make_divisions(SnapshotValue& dict, const Fields& fields);
    void make_snapshot(SnapshotValue& dict, const Fields& fields);

    void extend_stack(SnapshotValue& list, std::size_t first);
    void extend_events(SnapshotValue& list, std::size_t first);
    [[nodiscard]] StackId stack_of(const SnapshotValue* frames) const;
    TraceDevice& device(Trace& trace, std::int64_t number) const;

    TraceStacks stacks_;
    ValueStack stack_;
    std::vector<std::uint32_t> marks_;
    Memo memo_;
    StackRuns stack_runs_;

    // Values by kind. Events, blocks, segments and annotations wait here until their list takes them.
    std::vector<std::pair<std::int64_t, std::int64_t>> pairs_;
    std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> pair_index_;
    std::vector<TraceEvent> waiting_events_;
    std::size_t taken_events_ = 0;
    std::vector<TraceEvents> event_logs_;
    std::vector<std::vector<std::uint32_t>> event_lists_;   ///< logs by device, plus one; 0: empty
    std::vector<TraceBlock> waiting_blocks_;
    std::size_t taken_blocks_ = 0;
    std::vector<std::vector<TraceBlock>> blocks_;
    std::vector<std::pair<std::int64_t, TraceSegment>> segments_;   ///< with their device
    std::vector<TraceMarker> annotations_;
    std::vector<bool> annotation_ends_;
    std::vector<AllocatorSettings> settings_;
    std::vector<std::array<std::int64_t, 16>> divisions_;
    std::vector<std::uint32_t> frames_;    ///< scratch
    std::optional<std::size_t> event_lists_of_top_, settings_of_top_;
    bool has_top_ = false;
};

}  // namespace membudget
