#include <fmt/format.h>

#include <algorithm>

#include "cli/job_flags.hpp"
#include "cli/session.hpp"

namespace membudget::cli {
namespace {

constexpr const char* kFooter =
    "TERM is a path of the ledger or the beginning of several: activations,\n"
    "optimizer_states/exp_avg.\n\n"
    "Examples:\n"
    "  membudget explain spec.json activations\n"
    "  membudget explain spec.json optimizer_states/exp_avg --format json";

/// Every path that may be explained: the leaves and what lies above them.
std::vector<std::string> explainable(const Ledger& ledger) {
    std::vector<std::string> out;
    for (const Term& term : ledger.terms)
        for (std::size_t end = 0; end != std::string::npos;) {
            end = term.path.find('/', end + 1);
            out.push_back(term.path.substr(0, end));
        }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

Diagnostics unknown_term(const Document& document, const Ledger& ledger, const std::string& term) {
    const auto known = explainable(ledger);
    const std::vector<std::string_view> names(known.begin(), known.end());
    std::string hint = did_you_mean(term, names);
    if (hint.empty()) {
        hint = "the terms of this job:";
        for (const std::string_view name : names)
            if (name.find('/') == std::string_view::npos) hint += fmt::format(" {}", name);
    }
    Diagnostics out;
    out.invalid("", fmt::format("no term '{}' in the ledger", term), std::move(hint));
    out.set_file(document.file);
    return out;
}

}  // namespace

ExitCode run_explain(Arguments arguments, Streams& streams) {
    std::string spec, term;
    JobFlags job;
    Session session("explain", streams, kFooter);
    session.app().add_option("SPEC", spec, "a spec or a model's config.json");
    session.app().add_option("TERM", term, "a path of the ledger");
    job.add_to(session.app());
    if (const auto exit = session.parse(arguments)) return *exit;
    if (spec.empty() || term.empty()) return session.fail_usage("explain needs a SPEC and a TERM");

    const auto read = read_document(spec);
    if (!read) return session.fail(read.errors());
    const auto document = job.apply(*read);
    if (!document) return session.fail(document.errors());
    const auto result = estimate(*document);
    if (!result) return session.fail(job.blame(result.errors(), *document));
    const auto& terms = result->ledger.terms;
    if (std::none_of(terms.begin(), terms.end(),
                     [&](const Term& row) { return is_at_or_below(row.path, term); }))
        return session.fail(unknown_term(*document, result->ledger, term));

    ReportData data;
    data.command = "explain";
    data.reports.push_back({display_name(*document), &*result, {}});
    data.explanation = Explanation{.path = term, .tensors = {}};
    if (result->job.model != nullptr)
        for (LiveTensor& tensor : live_at_peak(result->job))
            if (is_at_or_below(tensor.term, term))
                data.explanation->tensors.push_back(std::move(tensor));
    return session.finish(data);
}

}  // namespace membudget::cli
