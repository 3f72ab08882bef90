
#include "membudget/support.hpp"

namespace membudget {

namespace {

/// The form in which names are compared: lower case, one kind of dash.
std::string folded(std::string_view name) {
    std::string out(name);
    for (char& c : out) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
        if (c == '_') c = '-';
    }
    return out;
}

/// How many edits still look like a slip of the fingers.
std::size_t tolerance(std::size_t letters) {
    if (letters <= 4) return 1;
    if (letters <= 8) return 2;
    return 3;
}

/// The first candidate that goes on where `wanted` ends: a100-40gb for a100.
std::string_view completion(std::string_view wanted, std::span<const std::string_view> candidates) {
    constexpr std::size_t kShortest = 3;  // fewer letters begin anything
    if (wanted.size() < kShortest) return {};
    for (const std::string_view candidate : candidates) {
        const std::string name = folded(candidate);
        if (name.size() > wanted.size() && name.starts_with(wanted) && name[wanted.size()] == '-')
            return candidate;
    }
    return {};
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
    if (a.size() < b.size()) std::swap(a, b);
    if (a.size() - b.size() > limit) return limit + 1;

    // One row of the classic matrix; `diagonal` is the entry above and to the left.
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        std::size_t smallest = row[0];
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t above = row[j];
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({above + 1, row[j - 1] + 1, replaced});
            diagonal = above;
            smallest = std::min(smallest, row[j]);
        }
        if (smallest > limit) return limit + 1;
    }
    return std::min(row[b.size()], limit + 1);
}

std::string_view closest(std::string_view name, std::span<const std::string_view> candidates) {
    const std::string wanted = folded(name);
    // A name of which every letter may be replaced is near to anything.
    std::size_t limit = std::min(tolerance(wanted.size()), wanted.empty() ? 0 : wanted.size() - 1);
    std::string_view best;
    for (const std::string_view candidate : candidates) {
        const std::size_t shorter = std::min(wanted.size(), candidate.size());
        if (std::max(wanted.size(), candidate.size()) - shorter > limit) continue;  // most names
        const std::size_t distance = edit_distance(wanted, folded(candidate), limit);
        if (distance > limit) continue;
        best = candidate;
        if (distance == 0) break;
        limit = distance - 1;  // the first of equals wins
    }
    const bool same = !best.empty() && folded(best) == wanted;
    const std::string_view longer = same ? std::string_view() : completion(wanted, candidates);
    return longer.empty() ? best : longer;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
    const std::string_view near = closest(name, candidates);
    if (near.empty()) return {};
    return "did you mean '" + std::string(near) + "'?";
}

}  // namespace membudget
