#pragma once

#include <string>
#include <string_view>

#include "membudget/support.hpp"

namespace membudget::cli {

/// Where a report goes when it does not go to standard output. The file is opened before work
/// begins, so that a bad path fails at once, and takes its new content in one step: until
/// `commit`, and when `commit` is never reached, the old content stays.
class OutputFile {
public:
    OutputFile() = default;
    OutputFile(OutputFile&& other) noexcept { swap(other); }
    OutputFile& operator=(OutputFile&& other) noexcept {
        swap(other);
        return *this;
    }
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile();

    /// Opens `path`; an existing device, pipe or the like is written to in place.
    [[nodiscard]] static Result<OutputFile> open(const std::string& path);
    /// Writes all of `text` and puts it in place; the diagnostics say why that failed.
    [[nodiscard]] Diagnostics commit(std::string_view text);
    [[nodiscard]] bool is_open() const { return descriptor_ >= 0; }

private:
    void swap(OutputFile& other) noexcept;
    int descriptor_ = -1;
    std::string path_;       ///< as the user named it
    std::string target_;     ///< what is replaced, symbolic links followed
    std::string temporary_;  ///< empty when the target is written in place
};

/// Writes all of `text` to a file descriptor; 0, or the `errno` of what went wrong.
[[nodiscard]] int write_all(int descriptor, std::string_view text);

}  // namespace membudget::cli
