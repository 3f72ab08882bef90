// This tree keeps the rules; and each rule sees its violation in a small tree that is otherwise
// right.

#include <filesystem>
#include <string>
#include <vector>

#include "catch.hpp"
#include "layering/rules.hpp"
#include "transcript/shell.hpp"
#include "transcript/text.hpp"

namespace {

using Lines = std::vector<std::string>;

/// A tree with one small source for everything that must exist.
class Tree {
public:
    Tree() {
        for (const auto part : layering::parts()) {
            const std::string name(part);
            if (name == "planner") continue;
            write("include/membudget/" + name + ".hpp", "#pragma once\n");
            for (const auto& folder : {"src/" + name, "tests/" + name}) {
                write(folder + "/CMakeLists.txt", "a.cpp");
                write(folder + "/a.cpp", "#include \"membudget/" + name + ".hpp\"\n");
            }
        }
    }

    Tree& write(const std::string& file, const std::string& text) {
        transcript::write_file(folder_.path() / file, text);
        return *this;
    }
    Tree& remove(const std::string& file) {
        std::filesystem::remove_all(folder_.path() / file);
        return *this;
    }
    [[nodiscard]] layering::Findings check() const { return layering::check_tree(folder_.path()); }
    [[nodiscard]] Lines violations() const { return check().violations; }

private:
    transcript::ScratchFolder folder_;
};

/// What is wrong when `text` is the source `file`.
Lines violations_of(const std::string& file, const std::string& text) {
    return Tree().write(file, text).violations();
}

}  // namespace

TEST_CASE("this tree keeps the rules") {
    const auto found = layering::check_tree(".");
    CHECK(transcript::joined(found.violations) == "");
    for (const auto& note : found.notes) WARN(note);
}

TEST_CASE("a tree that keeps the rules has no violation") { CHECK(Tree().violations().empty()); }

TEST_CASE("an include points up the list of parts") {
    CHECK(violations_of("src/spec/a.cpp", "#include \"membudget/quantity.hpp\"\n").empty());
    CHECK(violations_of("src/spec/a.cpp", "\n#include \"membudget/model.hpp\"\n") ==
          Lines{"src/spec/a.cpp: line 2: spec may not include model, which stands below it"});
    CHECK(violations_of("include/membudget/support.hpp", "#include \"membudget/quantity.hpp\"\n") ==
          Lines{"include/membudget/support.hpp: line 1: support may not include quantity, which "
                "stands below it"});
    CHECK(violations_of("src/spec/a.cpp", "#include \"membudget/nothing.hpp\"\n") ==
          Lines{"src/spec/a.cpp: line 1: 'membudget/nothing.hpp' belongs to no part"});
}

TEST_CASE("the facade stands below scenario and above report") {
    CHECK(violations_of("src/membudget/a.cpp", "#include \"membudget/scenario.hpp\"\n").empty());
    CHECK(violations_of("src/report/a.cpp", "#include \"membudget/membudget.hpp\"\n").empty());
    CHECK(violations_of("src/scenario/a.cpp", "#include \"membudget/membudget.hpp\"\n") ==
          Lines{"src/scenario/a.cpp: line 1: scenario may not include membudget, which stands "
                "below it"});
}

TEST_CASE("private headers stay in their part") {
    CHECK(violations_of("src/spec/a.cpp", "#include \"spec/fields.hpp\"\n").empty());
    CHECK(violations_of("src/model/a.cpp", "#include \"spec/fields.hpp\"\n") ==
          Lines{"src/model/a.cpp: line 1: 'spec/fields.hpp' is private to its part"});
    CHECK(violations_of("include/membudget/spec.hpp", "#include \"spec/fields.hpp\"\n") ==
          Lines{"include/membudget/spec.hpp: line 1: 'spec/fields.hpp' is private to its part"});
    CHECK(Tree()
              .write("src/membudget/half.hpp", "#pragma once\n")
              .write("src/membudget/a.cpp", "#include \"membudget/half.hpp\"\n")
              .violations()
              .empty());
    CHECK(Tree()
              .write("src/membudget/half.hpp", "#pragma once\n")
              .write("src/cli/a.cpp", "#include \"membudget/half.hpp\"\n")
              .violations() == Lines{"src/cli/a.cpp: line 1: 'membudget/half.hpp' belongs to no part"});
}

TEST_CASE("each library stays where it may be known") {
    CHECK(violations_of("src/spec/a.cpp", "#include <nlohmann/json.hpp>\n").empty());
    CHECK(violations_of("src/cli/a.cpp", "#include <CLI/CLI.hpp>\n").empty());
    CHECK(violations_of("src/model/a.cpp", "#include <fmt/core.h>\n").empty());
    CHECK(violations_of("src/model/a.cpp", "#include <nlohmann/json.hpp>\n") ==
          Lines{"src/model/a.cpp: line 1: model may not know <nlohmann/json.hpp>"});
    CHECK(violations_of("src/report/a.cpp", "#include <CLI/CLI.hpp>\n") ==
          Lines{"src/report/a.cpp: line 1: report may not know <CLI/CLI.hpp>"});
    CHECK(violations_of("include/membudget/spec.hpp", "#include <nlohmann/json_fwd.hpp>\n") ==
          Lines{"include/membudget/spec.hpp: line 1: a public header includes "
                "<nlohmann/json_fwd.hpp>"});
}

TEST_CASE("only cli prints, exits or aborts") {
    const std::string text = "// printf(\n/* exit(\n*/ auto a = \"abort(\"; auto b = '\"';\n"
                             "snprintf(x); on_exit(y); auto c = R\"(std::cout)\"; int n = 1'000;\n";
    CHECK(violations_of("src/step/a.cpp", text).empty());
    CHECK(violations_of("src/cli/a.cpp", "std::cout << 1; std::exit(2);\n").empty());
    CHECK(violations_of("src/step/a.cpp", "std::cout << 1;\nstd::abort();\n") ==
          Lines{"src/step/a.cpp: line 1: only cli may say std::cout",
                "src/step/a.cpp: line 2: only cli may say abort("});
    CHECK(violations_of("include/membudget/step.hpp", "inline void f() { std::printf(\"\"); }\n") ==
          Lines{"include/membudget/step.hpp: line 1: only cli may say printf("});
}

TEST_CASE("sources are ASCII") {
    CHECK(violations_of("src/step/a.cpp", "// \xc3\xa9\n") ==
          Lines{"src/step/a.cpp: line 1: not ASCII"});
}

TEST_CASE("a part is a header, listed sources and listed tests") {
    CHECK(Tree().remove("include/membudget/job.hpp").violations() ==
          Lines{"include/membudget/job.hpp: missing"});
    CHECK(Tree().remove("src/job").violations() == Lines{"src/job: no source"});
    CHECK(Tree().remove("tests/job").violations() == Lines{"tests/job: no source"});
    CHECK(violations_of("src/job/forgotten.cpp", "") ==
          Lines{"src/job/forgotten.cpp: not listed in its CMakeLists.txt"});
    CHECK(violations_of("tests/job/forgotten.cpp", "") ==
          Lines{"tests/job/forgotten.cpp: not listed in its CMakeLists.txt"});
    CHECK(violations_of("src/extra/a.hpp", "") == Lines{"src/extra/a.hpp: belongs to no part"});
    CHECK(violations_of("include/membudget/planner.hpp", "") ==
          Lines{"src/planner: no source", "tests/planner: no source"});
}

TEST_CASE("a long file is noted") {
    Tree tree;
    std::string text;
    for (int i = 0; i < 401; ++i) text += '\n';
    tree.write("src/job/a.cpp", text);
    CHECK(tree.violations().empty());
    CHECK(tree.check().notes == Lines{"src/job/a.cpp: 401 lines"});
}
