// Texts, frames and stacks of a trace, each distinct one once.

#include <algorithm>
#include <cstring>

#include "membudget/trace.hpp"
#include "trace/interner.hpp"

namespace membudget {

namespace {

std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = text.size() * 0x9E3779B97F4A7C15ULL;
    while (text.size() >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data(), 8);
        hash = mixed(hash ^ word);
        text.remove_prefix(8);
    }
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), text.size());
    return mixed(hash ^ word);
}

std::uint64_t hash_of(const TraceFrame& frame) {
    const std::uint64_t names = (std::uint64_t{frame.file} << 32U) | frame.function;
    return mixed(names ^ mixed(static_cast<std::uint64_t>(frame.line)));
}

/// Multiply and rotate per frame: a stack of fifty is hashed for most events of a large file.
std::uint64_t hash_of(std::span<const std::uint32_t> frames) {
    std::uint64_t hash = frames.size();
    for (const std::uint32_t frame : frames)
        hash = (((hash << 5U) | (hash >> 59U)) ^ frame) * 0x517cc1b727220a95ULL;
    return mixed(hash);
}

/// Texts one after the other in chunks that never move.
class TextArena {
public:
    std::string_view keep(std::string_view text) {
        if (chunks_.empty() || kChunk - used_ < text.size()) {
            chunks_.push_back(std::make_unique<char[]>(std::max(kChunk, text.size())));
            used_ = 0;
        }
        char* to = chunks_.back().get() + used_;
        std::copy(text.begin(), text.end(), to);
        used_ = std::min(kChunk, used_ + text.size());
        return {to, text.size()};
    }

private:
    static constexpr std::size_t kChunk = 32768;
    std::vector<std::unique_ptr<char[]>> chunks_;
    std::size_t used_ = 0;
};

}  // namespace

struct TraceStacks::Tables {
    TextArena arena;
    std::vector<std::string_view> texts;
    std::size_t text_bytes = 0;
    std::vector<TraceFrame> frames;
    std::vector<std::uint32_t> frame_lists;      ///< of all stacks, one after the other
    std::vector<std::uint32_t> ends{0};          ///< where each stack ends in it
    Interner text_index, frame_index, stack_index;

    [[nodiscard]] std::span<const std::uint32_t> stack(std::uint32_t id) const {
        const std::uint32_t begin = id == 0 ? 0 : ends[id - 1];
        return std::span(frame_lists).subspan(begin, ends[id] - begin);
    }
};

TraceStacks::TraceStacks() : tables_(std::make_unique<Tables>()) { text(""); }
TraceStacks::~TraceStacks() = default;
TraceStacks::TraceStacks(TraceStacks&&) noexcept = default;
TraceStacks& TraceStacks::operator=(TraceStacks&&) noexcept = default;

TextId TraceStacks::text(std::string_view text) {
    Tables& t = *tables_;
    return t.text_index.intern(
        hash_of(text), [&](std::uint32_t id) { return t.texts[id] == text; },
        [&] {
            t.texts.push_back(t.arena.keep(text));
            t.text_bytes += text.size();
            return static_cast<std::uint32_t>(t.texts.size() - 1);
        },
        [&](std::uint32_t id) { return hash_of(t.texts[id]); });
}

std::uint32_t TraceStacks::frame(const TraceFrame& frame) {
    Tables& t = *tables_;
    return t.frame_index.intern(
        hash_of(frame), [&](std::uint32_t id) { return t.frames[id] == frame; },
        [&] {
            t.frames.push_back(frame);
            return static_cast<std::uint32_t>(t.frames.size() - 1);
        },
        [&](std::uint32_t id) { return hash_of(t.frames[id]); });
}

StackId TraceStacks::stack(std::span<const std::uint32_t> frames) {
    if (frames.empty()) return 0;
    Tables& t = *tables_;
    return t.stack_index.intern(
        hash_of(frames),
        [&](std::uint32_t id) { return std::ranges::equal(t.stack(id), frames); },
        [&] {
            t.frame_lists.insert(t.frame_lists.end(), frames.begin(), frames.end());
            t.ends.push_back(static_cast<std::uint32_t>(t.frame_lists.size()));
            return static_cast<std::uint32_t>(t.ends.size() - 1);
        },
        [&](std::uint32_t id) { return hash_of(t.stack(id)); });
}

std::string_view TraceStacks::text_of(TextId id) const { return tables_->texts[id]; }
const TraceFrame& TraceStacks::frame_at(std::uint32_t index) const { return tables_->frames[index]; }
std::span<const std::uint32_t> TraceStacks::frames_of(StackId id) const { return tables_->stack(id); }
std::size_t TraceStacks::size() const { return tables_->ends.size(); }
std::size_t TraceStacks::text_bytes() const { return tables_->text_bytes; }

}  // namespace membudget
