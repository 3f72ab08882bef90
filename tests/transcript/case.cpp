#include "transcript/case.hpp"

#include <charconv>
#include <optional>
#include <stdexcept>
#include <utility>

#include "transcript/text.hpp"

namespace transcript {
namespace {


constexpr std::string_view kNoNewline = "\\ no newline at end";

/// NAME of `==> NAME <==`.
std::optional<std::string> input_name(std::string_view line) {
    constexpr std::string_view before = "==> ";
    constexpr std::string_view after = " <==";
    if (!line.starts_with(before) || !line.ends_with(after) ||
        line.size() <= before.size() + after.size())
        return std::nullopt;
    line.remove_prefix(before.size());
    line.remove_suffix(after.size());
    return std::string(line);
}

bool starts_step(std::string_view line) { return line.starts_with("$ ") || input_name(line); }

bool is_error_line(std::string_view line) { return line == "2>" || line.starts_with("2> "); }

bool is_exit_line(std::string_view line) { return line.starts_with("-> "); }

bool needs_backslash(std::string_view line) {
    return starts_step(line) || is_error_line(line) || is_exit_line(line) || line.starts_with("\\");
}

/// Appends one line of a content; `kNoNewline` takes the end of the line before it away.
void decode(std::string_view line, std::string& content, const std::string& where) {
    if (line == kNoNewline) {
        if (!content.ends_with('\n')) throw std::runtime_error(where + "no line stands above");
        content.pop_back();
        return;
    }
    if (line.starts_with("\\")) line.remove_prefix(1);
    content.append(line).push_back('\n');
}

std::vector<std::string> encode(std::string_view content) {
    auto lines = lines_of(content);
    for (std::string& line : lines)
        if (needs_backslash(line)) line.insert(0, "\\");
    if (!content.empty() && !content.ends_with('\n')) lines.emplace_back(kNoNewline);
    return lines;
}

int parse_exit(std::string_view text, const std::string& where) {
    int exit = 0;
    const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), exit);
    if (trouble != std::errc{} || end != text.data() + text.size() || exit <= 0)
        throw std::runtime_error(where + "expected a positive exit code after '-> '");
    return exit;
}

/// Reads a case line by line.
class Parser {
public:
    explicit Parser(std::string_view text) : lines_(lines_of(text)) {}

    Case parse() {
        Case out;
        while (!at_end() && !starts_step(line())) out.comment.append(take()).push_back('\n');
        while (!at_end()) {
            if (auto name = input_name(line())) {
                take();
                out.steps.emplace_back(Input{std::move(*name), content()});
            } else {
                out.steps.emplace_back(command());
            }
        }
        if (out.steps.empty()) throw std::runtime_error("no command");
        return out;
    }

private:
    [[nodiscard]] bool at_end() const { return next_ == lines_.size(); }
    [[nodiscard]] const std::string& line() const { return lines_[next_]; }
    const std::string& take() { return lines_[next_++]; }
    [[nodiscard]] std::string where() const { return "line " + std::to_string(next_ + 1) + ": "; }

    /// True at the end of a step; skips the empty line that may stand before the next one.
    bool step_ends() {
        if (!at_end() && line().empty() && next_ + 1 < lines_.size() &&
            starts_step(lines_[next_ + 1]))
            ++next_;
        return at_end() || starts_step(line());
    }

    std::string content() {
        std::string out;
        while (!step_ends()) {
            const std::string here = where();
            decode(take(), out, here);
        }
        return out;
    }

    Command command() {
        Command out{next_ + 1, take().substr(2), {}};
        while (out.text.ends_with('\\') && !at_end()) out.text.append("\n").append(take());
        while (!step_ends()) {
            const std::string here = where();
            const std::string& text = take();
            if (out.outcome.exit != 0)
                throw std::runtime_error(here + "nothing may follow the exit code");
            if (is_exit_line(text))
                out.outcome.exit = parse_exit(std::string_view(text).substr(3), here);
            else if (is_error_line(text))
                decode(text.size() > 3 ? text.substr(3) : "", out.outcome.err, here);
            else
                decode(text, out.outcome.out, here);
        }
        return out;
    }

    std::vector<std::string> lines_;
    std::size_t next_ = 0;
};

}  // namespace

Case parse_case(std::string_view text) { return Parser(text).parse(); }

std::vector<std::string> render_outcome(const Outcome& outcome) {
    auto out = encode(outcome.out);
    for (const std::string& line : encode(outcome.err))
        out.push_back(line.empty() ? "2>" : "2> " + line);
    if (outcome.exit != 0) out.push_back("-> " + std::to_string(outcome.exit));
    return out;
}

std::string render_case(const Case& a_case) {
    std::string out = a_case.comment;
    bool first = true;
    for (const auto& step : a_case.steps) {
        if (!std::exchange(first, false)) out.push_back('\n');
        if (const auto* input = std::get_if<Input>(&step)) {
            out.append("==> ").append(input->name).append(" <==\n");
            out.append(joined(encode(input->content)));
        } else {
            const auto& command = std::get<Command>(step);
            out.append("$ ").append(command.text).append("\n");
            out.append(joined(render_outcome(command.outcome)));
        }
    }
    return out;
}

}  // namespace transcript
