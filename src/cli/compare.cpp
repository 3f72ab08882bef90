#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "cli/job_flags.hpp"
#include "cli/session.hpp"
#include "cli/sizes.hpp"

namespace membudget::cli {
namespace {

constexpr const char* kFooter =
    "With one SPEC, its scenarios are compared with the spec itself; with several, each with\n"
    "the first; with --baseline, each with an earlier `estimate --format json`.\n\n"
    "Examples:\n"
    "  membudget compare spec.json\n"
    "  membudget compare spec.json --scenario activation_checkpointing optimizer_sharding\n"
    "  membudget compare before.json after.json --budget 80GB\n"
    "  membudget compare spec.json --baseline main.json --max-increase 5%";

struct Options {
    std::vector<std::string> specs, scenarios;
    std::optional<std::string> baseline, max_increase;
    JobFlags job;
    JudgeFlags judge;
};

/// A job of the comparison; only specs, not scenarios, decide the exit code.
struct Compared {
    Document document;
    Estimate estimate;
    bool counts = true;
};

/// Adds the job of `document`, or says why there is none.
Diagnostics add_job(std::deque<Compared>& jobs, ReportData& data, Team& team, const Document& document,
                    std::string name, const std::optional<Bytes>& capacity, bool counts) {
    auto result = advised_estimate(document, team, capacity);
    if (!result) return result.errors();
    jobs.push_back({document, std::move(result->estimate), counts});
    data.reports.push_back({std::move(name), &jobs.back().estimate,
                            std::move(result->savings)});
    return {};
}

/// Every spec and every scenario; all mistakes of all of them in one run.
Diagnostics add_jobs(std::deque<Compared>& jobs, ReportData& data, const Options& options,
                     const std::optional<Bytes>& capacity) {
    Diagnostics errors;
    Team team;
    for (const std::string& file : options.specs) {
        const auto document = options.job.read(file);
        if (!document) {
            errors.take(document.errors());
            continue;
        }
        Diagnostics own = add_job(jobs, data, team, *document, display_name(*document), capacity, true);
        const bool usable = own.empty();
        errors.take(options.job.blame(own, *document));
        if (options.specs.size() > 1 || !usable) continue;

        // With a baseline the spec is compared with its past, not with its variants.
        auto names = options.scenarios;
        if (names.empty() && !options.baseline) names = scenario_names(*document);
        for (const std::string& name : names) {
            const auto changed = with_scenario(*document, name);
            errors.take(changed ? add_job(jobs, data, team, *changed, name, capacity, false)
                                : changed.errors());
        }
    }
    return errors;
}

std::vector<TermDelta> deltas_from(const Baseline& baseline, const Ledger& now) {
    Ledger before;
    for (const auto& [path, bytes] : baseline.terms) {
        Term term;
        term.path = path;
        term.at_peak = bytes;
        before.terms.push_back(std::move(term));
    }
    return diff(before, now);
}

/// What to measure again after these knobs were turned, and after what the ledger itself asks for.
std::vector<std::string> measure_next(const std::vector<KnobChange>& knobs, const Ledger& ledger) {
    std::vector<std::string> out;
    for (const KnobChange& knob : knobs)
        if (knob.technique != nullptr) {
            std::string line(knob.technique->measure);
            if (std::find(out.begin(), out.end(), line) == out.end())
                out.push_back(std::move(line));
        }
    if (out.empty()) out = ledger.measure_next;
    return out;
}

void add_deltas(ReportData& data, const std::deque<Compared>& jobs) {
    for (std::size_t i = data.baseline ? 0 : 1; i < jobs.size(); ++i) {
        const Ledger& now = jobs[i].estimate.ledger;
        Delta delta;
        delta.report = i;
        if (data.baseline) {
            delta.terms = deltas_from(*data.baseline, now);
        } else {
            delta.terms = diff(jobs.front().estimate.ledger, now);
            delta.knobs = changed_knobs(jobs.front().document.tree, jobs[i].document.tree);
        }
        delta.measure_next = measure_next(delta.knobs, now);
        data.deltas.push_back(std::move(delta));
    }
}

Result<std::optional<Baseline>> baseline_of(const Options& options) {
    if (!options.baseline) return std::optional<Baseline>{};
    const auto text = read_text(*options.baseline);
    if (!text) return text.errors();
    auto baseline = read_baseline(*text, *options.baseline);
    if (!baseline) return baseline.errors();
    if (options.max_increase) {
        const auto limit = growth_limit(baseline->allocated, *options.max_increase);
        if (!limit) return limit.errors();
        baseline->limit = *limit;
        baseline->allowance = *options.max_increase;
    }
    return std::optional<Baseline>(std::move(*baseline));
}

/// What is wrong with the command line before any file is read; empty when nothing is.
std::string misuse(const Options& options) {
    if (options.specs.empty()) return "compare needs a SPEC";
    if (options.specs.size() > 1 && !options.scenarios.empty())
        return "scenarios belong to one spec: give one SPEC with --scenario";
    if (options.max_increase && !options.baseline)
        return "--max-increase needs --baseline: what would the growth be measured against?";
    auto inputs = options.specs;
    if (options.baseline) inputs.push_back(*options.baseline);
    return misuse_of_standard_input(inputs);
}

}  // namespace

ExitCode run_compare(Arguments arguments, Streams& streams) {
    Options options;
    Session session("compare", streams, kFooter);
    CLI::App& app = session.app();
    app.add_option("SPEC", options.specs, "specs or model configs");
    app.add_option("--scenario", options.scenarios,
                   "scenarios of the SPEC, or built-in ones (`membudget list scenarios`)")
        ->type_name("NAME")->group("What is compared");
    app.add_option_function<std::string>(
           "--baseline", [&](const std::string& file) { options.baseline = file; },
           "an earlier `estimate --format json`")
        ->type_name("FILE")->group("What is compared");
    app.add_option_function<std::string>(
           "--max-increase", [&](const std::string& text) { options.max_increase = text; },
           "growth over the baseline that still passes, e.g. 5% or 2GB")
        ->type_name("LIMIT")->group("Judgement");
    options.job.add_to(app);
    options.judge.add_to(app);
    if (const auto exit = session.parse(arguments)) return *exit;
    if (auto message = misuse(options); !message.empty())
        return session.fail_usage(std::move(message));

    const auto capacity = options.judge.capacity();
    if (!capacity) return session.fail(capacity.errors());
    auto baseline = baseline_of(options);
    if (!baseline) return session.fail(baseline.errors());

    ReportData data;
    data.command = "compare";
    data.baseline = std::move(*baseline);
    std::deque<Compared> jobs;  // a deque: the reports point to its elements
    if (const auto errors = add_jobs(jobs, data, options, *capacity); !errors.empty())
        return session.fail(errors);
    if (jobs.size() == 1 && !data.baseline)
        return session.fail_usage(fmt::format("nothing to compare {} with", options.specs.front()),
                                  "the spec holds no scenarios: name built-in ones with "
                                  "--scenario, or give another SPEC or a --baseline");
    add_deltas(data, jobs);

    ExitCode code = ExitCode::done;
    std::string verdicts;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (!jobs[i].counts) continue;
        const Ledger& ledger = jobs[i].estimate.ledger;
        std::vector<std::string> lines;
        if (exit_code_for(ledger.verdict, options.judge.strict) != ExitCode::done)
            lines.push_back(verdict_line(data.reports[i]));
        if (data.baseline && data.baseline->limit && ledger.allocated.point > *data.baseline->limit)
            lines.push_back(growth_line(*data.baseline, data.reports[i]));
        for (const std::string& line : lines) {
            code = ExitCode::over;
            verdicts += (verdicts.empty() ? "" : "\n") + line;
        }
    }
    return session.finish(data, code, verdicts);
}

}  // namespace membudget::cli
