// Reading a model's config and counting its parameters inside a process: for the catalogue's model of
// most parameters, for all of the catalogue, and for each config.json given.
//
//     cmake --preset bench && cmake --build --preset bench
//     build-bench/tests/benchmarks/bench_model [BENCHMARK'S OPTIONS] [FILE...]

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>

#include "membudget/model.hpp"

namespace {

/// From the text of a config to the counts. False where the config is refused.
bool count(std::string_view text, membudget::ParameterCounts& counts) {
    const auto tree = membudget::parse_json(text, "config", membudget::DuplicateKeys::last_wins);
    if (!tree) return false;
    const auto model = membudget::build_model(*tree);
    if (!model) return false;
    counts = membudget::count_parameters(*model);
    return true;
}

void read_and_count(benchmark::State& state, const std::string& text) {
    membudget::ParameterCounts counts;
    for (auto _ : state) {
        if (!count(text, counts)) return state.SkipWithError("the config is refused");
        benchmark::DoNotOptimize(counts);
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(text.size()) * state.iterations());
    state.counters["parameters"] = static_cast<double>(counts.total.count());
}

void count_the_catalogue(benchmark::State& state) {
    for (auto _ : state)
        for (const membudget::CatalogueModel& row : membudget::catalogue()) {
            const auto model = membudget::build_model(row.config(), row.architecture);
            if (!model) return state.SkipWithError("a row of the catalogue is refused");
            const auto counts = membudget::count_parameters(*model);
            benchmark::DoNotOptimize(counts);
        }
    state.SetItemsProcessed(static_cast<std::int64_t>(membudget::catalogue().size()) *
                            state.iterations());
}

/// A row's keys with the model type that its `config()` adds.
std::string text_of(const membudget::CatalogueModel& row) {
    std::string text(row.keys);
    const std::size_t brace = text.find('{') + 1;
    return text.insert(brace, "\"model_type\": \"" + std::string(row.family) + "\", ");
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    const auto rows = membudget::catalogue().rows();
    const auto& largest = *std::max_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
        return a.parameters < b.parameters;
    });
    benchmark::RegisterBenchmark(("read_and_count/" + std::string(largest.name)).c_str(),
                                 read_and_count, text_of(largest));
    benchmark::RegisterBenchmark("count/catalogue", count_the_catalogue);
    for (int i = 1; i < argc; ++i) {
        const auto text = membudget::read_text(argv[i]);
        if (!text) {
            std::cerr << argv[i] << ": " << text.errors().list().front().message << '\n';
            return 1;
        }
        const std::string_view path = argv[i];
        benchmark::RegisterBenchmark(
            ("read_and_count/" + std::string(path.substr(path.rfind('/') + 1))).c_str(), read_and_count,
            *text);
    }
    benchmark::RunSpecifiedBenchmarks();
}
