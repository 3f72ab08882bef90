#include <fmt/format.h>

#include <algorithm>

#include "report/figures.hpp"
#include "report/forms.hpp"
#include "report/inspection.hpp"

namespace membudget::report {
namespace {

std::string share_of(Elements part, Elements whole) {
    if (whole == Elements(0)) return "";
    return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part.count()) /
                                       static_cast<double>(whole.count()));
}

/// The components with their sizes in the type of the weights and in fp32.
ReportTable components_table(const std::vector<ComponentCounts>& components, Elements whole,
                             const Dtype* own) {
    std::vector<const Dtype*> types;
    if (own != nullptr && own != &dtype::fp32) types.push_back(own);
    types.push_back(&dtype::fp32);
    const Scale& scale = scale_for(bytes_of(whole, dtype::fp32));
    ReportTable table;
    table.columns = {{"Components", Align::left},
                     {"tensors", Align::right},
                     {"count", Align::right},
                     {"share", Align::right}};
    for (const Dtype* type : types)
        table.columns.push_back({fmt::format("{} {}", scale.decimal, type->name), Align::right});
    const auto add = [&](std::string_view name, std::int64_t tensors, Elements elements) {
        std::vector<std::string> row{std::string(name), group_digits(tensors),
                                     group_digits(elements.count()), share_of(elements, whole)};
        for (const Dtype* type : types) row.push_back(scale.in_decimal(bytes_of(elements, *type)));
        table.rows.push_back(std::move(row));
    };
    std::int64_t tensors = 0;
    for (const ComponentCounts& counts : components) {
        add(name_of(counts.component), counts.tensors, counts.total);
        tensors += counts.tensors;
    }
    add("total", tensors, whole);
    table.total_rows = 1;
    return table;
}

/// The largest tensors of each component; a UNet has hundreds of shapes, and the machine formats
/// list them all.
ReportTable tensors_table(const std::vector<ComponentCounts>& components) {
    constexpr std::size_t kShown = 12;
    ReportTable table;
    table.columns = {{"Tensors", Align::left}, {"shape", Align::left}, {"copies", Align::right}};
    for (const ComponentCounts& counts : components) {
        table.rows.push_back({std::string(name_of(counts.component)), "", ""});
        std::size_t shown = 0;
        std::int64_t hidden = 0;
        for (const TensorGroup& group : counts.groups)
            if (shown < kShown || counts.groups.size() == kShown + 1) {
                ++shown;
                table.rows.push_back(
                    {"  " + group.name, shape_text(group.shape), group_digits(group.tensors)});
            } else {
                hidden += group.tensors;
            }
        if (hidden > 0)
            table.rows.push_back({fmt::format("  {} more", counts.groups.size() - shown), "",
                                  group_digits(hidden)});
    }
    return table;
}

/// A name from a file, safe to print.
std::string printable(const std::string& name) {
    return has_control_characters(name) ? in_quotes(name, 200) : name;
}

/// What differs first, then what is known, each reason once.
ReportNote weights_note(const WeightReport& report) {
    constexpr std::size_t kShown = 10;
    ReportNote note;
    for (const std::string& file : report.files)
        note.head += (note.head.empty() ? "" : ", ") + printable(file);
    note.head += fmt::format(" ({}): {}", name_of(report.format), verdict_of(report));
    std::size_t open = 0;
    std::vector<std::pair<std::string, std::size_t>> known;  // a reason, and how many have it
    for (const WeightDifference& difference : report.check.differences) {
        if (difference.reason.empty()) {
            if (++open <= kShown)
                note.points.emplace_back(
                    difference.tensor.empty() ? "elements" : printable(difference.tensor),
                    difference.what);
            continue;
        }
        const auto same = std::find_if(known.begin(), known.end(), [&](const auto& entry) {
            return entry.first == difference.reason;
        });
        if (same == known.end())
            known.emplace_back(difference.reason, 1);
        else
            ++same->second;
    }
    if (open > kShown)
        note.points.emplace_back(fmt::format("{} more", open - kShown), "the json format lists them");
    for (const auto& [reason, count] : known)
        note.points.emplace_back(fmt::format("{} known", count), reason);
    return note;
}

ReportTable totals_table(const ParameterCounts& counts, bool adapted) {
    ReportTable table;
    table.columns = {{"Totals", Align::left}, {"count", Align::right}, {"what it is", Align::left}};
    const auto add = [&](const char* name, Elements elements, const char* doc) {
        table.rows.push_back({name, group_digits(elements.count()), doc});
    };
    add("total", counts.total, "in memory: a tied tensor counts once");
    add("untied_total", counts.untied, "as if nothing were tied");
    add("active", counts.active, "used for one token: all but the experts it is not routed to");
    add("trainable", counts.trainable, adapted ? "what is trained" : "what the class itself does not freeze");
    return table;
}

/// In which types the tensors are held: of interest once they are not all of one.
ReportTable held_table(const Model& model) {
    const std::vector<HeldBytes> held = held_bytes(model);
    Bytes whole;
    for (const HeldBytes& one : held) whole += one.bytes;
    const Scale& scale = scale_for(whole);
    ReportTable table;
    table.columns = {{"Held as", Align::left},
                     {"tensors", Align::right},
                     {"bytes", Align::right},
                     {std::string(scale.decimal), Align::right}};
    std::int64_t tensors = 0;
    const auto add = [&](std::string name, std::int64_t count, Bytes bytes) {
        table.rows.push_back({std::move(name), group_digits(count), group_digits(bytes.count()),
                              scale.in_decimal(bytes)});
        tensors += count;
    };
    for (const HeldBytes& one : held) add(std::string(one.dtype->name), one.tensors, one.bytes);
    add("total", tensors, whole);
    table.total_rows = 1;
    return table;
}

}  // namespace

Report inspect_form(const ReportData& data) {
    const Inspection& inspection = *data.inspection;
    const Model& model = *inspection.model;
    const ParameterCounts counts = count_parameters(model);
    const Dtype* own = dtype_of(model);

    Report report;
    report.title = inspection.name;
    report.facts.push_back(fmt::format("{}, {} parameters", model.architecture,
                                       group_digits(counts.total.count())));
    report.facts.push_back(own == nullptr ? "the config names no type of the weights"
                                          : fmt::format("weights published in {}", own->name));
    report.sections.push_back({totals_table(counts, model.adapted), std::nullopt});

    if (model.adapted) report.sections.push_back({held_table(model), std::nullopt});

    const std::vector<ComponentCounts> components = components_of(model);
    report.sections.push_back({components_table(components, counts.total, own), std::nullopt});
    report.sections.push_back({tensors_table(components), std::nullopt});
    if (!inspection.weights.empty()) {
        ReportNotes weights{.title = "Weight files", .notes = {}};
        for (const WeightReport& file : inspection.weights)
            weights.notes.push_back(weights_note(file));
        report.sections.push_back({std::nullopt, std::move(weights)});
    }

    std::vector<std::string> notes;
    for (const ComponentCounts& component : components)
        for (const TensorGroup& group : component.groups)
            if (!group.tied_to.empty())
                notes.push_back(fmt::format("{} is {}: it counts once", group.name, group.tied_to));
    notes.insert(notes.end(), model.notes.begin(), model.notes.end());
    if (!model.step_unsupported.empty())
        notes.push_back("its training step is not simulated: " + model.step_unsupported);
    notes.push_back("structure: " + model.source);
    add_notes(report, "Notes", notes);
    return report;
}

}  // namespace membudget::report
