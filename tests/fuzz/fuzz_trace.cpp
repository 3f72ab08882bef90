/// Any bytes as a trace of the reader MEMBUDGET_READER: read, replayed, summarised and diagnosed, or
/// diagnostics. Whatever is claimed has evidence.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "membudget/diagnosis.hpp"
#include "membudget/report.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace membudget;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const TraceReader* reader = trace_readers().find(MEMBUDGET_READER);
    if (reader == nullptr) std::abort();
    TraceInput input("fuzz", source_of(text));
    static_cast<void>(reader->recognise(input.head()));
    auto trace = reader->read(input);
    if (!trace) {
        if (trace.errors().empty()) std::abort();
        return 0;
    }
    trace->file = "fuzz";
    trace->reader = reader->name;
    auto summary = summarise(*trace, 20);
    if (!summary) return 0;
    for (const TraceSubject& subject : summary->subjects) {
        if (subject.curve.points.size() > 20) std::abort();
        if (subject.start_live && subject.live_peak && *subject.live_peak < *subject.start_live)
            std::abort();
    }
    TraceReport report;
    report.findings = diagnose(*summary);
    report.summary = std::move(*summary);
    for (const Finding& finding : report.findings)
        if (finding.evidence.empty()) std::abort();
    ReportData out;
    out.command = "trace";
    out.traces.push_back(std::move(report));
    for (const Writer& writer : writers())
        if (writes(writer, "trace") && writer.write(out, {}).empty()) std::abort();
    return 0;
}
