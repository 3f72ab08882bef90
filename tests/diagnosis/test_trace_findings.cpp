/// Findings of traces and the comparison with an estimate.

#include <algorithm>

#include "catch.hpp"
#include "membudget/diagnosis.hpp"
#include "membudget/membudget.hpp"

namespace membudget {
namespace {

constexpr std::int64_t kMillion = 1'000'000;

TraceSummary series_of(const std::vector<std::int64_t>& live,
                       const std::vector<std::int64_t>& reserved = {}) {
    Trace trace;
    trace.file = "test";
    trace.reader = "csv";
    TraceSeries series{"rank 0", 0, {}};
    for (std::size_t i = 0; i < live.size(); ++i) {
        TraceSample sample;
        sample.step = static_cast<std::int64_t>(i);
        sample.allocated = live[i] * kMillion;
        if (!reserved.empty()) sample.reserved = reserved[i] * kMillion;
        series.samples.push_back(std::move(sample));
    }
    trace.series.push_back(std::move(series));
    return summarise(trace).value();
}

std::vector<std::string> ids(const TraceSummary& summary) {
    std::vector<std::string> out;
    for (const Finding& finding : diagnose(summary)) out.emplace_back(finding.kind->name);
    return out;
}

using Ids = std::vector<std::string>;

TEST_CASE("every kind of finding says what it does not prove and what to measure") {
    for (const FindingKind& kind : finding_kinds()) {
        INFO(kind.name);
        CHECK_FALSE(kind.title.empty());
        CHECK_FALSE(kind.does_not_prove.empty());
        CHECK_FALSE(kind.next.empty());
        CHECK((kind.title.find("leak") == std::string_view::npos));  // nobody is accused
    }
}

TEST_CASE("levels of steps") {
    CHECK(ids(series_of({3000, 3000, 3000, 3000}, {4000, 5000, 5000, 5000})) ==
          Ids{"reserved.growth", "live.steady"});
    CHECK(ids(series_of({3000, 3600, 4200, 4800})) == Ids{"live.growth"});
    CHECK(ids(series_of({1000, 3000, 3000, 3000})) == Ids{"live.first_step"});
    CHECK(ids(series_of({3000, 3600})).empty());          // two points are no trend
    CHECK(ids(series_of({3000, 3600, 3500, 3600})).empty());  // nor is up and down by little
    // A step that is higher once and stays is growth of no kind: it is one event.
    CHECK(ids(series_of({3000, 3000, 3000, 3500, 3500, 3500})).empty());
    // Falling is not growing.
    CHECK(ids(series_of({4800, 4200, 3600, 3000, 2400})).empty());
}

TEST_CASE("a floor that rises under variable inputs is growth; one that does not is shapes") {
    std::vector<std::int64_t> rising, level;
    for (std::int64_t i = 0; i < 64; ++i) {
        rising.push_back(2000 + 40 * i + (i * 37 % 11) * 60);
        level.push_back(2000 + (i * 37 % 11) * 60);
    }
    CHECK(ids(series_of(rising)) == Ids{"live.growth"});
    CHECK(ids(series_of(level)) == Ids{"live.shapes"});
}

TEST_CASE("measured and estimated on the same metric, and what a unit explains") {
    const auto document = read_document_text(
        R"({"membudget": 1, "terms": {"parameters": "2GB", "gradients": "2GB", "optimizer_states": "4GB",
            "activations": "6GB", "temporaries": "0B"}})",
        "spec.json");
    REQUIRE(document.ok());
    const auto job = estimate(*document);
    REQUIRE(job.ok());
    const Bytes peak = job->ledger.allocated.point;
    REQUIRE(peak == Bytes(14'000 * kMillion));

    const auto same = reconcile(job->ledger, "spec", series_of({14'000, 14'050}));
    REQUIRE(same.ok());
    CHECK(same->totals.front().confirmed());
    CHECK(same->totals.front().residual() == Bytes(50 * kMillion));
    CHECK(same->findings.empty());

    // 13.04 "GB" that are GiB.
    const auto unit = reconcile(job->ledger, "spec", series_of({13'040}));
    REQUIRE(unit.ok());
    CHECK_FALSE(unit->totals.front().confirmed());
    REQUIRE(unit->findings.size() == 1);
    CHECK(unit->findings.front().kind->name == "unit.mismatch");

    const auto absent = reconcile(job->ledger, "spec", series_of({13'040}), "rank 5");
    CHECK_FALSE(absent.ok());
}

TEST_CASE("a receipt is read as it was written") {
    const Receipt receipt{"spec \"x\"",
                          "trace.csv",
                          {{"allocated", "allocated", Bytes(5), Bytes(6), true},
                           {"phases/backward", "allocated", Bytes(0), Bytes(7), false}}};
    const auto read = read_receipt(write_receipt(receipt), "receipt.json");
    REQUIRE(read.ok());
    CHECK(read->name == receipt.name);
    CHECK(read->trace == receipt.trace);
    REQUIRE(read->lines.size() == 2);
    CHECK(read->lines[0].measured == Bytes(6));
    CHECK(read->lines[0].confirmed);
    CHECK(read->lines[1].path == "phases/backward");
    CHECK_FALSE(read_receipt("{}", "r").ok());
    CHECK_FALSE(read_receipt(R"({"membudget_receipt": 2, "lines": []})", "r").ok());
    CHECK_FALSE(read_receipt(R"({"membudget_receipt": 1, "lines": [5]})", "r").ok());
}

}  // namespace
}  // namespace membudget
