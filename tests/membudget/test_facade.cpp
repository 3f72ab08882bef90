#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "membudget/membudget.hpp"

using namespace membudget;

namespace {

Document document(const std::string& json) {
    auto read = read_document_text(json, "spec.json");
    if (!read) {
        CAPTURE(read.errors().list().front().message);
        FAIL("the spec of a test is right");
    }
    return std::move(read).value();
}

Estimate estimated(const Document& of) {
    auto result = estimate(of);
    if (!result) {
        CAPTURE(result.errors().list().front().message);
        FAIL("the spec of a test can be estimated");
    }
    return std::move(result).value();
}

const TechniqueSaving* find(const std::vector<TechniqueSaving>& savings, std::string_view name) {
    const auto at = std::find_if(savings.begin(), savings.end(), [&](const TechniqueSaving& s) {
        return s.technique->name == name;
    });
    return at == savings.end() ? nullptr : &*at;
}

constexpr const char* kAdam100M = R"({
    "membudget": 1, "model": {"parameters": 100000000},
    "training": {"precision": "fp32", "optimizer": "adam", "micro_batch_size": 2},
    "terms": {"activations": "6GB", "temporaries": "1GB"},
    "scenarios": {"half": {"training": {"micro_batch_size": 1}}}})";

}  // namespace

TEST_CASE("documents are recognised by what they hold") {
    CHECK(read_document_text(R"({"membudget":1,"terms":{"parameters":"1GB"}})", "a.json").ok());
    const auto neither = read_document_text(R"({"learning_rate":1})", "a.json");
    REQUIRE_FALSE(neither.ok());
    CHECK(neither.errors().list().front().message ==
          "expected a spec (with the key 'membudget') or a model config (with 'model_type', "
          "'architectures' or '_class_name'); got an object with none of these keys");
    const auto list = read_document_text("[1]", "a.json");
    REQUIRE_FALSE(list.ok());
    CHECK(list.errors().list().front().file == "a.json");
}

TEST_CASE("a bare model config becomes a spec that names it") {
    const auto read = read_document_text(R"({"model_type":"llama","a":1,"a":2})", "dir/config.json");
    REQUIRE(read.ok());
    CHECK(read->config != nullptr);
    CHECK(read->config_file == "dir/config.json");
    CHECK(value_at(read->tree, "/model/config")->text() == "config.json");
}

TEST_CASE("a spec may not repeat a key, though a config of others may") {
    CHECK_FALSE(read_document_text(R"({"membudget":1,"name":"a","name":"b"})", "a.json").ok());
}

TEST_CASE("stated activations follow the micro-batch of the file through every change") {
    const Document base = document(kAdam100M);
    CHECK(estimated(base).ledger.allocated.point == Bytes(8'600'000'000));

    const auto half = with_scenario(base, "half");
    REQUIRE(half.ok());
    const Estimate halved = estimated(*half);
    CHECK(halved.ledger.allocated.point == Bytes(5'600'000'000));
    CHECK(at_peak(halved.ledger, "activations") == Bytes(3'000'000'000));
    CHECK(at_peak(halved.ledger, "optimizer_states") == Bytes(800'000'000));

    // A second change still refers to the file, not to the first change.
    const auto back = with_patch(*half, patch_at("/training/micro_batch_size",
                                                 KeyTree(std::int64_t{4})));
    REQUIRE(back.ok());
    CHECK(at_peak(estimated(*back).ledger, "activations") == Bytes(12'000'000'000));
}

TEST_CASE("each phase has the peak of what is live in it, and of nothing that is over") {
    const Ledger ledger = estimated(document(kAdam100M)).ledger;
    std::vector<std::int64_t> peaks;
    for (const PhasePeak& phase : ledger.phases) peaks.push_back(phase.peak.count() / 1'000'000);
    CHECK(peaks == std::vector<std::int64_t>{7200, 7200, 8600, 1600});
    CHECK(ledger.peak.phase == Phase::backward);
}

TEST_CASE("the identity scenario leaves the estimate as it is") {
    const Document base = document(kAdam100M);
    const auto same = with_patch(base, KeyTree::object());
    REQUIRE(same.ok());
    CHECK(same->tree == base.tree);
    CHECK(estimated(*same).ledger.allocated.point == estimated(base).ledger.allocated.point);
}

TEST_CASE("unknown scenarios get the nearest name") {
    const auto unknown = with_scenario(document(kAdam100M), "hal");
    REQUIRE_FALSE(unknown.ok());
    const Diagnostic& error = unknown.errors().list().front();
    CHECK(error.message == "unknown scenario 'hal'");
    CHECK(error.pointer == "/scenarios");
    CHECK(error.hint == "did you mean 'half'?");
}

TEST_CASE("a mistake that a scenario brings is told with the scenario's pointer, applied or not") {
    const auto read = read_document_text(R"({
        "membudget": 1, "terms": {"parameters": "1GB"},
        "scenarios": {"bad name": {"training": {"optimizer": "adamx"}}}})", "spec.json");
    REQUIRE_FALSE(read.ok());
    CHECK(read.errors().list().front().pointer == "/scenarios/bad name/training/optimizer");
}

TEST_CASE("what a scenario asks for that is not supported is told when it is applied") {
    const Document base = document(R"({
        "membudget": 1, "model": {"family": "llama", "num_hidden_layers": 2},
        "scenarios": {"two stages": {"parallelism": {"pipeline": 2}}}})");
    const auto changed = with_scenario(base, "two stages");
    REQUIRE(changed.ok());
    const auto result = estimate(*changed);
    REQUIRE_FALSE(result.ok());
    CHECK(result.errors().list().front().trouble == Trouble::unsupported);
    CHECK(result.errors().list().front().pointer == "/scenarios/two stages/parallelism/pipeline");
}

TEST_CASE("totals that JSON readers would round are refused") {
    const auto result = estimate(document(R"({"membudget": 1, "terms": {
        "parameters": 9007199254740991, "activations": 9007199254740991}})"));
    REQUIRE_FALSE(result.ok());
    CHECK(result.errors().list().front().message == "the total is beyond 2^53 - 1 bytes");
}

TEST_CASE("what a stated term becomes is not invented") {
    const Document base = document(kAdam100M);
    const auto savings = technique_savings(base, estimated(base));
    const auto* checkpointing = find(savings, "activation_checkpointing");
    REQUIRE(checkpointing != nullptr);
    CHECK(checkpointing->helps_at_peak);
    CHECK(checkpointing->term_bytes == Bytes(6'000'000'000));
    CHECK_FALSE(checkpointing->term_saves.has_value());
    CHECK_FALSE(checkpointing->peak_saves.has_value());

    const auto* batch = find(savings, "smaller_micro_batch");
    REQUIRE(batch != nullptr);
    CHECK(batch->term_saves == Bytes(3'000'000'000));
    CHECK(batch->peak_saves == Bytes(3'000'000'000));

    const auto* sharding = find(savings, "optimizer_sharding");
    REQUIRE(sharding != nullptr);
    CHECK(sharding->term_bytes == Bytes(800'000'000));
    CHECK(sharding->term_saves == Bytes(400'000'000));
}

TEST_CASE("a smaller batch is no advice for a peak in the optimizer step") {
    const Document base = document(R"({
        "membudget": 1, "model": {"parameters": 100000000},
        "training": {"precision": "fp32", "optimizer": "adam", "micro_batch_size": 8},
        "terms": {"activations": "100MB", "temporaries/optimizer_step": "2GB"}})");
    const Estimate now = estimated(base);
    CHECK(now.ledger.peak.phase == Phase::optimizer_step);
    const auto savings = technique_savings(base, now);
    const auto* batch = find(savings, "smaller_micro_batch");
    REQUIRE(batch != nullptr);
    CHECK_FALSE(batch->helps_at_peak);
    CHECK(batch->note == "activations is not live at the peak");
    const auto* sharding = find(savings, "optimizer_sharding");
    REQUIRE(sharding != nullptr);
    CHECK(sharding->helps_at_peak);
    for (std::size_t i = 0; i + 1 < savings.size(); ++i)
        CHECK(savings[i].helps_at_peak >= savings[i + 1].helps_at_peak);
}

TEST_CASE("each built-in scenario is the change that its row of advice was computed from") {
    const Document base = document(kAdam100M);
    const Estimate now = estimated(base);
    for (const TechniqueSaving& saving : technique_savings(base, now)) {
        CAPTURE(saving.technique->name);
        const auto changed = with_scenario(base, saving.technique->name);
        REQUIRE(changed.ok());
        const Estimate then = estimated(*changed);
        if (saving.peak_saves)
            CHECK(now.ledger.allocated.point - *saving.peak_saves == then.ledger.allocated.point);
        const auto knobs = changed_knobs(base.tree, changed->tree);
        CHECK(std::any_of(knobs.begin(), knobs.end(), [&](const KnobChange& knob) {
            return knob.technique == saving.technique;
        }));
    }
}

TEST_CASE("an advised estimate is the estimate and its savings") {
    for (const char* text : {kAdam100M,
                             R"({"membudget": 1, "model": {"family": "llama", "num_hidden_layers": 2},
                                 "training": {"sequence_length": 512}})",
                             R"({"membudget": 1, "model": {"family": "bert"}, "scenarios": {"x": {}},
                                 "training": {"sequence_length": 64, "micro_batch_size": 64}})",
                             // Jobs whose micro-batches serve for another optimizer, and some that do not.
                             R"({"membudget": 1, "model": {"family": "llama"}, "training": {
                                 "sequence_length": 64, "gradient_accumulation_steps": 3, "zero_grad": "zero",
                                 "optimizer": {"name": "adamw", "clip": true, "ema": "fp32"}, "step": "first"}})",
                             R"({"membudget": 1, "model": {"family": "mixtral"}, "training": {
                                 "sequence_length": 64, "precision": "bf16-autocast", "carry_outputs": true,
                                 "activation_checkpointing": "full"},
                                 "parallelism": {"data": 4, "sharding": "fsdp2"}})",
                             R"({"membudget": 1, "model": {"family": "gpt2"}, "training": {"sequence_length": 64},
                                 "parallelism": {"data": 2, "sharding": "zero2"}})",
                             R"({"membudget": 1, "model": {"family": "llama"}, "training": {"sequence_length": 64},
                                 "terms": {"activations": "1GB"}})"}) {
        CAPTURE(text);
        const Document base = document(text);
        const auto advised = advised_estimate(base);
        REQUIRE(advised.ok());
        const Estimate apart = estimated(base);
        CHECK(advised->estimate.ledger.allocated.point == apart.ledger.allocated.point);
        CHECK(advised->estimate.ledger.verdict == apart.ledger.verdict);
        const auto savings = technique_savings(base, apart);
        REQUIRE(advised->savings.size() == savings.size());
        for (std::size_t i = 0; i < savings.size(); ++i) {
            CHECK(advised->savings[i].technique == savings[i].technique);
            CHECK(advised->savings[i].term == savings[i].term);
            CHECK(advised->savings[i].term_saves == savings[i].term_saves);
            CHECK(advised->savings[i].peak_saves == savings[i].peak_saves);
            CHECK(advised->savings[i].change == savings[i].change);
            CHECK(advised->savings[i].note == savings[i].note);
        }
    }
}

TEST_CASE("an advised estimate that fails says what the estimate says") {
    for (const char* text : {R"({"membudget": 1, "terms": {
                                 "parameters": 9007199254740991, "activations": 9007199254740991}})",
                             R"({"membudget": 1, "model": {"family": "llama"}, "training": {"optimizer": "adm"}})",
                             R"({"membudget": 1, "model": {"family": "llama", "num_hidden_layers": 1},
                                 "training": {"micro_batch_size": 1000000000, "sequence_length": 1000000000}})"}) {
        CAPTURE(text);
        const auto advised = advised_estimate(document(text));
        const auto apart = estimate(document(text));
        REQUIRE_FALSE(advised.ok());
        REQUIRE_FALSE(apart.ok());
        CHECK(advised.errors().list() == apart.errors().list());
    }
}
