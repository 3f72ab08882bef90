/// docs [--update] FILE.md...
///
/// Runs the documentation. In each fenced block marked ```console, a line `$ COMMAND` is run (one
/// that ends in `\` goes on in the next line), and the lines up to the next command must be what it
/// prints, standard error included; a line `...` stands for any number of lines. Commands run in a
/// folder that looks like the root of the repository but keeps what they write out of it; the
/// blocks of one page share it. Blocks with another mark, ```sh for one, are not run. With --update
/// the page is rewritten.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transcript/shell.hpp"
#include "transcript/text.hpp"

namespace {

namespace fs = std::filesystem;
using namespace transcript;

using Lines = std::vector<std::string>;
using Iterator = Lines::const_iterator;

/// A scratch copy of the repository's root, made of links.
class Root {
public:
    Root() {
        for (const auto& entry : fs::directory_iterator(MEMBUDGET_SOURCE_DIR)) {
            const auto name = entry.path().filename();
            if (!name.string().starts_with("build")) fs::create_symlink(entry, path() / name);
        }
    }
    [[nodiscard]] const fs::path& path() const { return folder_.path(); }

private:
    ScratchFolder folder_;
};

/// True when `found` is what `expected` says, `...` standing for any number of lines.
bool matches(Iterator expected, Iterator expected_end, Iterator found, Iterator found_end) {
    for (; expected != expected_end; ++expected, ++found) {
        if (*expected == "...") {
            for (auto rest = found;; ++rest) {
                if (matches(expected + 1, expected_end, rest, found_end)) return true;
                if (rest == found_end) return false;
            }
        }
        if (found == found_end || *expected != *found) return false;
    }
    return found == found_end;
}

/// One page as it is, and as it should be.
class Page {
public:
    explicit Page(std::string file) : file_(std::move(file)), lines_(lines_of(read_file(file_))) {}

    /// Runs every block; returns the number of commands.
    std::size_t run() {
        std::optional<std::string> fence;  // what closes the block we are in
        bool console = false;
        while (next_ < lines_.size()) {
            const std::string& line = lines_[next_];
            if (fence && console && line.starts_with("$ ")) {
                run_command(*fence);
                continue;
            }
            if (fence && line == *fence) {
                fence.reset();
            } else if (!fence && line.starts_with("```")) {
                fence = line.substr(0, line.find_first_not_of('`'));
                console = line.substr(fence->size()) == "console";
            }
            should_be_.push_back(line);
            ++next_;
        }
        return commands_;
    }

    [[nodiscard]] bool good() const { return good_; }
    [[nodiscard]] std::string should_be() const { return joined(should_be_); }

private:
    void run_command(const std::string& fence) {
        ++commands_;
        const std::size_t line = next_ + 1;
        std::string command = lines_[next_].substr(2);
        should_be_.push_back(lines_[next_++]);
        while (command.ends_with('\\') && next_ < lines_.size()) {
            command += '\n' + lines_[next_];
            should_be_.push_back(lines_[next_++]);
        }
        Lines expected;
        while (next_ < lines_.size() && lines_[next_] != fence && !lines_[next_].starts_with("$ "))
            expected.push_back(lines_[next_++]);

        const auto outcome =
            run_shell(command, root_.path(), MEMBUDGET_PROGRAM_DIR, Stderr::with_out);
        const Lines found = lines_of(outcome.out);
        const bool same = matches(expected.begin(), expected.end(), found.begin(), found.end());
        const Lines& right = same ? expected : found;
        should_be_.insert(should_be_.end(), right.begin(), right.end());
        if (same) return;
        good_ = false;
        std::printf("%s:%zu: $ %s\n%s", file_.c_str(), line, command.c_str(),
                    diff(expected, found).c_str());
    }

    std::string file_;
    Lines lines_;
    Lines should_be_;
    Root root_;
    std::size_t next_ = 0;
    std::size_t commands_ = 0;
    bool good_ = true;
};

bool check(const std::string& file, bool updating) {
    Page page(file);
    const std::size_t commands = page.run();
    std::printf("%s: %zu commands\n", file.c_str(), commands);
    if (page.good() || !updating) return page.good();
    write_file(file, page.should_be());
    std::printf("updated %s\n", file.c_str());
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> files(argv + 1, argv + argc);
    const bool updating = std::erase(files, "--update") > 0;
    if (files.empty()) {
        std::fputs("usage: docs [--update] FILE.md...\n", stderr);
        return 2;
    }
    bool good = true;
    for (const std::string& file : files) try {
            good = check(file, updating) && good;
        } catch (const std::exception& trouble) {
            std::printf("%s: %s\n", file.c_str(), trouble.what());
            good = false;
        }
    if (!good) std::puts("- expected, + found; if what was found is right: docs --update FILE.md");
    return good ? 0 : 1;
}
