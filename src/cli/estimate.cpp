#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "cli/job_flags.hpp"
#include "cli/session.hpp"

namespace membudget::cli {
namespace {

constexpr const char* kFooter =
    "SPEC is a spec, a model's config.json, a name (`membudget list models`), or - for\n"
    "standard input.\n\n"
    "Examples:\n"
    "  membudget estimate spec.json\n"
    "  membudget estimate config.json --batch 1 --seq 8192 --optimizer adamw \\\n"
    "      --precision bf16-autocast --budget 80GB\n"
    "  membudget estimate llama-3.1-8b --batch 1 --seq 8192 --checkpointing full\n"
    "  membudget estimate spec.json --scenario activation_checkpointing\n"
    "  membudget estimate spec.json --format json | jq .totals.allocated";

struct Options {
    std::string spec, scenario, receipt;
    JobFlags job;
    JudgeFlags judge;
    std::string total = "device";
};

Result<Document> read(const Options& options) {
    auto changed = options.job.read(options.spec);
    if (!changed || options.scenario.empty()) return changed;
    auto out = with_scenario(*changed, options.scenario);
    if (!out) return options.job.blame(out.errors(), *changed);
    return out;
}

}  // namespace

ExitCode run_estimate(Arguments arguments, Streams& streams) {
    Options options;
    Session session("estimate", streams, kFooter);
    session.app().add_option("SPEC", options.spec, "a spec or a model's config.json");
    session.app().add_option("--scenario", options.scenario,
                             "apply a scenario of the spec, or a built-in one "
                             "(`membudget list scenarios`)")
        ->type_name("NAME")->group("The job (instead of what the file says)");
    session.app().add_option("--receipt", options.receipt,
                             "show what `membudget reconcile --receipt` measured, beside the terms")
        ->type_name("FILE")->group("Evidence");
    options.job.add_to(session.app());
    options.judge.add_to(session.app());
    session.app().add_option("--total", options.total,
                             "the outermost total: device (default), or allocated, which spares the "
                             "simulation of the caching allocator")
        ->type_name("NAME")->group("Judgement");
    if (const auto exit = session.parse(arguments)) return *exit;
    if (options.spec.empty()) return session.fail_usage("estimate needs a SPEC");

    const std::array<std::string_view, 2> totals{"device", "allocated"};
    if (std::ranges::find(totals, options.total) == totals.end())
        return session.fail_usage(
            fmt::format("--total: expected device or allocated; got '{}'", options.total));
    const BookOptions books{options.total == "allocated" ? Outermost::allocated : Outermost::device,
                            session.lists_rows() ? Formulas::all : Formulas::none};
    const auto capacity = options.judge.capacity();
    if (!capacity) return session.fail(capacity.errors());
    Team team;  // its threads start while the file is read
    const auto document = read(options);
    if (!document) return session.fail(document.errors());
    auto result = options.job.advised_estimate(*document, team, *capacity, books);
    if (!result) return session.fail(result.errors());

    ReportData data;
    data.command = "estimate";
    std::string name = display_name(*document);
    if (!options.scenario.empty()) name += fmt::format(", scenario {}", options.scenario);
    if (!options.receipt.empty()) {
        const auto text = read_text(options.receipt);
        if (!text) return session.fail(text.errors());
        auto receipt = read_receipt(*text, options.receipt);
        if (!receipt) return session.fail(receipt.errors());
        data.receipt = std::move(*receipt);
    }
    data.reports.push_back({name, &result->estimate, std::move(result->savings)});
    return session.finish(data, exit_code_for(result->estimate.ledger.verdict, options.judge.strict),
                          verdict_line(data.reports.front()));
}

}  // namespace membudget::cli
