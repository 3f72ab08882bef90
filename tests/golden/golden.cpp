/// golden [--update] FILE...
///
/// Runs golden cases (case.hpp tells what they look like), each in a fresh folder that holds its
/// input files and a link to the repository's `examples`. Prints a diff for each command that does
/// not do what its case says; with --update rewrites the case instead.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "transcript/case.hpp"
#include "transcript/shell.hpp"
#include "transcript/text.hpp"

namespace {

namespace fs = std::filesystem;
using namespace transcript;

/// Runs the steps in order and returns the case as it came out.
Case run_case(Case a_case) {
    const ScratchFolder folder;
    fs::create_directory_symlink(fs::path(MEMBUDGET_SOURCE_DIR) / "examples",
                                 folder.path() / "examples");
    for (auto& step : a_case.steps) {
        if (const auto* input = std::get_if<Input>(&step)) {
            write_file(folder.path() / input->name, input->content);
        } else {
            auto& command = std::get<Command>(step);
            command.outcome =
                run_shell(command.text, folder.path(), MEMBUDGET_PROGRAM_DIR, Stderr::apart);
        }
    }
    return a_case;
}

/// Prints each command whose outcome differs; true when there is none.
bool compare(const std::string& file, const Case& expected, const Case& found) {
    bool same = true;
    for (std::size_t i = 0; i < expected.steps.size(); ++i) {
        const auto* before = std::get_if<Command>(&expected.steps[i]);
        if (before == nullptr) continue;
        const auto& after = std::get<Command>(found.steps[i]);
        if (before->outcome == after.outcome) continue;
        same = false;
        std::printf("%s:%zu: $ %s\n%s", file.c_str(), before->line, before->text.c_str(),
                    diff(render_outcome(before->outcome),
                         render_outcome(after.outcome))
                        .c_str());
    }
    return same;
}

bool check(const std::string& file) {
    const auto expected = parse_case(read_file(file));
    return compare(file, expected, run_case(expected));
}

bool update(const std::string& file) {
    const std::string before = read_file(file);
    const std::string after = render_case(run_case(parse_case(before)));
    if (after != before) {
        write_file(file, after);
        std::printf("updated %s\n", file.c_str());
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> files(argv + 1, argv + argc);
    const bool updating = !files.empty() && files.front() == "--update";
    if (updating) files.erase(files.begin());
    if (files.empty()) {
        std::fputs("usage: golden [--update] FILE...\n", stderr);
        return 2;
    }
    bool good = true;
    for (const std::string& file : files) try {
            good = (updating ? update(file) : check(file)) && good;
        } catch (const std::exception& trouble) {
            std::printf("%s: %s\n", file.c_str(), trouble.what());
            good = false;
        }
    if (!good && !updating)
        std::puts("- expected, + found; if what was found is right: golden --update FILE...");
    return good ? 0 : 1;
}
