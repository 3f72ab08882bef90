/// Regular expressions over module names: what matches, what is refused, and that no pattern is slow.

#include <functional>
#include <random>
#include <regex>
#include <string>

#include "catch.hpp"
#include "model/name_pattern.hpp"

using namespace membudget;

namespace {

bool matches(std::string_view pattern, std::string_view name) {
    const auto parsed = NamePattern::parse(pattern);
    REQUIRE(parsed.ok());
    return parsed->matches(name);
}

}  // namespace

TEST_CASE("patterns match whole names, as re.fullmatch", "[model][pattern]") {
    const std::string name = "model.layers.12.self_attn.q_proj";
    for (const char* pattern :
         {R"(.*\.(q|v)_proj)", R"(model\.layers\.\d+\.self_attn\.q_proj)", ".*q_proj", "(.*)", R"(.*layers\.(1[0-9]|2)\..*)",
          R"(.*[a-z]_proj$)", R"(^model.*)", R"(.*\.[^.]*)", R"(.*layers\.\d{2}\..*)", R"(model(\.\w+){4})",
          R"((?:model|base)\..*?proj)", R"((?P<root>model)\..*)", ".*(q_proj|)", R"(.*l{0,1}ayers.*)"})
        CHECK(matches(pattern, name));
    for (const char* pattern : {"q_proj", R"(.*\.(k|v)_proj)", R"(model\.layers\.\d\..*)", "", R"(.*layers\.\d{3}\..*)",
                                R"(.*[^a-z]_proj)", "model", R"(.*q_proj.)"})
        CHECK_FALSE(matches(pattern, name));
    CHECK(matches("", ""));
    CHECK(matches("a{,2}b{2,}", "aabbb"));
    CHECK_FALSE(matches("a{,2}b{2,}", "aaabb"));
    CHECK(matches("x{y}", "x{y}"));
}

TEST_CASE("patterns match what std::regex matches", "[model][pattern]") {
    std::mt19937 random(20);
    const auto pick = [&random](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
    const auto name = [&pick](int longest) {
        std::string out;
        for (int left = pick(longest + 1); left > 0; --left) out += "ab."[pick(3)];
        return out;
    };
    const std::function<std::string(int)> pattern = [&](int depth) {
        std::string out;
        for (int pieces = 1 + pick(3); pieces > 0; --pieces) {
            constexpr const char* kAtoms[] = {"a", "b", R"(\.)", ".", "[ab]", "[^a]"};
            out += depth > 0 && pick(3) == 0 ? "(" + pattern(depth - 1) + ")" : kAtoms[pick(6)];
            constexpr const char* kRepeats[] = {"", "", "", "*", "+", "?"};
            out += kRepeats[pick(6)];
        }
        return pick(4) == 0 ? out + "|" + name(2) + "b" : out;
    };
    int found = 0;
    for (int i = 0; i < 2'000; ++i) {
        const std::string text = pattern(2);
        const std::regex same(text);
        for (int j = 0; j < 10; ++j) {
            const std::string tried = name(6);
            INFO(text << " on " << tried);
            const bool expected = std::regex_match(tried, same);
            found += expected ? 1 : 0;
            REQUIRE(matches(text, tried) == expected);
        }
    }
    CHECK(found > 1'000);
}

TEST_CASE("what is no pattern, and what is not known here", "[model][pattern]") {
    for (const char* pattern : {"(a", "a)", "[a", "*a", "a\\", "a{3,2}", "a**", "[b-a]", "(?P<a"}) {
        const auto parsed = NamePattern::parse(pattern);
        REQUIRE_FALSE(parsed.ok());
        CHECK(parsed.errors().any_invalid());
    }
    for (const char* pattern : {"(?=a)", "(?!a)b", "(?i)a", R"(a\b)", R"((a)\1)", "(?P=a)"}) {
        const auto parsed = NamePattern::parse(pattern);
        REQUIRE_FALSE(parsed.ok());
        CHECK_FALSE(parsed.errors().any_invalid());
    }
    CHECK_FALSE(NamePattern::parse(std::string(2000, 'a')).ok());
    CHECK_FALSE(NamePattern::parse("((a{1000}){1000}){1000}").ok());
}

TEST_CASE("a pattern that backtracking would not survive", "[model][pattern]") {
    CHECK_FALSE(matches("(a+)+(b|c)", std::string(200, 'a')));
    CHECK(matches("(a|aa)*(a?){50}b", std::string(150, 'a') + "b"));
}

TEST_CASE("suffixes and wildcards of names", "[model][pattern]") {
    CHECK(is_module_suffix("model.lm_head", "lm_head"));
    CHECK(is_module_suffix("lm_head", "lm_head"));
    CHECK_FALSE(is_module_suffix("model.my_lm_head", "lm_head"));
    CHECK_FALSE(is_module_suffix("head", "lm_head"));
    CHECK(matches_wildcard("*", ""));
    CHECK(matches_wildcard("model.*.bias", "model.layers.0.bias"));
    CHECK_FALSE(matches_wildcard("model.*.bias", "model.bias"));
    CHECK(matches_wildcard("*a*b*", "xxaxxbxx"));
    CHECK_FALSE(matches_wildcard("*a*b", "xxbxxa"));
}
