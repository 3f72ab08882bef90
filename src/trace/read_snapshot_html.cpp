// Web pages of the memory viewer. Since PyTorch 2.1 they carry the snapshot itself, in base64
// [torch/cuda/_memory_viz.py _format_viz]; before, what the page draws, as JSON:
//
//     let alloc_data = {"actions": [0, 1, 0, ...],          an element comes, or goes when it is there
//                       "elements_size": [bytes, ...], "elements_info": [suffix, ...],
//                       "suffix_table": [[string, rest or null], ...], "string_table": ["a.py:7:f", ...],
//                       "initially_allocated": [element, ...], ...}

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "membudget/quantity.hpp"
#include "trace/log_readers.hpp"
#include "trace/log_text.hpp"
#include "trace/readers.hpp"
#include "trace/snapshot_builder.hpp"

namespace membudget {

namespace {

constexpr std::string_view kPacked = "\"base64\":";
constexpr std::string_view kDrawn = "let alloc_data =";
constexpr std::size_t kMostDrawn = std::size_t{64} << 20;   ///< bytes of such a page
constexpr std::size_t kDeepestStack = 1024;
constexpr std::size_t kMostFrames = std::size_t{1} << 24;   ///< of all stacks together

/// What stands in base64 after the first `skipped` bytes of a page, up to the quote.
class Base64Source final : public ByteSource {
public:
    Base64Source(TraceInput& page, std::size_t skipped) : page_(page), skipped_(skipped) {}

    [[nodiscard]] std::string_view next() override {
        out_.clear();
        while (out_.empty() && !done_) {
            std::string_view more = page_.next();
            if (more.empty()) {
                error_ = page_.error().empty() ? "the file ends early" : page_.error();
                done_ = true;
            }
            const std::size_t skip = std::min(skipped_, more.size());
            skipped_ -= skip;
            more.remove_prefix(skip);
            for (std::size_t i = 0; i < more.size() && !done_; ++i) add(more[i]);
        }
        return out_;
    }
    [[nodiscard]] const std::string& error() const override { return error_; }

private:
    static constexpr std::uint8_t kNoDigit = 64;
    static constexpr auto kDigits = [] {
        std::array<std::uint8_t, 256> digits{};
        digits.fill(kNoDigit);
        std::uint8_t next = 0;
        for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"))
            digits[static_cast<unsigned char>(c)] = next++;
        return digits;
    }();

    void add(char c) {
        const std::uint8_t digit = kDigits[static_cast<unsigned char>(c)];
        if (digit == kNoDigit) {
            // The text ends at its padding or at the quote.
            done_ = true;
            if (c != '"' && c != '=') error_ = "the snapshot in the page is no base64";
            return;
        }
        bits_ = (bits_ << 6U) | digit;
        count_ += 6;
        if (count_ < 8) return;
        count_ -= 8;
        out_ += static_cast<char>((bits_ >> count_) & 0xFFU);
    }

    TraceInput& page_;
    std::size_t skipped_;
    std::uint32_t bits_ = 0;
    unsigned count_ = 0;       ///< of `bits_`, how many are still to be given out
    bool done_ = false;
    std::string out_, error_;
};

/// Reads the figures that an older page draws.
class DrawnPage {
public:
    explicit DrawnPage(const nlohmann::json& page) : page_(page) {}

    Trace read() {
        sizes_ = &array("elements_size");
        infos_ = &array("elements_info");
        suffixes_ = &array("suffix_table");
        texts_ = &array("string_table");
        live_.assign(sizes_->size(), false);
        stacks_.assign(suffixes_->size(), kUnread);
        Trace out;
        TraceDevice& device = out.devices.emplace_back();
        for (const char* key : {"initially_allocated", "actions"})
            for (const nlohmann::json& element : array(key)) toggle(index(element, sizes_->size()), out, device);
        out.notes.emplace_back(
            "a page of the memory viewer before PyTorch 2.1: what lived before it was recorded comes first, and "
            "neither reserved memory nor free blocks are in it");
        return out;
    }

private:
    static constexpr StackId kUnread = 0xFFFFFFFF;

    const nlohmann::json& array(const char* key) const {
        const auto at = page_.find(key);
        if (at == page_.end() || !at->is_array()) throw SnapshotError(fmt::format("{}: expected a list", key));
        return *at;
    }
    static std::size_t index(const nlohmann::json& value, std::size_t size) {
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= size)
            throw SnapshotError("a number that refers to nothing");
        return value.get<std::size_t>();
    }

    void toggle(std::size_t element, Trace& out, TraceDevice& device) {
        const nlohmann::json& size = (*sizes_)[element];
        if (!size.is_number_unsigned() || size.get<std::uint64_t>() > static_cast<std::uint64_t>(kLargestBytes))
            throw SnapshotError("elements_size: expected numbers of bytes");
        TraceEvent event;
        event.action = live_[element] ? TraceAction::free_completed : TraceAction::alloc;
        event.size = size.get<std::int64_t>();
        // The page knows no addresses: any number that pairs the two.
        event.address = (std::uint64_t{1} << 40U) + 512 * element;
        if (!live_[element] && element < infos_->size() && !(*infos_)[element].is_null())
            event.stack = stack(index((*infos_)[element], suffixes_->size()), out.stacks);
        live_[element] = !live_[element];
        device.events.push_back(event);
    }

    /// The frames from `suffix` on, innermost first.
    StackId stack(std::size_t suffix, TraceStacks& into) {
        if (stacks_[suffix] != kUnread) return stacks_[suffix];
        std::vector<std::uint32_t> frames;
        for (std::optional<std::size_t> at = suffix; at && frames.size() < kDeepestStack;) {
            const nlohmann::json& entry = (*suffixes_)[*at];
            if (!entry.is_array() || entry.size() != 2) throw SnapshotError("suffix_table: expected pairs");
            frames.push_back(frame(index(entry[0], texts_->size()), into));
            at = entry[1].is_null() ? std::nullopt : std::optional(index(entry[1], suffixes_->size()));
        }
        frames_ += frames.size();
        if (frames_ > kMostFrames) throw SnapshotError("holds more frames than any page");
        return stacks_[suffix] = into.stack(frames);
    }

    /// "file:line:function".
    std::uint32_t frame(std::size_t text, TraceStacks& into) const {
        if (!(*texts_)[text].is_string()) throw SnapshotError("string_table: expected texts");
        const std::string_view whole = (*texts_)[text].get_ref<const std::string&>();
        TraceFrame out;
        const std::size_t last = whole.rfind(':');
        const std::size_t before = last == std::string_view::npos || last == 0 ? last : whole.rfind(':', last - 1);
        if (before == std::string_view::npos || last == std::string_view::npos || before >= last) {
            out.function = into.text(whole);
            return into.frame(out);
        }
        out.file = into.text(whole.substr(0, before));
        out.function = into.text(whole.substr(last + 1));
        std::from_chars(whole.data() + before + 1, whole.data() + last, out.line);
        return into.frame(out);
    }

    const nlohmann::json& page_;
    const nlohmann::json *sizes_ = nullptr, *infos_ = nullptr, *suffixes_ = nullptr, *texts_ = nullptr;
    std::vector<bool> live_;
    std::vector<StackId> stacks_;   ///< by suffix
    std::size_t frames_ = 0;
};

Result<Trace> read_drawn(TraceInput& input) {
    const auto text = input.read_all(kMostDrawn);
    if (!text) return text.errors();
    std::string_view json = *text;
    json.remove_prefix(std::min(json.size(), json.find(kDrawn) + kDrawn.size()));
    const auto page = nlohmann::json::parse(trace::take_line(json), nullptr, false);
    if (!page.is_object())
        return trace::refuse(input, "expected a page of the memory viewer; its data is no JSON object on one line");
    try {
        return DrawnPage(page).read();
    } catch (const SnapshotError& why) {
        return trace::refuse(input, fmt::format("alloc_data: {}", why.what()));
    }
}

}  // namespace

bool recognise_snapshot_html(std::string_view head) {
    if (head.find("<html") == std::string_view::npos) return false;
    return (head.find("add_local_files") != std::string_view::npos && head.find(kPacked) != std::string_view::npos) ||
           head.find(kDrawn) != std::string_view::npos;
}

Result<Trace> read_snapshot_html(TraceInput& input) {
    const std::string_view head = input.head();
    const std::size_t key = head.find(kPacked);
    if (key == std::string_view::npos) return read_drawn(input);
    const std::size_t quote = head.find('"', key + kPacked.size());
    if (quote == std::string_view::npos) return trace::refuse(input, "expected a snapshot in base64 after its key");
    TraceInput snapshot(input.name(), std::make_unique<Base64Source>(input, quote + 1));
    if (recognise_snapshot_pickle(snapshot.head())) return read_snapshot_pickle(snapshot);
    if (recognise_snapshot_json(snapshot.head())) return read_snapshot_json(snapshot);
    return trace::refuse(input, snapshot.error().empty()
                                    ? "expected a memory snapshot in base64; what the page holds is none"
                                    : snapshot.error());
}

}  // namespace membudget
