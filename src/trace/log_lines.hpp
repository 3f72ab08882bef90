#pragma once

/// Lines by which training programs report memory: one row each.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/support.hpp"
#include "membudget/trace.hpp"

namespace membudget::trace {

/// What the lines read so far come to.
class LogState {
public:
    /// The series of `name`, made when it is new.
    TraceSeries& series(const std::string& name, int device = 0);
    /// Says once what a reader of the figures should know.
    void note(std::string_view text);

    std::string label;                     ///< last line that names the moment of the next figures
    std::optional<std::int64_t> step;      ///< last step that a line named
    std::optional<std::int64_t> base;      ///< Trainer: allocated so far, by adding up differences
    std::vector<TraceSeries> all;
    std::vector<std::string> notes;

private:
    std::map<std::string, std::size_t> index_;
};

struct LogLine {
    std::string_view name;     ///< "megatron"
    std::string_view doc;      ///< what its figures are
    std::string_view anchor;   ///< a text that only lines of this kind hold
    void (*read)(std::string_view line, LogState& into) = nullptr;
    std::string_view source;   ///< where the line is printed
};
[[nodiscard]] Table<LogLine> log_lines();

}  // namespace membudget::trace
