/// Any bytes as a memory snapshot (pickle, JSON, gzip): a trace whose questions have answers, or one
/// diagnostic.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "membudget/trace.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace membudget;
    TraceInput input("fuzz", source_of(std::string_view(reinterpret_cast<const char*>(data), size)));
    const auto trace = read_trace(input);
    if (!trace) {
        if (trace.errors().size() != 1) std::abort();
        return 0;
    }
    try {
        for (const TraceDevice& device : trace->devices) {
            const TraceReplay levels = replay(device);
            if (levels.peak.live < levels.start.live || levels.reserved_peak < levels.start.reserved) std::abort();
            (void)live_after(device, levels.peak.event);
            (void)free_memory(segments_after(device, levels.peak.event));
        }
        // What was read can be written, and read again the same.
        const std::string written = write_snapshot(*trace);
        TraceInput again("fuzz", source_of(written));
        const auto second = read_trace(again);
        if (!second || write_snapshot(*second) != written) std::abort();
    } catch (const OverflowError&) {
        // Sizes that no sum can hold.
    }
    return 0;
}
