#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/job_flags.hpp"
#include "cli/progress.hpp"
#include "cli/session.hpp"

namespace membudget::cli {
namespace {

constexpr const char* kFooter =
    "FILE is a PyTorch memory snapshot, a memory timeline or Chrome trace of torch.profiler, a\n"
    "training log, an nvidia-smi log, figures per step (CSV, JSON), or text with an\n"
    "out-of-memory message; gzip is undone, - is standard input. Nothing in it is executed.\n\n"
    "Examples:\n"
    "  membudget trace snapshot.pickle\n"
    "  membudget trace train.log --subject 'rank 3'\n"
    "  membudget trace gpu.csv --format svg --output gpu.svg\n"
    "  python train.py 2>&1 | membudget trace - --spec spec.json\n"
    "  membudget trace error.txt --dim tokens=30688 --dim vocabulary=151936";

struct Options {
    std::vector<std::string> files, dims;
    std::string spec, subject;
    JobFlags job;
};

/// Lengths from --dim NAME=N.
Result<std::vector<Dimension>> stated_dimensions(const std::vector<std::string>& texts) {
    std::vector<Dimension> out;
    for (const std::string& text : texts) {
        const std::size_t equals = text.find('=');
        Dimension dimension;
        if (equals != std::string::npos) {
            dimension.name = text.substr(0, equals);
            std::string digits = text.substr(equals + 1);
            std::erase(digits, '_');
            const char* end = digits.data() + digits.size();
            if (std::from_chars(digits.data(), end, dimension.extent).ptr != end)
                dimension.extent = 0;
        }
        if (dimension.name.empty() || dimension.extent <= 0)
            return usage_error(
                fmt::format("expected --dim NAME=N with a whole number above 0; got '{}'", text),
                "for example --dim tokens=8192 --dim vocabulary=128256");
        out.push_back(std::move(dimension));
    }
    return out;
}

Result<Dimensions> dimensions_for(const Options& options) {
    Dimensions out;
    if (!options.spec.empty()) {
        const auto document = options.job.read(options.spec);
        if (!document) return document.errors();
        const auto job = resolve_document(*document);
        if (!job) return options.job.blame(job.errors(), *document);
        out = dimensions_of(*job);
    }
    auto stated = stated_dimensions(options.dims);
    if (!stated) return stated.errors();
    for (Dimension& dimension : *stated) out.named.push_back(std::move(dimension));
    return out;
}

Result<TraceReport> report_of(const std::string& file, const Options& options,
                              const Dimensions& dimensions, const Streams& streams) {
    auto summary = summary_of_file(file, streams);
    if (!summary) return summary.errors();
    TraceReport out;
    out.findings = diagnose(*summary, dimensions);
    out.summary = std::move(*summary);
    out.subject = options.subject;
    const auto& subjects = out.summary.subjects;
    const bool known =
        std::any_of(subjects.begin(), subjects.end(),
                    [&](const TraceSubject& subject) { return subject.name == options.subject; });
    if (options.subject.empty() || known) return out;
    std::vector<std::string_view> names;
    for (const TraceSubject& subject : subjects) names.push_back(subject.name);
    std::string hint = did_you_mean(options.subject, names);
    if (hint.empty() && !names.empty())
        hint = fmt::format("the first of them: {}",
                           fmt::join(names.begin(),
                                     names.begin() + static_cast<std::ptrdiff_t>(
                                                         std::min<std::size_t>(names.size(), 8)),
                                     ", "));
    return Diagnostic{Trouble::invalid, file, "",
                      fmt::format("no device or rank {} in it", in_quotes(options.subject)),
                      std::move(hint)};
}

}  // namespace

ExitCode run_trace(Arguments arguments, Streams& streams) {
    Options options;
    Session session("trace", streams, kFooter);
    CLI::App& app = session.app();
    app.add_option("FILE", options.files, "measured runs");
    app.add_option("--subject", options.subject,
                   "the device or rank to show in full; else the highest")
        ->type_name("NAME")
        ->group("What is shown");
    app.add_option("--spec", options.spec,
                   "a spec or config whose tensors may explain a failed request")
        ->type_name("FILE")
        ->group("What a failed request may be");
    app.add_option("--dim", options.dims,
                   "a length that may explain a failed request, e.g. tokens=8192")
        ->type_name("NAME=N")
        ->group("What a failed request may be");
    options.job.add_to(app);
    if (const auto exit = session.parse(arguments)) return *exit;
    if (options.files.empty()) return session.fail_usage("trace needs a FILE");
    auto inputs = options.files;
    inputs.push_back(options.spec);
    if (const std::string wrong = misuse_of_standard_input(inputs); !wrong.empty())
        return session.fail_usage(wrong);

    const auto dimensions = dimensions_for(options);
    if (!dimensions) return session.fail(dimensions.errors());
    ReportData data;
    data.command = "trace";
    Diagnostics errors;
    for (const std::string& file : options.files) {
        auto report = report_of(file, options, *dimensions, streams);
        if (report) data.traces.push_back(std::move(*report));
        else errors.take(report.errors());
    }
    if (!errors.empty()) return session.fail(errors);
    return session.finish(data);
}

}  // namespace membudget::cli
