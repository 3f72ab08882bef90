#include <fmt/format.h>

#include "spec/fields.hpp"

namespace membudget {

namespace {

constexpr std::int64_t kVersion = 1;

/// A file of another version is not judged by this version's rules.
std::optional<Diagnostic> other_version(const KeyTree& tree) {
    const KeyTree* version = tree.find("membudget");
    if (version == nullptr) return std::nullopt;
    const std::optional<std::int64_t> number = exact_integer(*version);
    if (!number || *number == kVersion) return std::nullopt;
    return Diagnostic{Trouble::unsupported, "", "/membudget",
                      fmt::format("expected version {} of the format, which this program reads; "
                                  "got version {}",
                                  kVersion, *number),
                      ""};
}

void check_required(const Cursor& at) {
    if (at.errors.size() >= kMostMistakes) return;
    const std::vector<std::string_view> known = keys_of(spec_fields());
    if (is_missing(at.tree, "membudget", known))
        at.errors.invalid("", "expected a key 'membudget', the version of the format; got none",
                          "add \"membudget\": 1");
    if (!is_missing(at.tree, "model", known)) return;
    const KeyTree* terms = at.tree.find("terms");
    const bool nothing_stated =
        terms != nullptr && terms->is(KeyTree::Kind::object) && terms->members().empty();
    if (nothing_stated)
        at.errors.invalid("/terms", "expected a term where there is no 'model'; got none");
    else if (is_missing(at.tree, "terms", known))
        at.errors.invalid("", "expected a key 'model' or a key 'terms'; got neither");
}

}  // namespace

InputKind recognise(const KeyTree& tree) {
    if (!tree.is(KeyTree::Kind::object)) return InputKind::unknown;
    if (tree.find("membudget") != nullptr) return InputKind::spec;
    for (const std::string_view key : {"model_type", "architectures", "_class_name"})
        if (tree.find(key) != nullptr) return InputKind::model_config;
    return InputKind::unknown;
}

Result<Spec> read_spec(const KeyTree& tree, std::string_view file) {
    Diagnostics errors;
    Spec spec;
    spec.file = file;
    const Cursor at{tree, "", errors};
    if (auto other = other_version(tree)) {
        errors.add(*std::move(other));
    } else if (read_object(at, spec_fields(), spec, "an object with a key 'membudget'")) {
        check_required(at);
    }
    if (errors.empty()) return spec;
    if (errors.size() >= kMostMistakes)
        errors.invalid("", fmt::format("expected fewer mistakes; got {} and stopped looking",
                                       errors.size()));
    errors.set_file(file);
    return errors;
}

std::vector<SpecKey> spec_keys() {
    std::vector<SpecKey> out;
    append_keys("", spec_fields(), out);
    return out;
}

}  // namespace membudget
