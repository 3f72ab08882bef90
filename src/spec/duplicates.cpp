#include "spec/duplicates.hpp"

#include <algorithm>
#include <numeric>

namespace membudget {

namespace {

/// For each member the index of the first one with its key.
std::vector<std::size_t> first_of_key(const KeyTree& object) {
    const auto& members = object.members();
    std::vector<std::size_t> order(members.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<std::size_t> first = order;
    // Sorted, because an index file has objects of 100,000 keys.
    std::stable_sort(order.begin(), order.end(), [&members](std::size_t a, std::size_t b) {
        return members[a].first < members[b].first;
    });
    for (std::size_t i = 1; i < order.size(); ++i)
        if (members[order[i]].first == members[order[i - 1]].first)
            first[order[i]] = first[order[i - 1]];
    return first;
}

}  // namespace

std::vector<bool> repeated_members(const KeyTree& object) {
    const std::vector<std::size_t> first = first_of_key(object);
    std::vector<bool> repeated(first.size());
    for (std::size_t i = 0; i < first.size(); ++i) repeated[i] = first[i] != i;
    return repeated;
}

void report_duplicate(std::string_view pointer, std::string_view key, Diagnostics& errors) {
    errors.invalid(pointer, "expected every key once; got " + in_quotes(key) + " again");
}

void report_duplicates(const KeyTree& tree, std::string_view pointer, Diagnostics& errors) {
    for (std::size_t i = 0; i < tree.items().size() && errors.size() < kMostMistakes; ++i)
        report_duplicates(tree.items()[i], pointer_child(pointer, i), errors);
    if (!tree.is(KeyTree::Kind::object)) return;
    const std::vector<bool> repeated = repeated_members(tree);
    for (std::size_t i = 0; i < repeated.size() && errors.size() < kMostMistakes; ++i) {
        const auto& [key, value] = tree.members()[i];
        const std::string child = pointer_child(pointer, key);
        if (repeated[i]) report_duplicate(child, key, errors);
        report_duplicates(value, child, errors);
    }
}

void fold_duplicates(KeyTree& tree) {
    for (KeyTree& item : tree.items()) fold_duplicates(item);
    auto& members = tree.members();
    const std::vector<std::size_t> first = first_of_key(tree);
    std::size_t kept = 0;
    std::vector<std::size_t> place(members.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
        if (first[i] != i) {
            members[place[first[i]]].second = std::move(members[i].second);
            continue;
        }
        place[i] = kept;
        if (kept != i) members[kept] = std::move(members[i]);
        ++kept;
    }
    members.resize(kept);
    for (auto& [key, value] : members) fold_duplicates(value);
}

}  // namespace membudget
