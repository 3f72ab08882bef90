// Estimates per second inside a process: what a search over knobs pays for one scenario, for the
// example and for each file given.
//
//     cmake --preset bench && cmake --build --preset bench
//     build-bench/tests/benchmarks/bench_estimate [BENCHMARK'S OPTIONS] [FILE...]

#include <optional>
#include <string>
#include <utility>

#include <benchmark/benchmark.h>

#include "membudget/membudget.hpp"
#include "membudget/step.hpp"

namespace {

/// Reads `file` and, where that fails, says so instead of measuring nothing.
std::optional<membudget::Document> read(benchmark::State& state, const std::string& file) {
    auto document = membudget::read_document(file);
    if (document) return std::move(document).value();
    state.SkipWithError(document.errors().list().front().message.c_str());
    return std::nullopt;
}

/// The whole path from a parsed document to a ledger.
void estimate_document(benchmark::State& state, const std::string& file) {
    const auto document = read(state, file);
    if (!document) return;
    for (auto _ : state) {
        const auto estimate = membudget::estimate(*document);
        if (!estimate) {
            state.SkipWithError(estimate.errors().list().front().message.c_str());
            return;
        }
        benchmark::DoNotOptimize(estimate->ledger.allocated.point);
    }
    state.SetItemsProcessed(state.iterations());
}

/// The books alone, of a job that is resolved: what is left when only knobs of the job change.
void make_books(benchmark::State& state, const std::string& file) {
    const auto document = read(state, file);
    if (!document) return;
    const auto estimate = membudget::estimate(*document);
    if (!estimate) return state.SkipWithError("the spec cannot be estimated");
    for (auto _ : state) {
        const auto ledger = membudget::make_ledger(estimate->job, std::nullopt);
        benchmark::DoNotOptimize(ledger.allocated.point);
    }
    state.SetItemsProcessed(state.iterations());
}

/// A resolved job's step: its peak and every term's bytes, nothing for people.
void simulate(benchmark::State& state, const membudget::Job& job) {
    for (auto _ : state) {
        const auto step =
            membudget::simulate_step(job, membudget::Bound::point, membudget::Detail::bytes);
        benchmark::DoNotOptimize(step.profile.peak);
    }
    state.SetItemsProcessed(state.iterations());
}

void simulate_file(benchmark::State& state, const std::string& file) {
    const auto document = read(state, file);
    if (!document) return;
    const auto job = membudget::resolve_document(*document);
    if (!job) return state.SkipWithError(job.errors().list().front().message.c_str());
    simulate(state, *job);
}

/// The same model with more and more layers: the cost must not follow.
void simulate_layers(benchmark::State& state) {
    const std::string text =
        R"({"membudget": 1, "model": {"family": "llama", "num_hidden_layers": )" +
        std::to_string(state.range(0)) +
        R"(}, "training": {"micro_batch_size": 1, "sequence_length": 4096, "optimizer": "adamw"}})";
    const auto document = membudget::read_document_text(text, "layers.json");
    if (!document) return state.SkipWithError("the spec cannot be read");
    const auto job = membudget::resolve_document(*document);
    if (!job) return state.SkipWithError("the spec cannot be resolved");
    simulate(state, *job);
}
BENCHMARK(simulate_layers)->Arg(8)->Arg(80)->Arg(800);

/// What `reserved` adds to the books of a large model: without it (a stated cache) and with it.
void books_of_405b(benchmark::State& state, const std::string& more, bool reserved) {
    const std::string text = R"({"membudget": 1, "model": {"name": "llama-3.1-405b"}, "training": {"optimizer": "adamw",
        "micro_batch_size": 1, "sequence_length": 8192, "precision": "bf16")" + more +
        (reserved ? "}" : R"(, "terms": {"allocator": 0}})");
    const auto document = membudget::read_document_text(text, "405b.json");
    if (!document) return state.SkipWithError(document.errors().list().front().message.c_str());
    const auto job = membudget::resolve_document(*document);
    if (!job) return state.SkipWithError(job.errors().list().front().message.c_str());
    for (auto _ : state) {
        const auto ledger = membudget::make_ledger(*job, std::nullopt);
        if (ledger.reserved.has_value() != reserved) return state.SkipWithError("reserved was not what was asked for");
        benchmark::DoNotOptimize(ledger.allocated.point);
    }
}

void register_reserved() {
    const std::pair<const char*, const char*> jobs[] = {
        {"plain", "}"},
        {"checkpointing", R"(, "activation_checkpointing": "full"})"},
        {"fsdp2", R"(}, "parallelism": {"data": 512, "sharding": "fsdp2"})"},
        {"fsdp2+checkpointing",
         R"(, "activation_checkpointing": "full"}, "parallelism": {"data": 512, "sharding": "fsdp2"})"},
    };
    for (const auto& [name, more] : jobs)
        for (const bool reserved : {false, true})
            benchmark::RegisterBenchmark(("405b/" + std::string(name) + (reserved ? "/reserved" : "/allocated")).c_str(),
                                         books_of_405b, more, reserved)
                ->Unit(benchmark::kMillisecond);
}

void register_benchmarks(const std::string& file) {
    const std::string name = file.substr(file.rfind('/') + 1);
    benchmark::RegisterBenchmark(("simulate/" + name).c_str(), simulate_file, file);
    benchmark::RegisterBenchmark(("estimate/" + name).c_str(), estimate_document, file);
    benchmark::RegisterBenchmark(("make_ledger/" + name).c_str(), make_books, file);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    register_benchmarks(MEMBUDGET_SOURCE_DIR "/examples/quickstart.json");
    register_reserved();
    for (int i = 1; i < argc; ++i) register_benchmarks(argv[i]);
    benchmark::RunSpecifiedBenchmarks();
}
