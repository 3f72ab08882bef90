#include "transcript/shell.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

namespace transcript {
namespace {

constexpr std::chrono::seconds kTimeLimit{60};

[[noreturn]] void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

struct Pipe {
    int read_end = -1;
    int write_end = -1;

    Pipe() {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe");
        read_end = ends[0];
        write_end = ends[1];
    }
    ~Pipe() {
        close_end(read_end);
        close_end(write_end);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    static void close_end(int& end) {
        if (end >= 0) ::close(end);
        end = -1;
    }
};

/// The whole environment of a command, as NAME=VALUE.
std::vector<std::string> environment(const std::filesystem::path& cwd,
                                     const std::filesystem::path& program_dir) {
    const char* path = std::getenv("PATH");
    std::vector<std::string> out = {
        "PATH=" + program_dir.string() + ":" + (path != nullptr ? path : "/usr/bin:/bin"),
        "HOME=" + cwd.string(),
        "LC_ALL=C",
        "TZ=UTC",
        "TERM=dumb",
    };
    for (const char* passed_on : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TMPDIR",
                                  "MEMBUDGET_CORPUS", "LD_LIBRARY_PATH"})
        if (const char* value = std::getenv(passed_on))
            out.push_back(std::string(passed_on) + "=" + value);
    return out;
}

/// Becomes `sh -c command`. Runs between fork and exec: system calls only.
[[noreturn]] void become_shell(const char* command, const char* cwd, char* const* env, int out,
                               int err) {
    ::setpgid(0, 0);  // so that a time-out ends the command's children too
    ::signal(SIGPIPE, SIG_DFL);
    const int nothing = ::open("/dev/null", O_RDONLY);
    if (nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0 && ::dup2(out, STDOUT_FILENO) >= 0 &&
        ::dup2(err, STDERR_FILENO) >= 0 && ::chdir(cwd) == 0)
        ::execle("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr), env);
    ::_exit(126);
}

/// Reads both streams until both are closed; false when the time is up.
bool drain(Pipe& out, Pipe& err, Outcome& outcome) {
    const auto deadline = std::chrono::steady_clock::now() + kTimeLimit;
    std::array<char, 65536> buffer;
    while (out.read_end >= 0 || err.read_end >= 0) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) return false;
        // poll() skips negative descriptors: those that are closed already.
        std::array<pollfd, 2> waiting = {pollfd{out.read_end, POLLIN, 0},
                                         pollfd{err.read_end, POLLIN, 0}};
        if (::poll(waiting.data(), waiting.size(), static_cast<int>(left.count())) < 0 &&
            errno != EINTR)
            fail("poll");
        const auto take = [&](const pollfd& state, Pipe& from, std::string& to) {
            if (state.revents == 0) return;
            const ssize_t count = ::read(state.fd, buffer.data(), buffer.size());
            if (count > 0)
                to.append(buffer.data(), static_cast<std::size_t>(count));
            else
                Pipe::close_end(from.read_end);
        };
        take(waiting[0], out, outcome.out);
        take(waiting[1], err, outcome.err);
    }
    return true;
}

}  // namespace

Outcome run_shell(const std::string& command, const std::filesystem::path& cwd,
                  const std::filesystem::path& program_dir, Stderr where) {
    auto variables = environment(cwd, program_dir);
    std::vector<char*> env;
    for (std::string& variable : variables) env.push_back(variable.data());
    env.push_back(nullptr);

    Pipe out;
    Pipe err;
    const int err_target = where == Stderr::apart ? err.write_end : out.write_end;
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0)
        become_shell(command.c_str(), cwd.c_str(), env.data(), out.write_end, err_target);
    ::setpgid(child, child);
    Pipe::close_end(out.write_end);
    Pipe::close_end(err.write_end);

    Outcome outcome;
    const bool in_time = drain(out, err, outcome);
    if (!in_time) ::kill(-child, SIGKILL);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0)
        if (errno != EINTR) fail("waitpid");
    if (!in_time)
        throw std::runtime_error("still running after " + std::to_string(kTimeLimit.count()) +
                                 " s: " + command);
    outcome.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
}

ScratchFolder::ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "membudget-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail("mkdtemp " + name);
    path_ = std::filesystem::canonical(name);
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace transcript
