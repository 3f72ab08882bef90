#include <set>
#include <string>

#include "catch.hpp"
#include "membudget/scenario.hpp"

using namespace membudget;

namespace {

KeyTree tree(const std::string& json) {
    auto parsed = parse_json(json, "test.json");
    REQUIRE(parsed.ok());
    return std::move(parsed).value();
}

/// The technique recognised in going from one spec to another; empty when there is none.
std::string recognised(const std::string& from, const std::string& to) {
    std::set<std::string> names;
    for (const KnobChange& knob : changed_knobs(tree(from), tree(to)))
        if (knob.technique != nullptr) names.emplace(knob.technique->name);
    REQUIRE(names.size() <= 1);
    return names.empty() ? "" : *names.begin();
}

}  // namespace

TEST_CASE("no technique is called free: every row says what it costs and where it ends") {
    for (const Technique& row : techniques()) {
        CAPTURE(row.name);
        CHECK(row.pointer.starts_with('/'));
        for (const std::string_view text :
             {row.term, row.cost, row.limits, row.measure, row.doc, row.source})
            CHECK_FALSE(text.empty());
        CHECK(row.phases != 0);
        CHECK(row.phases < 16);
        CHECK(row.turned_on != nullptr);
        for (const std::string_view text : {row.cost, row.limits, row.doc})
            CHECK(text.find("free of") == std::string_view::npos);
    }
}

TEST_CASE("every knob of a technique is a key of the spec") {
    std::set<std::string> known;
    for (const SpecKey& key : spec_keys()) known.insert(key.pointer);
    for (const Technique& row : techniques()) {
        CAPTURE(row.name, row.pointer);
        CHECK(known.count(std::string(row.pointer)) == 1);
    }
}

TEST_CASE("a technique is recognised from the knob that changed and its value") {
    const auto [from, to, technique] = GENERATE(table<std::string, std::string, std::string>({
        {"{}", R"({"training":{"activation_checkpointing":"full"}})", "activation_checkpointing"},
        {R"({"training":{"activation_checkpointing":"none"}})",
         R"({"training":{"activation_checkpointing":{"mode":"full","every":2}}})",
         "activation_checkpointing"},
        {R"({"training":{"activation_checkpointing":"full"}})",
         R"({"training":{"activation_checkpointing":"none"}})", ""},
        {R"({"training":{"micro_batch_size":2}})", R"({"training":{"micro_batch_size":1}})",
         "smaller_micro_batch"},
        {R"({"training":{"micro_batch_size":1}})", R"({"training":{"micro_batch_size":2}})", ""},
        {R"({"training":{"sequence_length":8192}})", R"({"training":{"sequence_length":4096}})",
         "shorter_sequence"},
        {"{}", R"({"parallelism":{"data":4,"sharding":"zero1"}})", "optimizer_sharding"},
        {"{}", R"({"parallelism":{"sharding":"zero2"}})", "gradient_sharding"},
        {R"({"parallelism":{"sharding":"zero1"}})", R"({"parallelism":{"sharding":"fsdp2"}})",
         "parameter_sharding"},
        {"{}", R"({"parallelism":{"sharding":"ddp"}})", ""},
        {R"({"training":{"optimizer":"adamw"}})", R"({"training":{"optimizer":"adamw-8bit"}})",
         "low_precision_states"},
        {R"({"training":{"optimizer":"adamw"}})", R"({"training":{"optimizer":"sgd"}})", ""},
        {R"({"training":{"optimizer":"adamw"}})",
         R"({"training":{"optimizer":{"name":"adamw","in_backward":true}}})",
         "optimizer_in_backward"},
        {R"({"training":{"precision":"fp32"}})", R"({"training":{"precision":"bf16-autocast"}})",
         "bf16_autocast"},
        {R"({"training":{"precision":"fp32"}})", R"({"training":{"precision":"bf16"}})",
         "bf16_weights"},
        {R"({"training":{"zero_grad":"zero"}})", R"({"training":{"zero_grad":"set_to_none"}})",
         "set_to_none"},
        {"{}", R"({"training":{"lora":{"rank":8}}})", "lora"},
        {"{}", R"({"training":{"quantization":"nf4"}})", "qlora"},
        {"{}", R"({"training":{"quantization":{"type":"none"}}})", ""},
        {"{}", R"({"training":{"freeze":["embed_tokens"]}})", "freezing"},
    }));
    CAPTURE(from, to);
    CHECK(recognised(from, to) == technique);
}
