#include <fmt/format.h>

#include "cli/job_flags.hpp"
#include "cli/output_file.hpp"
#include "cli/progress.hpp"
#include "cli/session.hpp"

namespace membudget::cli {
namespace {

constexpr const char* kFooter =
    "TRACE is anything that `membudget trace` reads. Nothing is adjusted: a receipt shows later\n"
    "estimates what was measured, beside the terms.\n\n"
    "Examples:\n"
    "  membudget reconcile spec.json snapshot.pickle\n"
    "  membudget reconcile spec.json train.log --subject 'rank 0' --receipt receipt.json\n"
    "  membudget estimate spec.json --receipt receipt.json";

struct Options {
    std::string spec, trace, subject, receipt;
    JobFlags job;
};

Result<Reconciliation> compare(const Options& options, const Streams& streams) {
    const auto document = options.job.read(options.spec);
    if (!document) return document.errors();
    const auto result = options.job.estimate(*document);
    if (!result) return result.errors();
    const auto summary = summary_of_file(options.trace, streams);
    if (!summary) return summary.errors();
    return reconcile(result->ledger, display_name(*document), *summary, options.subject,
                     expected_terms(result->job));
}

}  // namespace

ExitCode run_reconcile(Arguments arguments, Streams& streams) {
    Options options;
    Session session("reconcile", streams, kFooter);
    CLI::App& app = session.app();
    app.add_option("SPEC", options.spec, "a spec or a model's config.json");
    app.add_option("TRACE", options.trace, "a measured run of it");
    app.add_option("--subject", options.subject, "the device or rank to compare; else the highest")
        ->type_name("NAME")->group("What is compared");
    app.add_option("--receipt", options.receipt, "keep what was found, for `estimate --receipt`")
        ->type_name("FILE")->group("Output");
    options.job.add_to(app);
    if (const auto exit = session.parse(arguments)) return *exit;
    if (options.spec.empty() || options.trace.empty())
        return session.fail_usage("reconcile needs a SPEC and a TRACE");
    if (const std::string wrong = misuse_of_standard_input({options.spec, options.trace}); !wrong.empty())
        return session.fail_usage(wrong);
    OutputFile file;
    if (!options.receipt.empty()) {
        auto opened = OutputFile::open(options.receipt);
        if (!opened) return session.fail(opened.errors());
        file = std::move(*opened);
    }
    auto reconciliation = compare(options, streams);
    if (!reconciliation) return session.fail(reconciliation.errors());

    ReportData data;
    data.command = "reconcile";
    data.reconciliation = std::move(*reconciliation);
    if (file.is_open())
        if (const Diagnostics errors = file.commit(write_receipt(receipt_of(*data.reconciliation)));
            !errors.empty())
            return session.fail(errors);
    return session.finish(data);
}

}  // namespace membudget::cli
