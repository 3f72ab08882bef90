#include "layering/rules.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transcript/text.hpp"

namespace layering {
namespace {

namespace fs = std::filesystem;

constexpr auto kParts = std::to_array<std::string_view>(
    {"support", "quantity", "spec", "model", "autograd", "stack", "job", "step", "allocator",
     "ledger", "scenario", "planner", "trace", "diagnosis", "membudget", "report", "cli"});

/// Parts that later work brings; their absence is no mistake.
constexpr auto kPlanned = std::to_array<std::string_view>({"planner"});

/// Which parts may include a library.
struct Library {
    std::string_view prefix;
    std::vector<std::string_view> parts;  ///< empty: every part
};

const std::vector<Library>& libraries() {
    static const std::vector<Library> rows = {
        {"fmt/", {}},
        {"nlohmann/", {"spec", "trace", "report"}},
        {"CLI/", {"cli"}},
        {"zlib.h", {"trace"}},
    };
    return rows;
}

/// What only `cli` may say.
constexpr auto kForbidden = std::to_array<std::string_view>(
    {"std::cout", "std::cerr", "std::clog", "printf(", "fprintf(", "puts(", "fputs(", "putchar(",
     "fmt::print(", "exit(", "_exit(", "quick_exit(", "abort(", "terminate("});

constexpr std::size_t kLongFile = 400;

template <class Range>
bool contains(const Range& range, std::string_view item) {
    return std::find(range.begin(), range.end(), item) != range.end();
}

std::ptrdiff_t rank(std::string_view part) {
    return std::find(kParts.begin(), kParts.end(), part) - kParts.begin();
}

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// `text` with comments and the insides of literals blanked; line breaks stay.
std::string code_of(std::string_view text) {
    std::string out(text);
    const auto blank = [&](std::size_t from, std::size_t to) {
        for (std::size_t i = from; i < std::min(to, out.size()); ++i)
            if (out[i] != '\n') out[i] = ' ';
    };
    const auto past = [&](std::string_view what, std::size_t from) {
        const auto at = text.find(what, from);
        return at == std::string_view::npos ? text.size() : at + what.size();
    };
    for (std::size_t i = 0; i < text.size();) {
        std::size_t end = i + 1;
        if (text.substr(i, 2) == "//") {
            end = std::min(text.find('\n', i), text.size());
            blank(i, end);
        } else if (text.substr(i, 2) == "/*") {
            end = past("*/", i + 2);
            blank(i, end);
        } else if (text.substr(i, 2) == "R\"") {
            const auto open = text.find('(', i);
            end = past(")" + std::string(text.substr(i + 2, open - i - 2)) + "\"", open);
            blank(i + 1, end);
        } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word(text[i - 1])))) {
            while (end < text.size() && text[end] != text[i] && text[end] != '\n')
                end += text[end] == '\\' ? 2U : 1U;
            blank(i + 1, end++);
        }
        i = end;
    }
    return out;
}

/// Checks one tree and collects what it finds.
class Checker {
public:
    explicit Checker(fs::path root) : root_(std::move(root)) {}

    Findings check() {
        for (const std::string_view part : kParts) check_part(part);
        for (const char* folder : {"include", "src"})
            for (const auto& entry : fs::recursive_directory_iterator(root_ / folder))
                if (contains(std::array{".hpp", ".cpp"}, entry.path().extension().string()))
                    check_file(entry.path());
        std::sort(found_.violations.begin(), found_.violations.end());
        std::sort(found_.notes.begin(), found_.notes.end());
        return std::move(found_);
    }

private:
    void report(const fs::path& file, const std::string& what) {
        found_.violations.push_back(relative(file) + ": " + what);
    }

    [[nodiscard]] std::string relative(const fs::path& file) const {
        return file.lexically_relative(root_).generic_string();
    }

    /// Header, source folder and test folder, with every source named in its list.
    void check_part(std::string_view part) {
        const std::string name(part);
        const fs::path header = root_ / "include/membudget" / (name + ".hpp");
        if (contains(kPlanned, part) && !fs::exists(header)) return;
        if (!fs::exists(header)) report(header, "missing");
        check_listed(root_ / "src" / name);
        check_listed(root_ / "tests" / name);
    }

    /// `folder` has sources, and its CMakeLists.txt names every one.
    void check_listed(const fs::path& folder) {
        const fs::path list = folder / "CMakeLists.txt";
        const std::string listed = fs::exists(list) ? transcript::read_file(list) : "";
        bool any = false;
        if (fs::is_directory(folder))
            for (const auto& entry : fs::directory_iterator(folder)) {
                if (entry.path().extension() != ".cpp") continue;
                any = true;
                if (listed.find(entry.path().filename().string()) == std::string::npos)
                    report(entry.path(), "not listed in its CMakeLists.txt");
            }
        if (!any) report(folder, "no source");
    }

    void check_file(const fs::path& file) {
        const std::string text = transcript::read_file(file);
        const std::string code = code_of(text);
        const std::string part = part_of(file);
        const bool is_public = file.lexically_relative(root_).begin()->string() == "include";
        if (!contains(kParts, part)) return report(file, "belongs to no part");

        const auto lines = transcript::lines_of(text);
        for (std::size_t i = 0; i < lines.size(); ++i) {
            const std::string at = "line " + std::to_string(i + 1) + ": ";
            if (std::any_of(lines[i].begin(), lines[i].end(), [](char c) { return c & 0x80; }))
                report(file, at + "not ASCII");
            if (lines[i].starts_with("#include ")) check_include(file, part, is_public, at, lines[i]);
        }
        if (part != "cli") check_words(file, code);
        if (lines.size() > kLongFile)
            found_.notes.push_back(relative(file) + ": " + std::to_string(lines.size()) + " lines");
    }

    /// `include/membudget/PART.hpp`, `src/PART/...`.
    [[nodiscard]] std::string part_of(const fs::path& file) const {
        const fs::path relative = file.lexically_relative(root_);
        return *relative.begin() == "include" ? file.stem().string()
                                              : std::next(relative.begin())->string();
    }

    void check_include(const fs::path& file, const std::string& part, bool is_public,
                       const std::string& at, std::string_view line) {
        line.remove_prefix(std::string_view("#include ").size());
        const char open = line.empty() ? ' ' : line.front();
        const auto end = line.find(open == '<' ? '>' : '"', 1);
        const std::string target(line.substr(1, end - 1));
        if (open == '"') return check_own_include(file, part, is_public, at, target);
        for (const Library& library : libraries()) {
            if (!target.starts_with(library.prefix)) continue;
            if (is_public)
                report(file, at + "a public header includes <" + target + ">");
            else if (!library.parts.empty() && !contains(library.parts, part))
                report(file, at + part + " may not know <" + target + ">");
        }
    }

    void check_own_include(const fs::path& file, const std::string& part, bool is_public,
                           const std::string& at, const std::string& target) {
        const auto slash = target.find('/');
        const std::string folder = target.substr(0, slash);
        if (folder != "membudget") {
            if (is_public || folder != part)
                report(file, at + "'" + target + "' is private to its part");
            return;
        }
        const std::string other = fs::path(target).stem().string();
        // The facade's own headers stand in a folder of the same name as the public ones.
        const bool own = part == "membudget" && !is_public && fs::exists(root_ / "src" / target);
        if (own) return;
        if (!contains(kParts, other))
            report(file, at + "'" + target + "' belongs to no part");
        else if (rank(other) > rank(part))
            report(file, at + part + " may not include " + other + ", which stands below it");
    }

    void check_words(const fs::path& file, const std::string& code) {
        const auto lines = transcript::lines_of(code);
        for (std::size_t i = 0; i < lines.size(); ++i)
            for (const std::string_view word : kForbidden)
                for (auto at = lines[i].find(word); at != std::string::npos;
                     at = lines[i].find(word, at + 1))
                    if (at == 0 || !is_word(lines[i][at - 1]))
                        report(file, "line " + std::to_string(i + 1) + ": only cli may say " +
                                         std::string(word));
    }

    fs::path root_;
    Findings found_;
};

}  // namespace

Findings check_tree(const fs::path& root) { return Checker(root).check(); }

std::span<const std::string_view> parts() { return kParts; }

}  // namespace layering
