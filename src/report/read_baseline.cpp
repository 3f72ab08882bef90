#include <fmt/format.h>

#include "membudget/report.hpp"

namespace membudget {

Result<Baseline> read_baseline(std::string_view text, std::string_view file) {
    const auto tree = parse_json(text, file);
    if (!tree) return tree.errors();

    Diagnostics errors;
    const KeyTree* version = tree->find("schema_version");
    const KeyTree* command = tree->find("command");
    if (version == nullptr || !version->is(KeyTree::Kind::string) || command == nullptr) {
        errors.invalid("", "expected what `membudget estimate --format json` writes",
                       "write it with `membudget estimate SPEC --format json --output FILE`");
    } else if (version->text().substr(0, version->text().find('.')) != "1") {
        errors.unsupported("/schema_version",
                           fmt::format("expected schema version 1.x; got {}", version->describe()));
    }
    if (!errors.empty()) {
        errors.set_file(file);
        return errors;
    }

    const auto size_at = [](const KeyTree& tree_at, std::string_view pointer) {
        const KeyTree* value = value_at(tree_at, pointer);
        return value != nullptr && value->is(KeyTree::Kind::integer)
                   ? std::optional(Bytes(value->integer()))
                   : std::nullopt;
    };
    Baseline out;
    out.file = file;
    if (const KeyTree* name = tree->find("name"); name != nullptr) out.name = name->text();
    if (const auto point = size_at(*tree, "/totals/allocated/point_bytes"))
        out.allocated = *point;
    else
        errors.invalid("/totals/allocated/point_bytes",
                       "expected the bytes of an estimate that succeeded",
                       "a failed run is no baseline");
    if (const KeyTree* terms = tree->find("terms"))
        for (const KeyTree& term : terms->items()) {
            const KeyTree* path = term.find("path");
            const auto bytes = size_at(term, "/at_peak_bytes");
            if (path != nullptr && bytes) out.terms.emplace_back(path->text(), *bytes);
        }
    if (errors.empty()) return out;
    errors.set_file(file);
    return errors;
}

}  // namespace membudget
