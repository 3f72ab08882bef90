#pragma once

/// Runs shell commands for the tests whose expectations are transcripts: goldens and docs.

#include <filesystem>
#include <string>

namespace transcript {

/// What a command left behind.
struct Outcome {
    std::string out;
    std::string err;
    int exit = 0;  ///< as the shell reports it: 128 + n for a command that died of signal n

    friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Where standard error goes.
enum class Stderr {
    apart,    ///< into `Outcome::err`
    with_out  ///< into `Outcome::out`, in the order in which a terminal would show it
};

/// Runs `command` with `sh -c` in the folder `cwd`, standard input empty, `program_dir` first on
/// PATH, and an environment that is the same everywhere: LC_ALL=C, TZ=UTC, no NO_COLOR. Throws
/// `std::runtime_error` when the command cannot be started or runs longer than a minute.
[[nodiscard]] Outcome run_shell(const std::string& command, const std::filesystem::path& cwd,
                                const std::filesystem::path& program_dir, Stderr where);

/// A fresh folder that disappears with its owner.
class ScratchFolder {
public:
    ScratchFolder();
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

}  // namespace transcript
