#include "build.hpp"
#include "model/blocks.hpp"
#include "model/config.hpp"

using namespace membudget;

namespace {

/// "(0 1)x3 (0)x1"
std::string compressed(const std::vector<int>& kinds) {
    std::string out;
    std::size_t next = 0;
    for (const Section& section : sections_of(kinds, "layers.{}.")) {
        CHECK(section.first_index == static_cast<std::int64_t>(next));
        if (!out.empty()) out += " ";
        out += "(";
        for (std::size_t i = 0; i < section.pattern.size(); ++i)
            out += (i > 0 ? " " : "") + std::to_string(section.pattern[i]);
        out += ")x" + std::to_string(section.count);
        for (std::int64_t copy = 0; copy < section.count; ++copy)
            for (const int kind : section.pattern) CHECK(kinds[next++] == kind);
    }
    CHECK(next == kinds.size());
    return out;
}

}  // namespace

TEST_CASE("sequences of layer kinds become patterns") {
    CHECK(compressed({}).empty());
    CHECK(compressed({0}) == "(0)x1");
    CHECK(compressed({0, 0, 0}) == "(0)x3");
    CHECK(compressed({0, 1, 0, 1, 0, 1}) == "(0 1)x3");
    CHECK(compressed({0, 1, 0, 1, 0}) == "(0 1)x2 (0)x1");
    CHECK(compressed({0, 0, 0, 1, 1, 1, 1}) == "(0)x3 (1)x4");
    CHECK(compressed({0, 0, 0, 1, 0, 0, 0, 1}) == "(0 0 0 1)x2");
    CHECK(compressed({0, 1, 2}) == "(0)x1 (1)x1 (2)x1");
}

TEST_CASE("a list of keys holds names, synonyms and defaults") {
    const auto keys = config_keys("a|b=1 c d=null");
    REQUIRE(keys.size() == 3);
    CHECK(keys[0].name() == "a");
    CHECK(keys[0].names == "a|b");
    CHECK(keys[0].default_text == "1");
    CHECK_FALSE(keys[1].has_default);
    CHECK(keys[2].has_default);
}

TEST_CASE("asking for a key that the class does not list is a defect") {
    const KeyTree tree = KeyTree::object();
    Diagnostics diagnostics;
    ConfigReader reader(tree, "", "test", "a=1", diagnostics);
    CHECK(reader.size("a") == 1);
    CHECK_THROWS_AS(reader.size("b"), InternalError);
}

TEST_CASE("defaults have the forms of JSON") {
    const KeyTree tree = KeyTree::object();
    Diagnostics diagnostics;
    ConfigReader reader(tree, "", "test", "a=12 b=0.25 c=true d=[1,2,3] e=gelu f=null", diagnostics);
    CHECK(reader.size("a") == 12);
    CHECK(reader.number("b") == Approx(0.25));
    CHECK(reader.flag("c"));
    CHECK(reader.sizes("d") == std::vector<std::int64_t>{1, 2, 3});
    CHECK(reader.activation("e") == Act::gelu);
    CHECK(reader.size_or("f", 7) == 7);
    CHECK(diagnostics.empty());
}
