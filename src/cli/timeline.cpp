#include <fmt/format.h>

#include "cli/job_flags.hpp"
#include "cli/session.hpp"

namespace membudget::cli {
namespace {

constexpr const char* kFooter =
    "text and svg draw one of the micro-batches that are alike; json and csv list\n"
    "every event of the step; pickle runs steps until memory repeats, on the\n"
    "simulated allocator, and leaves out micro-batches that change nothing.\n\n"
    "Examples:\n"
    "  membudget timeline spec.json\n"
    "  membudget timeline spec.json --format svg --output step.svg\n"
    "  membudget timeline spec.json --format pickle --output step.pickle\n"
    "  membudget timeline spec.json --format csv | sort -t, -k12 -n | tail";

/// A list of more events is of no use to anybody, and takes gigabytes.
constexpr std::int64_t kMostEvents = 4'000'000;

Diagnostics too_many(const Document& document, std::int64_t events) {
    Diagnostics out;
    out.unsupported("", fmt::format("expected a step of at most {} events to list; got {}",
                                    group_digits(kMostEvents), group_digits(events)),
                    "micro-batches between the first and the last are alike: list a step with "
                    "--grad-accum 3");
    out.set_file(document.file);
    return out;
}

}  // namespace

ExitCode run_timeline(Arguments arguments, Streams& streams) {
    std::string spec;
    JobFlags job;
    Session session("timeline", streams, kFooter);
    session.app().add_option("SPEC", spec, "a spec or a model's config.json");
    job.add_to(session.app());
    if (const auto exit = session.parse(arguments)) return *exit;
    if (spec.empty()) return session.fail_usage("timeline needs a SPEC");

    const auto document = job.read(spec);
    if (!document) return session.fail(document.errors());
    const auto result = job.estimate(*document);
    if (!result) return session.fail(result.errors());

    const Timeline timeline = make_timeline(result->job);
    if (session.lists_rows()) {
        const std::int64_t events = count_events(timeline, MicroBatches::all);
        if (events > kMostEvents) return session.fail(too_many(*document, events));
    }
    const auto peak = find_instant(timeline, "peak");
    if (!peak)
        return session.fail(usage_error("expected a job in which something is allocated; got none"));
    ReportData data;
    data.command = "timeline";
    data.reports.push_back({display_name(*document), &*result, {}});
    data.timeline = TimelineReport{&timeline, *peak};
    return session.finish(data);
}

}  // namespace membudget::cli
