#include <string>
#include <tuple>

#include "catch.hpp"
#include "cli/sizes.hpp"

using namespace membudget;

TEST_CASE("limits of growth are exact and rounded down") {
    const auto [text, baseline, limit] =
        GENERATE(table<std::string, std::int64_t, std::int64_t>({
            {"5%", 100, 105},
            {"0%", 100, 100},
            {"2.5%", 1000, 1025},
            {"0.125%", 800, 801},
            {"5%", 39, 40},
            {"100%", kLargestBytes / 2, kLargestBytes / 2 * 2},
            {"1000%", 1'000'000'007, 11'000'000'077},
            {"2GB", 100, 2'000'000'100},
            {"0B", 100, 100},
            {"7", 100, 107},
            {"1GiB", 0, 1'073'741'824},
        }));
    CAPTURE(text, baseline);
    const auto result = cli::growth_limit(Bytes(baseline), text);
    REQUIRE(result.ok());
    CHECK(result->count() == limit);
}

TEST_CASE("what is no limit of growth is refused") {
    const auto text = GENERATE(as<std::string>{}, "", "%", "-1", "-1%", "5 %", "1.2345%", "5.%", ".%",
                               "1e3%", "1001%", "99999999999999999999%", "2G", "five");
    CAPTURE(text);
    const auto result = cli::growth_limit(Bytes(100), text);
    REQUIRE_FALSE(result.ok());
    CHECK(result.errors().list().front().file == "--max-increase");
}
