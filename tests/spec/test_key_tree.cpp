#include "catch.hpp"
#include "membudget/spec.hpp"

#include <random>

#include "spec/shown.hpp"

using namespace membudget;

namespace {

using Kind = KeyTree::Kind;

KeyTree parsed(std::string_view text, DuplicateKeys duplicates = DuplicateKeys::refuse) {
    return parse_json(text, "test", duplicates).value();
}

/// The plainest JSON text of a tree, for going round.
std::string text_of(const KeyTree& tree) {
    std::string out;
    switch (tree.kind()) {
        case Kind::null: return "null";
        case Kind::boolean: return tree.boolean() ? "true" : "false";
        case Kind::integer: return std::to_string(tree.integer());
        case Kind::number: return tree.text();
        case Kind::string: return '"' + tree.text() + '"';
        case Kind::array:
            for (const KeyTree& item : tree.items())
                out += (out.empty() ? "" : " , ") + text_of(item);
            return "[" + out + "]";
        case Kind::object:
            for (const auto& [key, value] : tree.members())
                out += (out.empty() ? "\"" : ",\n\"") + key + "\" : " + text_of(value);
            return "{" + out + "}";
    }
    return out;
}

KeyTree random_tree(std::mt19937_64& random, int depth) {
    switch (random() % (depth > 0 ? 8 : 6)) {
        case 0: return KeyTree();
        case 1: return KeyTree(random() % 2 == 0);
        case 2: return KeyTree(static_cast<std::int64_t>(random()));
        case 3: return KeyTree(static_cast<std::int64_t>(random() % 10));
        case 4: return KeyTree::number(0.25, "2.50e-1");
        case 5: return KeyTree(std::string(random() % 4, 'x'));
        case 6: {
            KeyTree out = KeyTree::array();
            for (std::uint64_t n = random() % 4; n > 0; --n)
                out.items().push_back(random_tree(random, depth - 1));
            return out;
        }
        default: {
            KeyTree out = KeyTree::object();
            for (std::uint64_t n = random() % 4; n > 0; --n)
                out.members().emplace_back(std::string(n, 'k'), random_tree(random, depth - 1));
            return out;
        }
    }
}

}  // namespace

TEST_CASE("any tree is what its text reads as", "[spec]") {
    std::mt19937_64 random(99);
    for (int i = 0; i < 5000; ++i) {
        const KeyTree tree = random_tree(random, 5);
        const std::string text = text_of(tree);
        INFO(text);
        const Result<KeyTree> back = parse_json(text, "test");
        REQUIRE(back.ok());
        REQUIRE(*back == tree);
    }
}

TEST_CASE("numbers keep what doubles lose", "[spec]") {
    const KeyTree tree = parsed("[9223372036854775807, -9223372036854775808, 9007199254740993, "
                                "9223372036854775808, 18446744073709551616, 1.10, 1E3, -0, -0.0]");
    const auto& items = tree.items();
    CHECK(items[0] == KeyTree(std::int64_t{9223372036854775807}));
    CHECK(items[1].integer() == -9223372036854775807 - 1);
    CHECK(items[2].integer() == 9007199254740993);
    CHECK(items[3] == KeyTree::number(9223372036854775808.0, "9223372036854775808"));
    CHECK(items[4].text() == "18446744073709551616");
    CHECK(items[5] == KeyTree::number(1.1, "1.10"));
    CHECK(items[6] == KeyTree::number(1000, "1E3"));
    CHECK(items[7] == KeyTree(std::int64_t{0}));
    CHECK(items[8].is(Kind::number));
    CHECK(items[2].number() == 9007199254740992.0);
}

TEST_CASE("strings are decoded, keys keep their order, a BOM is skipped", "[spec]") {
    const KeyTree tree = parsed("\xEF\xBB\xBF" R"({"z":"\u00e9\n\ud83d\ude00","a":[],"m":{}})");
    REQUIRE(tree.members().size() == 3);
    CHECK(tree.members()[0].first == "z");
    CHECK(tree.members()[0].second.text() == "\xC3\xA9\n\xF0\x9F\x98\x80");
    CHECK(tree.members()[1].first == "a");
    CHECK(tree.members()[2].first == "m");
}

TEST_CASE("repeated keys are refused, folded or kept", "[spec]") {
    const std::string text = R"({"a":1,"b":{"c":1,"c":2},"a":3,"d":4})";
    CHECK(shown(parse_json(text, "test").errors()) ==
          "error: /b/c: expected every key once; got 'c' again\n"
          "error: /a: expected every key once; got 'a' again\n");
    CHECK(parsed(text, DuplicateKeys::last_wins) == parsed(R"({"a":3,"b":{"c":2},"d":4})"));
    CHECK(parsed(text, DuplicateKeys::keep).members().size() == 4);
    CHECK(parsed(text, DuplicateKeys::keep).find("a")->integer() == 1);
}

TEST_CASE("numbers that only Python writes are null in files of others", "[spec]") {
    const std::string text = R"({"a": [0.0, Infinity, -Infinity], "NaN\"": "Infinity", "b": NaN})";
    CHECK(parsed(text, DuplicateKeys::last_wins) ==
          parsed(R"({"a": [0.0, null, null], "NaN\"": "Infinity", "b": null})"));
    CHECK_FALSE(parse_json(text, {}).ok());
}

TEST_CASE("many equal keys are no slow path", "[spec]") {
    std::string text = "{";
    for (int i = 0; i < 200'000; ++i) text += "\"k" + std::to_string(i % 1000) + "\":0,";
    text.back() = '}';
    CHECK(parsed(text, DuplicateKeys::last_wins).members().size() == 1000);
    CHECK(parse_json(text, "test").errors().size() == 200);
}

TEST_CASE("limits of size, depth and count", "[spec]") {
    const auto error = [](const std::string& text, ReadLimits limits) {
        return shown(parse_json(text, "test", DuplicateKeys::refuse, limits).errors());
    };
    const std::string deep = std::string(200, '[') + std::string(200, ']');
    CHECK(parse_json(deep, "test").ok());
    CHECK(error("[" + deep + "]", {}) ==
          "error: expected at most 200 levels of nesting; got more\n");
    CHECK(error(std::string(10'000'000, '['), {}) ==
          "error: expected at most 200 levels of nesting; got more\n");
    CHECK(error("{\"a\":{\"b\":{}}}", {.bytes = 100, .depth = 2, .values = 9}) ==
          "error: expected at most 2 levels of nesting; got more\n");
    CHECK(error("[1]", {.bytes = 2, .depth = 2, .values = 9}) ==
          "error: expected at most 2 bytes; got 3\n");
    CHECK(error("[1,2,3]", {.bytes = 100, .depth = 2, .values = 3}) ==
          "error: expected at most 3 values; got more\n");
    CHECK(parse_json("[1,2]", "test", DuplicateKeys::refuse, {.bytes = 5, .depth = 1, .values = 3})
              .ok());
}

TEST_CASE("members are found, added and removed", "[spec]") {
    KeyTree tree;
    tree.at_or_add("a").at_or_add("b") = KeyTree("x");
    CHECK(tree == parsed(R"({"a":{"b":"x"}})"));
    CHECK(tree.find("a")->find("b")->text() == "x");
    CHECK(tree.find("b") == nullptr);
    tree.remove("a");
    CHECK(tree == KeyTree::object());
    KeyTree number(std::int64_t{1});
    CHECK_THROWS_AS(number.at_or_add("a"), InternalError);
}

TEST_CASE("describe names a value as messages need it", "[spec]") {
    struct Case {
        const char *text, *words;
    };
    const auto [text, words] = GENERATE(values<Case>({
        {"null", "null"},
        {"true", "true"},
        {"false", "false"},
        {"0", "zero"},
        {"7", "an integer (7)"},
        {"-4", "a negative integer (-4)"},
        {"2.5", "a fraction (2.5)"},
        {"-2.5", "a negative fraction (-2.5)"},
        {"1e30", "a number (1e30)"},
        {"0.1000000000000000000000000000000000000000001",
         "a fraction (0.10000000000000000000000000000000000000...)"},
        {"\"\"", "an empty string"},
        {"\"abc\"", "a string ('abc')"},
        {"\"\\u001b[0m\"", "a string ('\\x1b[0m')"},
        {"[]", "an empty array"},
        {"[1]", "an array"},
        {"{}", "an empty object"},
        {"{\"a\":1}", "an object"},
    }));
    CHECK(parsed(text).describe() == words);
}

TEST_CASE("a document is recognised by its content", "[spec]") {
    CHECK(recognise(parsed(R"({"membudget":1})")) == InputKind::spec);
    CHECK(recognise(parsed(R"({"membudget":9,"model_type":"x"})")) == InputKind::spec);
    CHECK(recognise(parsed(R"({"model_type":"llama"})")) == InputKind::model_config);
    CHECK(recognise(parsed(R"({"architectures":[]})")) == InputKind::model_config);
    CHECK(recognise(parsed(R"({"_class_name":"FluxTransformer2DModel"})")) ==
          InputKind::model_config);
    CHECK(recognise(parsed(R"({"model":{}})")) == InputKind::unknown);
    CHECK(recognise(parsed("[]")) == InputKind::unknown);
    CHECK(recognise(parsed("3")) == InputKind::unknown);
}
