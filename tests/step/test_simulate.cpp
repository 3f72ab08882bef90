// One step of whole models: the books close, nothing goes negative, and shape, depth and schedule act
// as they must.

#include "catch.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include "job_of.hpp"
#include "membudget/ledger.hpp"

using namespace membudget;

TEST_CASE("the ledger closes for every precision, attention and checkpointing", "[step]") {
    for (const char* precision : {"fp32", "bf16", "bf16-autocast"})
        for (const char* attention : {"flash", "eager"})
            for (const char* checkpointing : {"none", "full"}) {
                INFO(precision << " " << attention << " " << checkpointing);
                const Job job = job_of(tiny_llama(3), {{"precision", precision},
                                                       {"attention", attention},
                                                       {"activation_checkpointing", checkpointing}});
                check_books(job);
            }
}

TEST_CASE("unrolled, the step reaches the peak that the profile says", "[step]") {
    for (const char* checkpointing : {"none", "full"})
        for (const std::int64_t steps : {1, 2, 5}) {
            const Job job = job_of(tiny_llama(4), {{"activation_checkpointing", checkpointing},
                                                   {"gradient_accumulation_steps", std::to_string(steps)}});
            const Step step = simulate_step(job);
            std::vector<std::int64_t> terms(step.terms.size(), 0);
            std::int64_t level = 0;
            std::int64_t peak = 0;
            std::vector<std::int64_t> at_peak;
            unroll(step.root, [&](const Event& event, const StepNode&, std::span<const std::int64_t>) {
                terms[event.term] += event.bytes * event.count;
                terms[kRounding] += event.rounding * event.count;
                for (const std::int64_t bytes : terms) REQUIRE(bytes >= 0);
                level += (event.bytes + event.rounding) * event.count;
                if (level > peak) {
                    peak = level;
                    at_peak = terms;
                }
            });
            CHECK(peak == step.profile.peak);
            CHECK(at_peak == step.profile.at_peak);
        }
}

TEST_CASE("no term is negative at any instant, however the job is sharded", "[step]") {
    for (const char* sharding :
         {"none", "ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp2", "fsdp2-no-reshard", "hsdp",
          "megatron-distributed-optimizer"})
        for (const char* steps : {"1", "3"})
            for (const char* checkpointing : {"none", "full"})
                for (const char* optimizer : {"adamw", "sgd", "adamw-8bit", "muon"}) {
                    INFO(sharding << " " << steps << " " << checkpointing << " " << optimizer);
                    const Job job = job_of(tiny_llama(3),
                                           {{"gradient_accumulation_steps", steps},
                                            {"activation_checkpointing", checkpointing},
                                            {"optimizer", optimizer}},
                                           std::string(R"({"data": 4, "sharding": ")") + sharding + "\"}");
                    const Step step = simulate_step(job);
                    std::vector<std::int64_t> terms(step.terms.size(), 0);
                    bool negative = false;
                    unroll(step.root, [&](const Event& event, const StepNode&, std::span<const std::int64_t>) {
                        terms[event.term] += event.bytes * event.count;
                        terms[kRounding] += event.rounding * event.count;
                        negative = negative || terms[event.term] < 0 || terms[kRounding] < 0;
                    });
                    CHECK_FALSE(negative);
                    for (std::size_t i = 0; i < terms.size(); ++i)
                        if (step.terms.path(static_cast<TermId>(i)).starts_with("temporaries") ||
                            step.terms.path(static_cast<TermId>(i)).starts_with("communication/unsharded") ||
                            step.terms.path(static_cast<TermId>(i)).starts_with("communication/all_gather"))
                            CHECK(terms[i] == 0);
                }
}

TEST_CASE("a step leaves what it found", "[step]") {
    // Everything that stays is model states and inputs: the same after one micro-batch as after ten.
    const auto left = [](std::int64_t steps) {
        const Job job = job_of(tiny_llama(2), {{"gradient_accumulation_steps", std::to_string(steps)}});
        return simulate_step(job).profile.total;
    };
    CHECK(left(1) == left(10));
    const Job job = job_of(tiny_llama(2), {});
    const Step step = simulate_step(job);
    for (std::size_t i = 0; i < step.terms.size(); ++i) {
        const std::string& path = step.terms.path(static_cast<TermId>(i));
        INFO(path);
        const bool stays = path == "parameters" || path.starts_with("optimizer_states") ||
                           path == "activations/inputs" || path == "allocator/rounding";
        const std::int64_t net = i < step.profile.net.size() ? step.profile.net[i] : 0;
        if (!stays) CHECK(net == 0);
    }
}

TEST_CASE("depth, batch and length never lower the peak; checkpointing lowers activations", "[step]") {
    const auto peak = [](int layers, const char* batch, const char* length, const char* checkpointing) {
        return make_ledger(job_of(tiny_llama(layers), {{"micro_batch_size", batch},
                                                       {"sequence_length", length},
                                                       {"activation_checkpointing", checkpointing}}),
                           std::nullopt);
    };
    const Ledger base = peak(2, "1", "64", "none");
    CHECK(peak(3, "1", "64", "none").allocated.point > base.allocated.point);
    CHECK(peak(2, "2", "64", "none").allocated.point > base.allocated.point);
    CHECK(peak(2, "1", "128", "none").allocated.point > base.allocated.point);
    const Ledger deep = peak(12, "2", "128", "none");
    const Ledger checkpointed = peak(12, "2", "128", "full");
    CHECK(at_peak(checkpointed, "activations") < at_peak(deep, "activations"));
    CHECK(checkpointed.allocated.point < deep.allocated.point);
}

TEST_CASE("every n-th and the first n layers are checkpointed", "[step]") {
    const auto kept = [](std::vector<std::pair<std::string, std::string>> how) {
        Job job = job_of(tiny_llama(12), std::move(how));
        const Step step = simulate_step(job);
        std::int64_t inputs = 0;
        std::size_t recomputed = 0;
        unroll(step.root, [&](const Event& event, const StepNode& leaf, std::span<const std::int64_t>) {
            if (step.terms.path(event.term) == "activations/checkpoint_inputs" && event.bytes > 0) ++inputs;
            recomputed += leaf.pass == std::string_view("recompute") && event.bytes > 0;
        });
        return std::pair(inputs, recomputed > 0);
    };
    CHECK(kept({{"activation_checkpointing", R"({"mode": "none"})"}}) == std::pair<std::int64_t, bool>{0, false});
    CHECK(kept({{"activation_checkpointing", R"({"mode": "full"})"}}).first == 12);
    CHECK(kept({{"activation_checkpointing", R"({"mode": "full", "every": 3})"}}).first == 4);
    CHECK(kept({{"activation_checkpointing", R"({"mode": "full", "every": 5})"}}).first == 3);
    CHECK(kept({{"activation_checkpointing", R"({"mode": "full", "first": 7})"}}).first == 7);
}

TEST_CASE("the cost of a step does not depend on its depth", "[step]") {
    const auto leaves = [](int layers) {
        const Step step = simulate_step(job_of(tiny_llama(layers), {}));
        std::size_t nodes = 0;
        const auto count = [&](const auto& self, const StepNode& node) -> void {
            ++nodes;
            for (const StepNode& child : node.children) self(self, child);
        };
        count(count, step.root);
        return nodes;
    };
    CHECK(leaves(8) == leaves(80));
    CHECK(leaves(80) == leaves(800));
}

TEST_CASE("the place of the peak is named", "[step]") {
    const Ledger ledger = make_ledger(job_of(tiny_llama(3), {{"micro_batch_size", "4"},
                                                             {"sequence_length", "512"}}),
                                      std::nullopt);
    CHECK(ledger.peak.phase == Phase::backward);
    CHECK_FALSE(ledger.peak.op.empty());
    CHECK(ledger.peak.op.find("{}") == std::string::npos);
}
