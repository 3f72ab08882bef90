#include "align.hpp"

#include <algorithm>

namespace cuda_test {

Alignment align(std::span<const std::int64_t> first, std::span<const std::int64_t> second) {
    const auto n = static_cast<std::int64_t>(first.size());
    const auto m = static_cast<std::int64_t>(second.size());
    const auto index = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    // reach[d][k + d]: how far into `first` d differences lead on diagonal k.
    std::vector<std::vector<std::int64_t>> reach;
    for (std::int64_t d = 0;; ++d) {
        reach.emplace_back(index(2 * d + 1));
        bool done = false;
        for (std::int64_t k = -d; k <= d && !done; k += 2) {
            std::int64_t x = 0;
            if (d > 0) {
                const std::vector<std::int64_t>& before = reach[index(d - 1)];
                const auto at = [&](std::int64_t diagonal) { return before[index(diagonal + d - 1)]; };
                const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
                x = down ? at(k + 1) : at(k - 1) + 1;
            }
            while (x < n && x - k < m && first[index(x)] == second[index(x - k)]) ++x;
            reach.back()[index(k + d)] = x;
            done = k == n - m && x >= n;
        }
        if (done) break;
    }
    Alignment out;
    out.first.assign(first.size(), false);
    out.second.assign(second.size(), false);
    std::int64_t x = n;
    std::int64_t y = m;
    for (auto d = static_cast<std::int64_t>(reach.size()) - 1; d >= 0; --d) {
        const std::int64_t k = x - y;
        std::int64_t begin = 0;
        std::int64_t from = 0;
        if (d > 0) {
            const std::vector<std::int64_t>& before = reach[index(d - 1)];
            const auto at = [&](std::int64_t diagonal) { return before[index(diagonal + d - 1)]; };
            const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
            from = down ? k + 1 : k - 1;
            begin = down ? at(from) : at(from) + 1;
        }
        for (; x > begin; --x, --y) {
            out.first[index(x - 1)] = true;
            out.second[index(y - 1)] = true;
            ++out.equal;
        }
        if (d == 0) break;
        x = reach[index(d - 1)][index(from + d - 1)];
        y = x - from;
    }
    return out;
}

}  // namespace cuda_test
