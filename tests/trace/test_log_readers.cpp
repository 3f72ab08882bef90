/// Readers of everything that is no snapshot: units, pairing of changes, hostile numbers; and real
/// files of the corpus with the figures that they are known to hold.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "catch.hpp"
#include "membudget/diagnosis.hpp"
#include "membudget/trace.hpp"
#include "trace/columns.hpp"
#include "trace/delta_events.hpp"
#include "trace/log_text.hpp"

namespace membudget {
namespace {

constexpr std::int64_t kMiB = 1'048'576;

Result<Trace> read(std::string_view text) {
    TraceInput input("test", source_of(text));
    return read_trace(input);
}

TEST_CASE("the kind is recognised by content") {
    const auto kind = [](std::string_view text) {
        const auto trace = read(text);
        return trace ? std::string(trace->reader)
                     : "refused: " + trace.errors().list().front().message;
    };
    CHECK(kind("[[1, 2], [[0,1,0,0,0,0,0,0,0], [0,2,0,0,0,0,0,0,0]]]") == "timeline");
    CHECK(kind("[[-1, 1, 512, 7]]") == "timeline");
    CHECK(kind("{\"traceEvents\": [{\"name\": \"[memory]\", \"ts\": 1, \"args\": {\"Bytes\": 5, "
               "\"Device Type\": 1}}]}") == "chrome");
    CHECK(kind("{\"step\": 1, \"allocated_bytes\": 5}") == "json");
    CHECK(kind("timestamp, memory.used [MiB]\n2025/01/01 00:00:00, 5 MiB\n") == "csv");
    CHECK(kind("MemAllocated=1.0GB, MaxMemAllocated=2.0GB") == "log");
    CHECK(kind("CUDA out of memory.") == "log");
    CHECK(kind("hello\n") ==
          "refused: expected lines of memory figures or an out-of-memory message; found none");
}

TEST_CASE("columns are named in many ways") {
    using trace::What;
    const auto is = [](std::string_view name, What what, std::int64_t unit) {
        const auto column = trace::column_named(name);
        return column.what == what && column.unit == unit;
    };
    CHECK(is("memory.used [MiB]", What::used, kMiB));
    CHECK(is("mem_used_mb", What::used, 1'000'000));
    CHECK(is(" memory.total", What::total, 0));
    CHECK(is("allocated (GB)", What::allocated, 1'000'000'000));
    CHECK(is("mem-max-allocated-bytes", What::max_allocated, 1));
    CHECK(is("Peak Reserved GiB", What::max_reserved, 1'073'741'824));
    CHECK(is("utilization.memory [%]", What::none, 0));  // bandwidth, not occupancy
    CHECK(is("loss", What::none, 0));
}

TEST_CASE("what separates a table's cells", "[trace]") {
    CHECK(trace::separator_of("a,b\n1;2;3;4") == ',');
    CHECK(trace::separator_of("2025/06/13 00:27:52,195;0;1000,5 MiB;2") == ';');
    CHECK(trace::separator_of("a\tb\n") == '\t');
    CHECK(trace::separator_of("\"a;b;c\",d") == ',');
    CHECK(trace::separator_of("") == ',');
}

TEST_CASE("records of tables: quotes, line ends in cells, carriage returns") {
    std::string_view text = "a, \"b\n\"\"c\"\"\" ,d\r\nx,,\n";
    CHECK(trace::take_record(text, ',') == std::vector<std::string>{"a", "b\n\"c\"", "d"});
    CHECK(trace::take_record(text, ',') == std::vector<std::string>{"x", "", ""});
    CHECK(text.empty());
}

TEST_CASE("UTF-16 of both orders is UTF-8 afterwards") {
    CHECK(trace::to_utf8(std::string("\xFF\xFEm\0b\0\xE4\0", 8)) == "mb\xC3\xA4");
    CHECK(trace::to_utf8(std::string("\xFE\xFF\0m\0b", 6)) == "mb");
    CHECK(trace::to_utf8("\xEF\xBB\xBFmb") == "mb");
}

TEST_CASE("changes become events whose level is theirs") {
    trace::DeltaEvents events;
    const std::int64_t changes[] = {1000, 500, -1000, 700, -300, -200, -5000};
    std::int64_t level = 0, lowest = 0;
    for (const std::int64_t change : changes) {
        events.change(change, TraceCategory::activation, 1);
        level += change;
        lowest = std::min(lowest, level);
    }
    const TraceDevice device = std::move(events).finish(0);
    const TraceReplay totals = replay(device);
    CHECK(totals.complete);
    CHECK(totals.start.live == -lowest);  // what was freed without having been seen
    CHECK(totals.end.live == level - lowest);
    CHECK(totals.peak.live == 1500 - lowest);
}

TEST_CASE("numbers that mean nothing are no figures") {
    CHECK_FALSE(trace::bytes_of(-1, 1).has_value());
    CHECK_FALSE(trace::bytes_of(1e300, 1).has_value());
    CHECK_FALSE(trace::number_at("nan").has_value());
    CHECK_FALSE(read("step,allocated_gib\n1,-5\n2,1e30\n").ok());
    // More than 2^63 bytes in all: an error of the file, not a defect of the program.
    std::string huge = "[[1, 2, 9007199254740991, 0]";
    for (int i = 0; i < 2000; ++i) huge += ",[2, 2, 9007199254740991, 0]";
    const auto trace = read(huge + "]");
    REQUIRE(trace.ok());
    CHECK_FALSE(summarise(*trace).ok());
}

// --- the corpus ----------------------------------------------------------------------------------

struct Known {
    const char* file;
    const char* reader;
    std::size_t subjects;
    std::int64_t count;        ///< events or samples of the first
    std::int64_t live, reserved, device;  ///< highest over all subjects; 0: not in the file
};

// Counts and peaks were taken from the files by other means: a JSON parser, grep and a calculator.
constexpr Known kKnown[] = {
    {"facebookresearch+HolisticTraceAnalysis/tests__data__memory_analysis__memory_timeline.raw.gz",
     "timeline", 1, 16845, 3082832104, 0, 0},
    {"NVIDIA+Megatron-LM/bert__bert_release__golden_values_lts_dgx_a100.json", "json", 1, 4001,
     486144000, 0, 0},
    {"AkshayRoyal+gpu-usage/gpu_usage.csv", "csv", 1, 224, 0, 0, 890 * kMiB},
    {"Zunaira3010+land-ct-full/gpu_log.csv", "csv", 1, 434, 0, 0, 10611 * kMiB},
    {"tkjunsei+OpenAD/gpu_usage.csv", "csv", 2, 473, 0, 0, 25073 * kMiB},
    {"beam11221+plato/gpu_log.csv", "csv", 1, 1923, 0, 0, 20137 * kMiB},
    {"eobo0530+vlm_optimization/runs__baseline_info__nvidia-smi.txt", "log", 1, 1, 0, 0,
     1039 * kMiB},
};

TEST_CASE("real files come to their figures", "[corpus]") {
    const char* corpus = std::getenv("MEMBUDGET_CORPUS");
    if (corpus == nullptr) {
        std::puts("skipped: MEMBUDGET_CORPUS is not set");
        return;
    }
    for (const Known& known : kKnown) {
        INFO(known.file);
        const auto trace =
            read_trace_file((std::filesystem::path(corpus) / "traces" / known.file).string());
        REQUIRE(trace.ok());
        CHECK(trace->reader == known.reader);
        const auto summary = summarise(*trace);
        REQUIRE(summary.ok());
        REQUIRE(summary->subjects.size() == known.subjects);
        CHECK(summary->subjects.front().events == known.count);
        std::int64_t live = 0, device = 0;
        for (const TraceSubject& subject : summary->subjects) {
            live = std::max(live, subject.live_peak.value_or(Bytes(0)).count());
            device = std::max(device, subject.device_peak.value_or(Bytes(0)).count());
        }
        CHECK(live == known.live);
        CHECK(device == known.device);
    }
    // Every log and table of the corpus reads, or says what it lacks.
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(corpus) / "traces")) {
        const std::string extension = entry.path().extension().string();
        if (extension != ".csv" && extension != ".out" && extension != ".gz" && extension != ".txt")
            continue;
        INFO(entry.path().string());
        const auto trace = read_trace_file(entry.path().string());
        if (trace) CHECK(summarise(*trace).ok());
        else CHECK_FALSE(trace.errors().list().front().hint.empty());
    }
}

}  // namespace
}  // namespace membudget
