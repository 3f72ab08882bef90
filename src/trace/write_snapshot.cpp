// A trace as PyTorch's memory snapshot: the keys and values of torch/csrc/cuda/Module.cpp
// (THCPModule_memorySnapshot), as a pickle of protocol 4.

#include <array>
#include <bit>
#include <unordered_map>

#include <fmt/format.h>

#include "membudget/trace.hpp"

namespace membudget {

namespace {

/// Writes opcodes; what recurs is memoized.
class Pickler {
public:
    explicit Pickler(const TraceStacks& stacks) : stacks_(stacks) { out_ += "\x80\x04"; }

    std::string finish() {
        out_ += '.';
        return std::move(out_);
    }

    void begin_dict() { out_ += "}("; }
    void end_dict() { out_ += 'u'; }
    void begin_list() { out_ += "]("; }
    void end_list() { out_ += 'e'; }
    void key(std::string_view name) { text(name); }

    void text(std::string_view value) {
        const auto known = texts_.find(std::string(value));
        if (known != texts_.end()) return get(known->second);
        if (value.size() < 256) {
            out_ += '\x8c';
            out_ += static_cast<char>(value.size());
        } else {
            out_ += 'X';
            little_endian(value.size(), 4);
        }
        out_ += value;
        texts_.emplace(value, memoize());
    }
    void boolean(bool value) { out_ += value ? '\x88' : '\x89'; }
    void real(double value) {
        out_ += 'G';
        const auto bits = std::bit_cast<std::uint64_t>(value);
        for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift);
    }
    void integer(std::int64_t value) {
        if (value >= 0 && value < 256) {
            out_ += 'K';
            little_endian(static_cast<std::uint64_t>(value), 1);
        } else if (value >= INT32_MIN && value <= INT32_MAX) {
            out_ += 'J';
            little_endian(static_cast<std::uint64_t>(value), 4);
        } else {
            out_ += "\x8a\x08";
            little_endian(static_cast<std::uint64_t>(value), 8);
        }
    }
    void unsigned_integer(std::uint64_t value) {
        if (value <= static_cast<std::uint64_t>(INT64_MAX)) return integer(static_cast<std::int64_t>(value));
        out_ += "\x8a\x09";
        little_endian(value, 8);
        out_ += '\0';
    }
    void pair(std::int64_t a, std::int64_t b) {
        integer(a);
        integer(b);
        out_ += '\x86';
    }

    void field(std::string_view name, std::string_view value) { key(name), text(value); }
    void field(std::string_view name, std::int64_t value) { key(name), integer(value); }
    void address(std::string_view name, std::uint64_t value) { key(name), unsigned_integer(value); }
    void flag(std::string_view name, bool value) { key(name), boolean(value); }
    void frames(StackId id) {
        key("frames");
        const auto known = stack_memo_.find(id);
        if (known != stack_memo_.end()) return get(known->second);
        out_ += ']';
        stack_memo_.emplace(id, memoize());
        if (id == 0) return;
        out_ += '(';
        for (const std::uint32_t index : stacks_.frames_of(id)) frame(index);
        out_ += 'e';
    }

private:
    void frame(std::uint32_t index) {
        const auto known = frame_memo_.find(index);
        if (known != frame_memo_.end()) return get(known->second);
        const TraceFrame& frame = stacks_.frame_at(index);
        out_ += '}';
        frame_memo_.emplace(index, memoize());
        out_ += '(';
        field("name", stacks_.text_of(frame.function));
        field("filename", stacks_.text_of(frame.file));
        field("line", frame.line);
        out_ += 'u';
    }
    std::uint32_t memoize() {
        out_ += '\x94';
        return memo_++;
    }
    void get(std::uint32_t index) {
        if (index < 256) {
            out_ += 'h';
            little_endian(index, 1);
        } else {
            out_ += 'j';
            little_endian(index, 4);
        }
    }
    void little_endian(std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i));
    }

    const TraceStacks& stacks_;
    std::string out_;
    std::uint32_t memo_ = 0;
    std::unordered_map<std::string, std::uint32_t> texts_;
    std::unordered_map<StackId, std::uint32_t> stack_memo_;
    std::unordered_map<std::uint32_t, std::uint32_t> frame_memo_;
};

void write_segment(Pickler& out, const TraceSegment& segment, int device) {
    constexpr std::array<std::string_view, 3> kStates{"active_allocated", "active_pending_free", "inactive"};
    std::int64_t allocated = 0, active = 0, requested = 0;
    for (const TraceBlock& block : segment.blocks) {
        if (block.state == BlockState::inactive) continue;
        active += block.size;
        requested += block.requested;
        if (block.state == BlockState::active) allocated += block.size;
    }
    out.begin_dict();
    out.field("device", device);
    out.address("address", segment.address);
    out.field("total_size", segment.size);
    out.field("allocated_size", allocated);
    out.field("active_size", active);
    out.field("requested_size", requested);
    out.address("stream", segment.stream);
    out.field("segment_type", segment.large ? "large" : "small");
    out.key("segment_pool_id");
    out.pair(segment.pool_owner, segment.pool_id);
    out.flag("is_expandable", segment.expandable);
    out.frames(segment.stack);
    out.key("blocks");
    out.begin_list();
    for (const TraceBlock& block : segment.blocks) {
        out.begin_dict();
        out.address("address", block.address);
        out.field("size", block.size);
        out.field("requested_size", block.requested);
        out.field("state", kStates[static_cast<std::size_t>(block.state)]);
        out.frames(block.stack);
        out.end_dict();
    }
    out.end_list();
    out.end_dict();
}

void write_event(Pickler& out, const TraceEvent& event) {
    out.begin_dict();
    out.field("action", name_of(event.action));
    out.address(event.action == TraceAction::oom ? "device_free" : "addr", event.address);
    out.field("size", event.size);
    out.address("stream", event.stream);
    if (event.time_us >= 0) out.field("time_us", event.time_us);
    out.field("compile_context", "N/A");
    out.field("user_metadata", "");
    out.frames(event.stack);
    if (event.category != TraceCategory::unknown) out.field("category", name_of(event.category));
    out.end_dict();
}

void write_settings(Pickler& out, const AllocatorSettings& settings) {
    constexpr auto kNoSplitLimit = std::numeric_limits<std::int64_t>::max();
    out.begin_dict();
    out.field("PYTORCH_CUDA_ALLOC_CONF", "");
    out.field("max_split_size", settings.max_split_size == kNoSplitLimit ? -1 : settings.max_split_size);
    out.key("garbage_collection_threshold");
    out.real(settings.garbage_collection_threshold);
    out.flag("expandable_segments", settings.expandable_segments);
    out.key("roundup_power2_divisions");
    out.begin_dict();
    for (std::size_t i = 0; i < settings.roundup_power2_divisions.size(); ++i)
        out.field(std::to_string(1U << i), settings.roundup_power2_divisions[i]);
    out.end_dict();
    out.end_dict();
}

void write_markers(Pickler& out, const std::vector<TraceMarker>& markers) {
    out.begin_list();
    for (const TraceMarker& marker : markers)
        for (const bool end : {false, true}) {
            out.begin_dict();
            out.field("name", marker.name);
            out.field("stage", end ? "END" : "START");
            out.field("device", marker.device);
            out.field("time_us", end ? marker.end_us : marker.begin_us);
            out.end_dict();
        }
    out.end_list();
}

}  // namespace

std::string write_snapshot(const Trace& trace) {
    Pickler out(trace.stacks);
    out.begin_dict();
    out.key("segments");
    out.begin_list();
    for (const TraceDevice& device : trace.devices)
        for (const TraceSegment& segment : device.segments) write_segment(out, segment, device.device);
    out.end_list();
    out.key("device_traces");
    out.begin_list();
    int next = 0;
    for (const TraceDevice& device : trace.devices) {
        if (device.device < 0) continue;  // the host has no place in it
        for (; next < device.device; ++next) {
            out.begin_list();
            out.end_list();
        }
        out.begin_list();
        for (std::size_t i = 0; i < device.events.size(); ++i) write_event(out, device.events[i]);
        out.end_list();
        ++next;
    }
    out.end_list();
    out.key("allocator_settings");
    write_settings(out, trace.settings.value_or(AllocatorSettings{}));
    out.key("external_annotations");
    write_markers(out, trace.markers);
    out.end_dict();
    return out.finish();
}

}  // namespace membudget
