#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/job_flags.hpp"
#include "cli/session.hpp"

namespace membudget::cli {
namespace {

constexpr const char* kFooter =
    "TERM is a path of the ledger or the beginning of several: activations,\n"
    "optimizer_states/exp_avg.\n\n"
    "Examples:\n"
    "  membudget explain spec.json activations\n"
    "  membudget explain spec.json --at peak\n"
    "  membudget explain spec.json activations --at model.layers.0.mlp.down_proj\n"
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

/// No instant has this name; the nearest op's may be meant.
Diagnostics unknown_instant(const Timeline& timeline, const std::string& when) {
    std::set<std::string> known{"peak"};
    for (const Phase phase : kPhases) known.emplace(name_of(phase));
    for_each_stretch(timeline, MicroBatches::distinct, [&](const Stretch& stretch) {
        for (const Event& event : stretch.leaf->events)
            known.insert(op_name(timeline.model.get(), *stretch.leaf, stretch.layer, event.during));
    });
    known.erase("");
    const std::vector<std::string_view> names(known.begin(), known.end());
    std::string hint = did_you_mean(when, names);
    if (hint.empty())
        hint = "peak, a phase (forward, loss, backward, optimizer_step) or an op, as "
               "`membudget timeline SPEC --format csv` names them";
    return usage_error(fmt::format("expected an instant of the step after --at; got {}", in_quotes(when)),
                       std::move(hint));
}

}  // namespace

ExitCode run_explain(Arguments arguments, Streams& streams) {
    std::string spec, term, when;
    JobFlags job;
    Session session("explain", streams, kFooter);
    session.app().add_option("SPEC", spec, "a spec or a model's config.json");
    session.app().add_option("TERM", term, "a path of the ledger");
    session.app().add_option("--at", when, "peak, a phase, or an op: what is live at its highest "
                                           "instant, and why (default: peak)")
        ->type_name("INSTANT");
    job.add_to(session.app());
    if (const auto exit = session.parse(arguments)) return *exit;
    if (spec.empty() || (term.empty() && when.empty()))
        return session.fail_usage("explain needs a SPEC and a TERM or --at");

    const auto document = job.read(spec);
    if (!document) return session.fail(document.errors());
    const auto result = job.estimate(*document);
    if (!result) return session.fail(result.errors());
    const auto& terms = result->ledger.terms;
    if (!term.empty() && std::none_of(terms.begin(), terms.end(), [&](const Term& row) {
            return is_at_or_below(row.path, term);
        }))
        return session.fail(unknown_term(*document, result->ledger, term));

    ReportData data;
    data.command = "explain";
    data.reports.push_back({display_name(*document), &*result, {}});
    data.explanation = Explanation{.path = term, .when = when.empty() ? "peak" : when, .at = {}, .tensors = {}};
    // Of stated numbers there are no tensors to list, unless someone asks what is live when.
    const Timeline timeline = make_timeline(result->job);
    if (result->job.model != nullptr || !when.empty()) {
        data.explanation->at = find_instant(timeline, data.explanation->when);
        if (!data.explanation->at) return session.fail(unknown_instant(timeline, when));
        for (LiveTensor& tensor : live_at(timeline, *data.explanation->at))
            if (term.empty() || is_at_or_below(tensor.term, term))
                data.explanation->tensors.push_back(std::move(tensor));
    }
    return session.finish(data);
}

}  // namespace membudget::cli
