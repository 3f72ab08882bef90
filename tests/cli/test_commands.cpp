#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "run.hpp"

using Json = nlohmann::json;

namespace {

Json json_of(const Ran& ran) {
    CAPTURE(ran.err);
    REQUIRE_FALSE(ran.out.empty());
    return Json::parse(ran.out);
}

std::int64_t allocated(const Json& report) {
    return report.at("totals").at("allocated").at("point_bytes").get<std::int64_t>();
}

}  // namespace

TEST_CASE("a budget decides the exit code, and its bound is inclusive") {
    const Folder folder;
    const std::string spec = folder.write("nine.json", kNineGB);
    CHECK(run({"estimate", spec}).exit == 0);
    CHECK(run({"estimate", spec, "--budget", "9GB"}).exit == 0);
    CHECK(run({"estimate", spec, "--budget", "8999999999"}).exit == 1);
    CHECK(json_of(run({"estimate", spec, "--budget", "9GB", "-f", "json"})).at("verdict") == "fits");
    const Ran over = run({"estimate", spec, "--budget", "8GB", "-f", "json"});
    CHECK(json_of(over).at("verdict") == "over");
    CHECK(over.err == "over: nine: 9.00 GB (8.38 GiB) allocated, 8.00 GB usable: 1.00 GB too much\n");
    const Ran bare = run({"estimate", spec, "--budget", "80G"});
    CHECK(bare.exit == 2);
    CHECK(bare.err.starts_with("error: --budget: "));
}

TEST_CASE("an open term is uncertain, and fails only under --strict") {
    const Folder folder;
    const std::string spec =
        folder.write("open.json", R"({"membudget": 1, "terms": {"parameters": "1GB"}})");
    const Ran ran = run({"estimate", spec, "--budget", "8GB", "-f", "json"});
    CHECK(ran.exit == 0);
    const Json json = json_of(ran);
    CHECK(json.at("verdict") == "uncertain");
    CHECK(json.at("totals").at("allocated").at("upper_bytes").is_null());
    CHECK_FALSE(json.at("warnings").empty());
    CHECK(run({"estimate", spec, "--budget", "8GB", "--strict"}).exit == 1);
}

TEST_CASE("a mistake in a flag is told under the flag's name") {
    const Folder folder;
    const std::string spec = folder.write("nine.json", kNineGB);
    const auto error_of = [&](const std::vector<std::string>& flags) {
        std::vector<std::string> words{"estimate", spec};
        words.insert(words.end(), flags.begin(), flags.end());
        const Ran ran = run(words);
        CHECK(ran.exit == 2);
        CHECK(ran.out.empty());
        return ran.err;
    };
    CHECK(error_of({"--batch", "four"}).starts_with("error: --batch: expected a positive integer"));
    CHECK(error_of({"--batch", "-4"}).starts_with("error: --batch: expected a positive integer"));
    CHECK(error_of({"--optimizer", "adamv"}).starts_with("error: --optimizer: "));
    CHECK(error_of({"--set", "training=1"}).starts_with("error: --set: expected POINTER=VALUE"));
    CHECK(error_of({"--set", "/training/stpe=first"}).starts_with("error: --set: /training/stpe: "));
    CHECK(error_of({"--scenario", "checkpoint"}).find("/scenarios: unknown scenario") !=
          std::string::npos);
}

TEST_CASE("flags and --set change the job as the file would") {
    const Folder folder;
    const std::string spec = folder.write("nine.json", kNineGB);
    const auto total = [&](std::vector<std::string> words) {
        words.insert(words.begin(), {"estimate", spec, "-f", "json"});
        return allocated(json_of(run(words)));
    };
    CHECK(total({}) == 9'000'000'000);
    CHECK(total({"--batch", "2"}) == 11'000'000'000);
    CHECK(total({"--set", "/terms/activations=\"3GB\""}) == 10'000'000'000);
    CHECK(total({"--set", "/terms/activations=3GB"}) == 10'000'000'000);
    CHECK(total({"--sharding", "zero1", "--data-parallel", "4"}) == 6'000'000'000);
    CHECK(total({"--scenario", "sharded"}) == 6'000'000'000);
    CHECK(total({"--scenario", "sharded", "--batch", "2"}) == 8'000'000'000);
}

TEST_CASE("compare shows what each scenario changes, saves and costs") {
    const Folder folder;
    const std::string spec = folder.write("nine.json", kNineGB);
    const Json json = json_of(run({"compare", spec, "-f", "json"}));
    REQUIRE(json.at("reports").size() == 3);
    REQUIRE(json.at("deltas").size() == 2);
    CHECK(allocated(json.at("reports")[0]) == 9'000'000'000);
    CHECK(allocated(json.at("deltas")[0]) == 8'000'000'000);
    CHECK(allocated(json.at("deltas")[1]) == 6'000'000'000);
    CHECK(json.at("deltas")[0].at("knobs")[0].at("technique") == "activation_checkpointing");
    CHECK(json.at("deltas")[1].at("name") == "sharded");
    for (const Json& term : json.at("deltas")[0].at("terms")) {
        const bool changed = term.at("from_bytes") != term.at("to_bytes");
        CHECK(changed == (term.at("path") == "activations"));
    }
    const std::string text = run({"compare", spec}).out;
    for (const char* expected :
         {"9.00 GB -> 8.00 GB, saves 1.00 GB (11.1 %)", "9.00 GB -> 6.00 GB, saves 3.00 GB (33.3 %)",
          "optimizer_states: 4.00 GB -> 1.00 GB", "recomputation", "communication", "measure"}) {
        CAPTURE(expected);
        CHECK(text.find(expected) != std::string::npos);
    }
}

TEST_CASE("compare takes built-in scenarios, several specs, and refuses a lonely one") {
    const Folder folder;
    const std::string nine = folder.write("nine.json", kNineGB);
    const std::string small =
        folder.write("small.json", R"({"membudget": 1, "terms": {"parameters": "1GB"}})");
    const Json built_in =
        json_of(run({"compare", nine, "--scenario", "optimizer_sharding", "sharded", "-f", "json"}));
    CHECK(allocated(built_in.at("deltas")[0]) == 7'000'000'000);
    CHECK(allocated(built_in.at("deltas")[1]) == 6'000'000'000);
    const Json two = json_of(run({"compare", nine, small, "-f", "json"}));
    CHECK(allocated(two.at("deltas")[0]) == 1'000'000'000);
    const Ran lonely = run({"compare", small});
    CHECK(lonely.exit == 2);
    CHECK(lonely.err.find("nothing to compare") != std::string::npos);
}

TEST_CASE("in compare a spec that is over counts, a scenario does not") {
    const Folder folder;
    const std::string spec = folder.write("nine.json", kNineGB);
    CHECK(run({"compare", spec, "--budget", "8.5GB"}).exit == 1);
    const std::string worse = folder.write("worse.json", R"({"membudget": 1,
        "terms": {"parameters": "1GB", "gradients": 0, "optimizer_states": 0, "activations": 0,
                  "temporaries": 0},
        "scenarios": {"huge": {"terms": {"activations": "99GB"}}}})");
    CHECK(run({"compare", worse, "--budget", "8GB"}).exit == 0);
}

TEST_CASE("growth over a baseline fails beyond the limit, which is inclusive") {
    const Folder folder;
    const std::string spec = folder.write("nine.json", kNineGB);
    const std::string old = folder.path("old.json");
    CHECK(run({"estimate", spec, "-f", "json", "-o", old}).exit == 0);
    const std::vector<std::string> grown{"compare", spec,      "--set",    "/terms/temporaries=1.45GB",
                                         "--baseline", old, "--max-increase"};
    const auto with = [&](const char* limit) {
        auto words = grown;
        words.emplace_back(limit);
        return run(words);
    };
    CHECK(with("5%").exit == 0);
    CHECK(with("450MB").exit == 0);
    CHECK(with("4.999%").exit == 1);
    const Ran over = with("449999999");
    CHECK(over.exit == 1);
    CHECK(over.out.find("OVER THE LIMIT  nine: 9450000000 B allocated, the limit is 9449999999 B") !=
          std::string::npos);
    CHECK(with("5%").out.find("WITHIN THE LIMIT  nine: 9.45 GB allocated, the limit is 9.45 GB") !=
          std::string::npos);
    const Json json = json_of(run({"compare", spec, "--baseline", old, "-f", "json"}));
    CHECK(json.at("baseline").at("allocated_point_bytes") == 9'000'000'000);
    REQUIRE(json.at("deltas").size() == 1);
    for (const Json& term : json.at("deltas")[0].at("terms"))
        CHECK(term.at("from_bytes") == term.at("to_bytes"));
}

TEST_CASE("deltas mirror each other when two specs change places") {
    const Folder folder;
    const std::string a = folder.write("a.json", kNineGB);
    const std::string b = folder.write("b.json", R"({"membudget": 1, "terms": {
        "parameters": "2GB", "activations/attention": "1GB", "outside/context": "500MB"}})");
    const Json forward = json_of(run({"compare", a, b, "-f", "json"})).at("deltas")[0].at("terms");
    const Json backward = json_of(run({"compare", b, a, "-f", "json"})).at("deltas")[0].at("terms");
    REQUIRE(forward.size() == backward.size());
    for (const Json& term : forward) {
        bool found = false;
        for (const Json& other : backward)
            found = found || (other.at("path") == term.at("path") &&
                              other.at("from_bytes") == term.at("to_bytes") &&
                              other.at("to_bytes") == term.at("from_bytes"));
        CAPTURE(term.dump());
        CHECK(found);
    }
}

TEST_CASE("explain puts the numbers into the formula") {
    const Folder folder;
    const std::string spec = folder.write("nine.json", kNineGB);
    const Ran ran = run({"explain", spec, "optimizer_states", "--sharding", "zero1",
                         "--data-parallel", "4"});
    CHECK(ran.exit == 0);
    for (const char* expected : {"1000000000 B = 1.00 GB", "/ 4 ranks", "stated", "formula"}) {
        CAPTURE(expected, ran.out);
        CHECK(ran.out.find(expected) != std::string::npos);
    }
    const Ran unknown = run({"explain", spec, "activation"});
    CHECK(unknown.exit == 2);
    CHECK(unknown.err.find("hint: did you mean 'activations'?") != std::string::npos);
    const Json json = json_of(run({"explain", spec, "gradients", "-f", "json"}));
    CHECK(json.at("explained").at("at_peak_bytes") == 1'000'000'000);
}

TEST_CASE("list prints every table, the same names in every format") {
    const Json kinds = json_of(run({"list", "-f", "json"})).at("rows");
    CHECK(kinds.size() >= 9);
    for (const Json& kind : kinds) {
        const auto name = kind.at("name").get<std::string>();
        CAPTURE(name);
        const Json rows = json_of(run({"list", name, "-f", "json"})).at("rows");
        CHECK_FALSE(rows.empty());
        const std::string text = run({"list", name}).out;
        const std::string csv = run({"list", name, "-f", "csv"}).out;
        for (const Json& row : rows) {
            const auto row_name = row.at("name").get<std::string>();
            CAPTURE(row_name);
            CHECK(text.find("\n" + row_name + " ") != std::string::npos);
            CHECK(csv.find("\n" + row_name + ",") != std::string::npos);
            CHECK_FALSE(row.at("doc").get<std::string>().empty());
        }
    }
}

TEST_CASE("bad input leaves the output untouched, and its folder clean") {
    const Folder folder;
    const std::string bad = folder.write("bad.json", "{\"membudget\": 1, \"trainin\": {}}");
    const std::string out = folder.write("report.txt", "old");
    const Ran ran = run({"estimate", bad, "--output", out});
    CHECK(ran.exit == 2);
    CHECK(ran.out.empty());
    CHECK(folder.read("report.txt") == "old");
    CHECK(folder.files() == 2);
    CHECK(run({"estimate", bad, "--output", folder.path("no/folder")}).err.find("cannot be written") !=
          std::string::npos);
}

TEST_CASE("the same input gives the same bytes, on stdout as in a file") {
    const Folder folder;
    const std::string spec = folder.write("nine.json", kNineGB);
    for (const char* format : {"text", "json", "markdown", "csv"}) {
        const Ran first = run({"estimate", spec, "-f", format});
        CHECK(run({"estimate", spec, "-f", format}).out == first.out);
        CHECK(run({"estimate", spec, "-f", format, "-o", folder.path("x")}).out.empty());
        CHECK(folder.read("x") == first.out);
    }
}
