#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "spec/fields.hpp"

namespace membudget {

namespace {

constexpr Field<ModelSpec> kModelFields[] = {
    field::path<&ModelSpec::config>("config", "a config.json"),
    field::name<&ModelSpec::name>("name", "a model of the catalogue"),
    field::name<&ModelSpec::family>("family",
                                    "a family; the keys of its config stand beside this one"),
    field::count<&ModelSpec::parameters, kLargestParameterCount>(
        "parameters", "a bare count of parameters, without an architecture"),
    field::name<&ModelSpec::architecture>("architecture",
                                          "the class that is trained, with its head"),
    field::paths_or_path<&ModelSpec::weights>(
        "weights", "weight files whose headers are checked against the model: safetensors, an index, "
                   "GGUF"),
};

/// The keys that say which model it is; exactly one of them stands in a model.
constexpr std::array<std::string_view, 4> kSources{"config", "name", "family", "parameters"};

/// With a family the keys of its config stand in the same object; they are not ours to know.
bool describes_family(const KeyTree& model, KeyNames known) {
    return !is_missing(model, "family", known);
}

/// Keeps a key of the family's config, unless it is a misspelt key of ours that is missing.
void keep_config_key(const Cursor& at, std::string_view key, const KeyTree& model, KeyNames known,
                     ModelSpec& into) {
    if (closest(key, known) == "family" && model.find("family") == nullptr)
        return report_unknown_key(at, key, known);
    into.family_config.members().emplace_back(key, read_tree(at));
}

}  // namespace

void read_model(const Cursor& at, Spec& into) {
    if (at.tree.is(KeyTree::Kind::string))
        return at.wrong("an object",
                        R"({"name": NAME} is a model of the catalogue, {"config": PATH} a file)");
    if (!at.tree.is(KeyTree::Kind::object)) return at.wrong("an object");
    const std::vector<std::string_view> known = keys_of(table(kModelFields));
    const bool family = describes_family(at.tree, known);
    if (family) into.model.family_config = KeyTree::object();

    for_each_member(at, [&](const Cursor& child, std::string_view key) {
        for (const Field<ModelSpec>& row : kModelFields)
            if (row.key == key) return row.read(child, into.model);
        if (family)
            keep_config_key(child, key, at.tree, known, into.model);
        else
            report_unknown_key(child, key, known);
    });

    std::vector<std::string_view> given;
    for (const std::string_view source : kSources)
        if (at.tree.find(source) != nullptr) given.push_back(source);
    const auto missing = [&](std::string_view source) {
        return is_missing(at.tree, source, known);
    };
    if (given.empty() && std::all_of(kSources.begin(), kSources.end(), missing))
        at.errors.invalid(at.pointer,
                          "expected one of the keys 'config', 'name', 'family' and 'parameters'; "
                          "got none of them");
    if (given.size() > 1)
        at.errors.invalid(at.pointer,
                          fmt::format("expected only one of the keys 'config', 'name', 'family' "
                                      "and 'parameters'; got '{}'",
                                      fmt::join(given, "' and '")));
    if (at.tree.find("parameters") == nullptr) return;
    for (const std::string_view key : {"architecture", "weights"})
        if (const KeyTree* value = at.tree.find(key))
            at.child(key, *value).wrong(fmt::format("no {} beside a bare count of parameters", key));
}

void model_keys(std::string_view pointer, std::vector<SpecKey>& out) {
    append_keys(pointer, table(kModelFields), out);
}

}  // namespace membudget
