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

/// Rows of the tree: what they count, and their sizes in the types that are shown.
class Tree {
public:
    Tree(Elements whole, const Dtype* own) : whole_(whole), scale_(scale_for(in_fp32(whole))) {
        if (own != nullptr && own != &dtype::fp32) types_.push_back(own);
        types_.push_back(&dtype::fp32);
        table_.columns = {{"Parameters", Align::left},
                          {"shape", Align::left},
                          {"tensors", Align::right},
                          {"count", Align::right},
                          {"share", Align::right}};
        for (const Dtype* type : types_)
            table_.columns.push_back({fmt::format("{} {}", scale_.decimal, type->name), Align::right});
    }

    void add(std::string name, std::string shape, std::int64_t tensors, Elements elements) {
        std::vector<std::string> row{std::move(name), std::move(shape), group_digits(tensors),
                                     group_digits(elements.count()), share_of(elements, whole_)};
        for (const Dtype* type : types_)
            row.push_back(scale_.in_decimal(bytes_of(elements, *type)));
        table_.rows.push_back(std::move(row));
    }

    [[nodiscard]] ReportTable finish() && {
        table_.total_rows = 1;
        return std::move(table_);
    }

private:
    static Bytes in_fp32(Elements elements) { return bytes_of(elements, dtype::fp32); }

    Elements whole_;
    const Scale& scale_;
    std::vector<const Dtype*> types_;
    ReportTable table_;
};

/// The largest tensors of a component; a UNet has hundreds of shapes, and the machine formats list
/// them all.
void add_component(Tree& tree, const ComponentCounts& counts) {
    constexpr std::size_t kShown = 12;
    tree.add(std::string(name_of(counts.component)), "", counts.tensors, counts.total);
    std::size_t shown = 0;
    std::int64_t hidden = 0;
    Elements rest;
    for (const TensorGroup& group : counts.groups) {
        const Elements own = group.tied_to.empty() ? group.elements : Elements(0);
        if (shown < kShown || counts.groups.size() == kShown + 1) {
            ++shown;
            tree.add("  " + group.name, shape_text(group.shape), group.tensors, own);
        } else {
            hidden += group.tensors;
            rest += own;
        }
    }
    if (hidden > 0) tree.add(fmt::format("  {} more", counts.groups.size() - shown), "", hidden, rest);
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

    Tree tree(counts.total, own);
    std::vector<std::string> notes;
    for (const ComponentCounts& component : components_of(model)) {
        add_component(tree, component);
        for (const TensorGroup& group : component.groups)
            if (!group.tied_to.empty())
                notes.push_back(fmt::format("{} is {}: it counts once", group.name, group.tied_to));
    }
    std::int64_t tensors = 0;
    for (const ComponentCounts& component : components_of(model)) tensors += component.tensors;
    tree.add("total", "", tensors, counts.total);
    report.sections.push_back({std::move(tree).finish(), std::nullopt});

    notes.insert(notes.end(), model.notes.begin(), model.notes.end());
    if (!model.step_unsupported.empty())
        notes.push_back("its training step is not simulated: " + model.step_unsupported);
    notes.push_back("structure: " + model.source);
    add_notes(report, "Notes", notes);
    return report;
}

}  // namespace membudget::report
