#include "membudget/autograd.hpp"

#include <algorithm>

namespace membudget {

namespace {
/// Paths differ in their length and in their last letters.
std::size_t hash_of(std::string_view path) {
    std::size_t hash = path.size();
    for (const char c : path.substr(path.size() - std::min<std::size_t>(path.size(), 6)))
        hash = hash * 31 + static_cast<unsigned char>(c);
    return hash;
}
}  // namespace

TermId TermTable::intern(std::string_view path) {
    std::uint16_t& recent = recent_[hash_of(path) % kSlots];
    if (recent != 0 && rows_[recent - 1U].path == path) return static_cast<TermId>(recent - 1U);
    if (recent != 0)  // only then is there a row of this hash
        for (std::size_t i = 0; i < rows_.size(); ++i)
            if (rows_[i].path == path) {
                recent = static_cast<std::uint16_t>(i + 1);
                return static_cast<TermId>(i);
            }
    const auto ends = [](char c) { return c == '/' || c == '\n'; };
    const auto end = std::find_if(path.begin(), path.end(), ends);
    const std::string_view group = path.substr(0, static_cast<std::size_t>(end - path.begin()));
    std::size_t g = 0;
    while (g < groups_.size() && groups_[g] != group) ++g;
    if (g == groups_.size()) groups_.emplace_back(group);
    MEMBUDGET_ENSURE(rows_.size() < 65535, "too many terms");
    rows_.push_back({std::string(path), static_cast<int>(g)});
    recent = static_cast<std::uint16_t>(rows_.size());
    return static_cast<TermId>(rows_.size() - 1);
}

}  // namespace membudget
