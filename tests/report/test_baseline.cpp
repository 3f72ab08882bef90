#include <string>

#include "catch.hpp"
#include "membudget/report.hpp"

using namespace membudget;

namespace {

Diagnostic first_error(const std::string& json) {
    const auto read = read_baseline(json, "old.json");
    REQUIRE_FALSE(read.ok());
    return read.errors().list().front();
}

}  // namespace

TEST_CASE("a baseline is what an earlier estimate wrote") {
    const auto read = read_baseline(R"({
        "schema_version": "1.3", "command": "estimate", "name": "job", "later": [1],
        "totals": {"allocated": {"lower_bytes": 1, "point_bytes": 12, "upper_bytes": null}},
        "terms": [{"path": "parameters", "at_peak_bytes": 8},
                  {"path": "activations/mlp", "at_peak_bytes": 4}]})", "old.json");
    REQUIRE(read.ok());
    CHECK(read->file == "old.json");
    CHECK(read->name == "job");
    CHECK(read->allocated == Bytes(12));
    REQUIRE(read->terms.size() == 2);
    CHECK(read->terms[1].first == "activations/mlp");
    CHECK(read->terms[1].second == Bytes(4));
}

TEST_CASE("another schema version is not supported, other files are wrong input") {
    const Diagnostic newer = first_error(R"({"schema_version":"2.0","command":"estimate"})");
    CHECK(newer.trouble == Trouble::unsupported);
    CHECK(newer.file == "old.json");
    CHECK(newer.pointer == "/schema_version");
    CHECK(newer.message == "expected schema version 1.x; got a string ('2.0')");

    const Diagnostic other = first_error(R"({"membudget":1})");
    CHECK(other.trouble == Trouble::invalid);
    CHECK(other.message == "expected what `membudget estimate --format json` writes");

    const Diagnostic failed =
        first_error(R"({"schema_version":"1.0","command":"estimate","totals":null})");
    CHECK(failed.pointer == "/totals/allocated/point_bytes");
    CHECK(failed.message == "expected the bytes of an estimate that succeeded");

    CHECK(first_error("{").file == "old.json");
}
