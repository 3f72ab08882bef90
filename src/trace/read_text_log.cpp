#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "trace/log_lines.hpp"
#include "trace/log_readers.hpp"
#include "trace/log_text.hpp"

namespace membudget::trace {
namespace {

/// Texts that an out-of-memory message holds. What they mean is decided elsewhere.
constexpr auto kMessageAnchors = std::to_array<std::string_view>({
    "out of memory",      "Out of memory",       "OutOfMemoryError", "RESOURCE_EXHAUSTED",
    "cudaMalloc retries", "would exceed allowed memory", "raises OOM",
    "hipErrorOutOfMemory", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY"});

bool speaks_of_memory_lack(std::string_view line) {
    return std::any_of(
        kMessageAnchors.begin(), kMessageAnchors.end(),
        [&](std::string_view anchor) { return line.find(anchor) != std::string_view::npos; });
}

/// The lines around messages, with the traceback before them and the statistics after.
class MessageCutter {
public:
    explicit MessageCutter(std::string_view text) : text_(text) {}

    void at(std::size_t position) {
        constexpr std::size_t kBefore = 8000, kAfter = 6000;
        const std::size_t begin = std::max(end_, position > kBefore ? position - kBefore : 0);
        const std::size_t end = std::min(text_.size(), position + kAfter);
        if (end <= end_) return;
        out_ += text_.substr(begin, end - begin);
        end_ = end;
    }
    [[nodiscard]] bool full() const { return out_.size() > (std::size_t{1} << 22); }
    [[nodiscard]] std::string take() { return std::move(out_); }

private:
    std::string_view text_;
    std::string out_;
    std::size_t end_ = 0;
};

/// "|   1039MiB /  24564MiB |": used and total in nvidia-smi's table, one row per device.
void read_smi_row(std::string_view line, LogState& into, int& devices) {
    const std::size_t slash = line.find("MiB /");
    if (slash == std::string_view::npos) return;
    std::size_t begin = slash;
    while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
    const auto used = number_at(line.substr(begin));
    const auto total = number_after(line, "MiB /");
    if (!used || !total || !total->rest.starts_with("MiB")) return;
    TraceSample sample;
    sample.device_used = bytes_of(used->value, kMiB);
    sample.device_total = bytes_of(total->value, kMiB);
    into.series(fmt::format("GPU {}", devices), devices).samples.push_back(std::move(sample));
    ++devices;
}

}  // namespace

Diagnostic refuse(const TraceInput& input, std::string message, std::string hint) {
    return {Trouble::invalid, input.name(), "", std::move(message), std::move(hint)};
}

bool recognise_text(std::string_view head) {
    if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) return true;
    return !head.empty() && head.find('\0') == std::string_view::npos;
}

Result<Trace> read_text_log(TraceInput& input) {
    auto read = input.read_all();
    if (!read) return read.errors();
    const std::string text = to_utf8(std::move(*read));

    LogState state;
    MessageCutter messages(text);
    bool smi = false;
    int devices = 0;
    std::string_view rest = text;
    while (!rest.empty()) {
        const std::size_t position = text.size() - rest.size();
        const std::string_view line = take_line(rest);
        for (const LogLine& row : log_lines())
            if (line.find(row.anchor) != std::string_view::npos) row.read(line, state);
        if (line.find("NVIDIA-SMI") != std::string_view::npos) {
            smi = true;
            devices = 0;
        }
        if (smi) read_smi_row(line, state, devices);
        if (!messages.full() && speaks_of_memory_lack(line)) messages.at(position);
    }
    Trace out;
    for (TraceSeries& series : state.all)
        if (!series.samples.empty()) out.series.push_back(std::move(series));
    std::stable_sort(out.series.begin(), out.series.end(), [](const auto& a, const auto& b) {
        return a.device < b.device;
    });
    out.notes = out.series.empty() ? std::vector<std::string>{} : std::move(state.notes);
    if (std::string message = messages.take(); !message.empty()) out.message = std::move(message);
    if (out.series.empty() && !out.message) {
        std::string kinds;
        for (const LogLine& row : log_lines())
            if (row.name != "iteration" && row.name != "figures")
                kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", row.name);
        return refuse(input,
                      "expected lines of memory figures or an out-of-memory message; found none",
                      fmt::format("lines of these are known: {}", kinds));
    }
    return out;
}

}  // namespace membudget::trace
