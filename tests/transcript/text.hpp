#pragma once

/// Texts as lines, whole files, and the difference between two texts.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace transcript {

/// The lines of `text` without their ends; a missing end of the last line is not noticed.
[[nodiscard]] std::vector<std::string> lines_of(std::string_view text);

/// `lines`, each with its end.
[[nodiscard]] std::string joined(const std::vector<std::string>& lines);

/// The difference line by line, with three lines of context: `-` expected, `+` found.
[[nodiscard]] std::string diff(const std::vector<std::string>& expected,
                               const std::vector<std::string>& found);

/// Both throw `std::runtime_error` naming the file.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view text);

}  // namespace transcript
