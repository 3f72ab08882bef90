// The kinds of files that can be read, most specific first.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "trace/log_readers.hpp"
#include "trace/readers.hpp"

namespace membudget {

namespace {

constexpr TraceReader kReaders[] = {
    {"snapshot", "PyTorch memory snapshot (torch.cuda.memory._dump_snapshot): pickle, also gzipped",
     recognise_snapshot_pickle, read_snapshot_pickle},
    {"snapshot-json", "PyTorch memory snapshot written as JSON", recognise_snapshot_json,
     read_snapshot_json},
    {"snapshot-html", "page of the memory viewer (torch.cuda._memory_viz trace_plot and the like)",
     recognise_snapshot_html, read_snapshot_html},
    {"timeline", "memory timeline of torch.profiler (export_memory_timeline), levels or raw",
     trace::recognise_timeline, trace::read_timeline},
    {"timeline-html", "memory timeline of torch.profiler as a picture: refused, it holds no numbers",
     trace::recognise_timeline_html, trace::read_timeline_html},
    {"chrome", "Chrome trace of torch.profiler with [memory] events (profile_memory=True)",
     trace::recognise_chrome, trace::read_chrome},
    {"json", "figures per step as JSON: records, one per line, arrays, Megatron-LM's golden values",
     trace::recognise_json_samples, trace::read_json_samples},
    {"csv", "a table: nvidia-smi --query-gpu with or without header, or figures per step",
     trace::recognise_table, trace::read_table},
    {"log", "any text with memory lines of Megatron, DeepSpeed, torchtitan, nanotron, torchtune, "
            "Trainer, nvidia-smi, or with an out-of-memory message",
     trace::recognise_text, trace::read_text_log},
};
static_assert(names_are_unique(kReaders));

Result<Trace> refuse(const std::string& file, std::string message, std::string hint = {}) {
    return Diagnostic{Trouble::invalid, file, "", std::move(message), std::move(hint)};
}

}  // namespace

Table<TraceReader> trace_readers() { return Table<TraceReader>(kReaders); }

Result<Trace> read_trace(TraceInput& input) {
    if (input.head().empty())
        return refuse(input.name(), input.error().empty() ? "expected a memory trace; the file is empty"
                                                          : input.error());
    for (const TraceReader& reader : kReaders) {
        if (!reader.recognise(input.head())) continue;
        Result<Trace> trace = reader.read(input);
        if (!trace) return trace;
        trace->file = input.name();
        trace->reader = reader.name;
        return trace;
    }
    std::string kinds;
    for (const TraceReader& reader : kReaders)
        kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", reader.name);
    return refuse(input.name(), "expected a memory trace; the content is of no known kind",
                  "kinds that can be read: " + kinds);
}

Result<Trace> read_trace_file(const std::string& path, TraceProgress progress) {
    if (path == "-") {
        TraceInput input(path, source_of(std::cin, std::move(progress)));
        return read_trace(input);
    }
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored))
        return refuse(path, "expected a file; got a directory");
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return refuse(path, std::filesystem::exists(path, ignored)
                                ? "expected a readable file; permission denied"
                                : "expected a file; there is none of this name");
    const auto size = std::filesystem::file_size(path, ignored);
    TraceInput input(path, source_of(file, std::move(progress), ignored ? 0 : size));
    return read_trace(input);
}

}  // namespace membudget
