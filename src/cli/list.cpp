#include <fmt/format.h>

#include <algorithm>

#include "cli/session.hpp"

namespace membudget::cli {
namespace {

constexpr const char* kFooter =
    "Sources stand in the json and csv formats.\n\n"
    "Examples:\n"
    "  membudget list\n"
    "  membudget list optimizers\n"
    "  membudget list devices --format csv";

using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

std::string text(std::string_view view) { return std::string(view); }

/// Names, separated by commas.
template <class Range>
std::string joined(const Range& rows) {
    std::string out;
    for (const auto& row : rows) out += fmt::format("{}{}", out.empty() ? "" : ", ", row.name);
    return out;
}

Rows list_optimizers() {
    Rows out;
    for (const Optimizer& row : optimizers())
        out.push_back({text(row.name), joined(row.slots), text(row.doc),
                       joined(row.implementations), text(row.source)});
    return out;
}

template <class TableOfRows>
Rows list_documented(const TableOfRows& rows) {
    Rows out;
    for (const auto& row : rows)
        out.push_back({text(row.name), text(row.doc), text(row.source)});
    return out;
}
Rows list_precisions() { return list_documented(precisions()); }
Rows list_shardings() { return list_documented(shardings()); }
Rows list_quantizations() { return list_documented(quantizations()); }

Rows list_families() {
    Rows out;
    for (const Family& row : families())
        out.push_back({text(row.name), text(row.doc), text(row.architectures), text(row.source)});
    return out;
}

Rows list_models() {
    Rows out;
    for (const CatalogueModel& row : catalogue())
        out.push_back({text(row.name), text(row.family), std::to_string(row.parameters),
                       text(row.doc), text(row.architecture), text(row.source)});
    return out;
}

Rows list_kernels() {
    Rows out;
    for (const Kernel& row : kernels())
        out.push_back({text(row.name), text(name_of(row.op)), text(row.doc), text(row.source)});
    return out;
}

Rows list_devices() {
    Rows out;
    for (const Device& row : devices())
        out.push_back({text(row.name), std::to_string(row.capacity_bytes), text(row.doc),
                       text(row.source)});
    return out;
}

/// The techniques that a scenario can turn on by name.
Rows list_scenarios() {
    Rows out;
    for (const Technique& row : techniques())
        if (row.patch != nullptr)
            out.push_back({text(row.name), text(row.term), text(row.doc), text(row.pointer),
                           text(row.source)});
    return out;
}

Rows list_formats() {
    Rows out;
    for (const Writer& row : writers()) out.push_back({text(row.name), text(row.doc)});
    return out;
}

Rows list_dtypes() {
    Rows out;
    for (const Dtype& row : dtypes())
        out.push_back({text(row.name), std::to_string(row.bits), text(row.doc)});
    return out;
}

Rows list_readers() {
    Rows out;
    for (const TraceReader& row : trace_readers()) out.push_back({text(row.name), text(row.doc)});
    return out;
}

Rows list_findings() {
    Rows out;
    for (const FindingKind& row : finding_kinds())
        out.push_back({text(row.name), text(row.title), text(row.does_not_prove), text(row.next),
                       text(row.source)});
    return out;
}

/// A kind of name, and how to list it. The columns are separated by spaces; the first is the name,
/// and those behind `doc` are shown by machine formats only.
struct Kind {
    std::string_view name;
    std::string_view doc;
    std::string_view columns;
    Rows (*rows)();
};

constexpr Kind kKinds[] = {
    {"optimizers", "optimizers, with the states that they keep",
     "name states doc implementations source", list_optimizers},
    {"precisions", "in which types a job holds and computes things", "name doc source",
     list_precisions},
    {"shardings", "what data-parallel ranks share", "name doc source", list_shardings},
    {"quantizations", "how frozen weights of linear modules are stored", "name doc source",
     list_quantizations},
    {"families", "model families that a config may name", "name doc architectures source",
     list_families},
    {"models", "models that a spec or a command may name",
     "name family parameters doc architecture source", list_models},
    {"kernels", "implementations of each op", "name op doc source", list_kernels},
    {"devices", "devices, with the bytes that a process can use", "name capacity_bytes doc source",
     list_devices},
    {"scenarios", "built-in scenarios", "name term doc knob source", list_scenarios},
    {"formats", "output formats", "name doc", list_formats},
    {"readers", "kinds of measured runs that `trace` reads", "name doc", list_readers},
    {"findings", "what a measured run may show", "name doc does_not_prove measure_next source",
     list_findings},
    {"dtypes", "element types", "name bits doc", list_dtypes},
};
static_assert(names_are_unique(kKinds));

std::vector<std::string> split(std::string_view words) {
    std::vector<std::string> out;
    while (!words.empty()) {
        const std::size_t end = std::min(words.find(' '), words.size());
        out.emplace_back(words.substr(0, end));
        words.remove_prefix(std::min(end + 1, words.size()));
    }
    return out;
}

}  // namespace

ExitCode run_list(Arguments arguments, Streams& streams) {
    std::string kind;
    Session session("list", streams, kFooter);
    const Table<Kind> kinds{kKinds};
    session.app().add_option("KIND", kind, joined(kinds));
    if (const auto exit = session.parse(arguments)) return *exit;

    ReportData data;
    data.command = "list";
    if (kind.empty()) {
        data.listing = Listing{.kind = "kinds", .columns = {"name", "doc"}, .rows = {}};
        for (const Kind& row : kinds) data.listing->rows.push_back({text(row.name), text(row.doc)});
        return session.finish(data);
    }
    const Kind* row = kinds.find(kind);
    if (row == nullptr) {
        std::string hint = did_you_mean(kind, kinds.names());
        return session.fail_usage(fmt::format("unknown kind '{}'", kind),
                                  hint.empty() ? "one of " + joined(kinds) : std::move(hint));
    }
    data.listing = Listing{.kind = kind, .columns = split(row->columns), .rows = row->rows()};
    return session.finish(data);
}

}  // namespace membudget::cli
