#include <random>
#include <set>

#include "allocator/sorted_chunks.hpp"
#include "catch.hpp"

namespace membudget {
namespace {

void require_same(const SortedChunks<int>& keys, const std::set<int>& oracle) {
    auto at = keys.begin();
    for (const int key : oracle) {
        REQUIRE(at != keys.end());
        REQUIRE(*at == key);
        ++at;
    }
    REQUIRE(at == keys.end());
    for (auto expected = oracle.rbegin(); expected != oracle.rend(); ++expected) REQUIRE(*--at == *expected);
    REQUIRE(at == keys.begin());
}

TEST_CASE("sorted chunks hold what a set holds", "[allocator]") {
    // Chunks split at 64 keys: the widths give none, one and many of them.
    for (const int width : {1, 3, 63, 64, 65, 200, 3000}) {
        std::mt19937 random(static_cast<unsigned>(width));
        SortedChunks<int> keys;
        std::set<int> oracle;
        for (int step = 0; step < 4 * width; ++step) {
            const int key = static_cast<int>(random() % static_cast<unsigned>(2 * width));
            if (oracle.insert(key).second) {
                keys.insert(key);
            } else {
                oracle.erase(key);
                keys.erase(key);
            }
            const int sought = static_cast<int>(random() % static_cast<unsigned>(2 * width + 1));
            const auto expected = oracle.lower_bound(sought);
            const auto found = keys.lower_bound(sought);
            REQUIRE((found == keys.end()) == (expected == oracle.end()));
            if (expected != oracle.end()) REQUIRE(*found == *expected);
        }
        require_same(keys, oracle);
        while (!oracle.empty()) {
            const auto found = keys.lower_bound(*oracle.rbegin() / 2);
            oracle.erase(*found);
            keys.erase(found);
        }
        require_same(keys, oracle);
    }
}

TEST_CASE("erasing a key that is not there is a defect", "[allocator]") {
    SortedChunks<int> keys;
    keys.insert(2);
    for (const int key : {1, 3}) REQUIRE_THROWS(keys.erase(key));
}

}  // namespace
}  // namespace membudget
