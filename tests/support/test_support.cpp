#include "catch.hpp"
#include "membudget/support.hpp"

#include <array>
#include <random>
#include <string>
#include <vector>


using namespace membudget;

namespace {

struct NamedRow {
    std::string_view name;
    int value;
};
constexpr NamedRow kRows[] = {{"adam", 1}, {"adamw", 2}, {"lion", 3}};
static_assert(names_are_unique(kRows));
constexpr NamedRow kTwice[] = {{"adam", 1}, {"lion", 2}, {"adam", 3}};
static_assert(!names_are_unique(kTwice));
static_assert(Table<NamedRow>(kRows).find("lion")->value == 3);
static_assert(Table<NamedRow>(kRows).find("sgd") == nullptr);

/// The definition of the distance, written the slow way.
std::size_t plain_distance(std::string_view a, std::string_view b) {
    if (a.empty()) return b.size();
    if (b.empty()) return a.size();
    const std::size_t replaced =
        plain_distance(a.substr(1), b.substr(1)) + (a[0] == b[0] ? 0 : 1);
    return std::min({replaced, plain_distance(a.substr(1), b) + 1,
                     plain_distance(a, b.substr(1)) + 1});
}

}  // namespace

TEST_CASE("edit_distance agrees with its definition and stops at the limit", "[support]") {
    std::mt19937 random(20240607);
    const auto word = [&random] {
        std::string out(random() % 6, 'a');
        for (char& c : out) c = static_cast<char>('a' + random() % 3);
        return out;
    };
    for (int i = 0; i < 2000; ++i) {
        const std::string a = word(), b = word();
        const std::size_t exact = plain_distance(a, b);
        for (std::size_t limit = 0; limit < 7; ++limit) {
            INFO(a << " " << b << " " << limit);
            CHECK(edit_distance(a, b, limit) == std::min(exact, limit + 1));
            CHECK(edit_distance(b, a, limit) == edit_distance(a, b, limit));
        }
    }
}

TEST_CASE("closest finds slips and nothing else", "[support]") {
    constexpr std::array<std::string_view, 6> kNames{
        "optimizer", "precision", "data", "sharding", "bf16-autocast", "lr"};
    struct Case {
        std::string_view typed, nearest;
    };
    const auto [typed, nearest] = GENERATE(values<Case>({
        {"optimzer", "optimizer"},
        {"optimiser", "optimizer"},
        {"OPTIMIZER", "optimizer"},
        {"dat", "data"},
        {"daat", ""},  // two edits in four letters
        {"date", "data"},
        {"shardingg", "sharding"},
        {"bf16_autocast", "bf16-autocast"},
        {"bf16autocast", "bf16-autocast"},
        {"momentum", ""},
        {"x", ""},
        {"", ""},
        {"l", ""},
        {"lx", "lr"},
    }));
    INFO(typed);
    CHECK(closest(typed, kNames) == nearest);
    CHECK(did_you_mean(typed, kNames) ==
          (nearest.empty() ? "" : "did you mean '" + std::string(nearest) + "'?"));
}

TEST_CASE("closest takes the nearest, and the first of equals", "[support]") {
    constexpr std::array<std::string_view, 3> kNames{"adamax", "adamw", "adamb"};
    CHECK(closest("adam", kNames) == "adamw");
    CHECK(closest("adamb", kNames) == "adamb");
}

TEST_CASE("closest prefers the name that goes on where the typed one ends", "[support]") {
    constexpr std::array<std::string_view, 4> kNames{"a10", "a100-40gb", "a100-80gb", "h100"};
    CHECK(closest("a100", kNames) == "a100-40gb");
    CHECK(closest("a10", kNames) == "a10");
    CHECK(closest("A100_80GB", kNames) == "a100-80gb");
    CHECK(closest("a", kNames) == "");
}

TEST_CASE("Table reads its rows", "[support]") {
    const Table<NamedRow> table(kRows);
    CHECK(table.names() == std::vector<std::string_view>{"adam", "adamw", "lion"});
    CHECK(table.closest("adamww") == "adamw");
    CHECK(table.size() == 3);
    int sum = 0;
    for (const NamedRow& row : table) sum += row.value;
    CHECK(sum == 6);
}

TEST_CASE("JSON pointers escape what RFC 6901 escapes", "[support]") {
    CHECK(pointer_child("", "a") == "/a");
    CHECK(pointer_child("/a", "b/c~d") == "/a/b~1c~0d");
    CHECK(pointer_child("/a", "") == "/a/");
    CHECK(pointer_child("/a", std::size_t{3}) == "/a/3");
}

TEST_CASE("quoted makes any bytes safe to print", "[support]") {
    struct Case {
        std::string text, shown;
    };
    const auto [text, shown] = GENERATE(values<Case>({
        {"", "''"},
        {"abc", "'abc'"},
        {"a\nb\tc", "'a\\nb\\tc'"},
        {"\x1b[31m", "'\\x1b[31m'"},
        {std::string("a\0b", 3), "'a\\x00b'"},
        {"\x7f", "'\\x7f'"},
        {"\xc3\xa9", "'\xc3\xa9'"},
        {"\xc2\x9b", "'\\u009b'"},
        {"\xff\xc3", "'\\xff\\xc3'"},
        {std::string(41, 'x'), "'" + std::string(40, 'x') + "...'"},
        {std::string(40, 'x'), "'" + std::string(40, 'x') + "'"},
    }));
    CHECK(in_quotes(text) == shown);
    CHECK(in_quotes("abcdef", 3) == "'abc...'");
    // A cut never splits a character.
    CHECK(in_quotes("\xc3\xa9\xc3\xa9", 1) == "'\xc3\xa9...'");
}

TEST_CASE("utf8_length knows the well-formed sequences", "[support]") {
    struct Case {
        std::string text;
        std::size_t length;
    };
    const auto [text, length] = GENERATE(values<Case>({
        {"", 0},
        {"a", 1},
        {"\xc2\x80", 2},
        {"\xc0\xaf", 0},          // overlong
        {"\xc1\xbf", 0},          // overlong
        {"\xe0\x80\xaf", 0},      // overlong
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xed\xa0\x80", 0},      // surrogate
        {"\xf0\x8f\xbf\xbf", 0},  // overlong
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\xf4\x90\x80\x80", 0},  // beyond U+10FFFF
        {"\xf5\x80\x80\x80", 0},
        {"\xe2\x82", 0},          // cut off
        {"\xe2\x28\xa1", 0},
        {"\xf0\x90\x80\x28", 0},
        {"\x80", 0},
    }));
    CHECK(utf8_length(text) == length);
}

TEST_CASE("Diagnostics keep their order and decide the kind of trouble", "[support]") {
    Diagnostics first;
    CHECK(first.empty());
    first.unsupported("/a", "not modelled");
    CHECK_FALSE(first.any_invalid());
    Diagnostics second;
    second.invalid("/b", "wrong", "do it right");
    second.add({Trouble::invalid, "own.json", "", "m", ""});
    first.take(second);
    first.set_file("run.json");
    first.prefix_pointers("/scenarios/x");
    REQUIRE(first.size() == 3);
    CHECK(first.any_invalid());
    CHECK(first.list()[0] ==
          Diagnostic{Trouble::unsupported, "run.json", "/scenarios/x/a", "not modelled", ""});
    CHECK(first.list()[1] ==
          Diagnostic{Trouble::invalid, "run.json", "/scenarios/x/b", "wrong", "do it right"});
    CHECK(first.list()[2] == Diagnostic{Trouble::invalid, "own.json", "/scenarios/x", "m", ""});
}

TEST_CASE("Result holds a value or the reasons", "[support]") {
    const Result<int> good = 4;
    CHECK(good.ok());
    CHECK(*good == 4);
    CHECK_THROWS_AS(good.errors(), InternalError);
    const Result<int> bad = Diagnostic{Trouble::invalid, "", "", "no", ""};
    CHECK_FALSE(bad);
    CHECK(bad.errors().list().front().message == "no");
    CHECK_THROWS_AS(bad.value(), InternalError);
    CHECK_THROWS_AS(Result<int>(Diagnostics{}), InternalError);
    Result<std::string> text = std::string("moved");
    CHECK(std::move(text).value() == "moved");
}

TEST_CASE("ENSURE names the condition and the place", "[support]") {
    try {
        MEMBUDGET_ENSURE(1 + 1 == 3, "arithmetic works");
        FAIL("not reached");
    } catch (const InternalError& error) {
        const std::string text = error.what();
        CHECK(text.find("arithmetic works (violated: 1 + 1 == 3 at ") == 0);
        CHECK(text.find("test_support.cpp:") != std::string::npos);
    }
}
