/// Terms of real snapshots whose training is known, against the estimate of the same training. The traces
/// belong to other projects and are read from the folder that MEMBUDGET_CORPUS names.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "catch.hpp"
#include "membudget/diagnosis.hpp"
#include "membudget/membudget.hpp"

namespace membudget {
namespace {

struct Known {
    const char* spec;
    const char* trace;
};

constexpr Known kKnown[] = {
    {"cs336-medium-ctx128-step",
     "Wedsonlin+assignment2-systems/results_medium_128_training_memory_snapshot.pickle"},
    {"cs336-medium-ctx1024-step",
     "Wedsonlin+assignment2-systems/results_medium_1024_training_memory_snapshot.pickle"},
    {"cs336-2_7b-ctx256-firststep",
     "kkaitlyn111+cs336-a2-systems/memory_files_memory_ctx256_fullstep_.pickle"},
    {"cs336-2_7b-ctx512-firststep",
     "kkaitlyn111+cs336-a2-systems/memory_files_memory_ctx512_fullstep_.pickle"},
};

const ReconciledLine* find(const std::vector<ReconciledLine>& lines, const std::string& path) {
    for (const ReconciledLine& line : lines)
        if (line.path == path) return &line;
    return nullptr;
}

/// Measured bytes of `path` are within `share` of the estimate.
void check_near(const std::vector<ReconciledLine>& lines, const std::string& path, double share) {
    INFO(path);
    const ReconciledLine* line = find(lines, path);
    REQUIRE(line != nullptr);
    REQUIRE(line->measured);
    const double off = ratio(*line->residual(), line->estimate);
    CHECK(off >= -share);
    CHECK(off <= share);
}

TEST_CASE("terms of snapshots whose training is known are those of its estimate", "[trace]") {
    const char* corpus = std::getenv("MEMBUDGET_CORPUS");
    if (corpus == nullptr) {
        std::puts("skipped: MEMBUDGET_CORPUS is not set");
        return;
    }
    for (const Known& known : kKnown) {
        INFO(known.spec);
        const auto document = read_document(std::string("tests/measured/") + known.spec + ".json");
        REQUIRE(document.ok());
        const auto job = estimate(*document);
        REQUIRE(job.ok());
        const auto trace = read_trace_file(std::string(corpus) + "/traces/" + known.trace);
        REQUIRE(trace.ok());
        const auto summary = summarise(*trace);
        REQUIRE(summary.ok());
        const auto result =
            reconcile(job->ledger, known.spec, *summary, {}, expected_terms(job->job));
        REQUIRE(result.ok());

        // The books close: no byte is left out.
        Bytes sum(0);
        for (const ReconciledLine& line : result->terms) sum += *line.measured;
        CHECK(sum == *result->totals.front().measured);
        // Parameters are exact: every tensor, and nothing else.
        const ReconciledLine* parameters = find(result->terms, "parameters");
        REQUIRE(parameters != nullptr);
        CHECK(parameters->residual() == Bytes(0));
        // So are gradients once backward is over, and states but for the pair that is being replaced
        // in the first parameter's turn.
        const auto& by_phase = result->phase_terms;
        check_near(by_phase, "phases/backward/end/gradients", 0.00001);
        check_near(by_phase, "phases/optimizer_step/end/optimizer_states", 0);
        check_near(result->terms, "optimizer_states", 0.025);
        // Rotary tables, masks and inputs from before the trace are of no parameter's size.
        const ReconciledLine* unsorted = find(result->terms, "unsorted");
        if (unsorted != nullptr) CHECK(ratio(*unsorted->measured, sum) < 0.003);
    }
}

}  // namespace
}  // namespace membudget
