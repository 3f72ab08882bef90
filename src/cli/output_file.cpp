#include "cli/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace membudget::cli {
namespace {

Diagnostic unwritable(const std::string& path, int error) {
    return {.trouble = Trouble::invalid,
            .file = path,
            .pointer = {},
            .message = std::string("cannot be written: ") + std::strerror(error),
            .hint = {}};
}

/// `path` with its symbolic links followed; a file that does not exist yet is its own target.
std::string target_of(const std::string& path) {
    char resolved[PATH_MAX];
    return realpath(path.c_str(), resolved) == nullptr ? path : std::string(resolved);
}

/// The rights that a new file gets: those of the file it replaces, else what the user's mask says.
mode_t mode_for(const struct stat* replaced) {
    if (replaced != nullptr) return replaced->st_mode & 07777U;
    const mode_t mask = umask(0);
    umask(mask);
    return 0666U & ~mask;
}

}  // namespace

OutputFile::~OutputFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::swap(OutputFile& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    path_.swap(other.path_);
    target_.swap(other.target_);
    temporary_.swap(other.temporary_);
}

Result<OutputFile> OutputFile::open(const std::string& path) {
    OutputFile out;
    out.path_ = path;
    out.target_ = target_of(path);
    struct stat status {};
    const bool exists = stat(out.target_.c_str(), &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) return unwritable(path, EISDIR);
    if (exists && !S_ISREG(status.st_mode)) {
        out.descriptor_ = ::open(out.target_.c_str(), O_WRONLY | O_CLOEXEC);
        if (out.descriptor_ < 0) return unwritable(path, errno);
        return out;
    }
    if (exists && access(out.target_.c_str(), W_OK) != 0) return unwritable(path, errno);
    out.temporary_ = out.target_ + ".XXXXXX";
    out.descriptor_ = mkstemp(out.temporary_.data());
    if (out.descriptor_ < 0) {
        out.temporary_.clear();
        return unwritable(path, errno);
    }
    if (fchmod(out.descriptor_, mode_for(exists ? &status : nullptr)) != 0)
        return unwritable(path, errno);
    return out;
}

Diagnostics OutputFile::commit(std::string_view text) {
    Diagnostics out;
    int error = write_all(descriptor_, text);
    if (close(std::exchange(descriptor_, -1)) != 0 && error == 0) error = errno;
    if (error == 0 && !temporary_.empty()) {
        if (std::rename(temporary_.c_str(), target_.c_str()) == 0)
            temporary_.clear();
        else
            error = errno;
    }
    if (error != 0) out.add(unwritable(path_, error));
    return out;
}

int write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(descriptor, text.data(), text.size());
        if (written >= 0)
            text.remove_prefix(static_cast<std::size_t>(written));
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

}  // namespace membudget::cli
