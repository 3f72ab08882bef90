#include "cli/progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "membudget/quantity.hpp"

namespace membudget::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 1s;
constexpr auto kInterval = 100ms;
constexpr int kCells = 24;

std::string figure(std::uint64_t bytes) {
    return format_bytes(Bytes(static_cast<std::int64_t>(bytes)), Units::decimal);
}

}  // namespace

ProgressBar::ProgressBar(const Streams& streams, std::string name, Clock clock)
    : streams_(streams), name_(std::move(name)), clock_(std::move(clock)), next_(clock_() + kPatience) {
    if (has_control_characters(name_)) name_ = in_quotes(name_, name_.size());
}

ProgressBar::~ProgressBar() {
    if (shown_) streams_.talk("\r\x1b[K");
}

TraceProgress ProgressBar::callback() {
    if (!streams_.talk) return {};
    return [this](std::uint64_t done, std::uint64_t total) { show(done, total); };
}

void ProgressBar::show(std::uint64_t done, std::uint64_t total) {
    const auto now = clock_();
    if (now < next_) return;
    next_ = now + kInterval;
    std::string text;
    if (total == 0) {
        text = fmt::format("{} read", figure(done));
    } else {
        const std::uint64_t part = std::min(done, total);
        const auto filled = static_cast<int>(part * kCells / total);
        text = fmt::format("[{:#<{}}{:.<{}}] {:3} % of {}", "", filled, "", kCells - filled, part * 100 / total,
                           figure(total));
    }
    // Never wider than the terminal: a line that wraps cannot be written over.
    const std::size_t room = static_cast<std::size_t>(streams_.width) - std::min<std::size_t>(text.size() + 2, 58);
    const std::string name = name_.size() <= room ? name_ : "..." + name_.substr(name_.size() - room + 3);
    streams_.talk(fmt::format("\r\x1b[K{} {}", name, text));
    shown_ = true;
}

Result<TraceSummary> summary_of_file(const std::string& file, const Streams& streams) {
    ProgressBar progress(streams, file);
    const auto trace = read_trace_file(file, progress.callback());
    if (!trace) return trace.errors();
    return summarise(*trace);
}

}  // namespace membudget::cli
