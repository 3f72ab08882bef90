// Freezing by names of modules.

#include <fmt/format.h>

#include "model/modules.hpp"
#include "model/name_pattern.hpp"

namespace membudget {

namespace {

struct Rule {
    std::string_view pattern;
    bool trains = false;
    bool used = false;
};

bool applies(std::string_view pattern, std::string_view name) {
    if (pattern.find('*') != std::string_view::npos) {
        // Like names without a wildcard, it may begin after any dot.
        while (!matches_wildcard(pattern, name)) {
            const std::size_t dot = name.find('.');
            if (dot == std::string_view::npos) return false;
            name.remove_prefix(dot + 1);
        }
        return true;
    }
    // The parameter itself, or a module around it.
    for (std::size_t end = name.size();; end = name.rfind('.', end - 1)) {
        if (end == std::string_view::npos) return false;
        if (is_module_suffix(name.substr(0, end), pattern)) return true;
        if (end == 0) return false;
    }
}

}  // namespace

Result<Model> with_frozen(Model model, const std::vector<std::string>& patterns) {
    std::vector<Rule> rules;
    for (const std::string& pattern : patterns) {
        const bool trains = pattern.starts_with('!');
        rules.push_back({std::string_view(pattern).substr(trains ? 1 : 0), trains, false});
    }
    const auto decide = [&](const Block& block, const std::string& prefix) {
        Decision decision;
        for (const Parameter& parameter : block.parameters) {
            const std::string name = prefix + parameter.name;
            std::int64_t trains = parameter.trainable ? 1 : 0;
            for (Rule& rule : rules)
                if (applies(rule.pattern, name)) {
                    trains = rule.trains ? 1 : 0;
                    rule.used = true;
                }
            decision.push_back(trains);
        }
        return decision;
    };
    const Layers layers = std::ranges::any_of(patterns, has_digit) ? Layers::apart : Layers::alike;
    rewrite_layers(model, layers, decide, [](Block& block, const std::string&, const Decision& decision) {
        for (std::size_t i = 0; i < decision.size(); ++i)
            block.parameters[i].trainable = decision[i] != 0;
    });
    settle_ties(model, {});
    Diagnostics problems;
    for (std::size_t i = 0; i < rules.size(); ++i)
        if (!rules[i].used)
            problems.invalid(pointer_child("", i),
                             fmt::format("expected a pattern that matches a parameter of {}; got {}",
                                         model.architecture, in_quotes(patterns[i])),
                             "`membudget inspect --format csv` lists their names");
    if (!problems.empty()) return problems;
    return model;
}

}  // namespace membudget
