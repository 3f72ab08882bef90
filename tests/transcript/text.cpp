#include "transcript/text.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace transcript {
namespace {

constexpr std::size_t kContext = 3;

struct Edit {
    char mark;  ///< ' ' in both, '-' expected only, '+' found only
    const std::string* line;
};

/// The shortest edit by the longest common subsequence; quadratic, and texts here are short.
std::vector<Edit> edits(const std::vector<std::string>& a, const std::vector<std::string>& b) {
    const std::size_t width = b.size() + 1;
    std::vector<std::uint32_t> common((a.size() + 1) * width, 0);  // of the rests from (i, j) on
    for (std::size_t i = a.size(); i-- > 0;)
        for (std::size_t j = b.size(); j-- > 0;)
            common[i * width + j] =
                a[i] == b[j] ? common[(i + 1) * width + j + 1] + 1
                             : std::max(common[(i + 1) * width + j], common[i * width + j + 1]);
    std::vector<Edit> out;
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < a.size() || j < b.size()) {
        if (i < a.size() && j < b.size() && a[i] == b[j]) {
            out.push_back({' ', &a[i++]});
            ++j;
        } else if (j == b.size() ||
                   (i < a.size() && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
            out.push_back({'-', &a[i++]});
        } else {
            out.push_back({'+', &b[j++]});
        }
    }
    return out;
}

}  // namespace

std::vector<std::string> lines_of(std::string_view text) {
    std::vector<std::string> out;
    while (!text.empty()) {
        const auto end = text.find('\n');
        out.emplace_back(text.substr(0, end));
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return out;
}

std::string joined(const std::vector<std::string>& lines) {
    std::string out;
    for (const std::string& line : lines) out.append(line).push_back('\n');
    return out;
}

std::string diff(const std::vector<std::string>& expected, const std::vector<std::string>& found) {
    const auto all = edits(expected, found);
    std::vector<bool> shown(all.size(), false);
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i].mark == ' ') continue;
        const std::size_t first = i - std::min(i, kContext);
        const std::size_t last = std::min(i + kContext, all.size() - 1);
        std::fill(shown.begin() + static_cast<std::ptrdiff_t>(first),
                  shown.begin() + static_cast<std::ptrdiff_t>(last) + 1, true);
    }
    std::string out;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (shown[i])
            out.append(1, all[i].mark).append(" ").append(*all[i].line).append("\n");
        else if (i == 0 || shown[i - 1])
            out.append("  [...]\n");
    }
    return out;
}

std::string read_file(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error("cannot read " + path.string());
    return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::filesystem::path& path, std::string_view text) {
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    out.close();
    if (!out) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace transcript
