#pragma once

/// Building models from text, for the tests of `model`.

#include <string>
#include <string_view>

#include "catch.hpp"
#include "membudget/model.hpp"

inline membudget::KeyTree tree_of(std::string_view text) {
    auto tree = membudget::parse_json(text, "config.json", membudget::DuplicateKeys::last_wins);
    REQUIRE(tree.ok());
    return *tree;
}

/// All diagnostics, one a line: "POINTER: MESSAGE (HINT)".
inline std::string errors_of(const membudget::Diagnostics& diagnostics) {
    std::string out;
    for (const membudget::Diagnostic& d : diagnostics.list()) {
        if (!out.empty()) out += "\n";
        out += d.pointer + ": " + d.message;
        if (!d.hint.empty()) out += " (" + d.hint + ")";
    }
    return out;
}

inline membudget::Model model_of(std::string_view text, std::string_view architecture = {}) {
    auto model = membudget::build_model(tree_of(text), architecture);
    INFO((model.ok() ? std::string() : errors_of(model.errors())));
    REQUIRE(model.ok());
    return *model;
}

inline std::string failure_of(std::string_view text, std::string_view architecture = {}) {
    const auto model = membudget::build_model(tree_of(text), architecture);
    REQUIRE_FALSE(model.ok());
    return errors_of(model.errors());
}

/// A config that leaves everything to the class's defaults, but for keys that have none.
inline membudget::KeyTree defaults_of(const membudget::Family& family) {
    membudget::KeyTree config = membudget::KeyTree::object();
    config.at_or_add("model_type") = membudget::KeyTree(family.name);
    if (family.name == "HunyuanDiT2DModel")
        for (const char* required : {"in_channels", "patch_size"})
            config.at_or_add(required) = membudget::KeyTree(std::int64_t{4});
    if (family.name == "dots1")
        for (const char* required : {"n_routed_experts", "num_experts_per_tok"})
            config.at_or_add(required) = membudget::KeyTree(std::int64_t{4});
    if (family.name == "lfm2_moe")
        return tree_of(R"({"model_type": "lfm2_moe", "num_hidden_layers": 1, "layer_types": ["conv"]})");
    if (family.name == "step3p7") return tree_of(R"({"model_type": "step3p7", "text_config": {}})");
    return config;
}

inline const membudget::Parameter* find_parameter(const membudget::Model& model,
                                                  std::string_view full_name) {
    const membudget::Parameter* found = nullptr;
    model.for_each_parameter(
        [&](const std::string& name, const membudget::Parameter& parameter, std::int64_t) {
            if (name == full_name) found = &parameter;
        });
    return found;
}
