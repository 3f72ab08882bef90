#include "membudget/autograd.hpp"

namespace membudget {

TermId TermTable::intern(std::string_view path) {
    for (std::size_t i = 0; i < rows_.size(); ++i)
        if (rows_[i].path == path) return static_cast<TermId>(i);
    const std::string_view group = path.substr(0, path.find_first_of("/\n"));
    std::size_t g = 0;
    while (g < groups_.size() && groups_[g] != group) ++g;
    if (g == groups_.size()) groups_.emplace_back(group);
    MEMBUDGET_ENSURE(rows_.size() < 65535, "too many terms");
    rows_.push_back({std::string(path), static_cast<int>(g)});
    return static_cast<TermId>(rows_.size() - 1);
}

}  // namespace membudget
