// Reads a trace, replays it and finds what was live at the peak: seconds, MB per second and the most
// memory the process had.
//
//     make_snapshot 1000000000 > big.pickle
//     bench_trace big.pickle

#include <sys/resource.h>

#include <cstdio>
#include <ctime>
#include <filesystem>

#include "membudget/trace.hpp"

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        // Processor time, so that other processes do not count.
        const std::clock_t begin = std::clock();
        const auto seconds = [&] { return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC; };
        const auto trace = membudget::read_trace_file(argv[i]);
        if (!trace) {
            std::fprintf(stderr, "error: %s\n", trace.errors().list().front().message.c_str());
            return 2;
        }
        const double read = seconds();
        std::size_t events = 0, live = 0;
        long long peak = 0;
        for (const membudget::TraceDevice& device : trace->devices) {
            const membudget::TraceReplay levels = membudget::replay(device);
            const auto blocks = membudget::live_after(device, levels.peak.event);
            const auto segments = membudget::segments_after(device, levels.peak.event);
            events += device.events.size();
            live += blocks.size() + segments.size();
            peak = levels.peak.live;
        }
        const double all = seconds();
        rusage usage{};
        getrusage(RUSAGE_SELF, &usage);
        const auto size = static_cast<double>(std::filesystem::file_size(argv[i]));
        std::printf("%s: %zu events, peak %lld bytes in %zu blocks and segments\n", argv[i], events, peak, live);
        std::printf("read %.2f s (%.0f MB/s), with replay %.2f s (%.0f MB/s), resident %.1f %% of the file\n", read,
                    size / read / 1e6, all, size / all / 1e6,
                    100.0 * static_cast<double>(usage.ru_maxrss) * 1024 / size);
    }
    return 0;
}
