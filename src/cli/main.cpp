#include <sys/ioctl.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "cli/output_file.hpp"
#include "membudget/cli.hpp"

namespace {

/// A run of a few milliseconds: what is freed is needed again at once, and giving it back to the system in
/// between, or asking for more page by page, costs more than all else that the allocator does.
void keep_freed_memory() {
#ifdef __GLIBC__
    constexpr int kMiB = 1 << 20;
    mallopt(M_TOP_PAD, kMiB);
    mallopt(M_TRIM_THRESHOLD, 4 * kMiB);
    mallopt(M_MMAP_THRESHOLD, kMiB);
#endif
}

}  // namespace

int main(int argc, char** argv) {
    using namespace membudget;
    keep_freed_memory();
    // A reader that has seen enough (`| head`) is no error: the write fails and the run ends well.
    std::signal(SIGPIPE, SIG_IGN);

    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    std::ostringstream out, err;
    Streams streams{.out = out, .err = err};
    if (isatty(STDOUT_FILENO) != 0) {
        const char* no_colour = std::getenv("NO_COLOR");
        const char* terminal = std::getenv("TERM");
        streams.colour = (no_colour == nullptr || *no_colour == '\0') &&
                         (terminal == nullptr || std::strcmp(terminal, "dumb") != 0);
        winsize size{};
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
            streams.width = std::clamp<int>(size.ws_col, 60, 100);
    }
    if (isatty(STDERR_FILENO) != 0)
        streams.talk = [](std::string_view text) { (void)cli::write_all(STDERR_FILENO, text); };
    const ExitCode code = run_cli(arguments, streams);
    (void)cli::write_all(STDERR_FILENO, err.str());
    const int error = cli::write_all(STDOUT_FILENO, out.str());
    if (error == 0) return static_cast<int>(code);
    if (error == EPIPE) return static_cast<int>(ExitCode::done);
    (void)cli::write_all(STDERR_FILENO,
                         std::string("error: standard output: ") + std::strerror(error) + "\n");
    return static_cast<int>(ExitCode::bad_input);
}
