// Meaning: names become rows, any two of three batch sizes give the third, every mistake is found in
// one run, defaults are said.

#include "catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "job_of.hpp"
#include "membudget/job.hpp"

using namespace membudget;

namespace {

/// All diagnostics as "pointer: message", one a line.
std::vector<std::string> problems(const std::string& text) {
    const Result<KeyTree> tree = parse_json(text, "test.json");
    REQUIRE(tree.ok());
    const Result<Spec> spec = read_spec(*tree, "test.json");
    REQUIRE(spec.ok());
    const Result<Job> job = resolve(*spec, {});
    std::vector<std::string> out;
    if (job.ok()) return out;
    for (const Diagnostic& d : job.errors().list()) out.push_back(d.pointer + ": " + d.message);
    return out;
}

std::vector<std::string> of_training(const Settings& training, std::string_view parallelism = "{}") {
    return problems(spec_text(tiny_llama(2), training, parallelism));
}

bool assumes(const Job& job, std::string_view id) {
    return std::any_of(job.assumptions.begin(), job.assumptions.end(),
                       [&](const Assumption& a) { return a.id == id; });
}

}  // namespace

TEST_CASE("any two of the three batch sizes give the third", "[job]") {
    const auto shape = [](const Settings& training, const char* parallelism) {
        const Job job = job_of_text(spec_text(tiny_llama(1), training, parallelism));
        return std::vector{job.extents.batch, job.micro_batches, job.global_batch};
    };
    using Batches = std::vector<std::int64_t>;
    CHECK(shape({{"micro_batch_size", "2"}, {"gradient_accumulation_steps", "8"}}, R"({"data": 4})") ==
          Batches{2, 8, 64});
    CHECK(shape({{"micro_batch_size", "2"}, {"global_batch_size", "64"}}, R"({"data": 4})") == Batches{2, 8, 64});
    CHECK(shape({{"gradient_accumulation_steps", "8"}, {"global_batch_size", "64"}}, R"({"data": 4})") ==
          Batches{2, 8, 64});
    CHECK(shape({{"global_batch_size", "64"}}, R"({"data": 4})") == Batches{16, 1, 64});
    CHECK(shape({}, "{}") == Batches{1, 1, 1});
}

TEST_CASE("batch sizes that do not agree", "[job]") {
    CHECK(of_training({{"global_batch_size", "10"}}, R"({"data": 4})") ==
          std::vector<std::string>{
              "/training/global_batch_size: expected a multiple of the 4 data-parallel ranks; got 10"});
    CHECK(of_training({{"global_batch_size", "16"}, {"micro_batch_size", "3"}}, R"({"data": 4})") ==
          std::vector<std::string>{"/training/micro_batch_size: expected a divisor of the global batch per "
                                   "rank (4); got 3 sequences"});
    CHECK(of_training({{"global_batch_size", "65"}, {"micro_batch_size", "2"},
                       {"gradient_accumulation_steps", "8"}}) ==
          std::vector<std::string>{"/training/global_batch_size: expected micro_batch_size x "
                                   "gradient_accumulation_steps x data-parallel ranks = 2 x 8 x 1 = 16; got 65"});
}

TEST_CASE("every mistake of meaning in one run", "[job]") {
    const auto found = of_training({{"precision", "bf17"}, {"optimizer", "adamww"}, {"attention", "flush"},
                                    {"activation_checkpointing", "ful"}, {"step", "third"}},
                                   R"({"sharding": "zero4", "data": 2})");
    REQUIRE(found.size() == 6);
    CHECK(found[0] == "/parallelism/sharding: expected a sharding of data parallelism; got 'zero4'");
    CHECK(found[1] == "/training/precision: expected a precision scheme; got 'bf17'");
    CHECK(found[2] == "/training/optimizer: expected an optimizer; got 'adamww'");
    CHECK(found[3].starts_with("/training/activation_checkpointing: expected 'none' or 'full'; got 'ful'"));
    CHECK(found[4].starts_with("/training/attention: expected a kernel of attention ("));
    CHECK(found[5] == "/training/step: expected 'steady' or 'first'; got 'third'");
}

TEST_CASE("what checkpointing repeats is a share of the forward pass", "[job]") {
    // Multiply-adds per token, by hand: projections 2 x 64 x 64 + 2 x 64 x 32, MLP 3 x 64 x 176, scores and
    // values 64 keys x 2 x 16 x 4 heads, head 64 x 512.
    constexpr double kLayer = 12288 + 33792 + 8192;
    constexpr double kHead = 32768;
    const auto said = [](const std::string& how) {
        const Job job = job_of_text(
            spec_text(tiny_llama(5), {{"sequence_length", "64"}, {"activation_checkpointing", how}}));
        for (const Assumption& a : job.assumptions)
            if (a.id == "training.activation_checkpointing.recompute") return a.text;
        return std::string();
    };
    const auto expected = [](int layers) {
        return fmt::format("recomputation repeats {:.1f} % of the forward pass's floating-point operations (matrix "
                           "products and attention)",
                           100 * layers * kLayer / (5 * kLayer + kHead));
    };
    CHECK(said("none").empty());
    CHECK(said("full") == expected(5));
    CHECK(said(R"({"every": 2})") == expected(3));
    CHECK(said(R"({"every": 7})") == expected(1));
    CHECK(said(R"({"first": 2})") == expected(2));
    CHECK(said(R"({"every": 3, "first": 4})") == expected(2));
}

TEST_CASE("what is not modelled is refused by name", "[job]") {
    const Result<KeyTree> tree = parse_json(
        spec_text(tiny_llama(1), {}, R"({"tensor": 2, "pipeline": 2, "expert": 2, "context": 2})"), "test.json");
    const Result<Spec> spec = read_spec(*tree, "test.json");
    const Result<Job> job = resolve(*spec, {});
    REQUIRE_FALSE(job.ok());
    CHECK(job.errors().size() == 4);
    CHECK_FALSE(job.errors().any_invalid());
    CHECK(job.errors().list()[0].message == "tensor parallelism is not modelled yet");
}

TEST_CASE("types of slots and options of optimizers", "[job]") {
    const Job job = job_of(tiny_llama(1), {{"optimizer", R"({"name": "adamw", "implementation": "fused",
                                             "states": {"exp_avg": {"dtype": "bf16"}}})"}});
    CHECK(job.optimizer.implementation->name == "fused");
    CHECK(job.optimizer.slot_dtypes[0] == &dtype::bf16);
    CHECK(job.optimizer.slot_dtypes[1] == nullptr);
    CHECK(of_training({{"optimizer", R"({"name": "adamw", "states": {"exp_agv": {"dtype": "bf16"}}})"}}) ==
          std::vector<std::string>{
              "/training/optimizer/states/exp_agv: expected a state of 'adamw' (exp_avg, exp_avg_sq)"});
    CHECK(of_training({{"optimizer", R"({"name": "galore-adamw", "options": {"rnak": 8}})"}}).front().starts_with(
        "/training/optimizer/options/rnak: expected an option of 'galore-adamw' (rank"));
    CHECK(of_training({{"optimizer", R"({"name": "adamw", "implementation": "fuse"})"}}).front() ==
          "/training/optimizer/implementation: expected an implementation of adamw (foreach, fused, for-loop); "
          "got 'fuse'");
}

TEST_CASE("learned positions bound the sequence", "[job]") {
    const std::string gpt2 = R"({"family": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128,
                                 "vocab_size": 512})";
    CHECK(problems(spec_text(gpt2, {{"sequence_length", "129"}})) ==
          std::vector<std::string>{
              "/training/sequence_length: expected at most the 128 learned positions of the model; got 129"});
    CHECK(problems(spec_text(gpt2, {{"sequence_length", "128"}})).empty());
    CHECK(of_training({{"sequence_length", "100000"}}).empty());
}

TEST_CASE("a default that decides a number is an assumption", "[job]") {
    const Job bare = job_of_text(spec_text(tiny_llama(1), {}));
    for (const char* id : {"training.precision", "training.optimizer", "training.sequence_length",
                           "training.micro_batch_size", "training.attention", "training.keep_logits"})
        CHECK(assumes(bare, id));
    const Job said = job_of_text(spec_text(tiny_llama(1), {{"precision", "fp32"},
                                                           {"optimizer", "adamw"},
                                                           {"sequence_length", "8"},
                                                           {"micro_batch_size", "1"},
                                                           {"attention", "flash"},
                                                           {"keep_logits", "true"}}));
    for (const char* id : {"training.precision", "training.optimizer", "training.sequence_length",
                           "training.micro_batch_size", "training.attention", "training.keep_logits"})
        CHECK_FALSE(assumes(said, id));
}

TEST_CASE("degree one of any parallelism is its absence", "[job]") {
    const auto peak = [](std::string_view parallelism) {
        return make_ledger(job_of(tiny_llama(2), {}, parallelism), std::nullopt).allocated.point;
    };
    const Bytes alone = peak("{}");
    for (const char* sharding : {"none", "ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp2", "hsdp"})
        CHECK(peak(std::string(R"({"data": 1, "sharding": ")") + sharding + "\"}") == alone);
    CHECK(peak(R"({"tensor": 1, "pipeline": 1, "context": 1, "expert": 1})") == alone);
}

TEST_CASE("a step that is not simulated is refused whatever the training says", "[job]") {
    const std::vector<Settings> settings{{{"activation_checkpointing", "full"}},
                                         {{"activation_checkpointing", R"({"mode": "full", "reentrant": true})"}},
                                         {{"activation_checkpointing", R"({"mode": "full", "every": 2})"}},
                                         {{"lora", R"({"target_modules": "all-linear"})"}},
                                         {{"loss", "liger"}, {"attention", "eager"}, {"use_cache", "true"}}};
    int refused = 0;
    for (const Family& family : families()) {
        KeyTree config = KeyTree::object();
        config.at_or_add("model_type") = KeyTree(family.name);
        const auto built = build_model(config);
        if (!built || built->step_unsupported.empty()) continue;
        ++refused;
        for (const Settings& training : settings) {
            CAPTURE(family.name, training.front().second);
            const auto found = problems(spec_text(fmt::format(R"({{"family": "{}"}})", family.name), training));
            CHECK(std::any_of(found.begin(), found.end(), [](const std::string& problem) {
                return problem.starts_with("/model: the training step of ");
            }));
        }
    }
    CHECK(refused > 20);
}
