#include "measured.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include "membudget/membudget.hpp"

using namespace membudget;

namespace {

/// A deviation beyond this needs its cause beside it.
constexpr double kNeedsCause = 0.05;

struct Row {
    std::string id, model, source, metric, unit, differs;
    std::int64_t measured = 0;
    std::optional<std::int64_t> estimate;
    std::string missing;  ///< why there is none

    [[nodiscard]] double error() const {
        return static_cast<double>(*estimate - measured) / static_cast<double>(measured);
    }
};

std::string text_at(const KeyTree& record, std::string_view key) {
    const KeyTree* value = record.find(key);
    MEMBUDGET_ENSURE(value != nullptr, "a record lacks a key");
    return value->text();
}

Row score(const KeyTree& record, const std::string& folder) {
    Row row;
    row.id = text_at(record, "id");
    row.model = text_at(record, "model");
    row.source = text_at(record, "source");
    row.metric = text_at(record, "metric");
    row.unit = text_at(record, "unit");
    row.differs = text_at(record, "differs");
    row.missing = text_at(record, "missing");
    row.measured = record.find("bytes")->integer();
    if (!row.missing.empty()) return row;
    const auto document = read_document(folder + "/" + row.id + ".json");
    const auto result = document ? estimate(*document) : Result<Estimate>(document.errors());
    if (result)
        row.estimate = result->ledger.allocated.point.count();
    else
        row.missing = result.errors().list().front().message;
    return row;
}

/// The repository of a source: "pytorch/torchtune@... docs" is of "pytorch/torchtune".
std::string repository_of(const std::string& source) {
    return source.substr(0, source.find_first_of("@ "));
}

std::string summary(const std::vector<Row>& rows) {
    std::map<std::string, std::vector<double>> errors;
    std::map<std::string, std::size_t> all;
    for (const Row& row : rows) {
        ++all[repository_of(row.source)];
        if (row.estimate) errors[repository_of(row.source)].push_back(std::abs(row.error()));
    }
    std::string text = "| source | records | estimated | median error | worst |\n|---|--:|--:|--:|--:|\n";
    for (const auto& [source, count] : all) {
        std::vector<double>& of = errors[source];
        std::sort(of.begin(), of.end());
        const auto shown = [&](std::size_t i) {
            return of.empty() ? std::string("-") : fmt::format("{:.1f} %", 100 * of[i]);
        };
        text += fmt::format("| {} | {} | {} | {} | {} |\n", source, count, of.size(),
                            shown(of.empty() ? 0 : (of.size() - 1) / 2), shown(of.empty() ? 0 : of.size() - 1));
    }
    return text;
}

}  // namespace

std::string measured_section(const std::string& folder) {
    const auto text = read_text(folder + "/records.json");
    MEMBUDGET_ENSURE(text.ok(), "records.json can be read");
    const auto file = parse_json(*text, "records.json");
    MEMBUDGET_ENSURE(file.ok(), "records.json is JSON");
    std::vector<Row> rows;
    for (const KeyTree& record : file->find("records")->items()) rows.push_back(score(record, folder));

    std::string out =
        "\n## Published measurements on one GPU\n\n"
        "What others measured and published, as peak allocated (or active) bytes of one device. Each record is a\n"
        "spec in tests/measured. Where the run does something that no spec can say, the table says what.\n\n";
    out += summary(rows);
    out += "\n| record | model | measured (B) | estimate (B) | error | metric | what the spec does not say |\n"
           "|---|---|--:|--:|--:|---|---|\n";
    for (const Row& row : rows) {
        if (!row.estimate) continue;
        const bool far = std::abs(row.error()) > kNeedsCause;
        MEMBUDGET_ENSURE(!far || !row.differs.empty(), "a large error has its cause beside it");
        out += fmt::format("| {} | {} | {} | {} | {:+.1f} % | {} | {} |\n", row.id, row.model,
                           group_digits(row.measured), group_digits(*row.estimate), 100 * row.error(),
                           row.metric, row.differs);
    }
    out += "\nNot estimated:\n\n| record | model | measured (B) | what is missing |\n|---|---|--:|---|\n";
    for (const Row& row : rows)
        if (!row.estimate)
            out += fmt::format("| {} | {} | {} | {} |\n", row.id, row.model, group_digits(row.measured),
                               row.missing);
    return out;
}
