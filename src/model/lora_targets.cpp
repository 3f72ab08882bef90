// [peft tuners/tuners_utils.py check_target_module_exists, utils/transformers_weight_conversion.py,
// utils/constants.py; 0.21.2].

#include "model/lora_targets.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include <fmt/format.h>

namespace membudget {

namespace {

constexpr std::string_view kAllLinear = "all-linear";

struct FamilyTargets {
    std::string_view name;  ///< model_type
    std::string_view targets;
};

/// TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING [peft utils/constants.py].
constexpr FamilyTargets kTargets[] = {
    {"t5", "q v"},
    {"mt5", "q v"},
    {"bart", "q_proj v_proj"},
    {"gpt2", "c_attn"},
    {"bloom", "query_key_value"},
    {"blip-2", "q v q_proj v_proj"},
    {"opt", "q_proj v_proj"},
    {"gptj", "q_proj v_proj"},
    {"gpt_neox", "query_key_value"},
    {"gpt_neo", "q_proj v_proj"},
    {"bert", "query value"},
    {"roberta", "query value"},
    {"xlm-roberta", "query value"},
    {"electra", "query value"},
    {"deberta-v2", "query_proj value_proj"},
    {"deberta", "in_proj"},
    {"layoutlm", "query value"},
    {"llama", "q_proj v_proj"},
    {"llama4", "q_proj v_proj"},
    {"chatglm", "query_key_value"},
    {"gpt_bigcode", "c_attn"},
    {"mpt", "Wqkv"},
    {"RefinedWebModel", "query_key_value"},
    {"RefinedWeb", "query_key_value"},
    {"falcon", "query_key_value"},
    {"btlm", "c_proj c_attn"},
    {"codegen", "qkv_proj"},
    {"mistral", "q_proj v_proj"},
    {"mixtral", "q_proj v_proj"},
    {"stablelm", "q_proj v_proj"},
    {"phi", "q_proj v_proj fc1 fc2"},
    {"gemma", "q_proj v_proj"},
    {"gemma2", "q_proj v_proj"},
    {"gemma3_text", "q_proj v_proj"},
    {"qwen2", "q_proj v_proj"},
    {"qwen3", "q_proj v_proj"},
    {"nemotron_h", "q_proj k_proj v_proj o_proj"},
    {"rwkv", "key value receptance output"},
    {"rwkv7", "r_proj k_proj v_proj o_proj key value"},
};
static_assert(names_are_unique(kTargets));

/// Families whose experts were linear modules in transformers 4 and are stacks of parameters now, as
/// far as PEFT renames their targets [_MODEL_TO_CONVERSION_PATTERN of transformers 5.24,
/// _MOE_TARGET_MODULE_MAPPING].
struct StackedExperts {
    std::string_view name;      ///< model_type
    std::string_view up[2];     ///< linear modules that are `gate_up_proj` now
    std::string_view down;      ///< that is `down_proj` now
};

constexpr StackedExperts mixtral(std::string_view name) { return {name, {"w1", "w3"}, "w2"}; }
constexpr StackedExperts qwen_moe(std::string_view name) { return {name, {"gate_proj", "up_proj"}, "down_proj"}; }

constexpr StackedExperts kStackedExperts[] = {
    mixtral("mixtral"),           mixtral("minimax"),
    mixtral("minimax_m2"),        qwen_moe("afmoe"),
    qwen_moe("cohere2_moe"),      qwen_moe("deepseek_v2"),
    qwen_moe("deepseek_v3"),      qwen_moe("deepseek_v32"),
    qwen_moe("dots1"),            qwen_moe("ernie4_5_moe"),
    qwen_moe("exaone_moe"),       qwen_moe("flex_olmo"),
    qwen_moe("glm4_moe"),         qwen_moe("glm4_moe_lite"),
    qwen_moe("glm4v_moe"),        qwen_moe("glm_moe_dsa"),
    qwen_moe("hunyuan_v1_moe"),   qwen_moe("longcat_flash"),
    qwen_moe("olmoe"),            qwen_moe("qwen3_moe"),
    qwen_moe("qwen3_next"),       qwen_moe("qwen3_omni_moe"),
    qwen_moe("solar_open"),
};
static_assert(names_are_unique(kStackedExperts));

/// A pattern of a config, or a diagnostic at `pointer`.
std::optional<NamePattern> parsed(std::string_view text, std::string_view pointer, Diagnostics& problems) {
    auto pattern = NamePattern::parse(text);
    if (pattern) return std::move(*pattern);
    for (Diagnostic why : pattern.errors().list()) {
        why.pointer = pointer;
        problems.add(std::move(why));
    }
    return std::nullopt;
}

/// Full names of parameters, of every layer.
template <class Visit>
void for_each_full_name(const Model& model, Visit&& visit) {
    for (const Section& section : model.sections) {
        std::int64_t index = section.first_index;
        for (std::int64_t copy = 0; copy < section.count; ++copy)
            for (const int block : section.pattern) {
                for (const Parameter& parameter : model.blocks[static_cast<std::size_t>(block)].parameters)
                    visit(with_layer(section.prefix, index) + parameter.name);
                ++index;
            }
    }
}

/// Last parts of the linear modules' names, without the output embedding's.
std::set<std::string> linear_names(const Model& model, const Targets& targets) {
    std::set<std::string> names;
    for (const Section& section : model.sections)
        for (const int index : section.pattern)
            for (const Module& module : modules_of(model.blocks[static_cast<std::size_t>(index)], model.family))
                if (const std::string name = section.prefix + module.path; targets.chooses(name, module.kind))
                    names.emplace(last_part(name));
    return names;
}

/// Last parts of the names, of modules and parameters, that the pattern of `targets` matches. A module
/// that experts once had counts if it would match beside the stack that replaced it
/// [_resolve_string_target_modules].
std::set<std::string> matching_names(const Model& model, const Targets& targets, const StackedExperts& row) {
    std::set<std::string> names;
    const auto try_name = [&](const std::string& name) {
        if (targets.matches(name)) names.emplace(last_part(name));
    };
    std::string_view before;
    std::string last;
    for_each_full_name(model, [&](const std::string& name) {
        try_name(name);
        for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
            if (before.substr(0, dot + 1) != std::string_view(name).substr(0, dot + 1)) try_name(name.substr(0, dot));
        last = name;
        before = last;
    });
    for_each_full_name(model, [&](const std::string& name) {
        const std::string container = name.substr(0, name.rfind('.') + 1);
        if (last_part(name) == "gate_up_proj")
            for (const std::string_view up : row.up) try_name(container + std::string(up));
        if (last_part(name) == "down_proj") try_name(container + std::string(row.down));
    });
    return names;
}

/// Targets that mean linear modules of experts become parameters, and their ranks add up where two
/// modules became one [_convert_peft_config_moe].
void name_stacks(Lora& lora, const Model& model, const StackedExperts& row, Diagnostics& problems) {
    const bool all_linear = lora.targets.size() == 1 && lora.targets.front() == kAllLinear;
    if (all_linear || !lora.target_pattern.empty()) {
        const Targets targets(lora, model, problems);
        if (!problems.empty()) return;
        std::set<std::string> names = all_linear ? linear_names(model, targets) : matching_names(model, targets, row);
        if (all_linear) names.insert({"gate", std::string(row.up[0]), std::string(row.up[1]), std::string(row.down)});
        lora.targets.assign(names.begin(), names.end());
        lora.target_pattern.clear();
    }
    std::set<std::string> parameters(lora.target_parameters.begin(), lora.target_parameters.end());
    std::vector<std::string> modules;
    bool found[2] = {false, false};
    for (std::string& target : lora.targets) {
        const auto means = [&target](std::string_view module) { return is_module_suffix(target, module); };
        if (means("gate")) {
            parameters.insert("gate.weight");
        } else if (means(row.up[0]) || means(row.up[1])) {
            found[means(row.up[0]) ? 0 : 1] = true;
            parameters.insert("gate_up_proj");
        } else if (means(row.down)) {
            parameters.insert("down_proj");
        } else {
            modules.push_back(std::move(target));
        }
    }
    if (found[0] != found[1])
        problems.invalid("/target_modules",
                         fmt::format("expected '{}' beside '{}': in {} they are one parameter",
                                     row.up[found[0] ? 1 : 0], row.up[found[0] ? 0 : 1], model.architecture));
    if (found[0] && found[1]) lora.rank_patterns.emplace_back(R"(.*\.gate_up_proj)", 2 * lora.rank);
    lora.targets = std::move(modules);
    lora.target_parameters.assign(parameters.begin(), parameters.end());
}

/// The targets of the family, where the config names none.
void fill_in_targets(Lora& lora, const Model& model, Diagnostics& problems) {
    std::string_view words = default_lora_targets(model.family);
    if (words.empty() && lora.target_parameters.empty())
        problems.invalid("/target_modules",
                         fmt::format("expected names of modules: PEFT has no default for the family '{}'",
                                     model.family),
                         "\"all-linear\" chooses all linear modules but the output embedding");
    while (!words.empty()) {
        const std::size_t end = std::min(words.find(' '), words.size());
        lora.targets.emplace_back(words.substr(0, end));
        words.remove_prefix(std::min(end + 1, words.size()));
    }
}

}  // namespace

std::string_view default_lora_targets(std::string_view family) {
    const FamilyTargets* row = Table<FamilyTargets>(kTargets).find(family);
    return row == nullptr ? std::string_view() : row->targets;
}

Lora settled_targets(const Lora& given, const Model& model, Diagnostics& problems) {
    Lora lora = given;
    const StackedExperts* stacks = Table<StackedExperts>(kStackedExperts).find(model.family);
    if (lora.targets.empty() && lora.target_pattern.empty()) {
        // Where PEFT renames targets it takes none for an empty list, which has no default.
        if (stacks == nullptr)
            fill_in_targets(lora, model, problems);
        else if (lora.target_parameters.empty())
            problems.invalid("/target_modules",
                             fmt::format("expected names of modules: PEFT renames those of {}, and takes no default",
                                         model.architecture),
                             "\"all-linear\" chooses all linear modules but the output embedding");
    } else if (stacks != nullptr) {
        name_stacks(lora, model, *stacks, problems);
    }
    return lora;
}

Targets::Targets(const Lora& lora, const Model& model, Diagnostics& problems) : lora_(lora) {
    if (!lora.target_pattern.empty())
        pattern_ = parsed(lora.target_pattern, "/target_modules", problems);
    if (!lora.excluded_pattern.empty())
        excluded_ = parsed(lora.excluded_pattern, "/exclude_modules", problems);
    all_linear_ = lora.targets.size() == 1 && lora.targets.front() == kAllLinear;
    if (all_linear_) output_ = output_embedding_of(model);
    for (const std::string& layers : lora.layer_patterns)
        if (auto layer = parsed(fmt::format(R"((?:.*\.)?{}\.(\d+)\..*)", layers), "/layers_pattern", problems))
            layer_patterns_.emplace_back(layers, std::move(*layer));
    for (const auto& [name, rank] : lora.rank_patterns)
        if (auto ranked = parsed(fmt::format(R"((.*\.)?({}))", name), "/rank_pattern", problems))
            ranks_.emplace_back(std::move(*ranked), rank);
    for (const std::string& saved : lora.modules_to_save)
        if (auto guarded = parsed(fmt::format(R"((.*\.)?{}(\..*)?)", saved), "/modules_to_save", problems))
            saved_.push_back(std::move(*guarded));
}

bool Targets::chooses(const std::string& name, ModuleKind kind) const {
    if (!all_linear_) return matches(name);
    const bool linear = kind == ModuleKind::linear || kind == ModuleKind::transposed;
    return linear && !is_excluded(name) && name != output_ && !is_classifier(name);
}

bool Targets::matches(const std::string& name) const {
    if (is_excluded(name)) return false;
    if (pattern_) return pattern_->matches(name);
    if (std::find(lora_.targets.begin(), lora_.targets.end(), name) != lora_.targets.end()) return true;
    const bool found = std::any_of(lora_.targets.begin(), lora_.targets.end(),
                                   [&](const std::string& t) { return is_module_suffix(name, t); });
    return found && (lora_.layers.empty() || is_chosen_layer(name));
}

bool Targets::chooses_parameter(const std::string& name) const {
    return std::any_of(lora_.target_parameters.begin(), lora_.target_parameters.end(),
                       [&](const std::string& t) { return is_module_suffix(name, t); });
}

namespace {

/// Whether a pattern may tell indices apart. Where nothing but ".*" takes a digit, whatever matches with
/// one index matches with any other.
bool tells_indices_apart(std::string_view pattern) {
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        const std::string_view rest = pattern.substr(i);
        if (rest.starts_with(".*") || rest.starts_with("\\."))
            ++i;
        else if (std::isalpha(static_cast<unsigned char>(rest.front())) == 0 &&
                 std::string_view("_()|").find(rest.front()) == std::string_view::npos)
            return true;
    }
    return false;
}

}  // namespace

Layers Targets::layers() const {
    const auto ranks_apart = [](const auto& rank) { return tells_indices_apart(rank.first); };
    const bool apart = tells_indices_apart(lora_.target_pattern) || tells_indices_apart(lora_.excluded_pattern) ||
                       !lora_.layers.empty() || std::ranges::any_of(lora_.rank_patterns, ranks_apart) ||
                       std::ranges::any_of(lora_.targets, has_digit) ||
                       std::ranges::any_of(lora_.target_parameters, has_digit) ||
                       std::ranges::any_of(lora_.excluded, has_digit) ||
                       std::ranges::any_of(lora_.modules_to_save, tells_indices_apart);
    return apart ? Layers::apart : Layers::alike;
}

std::int64_t Targets::rank_of(const std::string& name) const {
    for (const auto& [pattern, rank] : ranks_)
        if (pattern.matches(name)) return rank;
    return lora_.rank;
}

bool Targets::is_excluded(const std::string& name) const {
    // An adapter never sits in a module of which a copy is trained.
    return (excluded_ && excluded_->matches(name)) ||
           std::any_of(lora_.excluded.begin(), lora_.excluded.end(),
                       [&](const std::string& e) { return is_module_suffix(name, e); }) ||
           std::any_of(saved_.begin(), saved_.end(),
                       [&](const NamePattern& saved) { return saved.matches(name); });
}

/// PEFT spares the classifier of a sequence classification [SEQ_CLS_HEAD_NAMES].
bool Targets::is_classifier(const std::string& name) const {
    return lora_.sequence_classification && output_.empty() && (name == "score" || name == "classifier");
}

/// The first index of a list in the name: "model.layers.3.mlp.experts.0.up_proj" is layer 3.
bool Targets::is_chosen_layer(const std::string& name) const {
    std::size_t from = 0;
    if (!layer_patterns_.empty()) {
        const auto match = std::find_if(layer_patterns_.begin(), layer_patterns_.end(),
                                        [&](const auto& one) { return one.second.matches(name); });
        if (match == layer_patterns_.end()) return false;
        from = ("." + name).find("." + match->first + ".");
        if (from == std::string::npos) return false;
        from += match->first.size();
    } else {
        // The list's own name has a dot before it: of "h.0.attn" nothing is layer 0.
        from = name.find('.', name.find('.') + 1);
    }
    while (from < name.size()) {
        const std::size_t begin = from + 1;
        const std::size_t end = std::min(name.find('.', begin), name.size());
        const std::string_view part = std::string_view(name).substr(begin, end - begin);
        if (!part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == part.npos &&
            end < name.size()) {
            std::int64_t index = 0;
            for (const char digit : part) index = index * 10 + (digit - '0');
            return std::find(lora_.layers.begin(), lora_.layers.end(), index) != lora_.layers.end();
        }
        from = end;
    }
    return false;
}

std::string_view saved_root(std::string_view name, const Lora& lora) {
    if (lora.modules_to_save.empty()) return {};
    for (std::size_t end = name.find('.');; end = name.find('.', end + 1)) {
        const std::string_view path = name.substr(0, end);
        for (const std::string& saved : lora.modules_to_save)
            if (path.ends_with(saved)) return path;
        if (end == std::string_view::npos) return {};
    }
}

}  // namespace membudget
