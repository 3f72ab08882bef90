// The dicts of a snapshot: known by their keys, read into what they are.

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "trace/snapshot_builder.hpp"
#include "trace/snapshot_words.hpp"

namespace membudget {

// --- fields of a dict ----------------------------------------------------------------------------

struct SnapshotBuilder::Fields {
    std::array<SnapshotValue, kWordCount> values;
    std::uint64_t present = 0;

    static_assert(kWordCount <= 64, "one bit per word");

    [[nodiscard]] bool has(Word word) const {
        return ((present >> static_cast<unsigned>(word)) & 1U) != 0;
    }
    [[nodiscard]] const SnapshotValue* find(Word word) const {
        return has(word) ? &values[static_cast<std::size_t>(word)] : nullptr;
    }
    [[nodiscard]] const SnapshotValue& at(Word word) const {
        const SnapshotValue* value = find(word);
        if (value == nullptr)
            throw SnapshotError(fmt::format("{}: missing", kWords[static_cast<std::size_t>(word)]));
        return *value;
    }

    /// An integer of either sign; `otherwise` when the key is absent or None.
    [[nodiscard]] std::int64_t integer(Word word, std::optional<std::int64_t> otherwise = {}) const {
        const SnapshotValue* value = find(word);
        if (otherwise && (value == nullptr || value->kind == ValueKind::none)) return *otherwise;
        if (value == nullptr) value = &at(word);
        if (value->kind != ValueKind::integer)
            unexpected(name(word), "an integer below 2^63", *value);
        return static_cast<std::int64_t>(value->data);
    }
    /// A size: below 2^53, so that sums of any number of them stay exact.
    [[nodiscard]] std::int64_t size(Word word, std::optional<std::int64_t> otherwise = {}) const {
        const std::int64_t value = integer(word, otherwise);
        if (value < 0 || value > kLargestBytes)
            throw SnapshotError(fmt::format("{}: expected a number of bytes; got {}", name(word), value));
        return value;
    }
    /// Addresses and streams may have their highest bit set.
    [[nodiscard]] std::uint64_t unsigned_integer(Word word,
                                                 std::optional<std::uint64_t> otherwise = {}) const {
        const SnapshotValue* value = find(word);
        if (otherwise && value == nullptr) return *otherwise;
        if (value == nullptr) value = &at(word);
        if (value->kind != ValueKind::integer && value->kind != ValueKind::unsigned_integer)
            unexpected(name(word), "an integer below 2^64", *value);
        return value->data;
    }
    [[nodiscard]] TextId text(Word word) const {
        const SnapshotValue& value = at(word);
        if (value.kind != ValueKind::text) unexpected(name(word), "a text", value);
        return static_cast<TextId>(value.data);
    }
    [[nodiscard]] bool boolean(Word word) const {
        const SnapshotValue* value = find(word);
        if (value == nullptr) return false;
        if (value->kind != ValueKind::boolean) unexpected(name(word), "true or false", *value);
        return value->data != 0;
    }

    static std::string_view name(Word word) { return kWords[static_cast<std::size_t>(word)]; }
};

// --- dicts ---------------------------------------------------------------------------------------

void SnapshotBuilder::set_items() {
    const std::size_t first = pop_mark();
    fill(container(first), first);
    stack_.shrink(first);
}

void SnapshotBuilder::set_item() {
    if (above_mark() < 3) throw SnapshotError("adds items to nothing");
    const std::size_t first = stack_.size() - 2;
    fill(container(first), first);
    stack_.shrink(first);
}

void SnapshotBuilder::fill(SnapshotValue& dict, std::size_t first) {
    if ((stack_.size() - first) % 2 != 0) throw SnapshotError("a key has no value");
    if (dict.kind == ValueKind::other) return;
    if (dict.kind != ValueKind::empty_dict) throw SnapshotError("adds keys to what is no dict");
    Fields fields;  // `values` stay uninitialised where `present` has no bit
    for (std::size_t i = first; i < stack_.size(); i += 2) {
        const SnapshotValue& key = stack_[i];
        if (key.kind != ValueKind::text) unexpected("a key", "a text", key);
        const std::uint64_t word = key.data - 1;  // text 0 is empty
        if (word >= kWordCount) continue;
        fields.values[word] = stack_[i + 1];
        fields.present |= std::uint64_t{1} << word;
    }
    if (fields.has(Word::action)) return make_event(dict, fields);
    if (fields.has(Word::filename)) return make_frame(dict, fields);
    if (fields.has(Word::total_size)) return make_segment(dict, fields);
    if (fields.has(Word::state)) return make_block(dict, fields);
    if (fields.has(Word::real_size))  // a block's history, before 2.1: its last stack is the block's
        return become(dict, ValueKind::stack, stack_of(fields.find(Word::frames)));
    if (fields.has(Word::stage)) return make_annotation(dict, fields);
    if (fields.has(Word::segments)) return make_snapshot(dict, fields);
    if (fields.has(Word::max_split_size) || fields.has(Word::expandable_segments))
        return make_settings(dict, fields);
    if (fields.has(Word::w1) && fields.has(Word::w32768)) return make_divisions(dict, fields);
    become(dict, ValueKind::other, 0);
}

StackId SnapshotBuilder::stack_of(const SnapshotValue* frames) const {
    if (frames == nullptr || frames->kind != ValueKind::stack) return 0;
    return static_cast<StackId>(frames->data);
}

void SnapshotBuilder::make_event(SnapshotValue& dict, const Fields& fields) {
    TraceEvent event;
    const auto action = fields.text(Word::action) - 1;
    const auto first = static_cast<std::size_t>(Word::alloc);
    const std::size_t index = action - first;
    if (action < first || index > static_cast<std::size_t>(TraceAction::oom))
        // Marks of the user and what later versions add are no memory.
        return become(dict, ValueKind::other, 0);
    event.action = static_cast<TraceAction>(index);
    event.size = fields.size(Word::size);
    event.address = event.action == TraceAction::oom
                        ? fields.unsigned_integer(Word::device_free, fields.unsigned_integer(Word::addr, 0))
                        : fields.unsigned_integer(Word::addr, 0);
    event.stream = fields.unsigned_integer(Word::stream, 0);
    event.time_us = std::max<std::int64_t>(-1, fields.integer(Word::time_us, -1));
    event.stack = stack_of(fields.find(Word::frames));
    if (waiting_events_.size() >= kMaxWaiting) throw SnapshotError("events belong to no list");
    waiting_events_.push_back(event);
    become(dict, ValueKind::event, waiting_events_.size() - 1);
}

void SnapshotBuilder::make_frame(SnapshotValue& dict, const Fields& fields) {
    TraceFrame frame;
    frame.file = fields.text(Word::filename);
    frame.function = fields.text(Word::name);
    // Generated code has lines such as 2^64 - 1.
    frame.line = static_cast<std::int64_t>(fields.unsigned_integer(Word::line, 0));
    const std::uint32_t index = stacks_.frame(frame);
    if (index > kMaxSmallThings) throw SnapshotError("holds more frames than any snapshot");
    become(dict, ValueKind::frame, index);
}

void SnapshotBuilder::make_block(SnapshotValue& dict, const Fields& fields) {
    TraceBlock block;
    block.address = fields.unsigned_integer(Word::address, 0);
    block.size = fields.size(Word::size);
    const TextId state = fields.text(Word::state);
    const auto is = [&](Word word) { return state == static_cast<TextId>(word) + 1; };
    block.state = is(Word::active_allocated)      ? BlockState::active
                  : is(Word::active_pending_free) ? BlockState::pending_free
                                                  : BlockState::inactive;
    // An inactive block keeps the request of whoever had it last.
    if (block.state != BlockState::inactive)
        block.requested = fields.size(Word::requested_size, block.size);
    block.stack = stack_of(fields.find(fields.has(Word::history) ? Word::history : Word::frames));
    if (waiting_blocks_.size() >= kMaxWaiting) throw SnapshotError("blocks belong to no list");
    waiting_blocks_.push_back(block);
    become(dict, ValueKind::block, waiting_blocks_.size() - 1);
}

void SnapshotBuilder::make_segment(SnapshotValue& dict, const Fields& fields) {
    TraceSegment segment;
    segment.address = fields.unsigned_integer(Word::address);
    segment.size = fields.size(Word::total_size);
    segment.stream = fields.unsigned_integer(Word::stream, 0);
    segment.large = fields.has(Word::segment_type) &&
                    fields.text(Word::segment_type) == static_cast<TextId>(Word::large) + 1;
    segment.expandable = fields.boolean(Word::is_expandable);
    segment.stack = stack_of(fields.find(Word::frames));
    const SnapshotValue* pool = fields.find(Word::segment_pool_id);
    if (pool != nullptr && pool->kind == ValueKind::pair)
        std::tie(segment.pool_owner, segment.pool_id) = pairs_[pool->data];
    const SnapshotValue* blocks = fields.find(Word::blocks);
    if (blocks != nullptr && blocks->kind == ValueKind::blocks)
        segment.blocks = std::exchange(blocks_[blocks->data], {});
    else if (blocks != nullptr && blocks->kind != ValueKind::empty_list)
        unexpected("blocks", "a list of blocks", *blocks);

    // Before 2.1 blocks had no address: they follow one another.
    std::uint64_t next = segment.address;
    for (TraceBlock& block : segment.blocks) {
        if (block.address == 0) block.address = next;
        next = block.address + static_cast<std::uint64_t>(block.size);
    }
    const std::int64_t number = fields.integer(Word::device, 0);
    if (number < -1 || number >= kMaxDevices)
        throw SnapshotError(fmt::format("device: expected a number below {}; got {}", kMaxDevices, number));
    if (segments_.size() >= kMaxSmallThings) throw SnapshotError("holds more segments than any snapshot");
    segments_.emplace_back(number, std::move(segment));
    become(dict, ValueKind::segment, segments_.size() - 1);
}

void SnapshotBuilder::make_annotation(SnapshotValue& dict, const Fields& fields) {
    TraceMarker marker;
    marker.name = stacks_.text_of(fields.text(Word::name));
    marker.device = static_cast<int>(std::clamp<std::int64_t>(fields.integer(Word::device, -1), -1, kMaxDevices));
    marker.begin_us = marker.end_us = fields.integer(Word::time_us, 0);
    if (annotations_.size() >= kMaxSmallThings) throw SnapshotError("holds more annotations than any snapshot");
    annotations_.push_back(std::move(marker));
    annotation_ends_.push_back(fields.text(Word::stage) == static_cast<TextId>(Word::END) + 1);
    become(dict, ValueKind::annotation, annotations_.size() - 1);
}

void SnapshotBuilder::make_divisions(SnapshotValue& dict, const Fields& fields) {
    std::array<std::int64_t, 16> out{};
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = std::clamp<std::int64_t>(
            fields.integer(static_cast<Word>(static_cast<std::size_t>(Word::w1) + i), 0), 0, 1 << 20);
    if (divisions_.size() >= kMaxWaiting) throw SnapshotError("holds more settings than any snapshot");
    divisions_.push_back(out);
    become(dict, ValueKind::divisions, divisions_.size() - 1);
}

void SnapshotBuilder::make_settings(SnapshotValue& dict, const Fields& fields) {
    AllocatorSettings out;
    out.expandable_segments = fields.boolean(Word::expandable_segments);
    const std::int64_t split = fields.integer(Word::max_split_size, -1);
    if (split >= 0) out.max_split_size = split;
    if (const SnapshotValue* gc = fields.find(Word::garbage_collection_threshold);
        gc != nullptr && gc->kind == ValueKind::real)
        out.garbage_collection_threshold = std::bit_cast<double>(gc->data);
    if (const SnapshotValue* divisions = fields.find(Word::roundup_power2_divisions);
        divisions != nullptr && divisions->kind == ValueKind::divisions)
        out.roundup_power2_divisions = divisions_[divisions->data];
    if (settings_.size() >= kMaxWaiting) throw SnapshotError("holds more settings than any snapshot");
    settings_.push_back(out);
    become(dict, ValueKind::settings, settings_.size() - 1);
}

void SnapshotBuilder::make_snapshot(SnapshotValue& dict, const Fields& fields) {
    const SnapshotValue& segments = fields.at(Word::segments);
    if (segments.kind != ValueKind::segments && segments.kind != ValueKind::empty_list)
        unexpected("segments", "a list of segments", segments);
    if (const SnapshotValue* traces = fields.find(Word::device_traces);
        traces != nullptr && traces->kind != ValueKind::empty_list) {
        if (traces->kind != ValueKind::event_lists)
            unexpected("device_traces", "a list of events per device", *traces);
        event_lists_of_top_ = traces->data;
    }
    if (const SnapshotValue* settings = fields.find(Word::allocator_settings);
        settings != nullptr && settings->kind == ValueKind::settings)
        settings_of_top_ = settings->data;
    has_top_ = true;
    become(dict, ValueKind::snapshot, 0);
}

}  // namespace membudget
