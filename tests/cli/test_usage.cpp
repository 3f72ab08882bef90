#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "run.hpp"

using Words = std::vector<std::string>;

TEST_CASE("help stands on stdout and tells the exit status") {
    for (const auto& command : membudget::cli::commands()) {
        const Ran ran = run({std::string(command.name), "--help"});
        CAPTURE(command.name, ran.out);
        CHECK(ran.exit == 0);
        CHECK(ran.err.empty());
        for (const char* expected : {"Examples:", "Exit status:", "--format", "--output"})
            CHECK(ran.out.find(expected) != std::string::npos);
        CHECK(run({"help", std::string(command.name)}).out == ran.out);
    }
    const Ran all = run({"--help"});
    for (const auto& command : membudget::cli::commands())
        CHECK(all.out.find(command.doc) != std::string::npos);
    CHECK(run({"--version"}).out.starts_with("membudget "));
}

TEST_CASE("wrong usage exits 2 with what is wrong and what to do") {
    const auto [words, error, hint] = GENERATE(table<Words, std::string, std::string>({
        {{}, "expected a command", "see `membudget --help`"},
        {{"estmate"}, "unknown command 'estmate'", "did you mean 'estimate'?"},
        {{"forecast"}, "unknown command 'forecast'", "see `membudget --help`"},
        {{"--budget", "1GB"}, "unknown option '--budget'",
         "options follow the command: membudget COMMAND [OPTIONS] ..."},
        {{"estimate"}, "estimate needs a SPEC", "see `membudget estimate --help`"},
        {{"estimate", "a.json", "--bugdet", "80GB"}, "unknown option '--bugdet'",
         "did you mean '--budget'?"},
        {{"estimate", "a.json", "b.json"}, "unexpected argument 'b.json'",
         "see `membudget estimate --help`"},
        {{"estimate", "a.json", "--batch"}, "option --batch needs a value",
         "see `membudget estimate --help`"},
        {{"estimate", "a.json", "--format", "jsn"}, "unknown format 'jsn'", "did you mean 'json'?"},
        {{"estimate", "a.json", "--color", "red"},
         "expected --color auto, always or never; got 'red'", "see `membudget estimate --help`"},
        {{"list", "optimisers"}, "unknown kind 'optimisers'", "did you mean 'optimizers'?"},
        {{"compare"}, "compare needs a SPEC", "see `membudget compare --help`"},
        {{"compare", "a", "b", "--scenario", "x"},
         "scenarios belong to one spec: give one SPEC with --scenario",
         "see `membudget compare --help`"},
        {{"compare", "a", "--max-increase", "5%"},
         "--max-increase needs --baseline: what would the growth be measured against?",
         "see `membudget compare --help`"},
        {{"compare", "-", "-"}, "standard input can be read only once",
         "see `membudget compare --help`"},
        {{"explain", "a.json"}, "explain needs a SPEC and a TERM or --at", "see `membudget explain --help`"},
    }));
    const Ran ran = run(words);
    CAPTURE(words);
    CHECK(ran.exit == 2);
    CHECK(ran.out.empty());
    CHECK(ran.err == "error: " + error + "\nhint: " + hint + "\n");
}

TEST_CASE("with --format json a wrong command line gets the envelope too") {
    for (const Words& words : {Words{"estimate", "--format", "json"},
                               Words{"estimate", "x.json", "--bugdet", "1", "--format=json"},
                               Words{"estmate", "-f", "json"}}) {
        CAPTURE(words);
        const Ran ran = run(words);
        CHECK(ran.exit == 2);
        const auto json = nlohmann::json::parse(ran.out);
        CHECK(json.at("schema_version") == "1.0");
        CHECK(json.at("totals").is_null());
        REQUIRE(json.at("errors").size() == 1);
        CHECK(ran.err.find(json.at("errors").at(0).at("message").get<std::string>()) !=
              std::string::npos);
    }
}
