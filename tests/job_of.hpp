#pragma once

/// Jobs for tests: a tiny model and a few settings, and the check that the books close.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "membudget/ledger.hpp"

namespace membudget {

/// Settings of `training` as JSON texts or bare words: {{"precision", "bf16"}}.
using Settings = std::vector<std::pair<std::string, std::string>>;

/// A Llama small enough to add up by hand: width 64, four heads over two key-value heads, MLP 176,
/// vocabulary 512.
inline std::string tiny_llama(int layers) {
    return R"({"family": "llama", "hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": )" +
           std::to_string(layers) +
           R"(, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512,
              "max_position_embeddings": 512})";
}

/// The whole spec as text. A value that is no JSON literal becomes a string.
inline std::string spec_text(std::string_view model, const Settings& training,
                             std::string_view parallelism = "{}") {
    std::string text = "{\"membudget\": 1, \"model\": " + std::string(model) + ", \"training\": {";
    const auto literal = [](const std::string& value) {
        return !value.empty() && (value[0] == '{' || value[0] == '[' || value[0] == '"' || value == "true" ||
                                  value == "false" ||
                                  value.find_first_not_of("0123456789") == std::string::npos);
    };
    bool first = true;
    for (const auto& [key, value] : training) {
        text += (first ? "\"" : ", \"") + key + "\": " + (literal(value) ? value : "\"" + value + "\"");
        first = false;
    }
    return text + "}, \"parallelism\": " + std::string(parallelism) + "}";
}

inline Job job_of_text(const std::string& text) {
    const Result<KeyTree> tree = parse_json(text, "test.json");
    REQUIRE(tree.ok());
    const Result<Spec> spec = read_spec(*tree, "test.json");
    if (!spec)
        for (const Diagnostic& d : spec.errors().list()) UNSCOPED_INFO(d.pointer << ": " << d.message);
    REQUIRE(spec.ok());
    Result<Job> job = resolve(*spec, {});
    if (!job)
        for (const Diagnostic& d : job.errors().list()) UNSCOPED_INFO(d.pointer << ": " << d.message);
    REQUIRE(job.ok());
    return std::move(job).value();
}

inline Job job_of(std::string_view model, Settings training, std::string_view parallelism = "{}") {
    const auto has = [&](std::string_view key) {
        for (const auto& [name, value] : training)
            if (name == key) return true;
        return false;
    };
    if (!has("micro_batch_size")) training.emplace_back("micro_batch_size", "2");
    if (!has("sequence_length")) training.emplace_back("sequence_length", "32");
    return job_of_text(spec_text(model, training, parallelism));
}

/// What must hold of every ledger: leaves sum to the total, no leaf is a prefix of another, nothing is
/// negative, maxima bound the peak, the additive total is no less than the peak.
inline void check_books(const Job& job) {
    const Ledger ledger = make_ledger(job, std::nullopt);
    Bytes sum, of_reserved, of_device;  // leaves of one total alone
    for (const Term& term : ledger.terms) {
        INFO(term.path);
        CHECK(term.at_peak >= Bytes(0));
        CHECK(term.max >= term.at_peak);
        CHECK_FALSE(term.formula.empty());
        (term.total == Total::reserved ? of_reserved : term.total == Total::device ? of_device : sum) += term.at_peak;
        for (const Term& other : ledger.terms) CHECK_FALSE(other.path.starts_with(term.path + "/"));
    }
    CHECK(sum == ledger.allocated.point);
    if (ledger.reserved) {
        CHECK(ledger.reserved->point == sum + of_reserved);
        REQUIRE(ledger.device);
        CHECK(ledger.device->point == sum + of_reserved + of_device);
        CHECK(ledger.device->lower <= ledger.device->point);
    }
    CHECK(ledger.additive_total >= ledger.allocated.point);
    Bytes groups;
    for (const auto& [name, bytes] : groups_at_peak(ledger)) groups += bytes;
    CHECK(groups == ledger.allocated.point);
    Bytes highest;
    for (const PhasePeak& phase : ledger.phases) highest = std::max(highest, phase.peak);
    CHECK(highest == ledger.allocated.point);
    // Tensor by tensor the same bytes are live.
    if (job.model != nullptr) {
        Bytes live;
        const Timeline timeline = make_timeline(job);
        const auto peak = find_instant(timeline, "peak");
        REQUIRE(peak);
        CHECK(peak->live == ledger.allocated.point);
        for (const LiveTensor& tensor : live_at(timeline, *peak)) live += tensor.bytes + tensor.rounding;
        CHECK(live == ledger.allocated.point);
    }
}

}  // namespace membudget
