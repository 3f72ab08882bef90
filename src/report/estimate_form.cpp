#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "report/figures.hpp"
#include "report/forms.hpp"

namespace membudget::report {
namespace {

/// A node of the ledger's tree: a leaf, or the sum of what lies below.
struct Node {
    std::string name;
    Bytes bytes;
    std::optional<Basis> basis;  ///< absent when the leaves differ
    std::vector<Node> children;
};

void insert(std::vector<Node>& level, std::string_view path, const Term& term) {
    const std::string_view name = first_component(path);
    auto at = std::find_if(level.begin(), level.end(),
                           [&](const Node& node) { return node.name == name; });
    if (at == level.end())
        at = level.insert(level.end(), Node{std::string(name), Bytes(0), term.basis, {}});
    at->bytes += term.at_peak;
    if (at->basis != term.basis) at->basis.reset();
    if (name.size() < path.size()) insert(at->children, path.substr(name.size() + 1), term);
}

void sort_by_size(std::vector<Node>& level) {
    std::stable_sort(level.begin(), level.end(), [](const Node& a, const Node& b) {
        return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
    });
    for (Node& node : level) sort_by_size(node.children);
}

/// One row per node; a chain of only children is one row with the whole path.
void add_rows(ReportTable& table, const std::vector<Node>& level, int depth, const Scale& scale,
              Bytes whole) {
    for (const Node& top : level) {
        const Node* node = &top;
        std::string name(static_cast<std::size_t>(2 * depth), ' ');
        name += node->name;
        while (node->children.size() == 1) {
            node = &node->children.front();
            name += '/' + node->name;
        }
        table.rows.push_back({std::move(name), scale.in_decimal(node->bytes),
                              scale.in_binary(node->bytes), share(node->bytes, whole),
                              node->basis ? std::string(name_of(*node->basis)) : "mixed"});
        add_rows(table, node->children, depth + 1, scale, whole);
    }
}

std::vector<ReportTable::Column> size_columns(std::string first, const Scale& scale) {
    return {{std::move(first), Align::left},
            {std::string(scale.decimal), Align::right},
            {std::string(scale.binary), Align::right}};
}

/// The leaves of one total, with the total as the last row.
std::optional<ReportTable> terms_table(const Ledger& ledger, Total total,
                                       const std::optional<TotalRange>& range,
                                       const Scale& scale) {
    std::vector<Node> roots;
    for (const Term& term : ledger.terms)
        if (term.total == total && term.at_peak != Bytes(0)) insert(roots, term.path, term);
    if (!range || (roots.empty() && total != Total::allocated)) return std::nullopt;
    sort_by_size(roots);

    ReportTable table;
    table.columns = size_columns(total == Total::allocated
                                     ? "At the peak"
                                     : fmt::format("Only in {}", name_of(total)),
                                 scale);
    table.columns.push_back({"share", Align::right});
    table.columns.push_back({"basis", Align::left});
    add_rows(table, roots, 0, scale, ledger.allocated.point);
    table.rows.push_back({std::string(name_of(total)), scale.in_decimal(range->point),
                          scale.in_binary(range->point),
                          share(range->point, ledger.allocated.point), ""});
    table.total_rows = 1;
    return table;
}

/// Terms that exist in the step but not at its peak: they explain what a smaller peak would meet.
std::optional<ReportNotes> terms_elsewhere(const Ledger& ledger) {
    std::string text;
    for (const Term& term : ledger.terms)
        if (term.at_peak == Bytes(0) && term.max != Bytes(0))
            text += fmt::format("{}{} (up to {})", text.empty() ? "" : ", ", term.path,
                                format_bytes(term.max, Units::decimal));
    if (text.empty()) return std::nullopt;
    return ReportNotes{.title = {}, .notes = {{"not live at the peak: " + text, {}}}};
}

ReportTable totals_table(const Ledger& ledger, const Scale& scale) {
    ReportTable table;
    table.columns = size_columns("Totals", scale);
    table.columns.push_back({fmt::format("lower .. upper ({})", scale.decimal), Align::left});
    const auto add = [&](std::string_view name, const std::optional<TotalRange>& range) {
        if (range)
            table.rows.push_back({std::string(name), scale.in_decimal(range->point),
                                  scale.in_binary(range->point), bounds(*range, scale)});
        else
            table.rows.push_back({std::string(name), "-", "-", "not modelled"});
    };
    add("allocated", ledger.allocated);
    add("reserved", ledger.reserved);
    add("device", ledger.device);
    if (ledger.host) add("host", ledger.host);

    const auto add_sum = [&](const char* name, Bytes bytes, const char* meaning) {
        table.rows.push_back({name, scale.in_decimal(bytes), scale.in_binary(bytes), meaning});
    };
    Bytes states;
    for (const char* group : {"parameters", "gradients", "optimizer_states"}) {
        Bytes most;
        for (const Term& term : ledger.terms)
            if (first_component(term.path) == group) most += term.max;
        states += most;
    }
    add_sum("model_states", states, "parameters, gradients, optimizer states");
    add_sum("additive_total", ledger.additive_total, "sum of maxima, not a peak");
    return table;
}

ReportTable phases_table(const Ledger& ledger, const Scale& scale) {
    ReportTable table;
    table.columns = size_columns("Peak by phase", scale);
    table.columns.push_back({"", Align::left});
    constexpr double kBarWidth = 24;
    for (const PhasePeak& phase : ledger.phases) {
        const double part = ratio(phase.peak, ledger.allocated.point);
        std::string bar(static_cast<std::size_t>(kBarWidth * std::clamp(part, 0.0, 1.0) + 0.5), '#');
        if (phase.phase == ledger.peak.phase) bar += " peak";
        table.rows.push_back({std::string(name_of(phase.phase)), scale.in_decimal(phase.peak),
                              scale.in_binary(phase.peak), std::move(bar)});
    }
    return table;
}

// --- techniques ----------------------------------------------------------------------------------

std::string listed(const std::vector<std::string_view>& names) {
    return fmt::format("{}", fmt::join(names, ", "));
}

/// What the table of techniques cannot say in numbers.
ReportNotes remarks_on(const std::vector<TechniqueSaving>& techniques, const Ledger& ledger) {
    std::vector<std::string_view> smaller, unknown;
    for (const TechniqueSaving& saving : techniques) {
        if (!saving.helps_at_peak) continue;
        if (saving.term_bytes < ledger.dominant_bytes && first_component(saving.term) != ledger.dominant &&
            saving.peak_saves.value_or(Bytes(0)) < ledger.dominant_bytes)
            smaller.push_back(saving.technique->name);
        if (!saving.peak_saves) unknown.push_back(saving.technique->name);
    }
    ReportNotes out;
    if (!smaller.empty())
        out.notes.push_back({fmt::format("a smaller part than {} ({}): {}", ledger.dominant,
                                         format_bytes(ledger.dominant_bytes, Units::decimal),
                                         listed(smaller)),
                             {}});
    if (!unknown.empty())
        out.notes.push_back({fmt::format("not known until the spec states what the term becomes: {}",
                                         listed(unknown)),
                             {}});
    return out;
}

void add_techniques(Report& report, const EstimateReport& of, const Scale& scale) {
    const Ledger& ledger = of.estimate->ledger;
    ReportTable table;
    table.columns = {{"What lowers this peak", Align::left},
                     {"its term", Align::left},
                     {std::string(scale.decimal), Align::right},
                     {"share", Align::right},
                     {fmt::format("saves {}", scale.decimal), Align::right}};
    ReportNotes costs{.title = "No technique is free", .notes = {}};
    ReportNotes idle{.title = "No advice for this peak", .notes = {{"", {}}}};
    for (const TechniqueSaving& saving : of.techniques) {
        const Technique& technique = *saving.technique;
        if (!saving.helps_at_peak) {
            idle.notes.front().points.emplace_back(technique.name, saving.note);
            continue;
        }
        table.rows.push_back(
            {std::string(technique.name), std::string(saving.term),
             scale.in_decimal(saving.term_bytes),
             share(saving.term_bytes, ledger.allocated.point),
             saving.peak_saves ? scale.in_decimal(*saving.peak_saves) : "not known"});
        costs.notes.push_back({std::string(technique.name),
                               {{"turns", saving.change},
                                {"cost", std::string(technique.cost)},
                                {"limits", std::string(technique.limits)}}});
    }
    if (!table.rows.empty()) {
        report.sections.push_back({std::move(table), remarks_on(of.techniques, ledger)});
        report.sections.push_back({std::nullopt, std::move(costs)});
    }
    if (!idle.notes.front().points.empty())
        report.sections.push_back({std::nullopt, std::move(idle)});
}

}  // namespace

// --- shared with other forms ---------------------------------------------------------------------

std::vector<std::string> job_facts(const Job& job) {
    std::vector<std::string> out;
    if (job.model != nullptr) {
        out.push_back(fmt::format("{}, {} parameters", job.model->architecture,
                                  group_digits(count_parameters(*job.model).total.count())));
    } else if (job.anonymous_parameters > 0) {
        out.push_back(fmt::format("{} parameters, no architecture",
                                  group_digits(job.anonymous_parameters)));
    }

    std::string facts = fmt::format("micro-batch {}", job.extents.batch);
    const bool tokens = job.model != nullptr ? reads_tokens(*job.model) : job.extents.sequence > 1;
    if (tokens) facts += fmt::format(" x {} tokens", group_digits(job.extents.sequence));
    if (job.extents.images > 0) {
        const std::int64_t images = job.extents.images / job.extents.tiles;
        facts += fmt::format("{} image{}{} of {} x {} pixels", tokens ? fmt::format(", {}", images) : std::string(),
                             images > 1 || !tokens ? "s" : "",
                             job.extents.tiles > 1 ? fmt::format(" in {} tiles each", job.extents.tiles) : std::string(),
                             job.model->image.height, job.model->image.width);
    }
    if (job.micro_batches > 1) facts += fmt::format(", {} accumulation steps", job.micro_batches);
    facts += fmt::format(", {}", job.precision.name);
    if (job.optimizer.row != nullptr) facts += fmt::format(", {}", job.optimizer.row->name);
    if (job.optimizer.implementation != nullptr && job.model != nullptr)
        facts += fmt::format(" ({})", job.optimizer.implementation->name);
    if (job.data.ranks() > 1)
        facts += fmt::format(", {} over {} ranks", job.data.sharding->name, job.data.ranks());
    if (job.checkpointing.enabled) facts += ", activation checkpointing";
    out.push_back(std::move(facts));

    if (job.model == nullptr)
        out.emplace_back("a first-order scenario of stated terms, not a measured peak");
    return out;
}

Headline headline_of(const Ledger& ledger) {
    return {.verdict = ledger.verdict,
            .word = std::string(word_for(ledger.verdict)),
            .lines = {verdict_sentence(ledger),
                      fmt::format("peak in {}", place_in_prose(ledger.peak)),
                      fmt::format("dominant term {}, {} ({} of the peak)", ledger.dominant,
                                  format_bytes(ledger.dominant_bytes, Units::decimal),
                                  share(ledger.dominant_bytes, ledger.allocated.point))}};
}

void add_notes(Report& report, std::string title, std::span<const Warning> warnings) {
    if (warnings.empty()) return;
    ReportNotes notes{.title = std::move(title), .notes = {}};
    for (const Warning& warning : warnings) notes.notes.push_back({warning.text, {}});
    report.sections.push_back({std::nullopt, std::move(notes)});
}

void add_notes(Report& report, std::string title, std::span<const Assumption> assumptions) {
    if (assumptions.empty()) return;
    ReportNotes notes{.title = std::move(title), .notes = {}};
    for (const Assumption& assumption : assumptions)
        notes.notes.push_back({assumption.source.empty()
                                   ? assumption.text
                                   : fmt::format("{} [{}]", assumption.text, assumption.source),
                               {}});
    report.sections.push_back({std::nullopt, std::move(notes)});
}

void add_notes(Report& report, std::string title, std::span<const std::string> lines) {
    if (lines.empty()) return;
    ReportNotes notes{.title = std::move(title), .notes = {}};
    for (const std::string& line : lines) notes.notes.push_back({line, {}});
    report.sections.push_back({std::nullopt, std::move(notes)});
}

Report estimate_form(const ReportData& data) {
    const EstimateReport& of = data.reports.front();
    const Ledger& ledger = of.estimate->ledger;
    const Scale& scale = scale_for(std::max(ledger.allocated.point, ledger.additive_total));

    Report report{.title = of.name,
                  .facts = job_facts(of.estimate->job),
                  .headlines = {headline_of(ledger)},
                  .sections = {}};
    const std::pair<Total, std::optional<TotalRange>> totals[] = {
        {Total::allocated, ledger.allocated},
        {Total::reserved, ledger.reserved},
        {Total::device, ledger.device},
        {Total::host, ledger.host}};
    for (const auto& [total, range] : totals)
        if (auto table = terms_table(ledger, total, range, scale))
            report.sections.push_back(
                {std::move(table),
                 total == Total::allocated ? terms_elsewhere(ledger) : std::nullopt});
    report.sections.push_back({totals_table(ledger, scale), std::nullopt});
    report.sections.push_back({phases_table(ledger, scale), std::nullopt});
    if (data.receipt) add_evidence(report, *data.receipt, ledger);
    add_notes(report, "Warnings", ledger.warnings);
    add_techniques(report, of, scale);
    add_notes(report, "Assumptions", ledger.assumptions);
    add_notes(report, "Measure next", ledger.measure_next);
    return report;
}

}  // namespace membudget::report
