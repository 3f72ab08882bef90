// The engine of the golden and docs tests, tested on its own: a golden that cannot fail proves
// nothing.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "catch.hpp"
#include "transcript/case.hpp"
#include "transcript/shell.hpp"
#include "transcript/text.hpp"

namespace {

using namespace transcript;

constexpr const char* kCase = R"(# A comment.
==> spec.json <==
{"membudget": 1}

$ cat spec.json
{"membudget": 1}

$ printf 'a\n\n' && cat absent
a

2> cat: absent: No such file or directory
2>
-> 1

$ printf \
  x
x
\ no newline at end
)";

Outcome run(const std::string& command, Stderr where = Stderr::apart) {
    const ScratchFolder folder;
    return run_shell(command, folder.path(), "/nonexistent", where);
}

Case with_outcome(Outcome outcome) {
    Case out;
    out.steps.emplace_back(Command{1, "x", std::move(outcome)});
    out.steps.emplace_back(Command{2, "y", {}});
    return out;
}

}  // namespace

TEST_CASE("a case is read") {
    const auto a_case = parse_case(kCase);
    CHECK(a_case.comment == "# A comment.\n");
    REQUIRE(a_case.steps.size() == 4);
    const auto& input = std::get<Input>(a_case.steps[0]);
    CHECK(input.name == "spec.json");
    CHECK(input.content == "{\"membudget\": 1}\n");
    const auto& first = std::get<Command>(a_case.steps[1]);
    CHECK(first.line == 5);
    CHECK(first.text == "cat spec.json");
    CHECK(first.outcome == Outcome{"{\"membudget\": 1}\n", "", 0});
    const auto& second = std::get<Command>(a_case.steps[2]);
    CHECK(second.outcome ==
          Outcome{"a\n\n", "cat: absent: No such file or directory\n\n", 1});
    const auto& third = std::get<Command>(a_case.steps[3]);
    CHECK(third.text == "printf \\\n  x");
    CHECK(third.outcome == Outcome{"x", "", 0});
}

TEST_CASE("a case is written as it was read") { CHECK(render_case(parse_case(kCase)) == kCase); }

TEST_CASE("any outcome survives being written and read") {
    for (const Outcome& outcome : std::vector<Outcome>{
             {"", "", 0},
             {"\n", "\n", 7},
             {"\n\n", "", 0},
             {"# title\n$ x\n==> y <==\n2> z\n-> 1\n", "$ x\n-> 2\n", 1},
             {"\\ no newline at end\n", "\\x", 0},
             {"no end", "no end", 255},
             {"a\n\nb\n\n", "2> a\n\n", 0},
         }) {
        const auto text = render_case(with_outcome(outcome));
        CAPTURE(text);
        const auto again = parse_case(text);
        REQUIRE(again.steps.size() == 2);
        CHECK(std::get<Command>(again.steps[0]).outcome == outcome);
        CHECK(std::get<Command>(again.steps[1]).outcome == Outcome{});
    }
}

TEST_CASE("a text that is no case is refused with its line") {
    CHECK_THROWS_WITH(parse_case("# nothing\n"), "no command");
    CHECK_THROWS_WITH(parse_case("$ x\n-> 0\n"),
                      "line 2: expected a positive exit code after '-> '");
    CHECK_THROWS_WITH(parse_case("$ x\n-> 1x\n"),
                      "line 2: expected a positive exit code after '-> '");
    CHECK_THROWS_WITH(parse_case("$ x\n-> 1\ny\n"), "line 3: nothing may follow the exit code");
    CHECK_THROWS_WITH(parse_case("$ x\n\\ no newline at end\n"), "line 2: no line stands above");
}

TEST_CASE("a command's streams and exit code are kept apart") {
    CHECK(run("echo out; echo err >&2; exit 3") == Outcome{"out\n", "err\n", 3});
    CHECK(run("echo a; echo b >&2; echo c", Stderr::with_out) == Outcome{"a\nb\nc\n", "", 0});
    CHECK(run("kill -TERM $$").exit == 128 + 15);
    CHECK(run("no-such-command").exit == 127);
    CHECK(run("cat").out.empty());  // standard input is empty
}

TEST_CASE("more output than a pipe holds does not block") {
    const auto outcome = run("yes | head -n 100000; yes no | head -n 100000 >&2");
    CHECK(outcome.out.size() == 200'000);
    CHECK(outcome.err.size() == 300'000);
}

TEST_CASE("the environment is the same everywhere") {
    ::setenv("NO_COLOR", "1", 1);
    ::setenv("LANG", "de_DE.UTF-8", 1);
    CHECK(run("echo \"$LC_ALL $TZ ${NO_COLOR-unset} ${LANG-unset}\"").out ==
          "C UTC unset unset\n");
    CHECK(run("echo \"${PATH%%:*}\"").out == "/nonexistent\n");
}

TEST_CASE("a scratch folder disappears") {
    std::filesystem::path path;
    {
        const ScratchFolder folder;
        path = folder.path();
        write_file(path / "a" / "b", "text");
        CHECK(read_file(path / "a" / "b") == "text");
    }
    CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a diff shows what changed, with context") {
    const std::vector<std::string> one = {"1", "2", "3", "4", "5", "6", "7", "8", "9"};
    auto other = one;
    CHECK(diff(one, other).find_first_of("+-") == std::string::npos);
    other[4] = "five";
    CHECK(diff(one, other) ==
          "  [...]\n  2\n  3\n  4\n- 5\n+ five\n  6\n  7\n  8\n  [...]\n");
    CHECK(diff({}, {"x"}) == "+ x\n");
    CHECK(diff({"x"}, {}) == "- x\n");
}
