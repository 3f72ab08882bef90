#pragma once

/// How far the reading of a large file has come, on a terminal.

#include <chrono>
#include <functional>
#include <string>

#include "membudget/cli.hpp"
#include "membudget/diagnosis.hpp"
#include "membudget/trace.hpp"

namespace membudget::cli {

/// One line that is written over; it appears after a second and is wiped at the end, so that a short
/// wait shows nothing and a log keeps nothing.
class ProgressBar {
public:
    using Clock = std::function<std::chrono::steady_clock::time_point()>;

    ProgressBar(const Streams& streams, std::string name,
                Clock clock = std::chrono::steady_clock::now);
    ~ProgressBar();
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    /// For `read_trace_file`; refers to this bar. Empty where there is no terminal.
    [[nodiscard]] TraceProgress callback();

private:
    void show(std::uint64_t done, std::uint64_t total);

    const Streams& streams_;
    std::string name_;
    Clock clock_;
    std::chrono::steady_clock::time_point next_;
    bool shown_ = false;
};

/// A measured run: the file is read, its progress shown, and summarised.
[[nodiscard]] Result<TraceSummary> summary_of_file(const std::string& file, const Streams& streams);

}  // namespace membudget::cli
