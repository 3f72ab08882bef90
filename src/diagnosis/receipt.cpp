#include <fmt/format.h>

#include <algorithm>

#include "membudget/diagnosis.hpp"
#include "membudget/scenario.hpp"
#include "membudget/spec.hpp"

namespace membudget {
namespace {

constexpr std::int64_t kVersion = 1;

KeyTree tree_of(const ReceiptLine& line) {
    KeyTree out;
    out.at_or_add("path") = KeyTree(line.path);
    out.at_or_add("metric") = KeyTree(line.metric);
    out.at_or_add("estimate_bytes") = KeyTree(line.estimate.count());
    out.at_or_add("measured_bytes") = KeyTree(line.measured.count());
    out.at_or_add("confirmed") = KeyTree(line.confirmed);
    return out;
}

/// Reads one line; false: `errors` says why.
bool read_line(const KeyTree& tree, const std::string& pointer, ReceiptLine& into,
               Diagnostics& errors) {
    const auto expect = [&](const char* key, KeyTree::Kind kind) -> const KeyTree* {
        const KeyTree* value = tree.is(KeyTree::Kind::object) ? tree.find(key) : nullptr;
        if (value != nullptr && value->is(kind)) return value;
        errors.invalid(pointer_child(pointer, key), "expected what a receipt holds here",
                       "receipts are written by `membudget reconcile --receipt FILE`");
        return nullptr;
    };
    const KeyTree* path = expect("path", KeyTree::Kind::string);
    const KeyTree* metric = expect("metric", KeyTree::Kind::string);
    const KeyTree* estimate = expect("estimate_bytes", KeyTree::Kind::integer);
    const KeyTree* measured = expect("measured_bytes", KeyTree::Kind::integer);
    const KeyTree* confirmed = expect("confirmed", KeyTree::Kind::boolean);
    if (path == nullptr || metric == nullptr || estimate == nullptr || measured == nullptr ||
        confirmed == nullptr)
        return false;
    into = {path->text(), metric->text(), Bytes(estimate->integer()), Bytes(measured->integer()),
            confirmed->boolean()};
    return true;
}

}  // namespace

Receipt receipt_of(const Reconciliation& reconciliation) {
    Receipt out{reconciliation.name, reconciliation.file, {}};
    for (const auto* lines : {&reconciliation.totals, &reconciliation.phases,
                              &reconciliation.terms, &reconciliation.phase_terms})
        for (const ReconciledLine& line : *lines)
            if (line.measured)
                out.lines.push_back(
                    {line.path, line.metric, line.estimate, *line.measured, line.confirmed()});
    return out;
}

std::string write_receipt(const Receipt& receipt) {
    KeyTree tree;
    tree.at_or_add("membudget_receipt") = KeyTree(kVersion);
    tree.at_or_add("name") = KeyTree(receipt.name);
    tree.at_or_add("trace") = KeyTree(receipt.trace);
    std::string lines;
    for (const ReceiptLine& line : receipt.lines)
        lines += fmt::format("{}\n    {}", lines.empty() ? "" : ",", to_json(tree_of(line)));
    // One line of the file per line of the receipt: it is made to be looked at and compared.
    std::string out = to_json(tree);
    out.pop_back();
    return fmt::format("{},\n  \"lines\": [{}\n  ]}}\n", out, lines);
}

Result<Receipt> read_receipt(std::string_view text, std::string_view file) {
    const auto tree = parse_json(text, file);
    if (!tree) return tree.errors();
    Diagnostics errors;
    const KeyTree* version =
        tree->is(KeyTree::Kind::object) ? tree->find("membudget_receipt") : nullptr;
    if (version == nullptr || !version->is(KeyTree::Kind::integer)) {
        errors.invalid("", "expected a receipt (with the key 'membudget_receipt')",
                       "receipts are written by `membudget reconcile --receipt FILE`");
    } else if (version->integer() != kVersion) {
        errors.unsupported(
            "/membudget_receipt",
            fmt::format("expected version 1 of receipts; got {}", version->integer()));
    }
    Receipt out;
    if (errors.empty()) {
        const auto text_at = [&](const char* key) {
            const KeyTree* value = tree->find(key);
            return value != nullptr && value->is(KeyTree::Kind::string) ? value->text()
                                                                        : std::string();
        };
        out.name = text_at("name");
        out.trace = text_at("trace");
        const KeyTree* lines = tree->find("lines");
        if (lines == nullptr || !lines->is(KeyTree::Kind::array))
            errors.invalid("/lines", "expected a list");
        else
            for (std::size_t i = 0; i < lines->items().size(); ++i) {
                ReceiptLine line;
                if (read_line(lines->items()[i], pointer_child("/lines", i), line, errors))
                    out.lines.push_back(std::move(line));
            }
    }
    errors.set_file(file);
    if (!errors.empty()) return errors;
    return out;
}

}  // namespace membudget
