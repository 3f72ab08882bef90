/// complete [--update] KIND
///
/// Fails for each row of `membudget list KIND` that no golden case uses. Cases of a kind are
/// tests/golden/KIND.test and tests/golden/KIND/*.test; one uses a row when the row's name stands,
/// as a whole word, in one of its inputs or commands. Ops share names of kernels, so the case of a
/// kernel is in tests/golden/kernels/OP.test. With --update writes the missing cases, where
/// tests/golden/KIND/case.in says how one looks (@NAME@ stands for the name); fill in their outcomes
/// with golden --update.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "transcript/case.hpp"
#include "transcript/shell.hpp"
#include "transcript/text.hpp"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using namespace transcript;

struct Row {
    std::string name;
    std::string op;  ///< of a kernel; else empty
};

std::vector<Row> rows_of(const std::string& kind) {
    const ScratchFolder folder;
    const std::string command = "membudget list " + kind + " --format json";
    const Outcome outcome =
        run_shell(command, folder.path(), MEMBUDGET_PROGRAM_DIR, Stderr::apart);
    if (outcome.exit != 0) throw std::runtime_error(command + " failed: " + outcome.err);
    const json printed = json::parse(outcome.out);
    std::vector<Row> rows;
    for (const json& row : printed.at("rows"))
        rows.push_back({row.at("name").get<std::string>(), row.value("op", "")});
    if (rows.empty()) throw std::runtime_error(command + " printed no rows");
    return rows;
}

/// What the author of the cases wrote, without what the program printed.
std::string written_in(const fs::path& file) {
    std::string out;
    for (const auto& step : parse_case(read_file(file)).steps) {
        if (const auto* input = std::get_if<Input>(&step))
            out += input->content;
        else
            out += std::get<Command>(step).text;
        out += '\n';
    }
    return out;
}

std::string written_for(const fs::path& goldens, const std::string& kind) {
    std::string out;
    if (fs::exists(goldens / (kind + ".test"))) out += written_in(goldens / (kind + ".test"));
    if (fs::is_directory(goldens / kind))
        for (const auto& entry : fs::recursive_directory_iterator(goldens / kind))
            if (entry.path().extension() == ".test") out += written_in(entry.path());
    return out;
}

bool belongs_to_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_' || c == '.';
}

bool mentions(std::string_view text, std::string_view name) {
    for (auto at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
        const auto end = at + name.size();
        if ((at == 0 || !belongs_to_name(text[at - 1])) &&
            (end == text.size() || !belongs_to_name(text[end])))
            return true;
    }
    return false;
}

/// Writes the case of `name` from the kind's pattern; false when there is no pattern.
bool write_case(const fs::path& folder, const std::string& name) {
    const fs::path pattern = folder / "case.in";
    if (!fs::exists(pattern)) return false;
    constexpr std::string_view placeholder = "@NAME@";
    std::string text = read_file(pattern);
    for (auto at = text.find(placeholder); at != std::string::npos;
         at = text.find(placeholder, at + name.size()))
        text.replace(at, placeholder.size(), name);
    const fs::path file = folder / (name + ".test");
    write_file(file, text);
    std::printf("wrote %s\n", file.c_str());
    return true;
}

bool complete(const std::string& kind, bool updating) {
    const fs::path goldens = fs::path(MEMBUDGET_SOURCE_DIR) / "tests/golden";
    const std::string written = written_for(goldens, kind);
    bool good = true;
    for (const auto& [name, op] : rows_of(kind)) {
        const std::string of = op.empty() ? kind : kind + "/" + op;
        if (mentions(op.empty() ? written : written_for(goldens, of), name) ||
            (updating && write_case(goldens / kind, name)))
            continue;
        std::printf("no case of tests/golden/%s uses %s\n", of.c_str(), name.c_str());
        good = false;
    }
    return good;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    const bool updating = std::erase(arguments, "--update") > 0;
    if (arguments.size() != 1) {
        std::fputs("usage: complete [--update] KIND\n", stderr);
        return 2;
    }
    try {
        return complete(arguments.front(), updating) ? 0 : 1;
    } catch (const std::exception& trouble) {
        std::printf("%s\n", trouble.what());
        return 1;
    }
}
