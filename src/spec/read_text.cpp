#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "membudget/spec.hpp"

namespace membudget {

namespace {

/// How long to wait for someone to open the other end of a named pipe.
constexpr std::chrono::milliseconds kWriterPatience{2000};
constexpr std::chrono::milliseconds kWriterPause{10};

/// A file descriptor that is closed when it is ours.
class Descriptor {
public:
    Descriptor(int number, bool ours) : number_(number), ours_(ours) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (ours_ && number_ >= 0) ::close(number_);
    }
    [[nodiscard]] int number() const { return number_; }

private:
    int number_;
    bool ours_;
};

Diagnostic refuse(const std::string& path, std::string message) {
    return {Trouble::invalid, path, {}, std::move(message), {}};
}

std::string reason(int error) {
    switch (error) {
        case ENOENT: return "expected a file; there is none of this name";
        case ENOTDIR: return "expected a file; a part of its path is no directory";
        case EACCES:
        case EPERM: return "expected a readable file; permission denied";
        default:
            return fmt::format("expected a readable file; {}",
                               std::generic_category().message(error));
    }
}

/// Waits until `descriptor` has data or its end.
void wait_for_data(int descriptor) {
    pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
    ::poll(&waiting, 1, -1);
}

}  // namespace

Result<std::string> read_text(const std::string& path, ReadLimits limits) {
    if (path.empty() || path.find('\0') != std::string::npos)
        return refuse(path, "expected the path of a file; got " + in_quotes(path));
    const bool standard_input = path == "-";
    // Without O_NONBLOCK the opening of a named pipe waits for a writer, maybe forever.
    const Descriptor file(standard_input ? STDIN_FILENO
                                         : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK),
                          !standard_input);
    if (file.number() < 0) return refuse(path, reason(errno));
    struct stat status {};
    if (::fstat(file.number(), &status) != 0) return refuse(path, reason(errno));
    if (S_ISDIR(status.st_mode)) return refuse(path, "expected a file; got a directory");

    std::string text;
    std::array<char, 1 << 16> chunk{};
    auto patience = S_ISFIFO(status.st_mode) && !standard_input ? kWriterPatience
                                                                : std::chrono::milliseconds{0};
    for (;;) {
        const ssize_t got = ::read(file.number(), chunk.data(), chunk.size());
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            if (errno == EAGAIN) wait_for_data(file.number());
            continue;
        }
        if (got < 0) return refuse(path, reason(errno));
        if (got == 0) {
            // A pipe without a writer reads as ended; one may still come.
            if (!text.empty() || patience <= kWriterPause) break;
            patience -= kWriterPause;
            std::this_thread::sleep_for(kWriterPause);
            continue;
        }
        text.append(chunk.data(), static_cast<std::size_t>(got));
        if (text.size() > limits.bytes)
            return refuse(path, fmt::format("expected at most {} bytes; got more", limits.bytes));
    }
    return text;
}

}  // namespace membudget
