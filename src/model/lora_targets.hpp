#pragma once

/// Which modules and parameters adapters are put on, by PEFT's rules for names.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/modules.hpp"
#include "model/name_pattern.hpp"

namespace membudget {

/// `lora` with its targets as they are for the classes of transformers 5: without any, those of the
/// family; where experts are stacks, the names of the linear modules that they once were become names
/// of parameters.
[[nodiscard]] Lora settled_targets(const Lora& lora, const Model& model, Diagnostics& problems);

/// The path of the module, itself or around it, of which `modules_to_save` asks for a copy; empty: none.
/// PEFT compares ends of names without regard to dots [peft utils/other.py _set_trainable].
[[nodiscard]] std::string_view saved_root(std::string_view name, const Lora& lora);

/// Which modules and parameters the adapters choose. Refers to `lora`.
class Targets {
public:
    Targets(const Lora& lora, const Model& model, Diagnostics& problems);

    [[nodiscard]] bool chooses(const std::string& module, ModuleKind kind) const;
    [[nodiscard]] bool chooses_parameter(const std::string& name) const;
    /// Whether a name meets the targets where nothing but its text is known: no "all-linear".
    [[nodiscard]] bool matches(const std::string& name) const;
    /// Whether the layers of a section may fare differently.
    [[nodiscard]] Layers layers() const;
    /// Of a module or a parameter that is chosen.
    [[nodiscard]] std::int64_t rank_of(const std::string& name) const;

private:
    [[nodiscard]] bool is_excluded(const std::string& name) const;
    [[nodiscard]] bool is_classifier(const std::string& name) const;
    [[nodiscard]] bool is_chosen_layer(const std::string& name) const;

    const Lora& lora_;
    std::optional<NamePattern> pattern_, excluded_;
    bool all_linear_ = false;
    std::string output_;
    std::vector<std::pair<std::string, NamePattern>> layer_patterns_;
    std::vector<std::pair<NamePattern, std::int64_t>> ranks_;
    std::vector<NamePattern> saved_;
};

}  // namespace membudget
