#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "membudget/report.hpp"

using namespace membudget;
using Json = nlohmann::ordered_json;

namespace {

/// An estimate of stated terms, and what a report holds of it.
struct Case {
    explicit Case(const std::string& spec, std::optional<Bytes> budget = std::nullopt)
        : document(read_document_text(spec, "spec.json").value()),
          result(estimate(document, budget).value()) {
        data.command = "estimate";
        data.reports.push_back({"job", &result, technique_savings(document, result)});
    }
    [[nodiscard]] std::string in(std::string_view format, WriteOptions options = {}) const {
        const Writer* writer = writers().find(format);
        REQUIRE(writer != nullptr);
        return writer->write(data, options);
    }
    Document document;
    Estimate result;
    ReportData data;
};

constexpr const char* kSpec = R"({
    "membudget": 1, "name": "a | \"b\"", "model": {"parameters": 100000000},
    "training": {"precision": "fp32", "optimizer": "adam", "micro_batch_size": 2},
    "terms": {"activations": {"bytes": "6GB", "lower": "5GB", "upper": "7GB"},
              "temporaries": "1GB"}})";

/// Records of RFC 4180.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
    std::vector<std::vector<std::string>> out(1, std::vector<std::string>(1));
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c != '"')
                out.back().back() += c;
            else if (i + 1 < text.size() && text[i + 1] == '"')
                out.back().back() += text[++i];
            else
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == ',') {
            out.back().emplace_back();
        } else if (c == '\n') {
            out.emplace_back(1, std::string());
        } else {
            out.back().back() += c;
        }
    }
    out.pop_back();
    return out;
}

std::string with_single_spaces(const std::string& text) {
    std::string out;
    std::unique_copy(text.begin(), text.end(), std::back_inserter(out),
                     [](char a, char b) { return a == ' ' && b == ' '; });
    return out;
}

std::size_t longest_line(const std::string& text) {
    std::istringstream lines(text);
    std::size_t out = 0;
    for (std::string line; std::getline(lines, line);) out = std::max(out, line.size());
    return out;
}

const std::vector<std::string> kEnvelope{
    "schema_version", "tool",  "command",    "name",  "verdict", "shape",       "totals",
    "peak",           "phases", "terms",     "dominant", "techniques", "ranks", "device",
    "assumptions",    "warnings", "measure_next", "evidence", "errors"};

std::vector<std::string> keys_of(const Json& object) {
    std::vector<std::string> out;
    for (const auto& [key, value] : object.items()) out.push_back(key);
    return out;
}

}  // namespace

TEST_CASE("every key of the JSON contract is always there, in its order") {
    CHECK(keys_of(Json::parse(Case(kSpec).in("json"))) == kEnvelope);

    ReportData failed;
    failed.command = "estimate";
    failed.errors.invalid("/model", "expected an object; got null");
    const Json json = Json::parse(writers().find("json")->write(failed, {}));
    CHECK(keys_of(json) == kEnvelope);
    CHECK(json.at("totals").is_null());
    CHECK(json.at("terms").empty());
    CHECK(json.at("errors").at(0).at("pointer") == "/model");
    CHECK(json.at("errors").at(0).at("hint").is_null());
}

TEST_CASE("the books close in the JSON output") {
    const Json json = Json::parse(Case(kSpec).in("json"));
    std::int64_t sum = 0;
    for (const Json& term : json.at("terms"))
        if (term.at("total") == "allocated") sum += term.at("at_peak_bytes").get<std::int64_t>();
    CHECK(sum == 8'600'000'000);
    CHECK(json.at("totals").at("allocated").at("point_bytes") == sum);
    CHECK(json.at("totals").at("allocated").at("lower_bytes") == sum - 1'000'000'000);
    CHECK(json.at("totals").at("allocated").at("upper_bytes") == sum + 1'000'000'000);
    CHECK(json.at("totals").at("additive_total_bytes") == sum);
    CHECK(json.at("totals").at("reserved").is_null());
    CHECK(json.at("dominant").at("path") == "activations");
    CHECK(json.at("device").is_null());
    CHECK(json.at("verdict") == "none");
}

TEST_CASE("CSV carries the numbers of the JSON") {
    const Case job(kSpec);
    const Json terms = Json::parse(job.in("json")).at("terms");
    const auto records = parse_csv(job.in("csv"));
    REQUIRE(records.size() == terms.size() + 1);
    CHECK(records[0][1] == "path");
    for (std::size_t i = 0; i < terms.size(); ++i) {
        const auto& record = records[i + 1];
        REQUIRE(record.size() == records[0].size());
        CHECK(record[1] == terms[i].at("path").get<std::string>());
        CHECK(record[3] == std::to_string(terms[i].at("at_peak_bytes").get<std::int64_t>()));
        CHECK(record[4] == std::to_string(terms[i].at("max_bytes").get<std::int64_t>()));
        CHECK(record[7] == terms[i].at("basis").get<std::string>());
        CHECK(record[8] == terms[i].at("formula").get<std::string>());
    }
}

TEST_CASE("text and Markdown carry the same cells") {
    const Case job(kSpec);
    const Report report = make_report(job.data);
    const std::string text = job.in("text"), markdown = job.in("markdown");
    std::size_t cells = 0;
    for (const ReportSection& section : report.sections)
        if (section.table)
            for (const auto& row : section.table->rows)
                for (const std::string& cell : row)
                    if (cell.find_first_of("0123456789") != std::string::npos && ++cells > 0) {
                        CAPTURE(cell);
                        CHECK(text.find(cell) != std::string::npos);
                        if (cell.find_first_of("|*_[]<>#") == std::string::npos)
                            CHECK(markdown.find(cell) != std::string::npos);
                    }
    CHECK(cells > 20);
}

TEST_CASE("the text names what matters in words") {
    const std::string text = with_single_spaces(Case(kSpec).in("text"));
    for (const char* expected :
         {"NO BUDGET 8.60 GB (8.01 GiB) allocated at the peak", "peak in backward",
          "dominant term activations, 6.00 GB (69.8 % of the peak)", "additive_total",
          "model_states 1.60 1.49", "not a measured peak", "optimizer_step",
          "activation_checkpointing", "recomputation", "a smaller part than activations"}) {
        CAPTURE(expected);
        CHECK(text.find(expected) != std::string::npos);
    }
}

TEST_CASE("the verdict is a word, whatever the colour") {
    CHECK(Case(kSpec, Bytes(80'000'000'000)).in("text").find("FITS  8.60 GB") != std::string::npos);
    CHECK(Case(kSpec, Bytes(7'000'000'000)).in("text").find("OVER  8.60 GB") != std::string::npos);
    CHECK(Case(kSpec, Bytes(9'000'000'000)).in("text").find("UNCERTAIN  8.60 GB") !=
          std::string::npos);
    const std::string plain = Case(kSpec).in("text");
    CHECK(plain.find('\x1b') == std::string::npos);
    std::string coloured = Case(kSpec).in("text", {.colour = true});
    CHECK(coloured.find('\x1b') != std::string::npos);
    for (std::size_t at; (at = coloured.find('\x1b')) != std::string::npos;)
        coloured.erase(at, coloured.find('m', at) - at + 1);
    CHECK(coloured == plain);
}

TEST_CASE("a limit that two decimals would hide is shown to the byte") {
    const std::string text = Case(R"({
        "membudget": 1, "terms": {"parameters": 1000000001, "gradients": 0, "optimizer_states": 0,
                                  "activations": 0, "temporaries": 0}})",
                                  Bytes(1'000'000'000)).in("text");
    CHECK(text.find("OVER  1000000001 B") != std::string::npos);
}

TEST_CASE("text keeps to its width") {
    const int width = GENERATE(80, 100);
    CHECK(longest_line(Case(kSpec).in("text", {.colour = false, .width = width})) <=
          static_cast<std::size_t>(width));
}

TEST_CASE("wrapping keeps every word and never exceeds the width") {
    const std::string text = "the quick brown fox jumps over the lazy dog";
    for (std::size_t width = 5; width < 50; ++width) {
        std::string joined;
        for (const std::string& line : wrap(text, width)) {
            CHECK(line.size() <= width);
            joined += (joined.empty() ? "" : " ") + line;
        }
        CHECK(joined == text);
    }
    CHECK(wrap("", 10) == std::vector<std::string>{""});
    CHECK(wrap("unbreakable-word", 4) == std::vector<std::string>{"unbreakable-word"});
}

TEST_CASE("names that would be markup are escaped") {
    const Case job(kSpec);
    ReportData data = job.data;
    data.reports.front().name = R"(a|b,"c"*)";
    CHECK(writers().find("markdown")->write(data, {}).starts_with("## a\\|b,\"c\"\\*\n"));
    CHECK(parse_csv(writers().find("csv")->write(data, {}))[1][0] == R"(a|b,"c"*)");
    CHECK(Json::parse(writers().find("json")->write(data, {})).at("name") == R"(a|b,"c"*)");
}
