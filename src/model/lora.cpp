// Low-rank adapters, as PEFT adds them [peft tuners/tuners_utils.py inject_adapter,
// tuners/lora/model.py, utils/other.py; 0.21].

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "model/modules.hpp"
#include "model/name_pattern.hpp"

namespace membudget {

namespace {

constexpr std::string_view kAllLinear = "all-linear";
/// PEFT wraps the model twice: PeftModel.base_model, LoraModel.model.
constexpr std::string_view kPrefix = "base_model.model.";

/// Decisions about a module beside a rank: no adapter, or a trained copy of the module.
constexpr std::int64_t kNone = 0;
constexpr std::int64_t kSaved = -1;

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

/// Which modules the adapters choose.
class Targets {
public:
    Targets(const Lora& lora, const Model& model, Diagnostics& problems) : lora_(lora) {
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

    [[nodiscard]] bool chooses(const std::string& name, ModuleKind kind) const {
        if (is_excluded(name)) return false;
        if (all_linear_) {
            const bool linear = kind == ModuleKind::linear || kind == ModuleKind::transposed;
            return linear && name != output_ && !is_classifier(name);
        }
        if (pattern_) return pattern_->matches(name);
        if (std::find(lora_.targets.begin(), lora_.targets.end(), name) != lora_.targets.end()) return true;
        const bool found = std::any_of(lora_.targets.begin(), lora_.targets.end(),
                                       [&](const std::string& t) { return is_module_suffix(name, t); });
        return found && (lora_.layers.empty() || is_chosen_layer(name));
    }

    [[nodiscard]] std::int64_t rank_of(const std::string& name) const {
        for (const auto& [pattern, rank] : ranks_)
            if (pattern.matches(name)) return rank;
        return lora_.rank;
    }

private:
    [[nodiscard]] bool is_excluded(const std::string& name) const {
        // An adapter never sits in a module of which a copy is trained.
        return (excluded_ && excluded_->matches(name)) ||
               std::any_of(lora_.excluded.begin(), lora_.excluded.end(),
                           [&](const std::string& e) { return is_module_suffix(name, e); }) ||
               std::any_of(saved_.begin(), saved_.end(),
                           [&](const NamePattern& saved) { return saved.matches(name); });
    }

    /// PEFT spares the classifier of a sequence classification [SEQ_CLS_HEAD_NAMES].
    [[nodiscard]] bool is_classifier(const std::string& name) const {
        return lora_.sequence_classification && output_.empty() && (name == "score" || name == "classifier");
    }

    /// The first index of a list in the name: "model.layers.3.mlp.experts.0.up_proj" is layer 3.
    [[nodiscard]] bool is_chosen_layer(const std::string& name) const {
        std::size_t from = 0;
        if (!layer_patterns_.empty()) {
            const auto match = std::find_if(layer_patterns_.begin(), layer_patterns_.end(),
                                            [&](const auto& one) { return one.second.matches(name); });
            if (match == layer_patterns_.end()) return false;
            from = ("." + name).find("." + match->first + ".");
            if (from == std::string::npos) return false;
            from += match->first.size();
        } else {
            from = name.find('.');
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

    const Lora& lora_;
    std::optional<NamePattern> pattern_, excluded_;
    bool all_linear_ = false;
    std::string output_;
    std::vector<std::pair<std::string, NamePattern>> layer_patterns_;
    std::vector<std::pair<NamePattern, std::int64_t>> ranks_;
    std::vector<NamePattern> saved_;
};

/// Whether the experts of a mixture are parameters of one tensor each. PEFT then rewrites targets that
/// could mean the linear modules which they once were, patterns among them
/// [peft utils/transformers_weight_conversion.py convert_peft_config_for_transformers].
bool rewrites_targets(const Model& model, const Lora& lora) {
    bool stacked = false;
    model.for_each_parameter([&](const std::string&, const Parameter& parameter, std::int64_t) {
        stacked = stacked || (parameter.component == Component::experts && parameter.shape.size() == 3);
    });
    if (!stacked) return false;
    constexpr std::string_view kOnce[] = {"gate_proj", "up_proj", "down_proj", "w1", "w2", "w3", "w13", "gate_up_proj",
                                          "experts",   "all-linear"};
    return !lora.target_pattern.empty() ||
           std::any_of(lora.targets.begin(), lora.targets.end(), [&](const std::string& target) {
               return std::any_of(std::begin(kOnce), std::end(kOnce), [&](std::string_view name) {
                   return is_module_suffix(target, name);
               });
           });
}

/// The path of the module, itself or around it, of which `modules_to_save` asks for a copy; empty: none.
/// PEFT compares ends of names without regard to dots [utils/other.py _set_trainable].
std::string_view saved_root(std::string_view name, const Lora& lora) {
    for (std::size_t end = name.find('.');; end = name.find('.', end + 1)) {
        const std::string_view path = name.substr(0, end);
        for (const std::string& saved : lora.modules_to_save)
            if (path.ends_with(saved)) return path;
        if (end == std::string_view::npos) return {};
    }
}

/// Rewrites the blocks of one model.
class Injection {
public:
    Injection(const Lora& lora, const Targets& targets) : lora_(lora), targets_(targets) {}

    Decision decide(const Block& block, const std::string& prefix) {
        Decision decision;
        for (const Module& module : modules_of(block)) {
            const std::string name = prefix + module.path;
            std::int64_t chosen = kNone;
            if (!saved_root(name, lora_).empty()) {
                chosen = kSaved;
                saved_any_.insert(std::string(saved_root(name, lora_)));
            } else if (targets_.chooses(name, module.kind)) {
                chosen = targets_.rank_of(name);
                ++adapted_;
                if (module.kind == ModuleKind::other) unfit_.insert(name);
            }
            decision.push_back(chosen);
        }
        return decision;
    }

    void change(Block& block, const std::string& prefix, const Decision& decision) {
        for (Parameter& parameter : block.parameters) parameter.trainable = false;
        const std::vector<Module> modules = modules_of(block);
        for (std::size_t i = 0; i < modules.size(); ++i) {
            if (decision[i] == kSaved)
                save(block, prefix, modules[i]);
            else if (decision[i] != kNone && modules[i].kind != ModuleKind::other)
                adapt(block, prefix, modules[i], decision[i]);
        }
        if (lora_.bias == Lora::Bias::all)
            for (Parameter& parameter : block.parameters)
                if (parameter.name == "bias" || parameter.name.ends_with(".bias")) parameter.trainable = true;
    }

    [[nodiscard]] std::int64_t adapted() const { return adapted_; }
    [[nodiscard]] const std::set<std::string>& saved() const { return saved_any_; }
    [[nodiscard]] const std::set<std::string>& unfit() const { return unfit_; }
    [[nodiscard]] const std::set<std::string>& unsimulated() const { return unsimulated_; }
    [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& renamed() const { return renamed_; }

private:
    void rename(Parameter& parameter, const std::string& prefix, std::string name) {
        renamed_.emplace_back(prefix + parameter.name, std::string(kPrefix) + prefix + name);
        if (parameter.checkpoint_name.empty()) parameter.checkpoint_name = parameter.name;
        parameter.name = std::move(name);
    }

    /// A trained copy of the module; the original stays beside it [ModulesToSaveWrapper].
    void save(Block& block, const std::string& prefix, const Module& module) {
        const std::string full = prefix + module.path;
        // Where the wrapper's name goes: behind the module that is wrapped, within this block's names.
        const std::size_t path = saved_root(full, lora_).size();
        const std::size_t root = path - std::min(prefix.size(), path);
        for (const std::size_t index : module.parameters) {
            const std::string name = block.parameters[index].name;
            const auto under = [&](std::string_view wrapper) {
                return root == 0 ? fmt::format("{}.{}", wrapper, name)
                                 : fmt::format("{}.{}{}", name.substr(0, root), wrapper, name.substr(root));
            };
            Parameter copy = block.parameters[index];
            copy.name = under("modules_to_save.default");
            // What is tied within the module stays tied within the copy.
            const std::string inside = full.substr(0, path) + ".";
            copy.tied_to = copy.tied_to.starts_with(inside)
                               ? full.substr(0, path) + ".modules_to_save.default." + copy.tied_to.substr(inside.size())
                               : "";
            copy.trainable = true;
            rename(block.parameters[index], prefix, under("original_module"));
            block.parameters.push_back(std::move(copy));
            const int made = static_cast<int>(block.parameters.size()) - 1;
            for (Op& op : block.ops)
                std::replace(op.parameters.begin(), op.parameters.end(), static_cast<int>(index), made);
        }
    }

    void adapt(Block& block, const std::string& prefix, const Module& module, std::int64_t rank) {
        const bool looked_up = module.kind == ModuleKind::embedding;
        const Component component = block.parameters[module.weight].component;
        for (const std::size_t index : module.parameters) {
            Parameter& parameter = block.parameters[index];
            const std::string own = parameter.name.substr(module.path.size() + (module.path.empty() ? 0 : 1));
            if (lora_.bias == Lora::Bias::lora_only && own == "bias") parameter.trainable = true;
            rename(parameter, prefix, fmt::format("{}.base_layer.{}", module.path, own));
        }
        Adapter adapter;
        adapter.rank = rank;
        adapter.dropout = looked_up ? 0 : lora_.dropout;
        std::vector<int> added;
        const auto add = [&](std::string name, std::vector<std::int64_t> shape) {
            Parameter made;
            made.name = module.path + "." + name;
            made.shape = std::move(shape);
            made.component = component;
            made.role = ParameterRole::adapter;
            made.dtype = lora_.dtype;
            block.parameters.push_back(std::move(made));
            added.push_back(static_cast<int>(block.parameters.size()) - 1);
            return static_cast<int>(added.size()) - 1;
        };
        if (looked_up) {
            adapter.a = add("lora_embedding_A.default", {rank, module.in});
            adapter.b = add("lora_embedding_B.default", {module.out, rank});
        } else {
            adapter.a = add("lora_A.default.weight", {rank, module.in});
            adapter.b = add("lora_B.default.weight", {module.out, rank});
            if (lora_.lora_bias) adapter.bias = add("lora_B.default.bias", {module.out});
        }
        if (lora_.dora) adapter.magnitude = add("lora_magnitude_vector.default.weight", {module.out});
        attach(block, module, adapter, added);
    }

    /// Hands the adapter to the op that multiplies with the module's weight.
    void attach(Block& block, const Module& module, Adapter adapter, const std::vector<int>& added) {
        bool attached = false;
        for (Op& op : block.ops) {
            if (std::find(op.parameters.begin(), op.parameters.end(), static_cast<int>(module.weight)) ==
                op.parameters.end())
                continue;
            attached = op.kind == OpKind::linear || (op.kind == OpKind::embedding && !lora_.dora);
            const int base = static_cast<int>(op.parameters.size());
            op.parameters.insert(op.parameters.end(), added.begin(), added.end());
            for (int* index : {&adapter.a, &adapter.b, &adapter.bias, &adapter.magnitude})
                if (*index >= 0) *index += base;
            op.adapter = adapter;
            break;
        }
        if (!attached && !block.ops.empty()) unsimulated_.insert(module.path);
    }

    const Lora& lora_;
    const Targets& targets_;
    std::int64_t adapted_ = 0;
    std::set<std::string> saved_any_, unfit_, unsimulated_;
    std::vector<std::pair<std::string, std::string>> renamed_;
};

/// The targets of the family, where the config names none.
void fill_in_targets(Lora& lora, const Model& model, Diagnostics& problems) {
    if (!lora.targets.empty() || !lora.target_pattern.empty()) return;
    std::string_view words = default_lora_targets(model.family);
    if (words.empty())
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

Result<Model> with_lora(Model model, const Lora& given) {
    Diagnostics problems;
    Lora lora = given;
    fill_in_targets(lora, model, problems);
    const Targets targets(lora, model, problems);
    if (rewrites_targets(model, lora))
        problems.unsupported("/target_modules",
                             "adapters on the experts of a mixture are not modelled: PEFT puts them on stacked "
                             "parameters",
                             "name the modules of attention, such as 'q_proj'");
    if (!problems.empty()) return problems;

    Injection injection(lora, targets);
    rewrite_layers(
        model, [&](const Block& block, const std::string& prefix) { return injection.decide(block, prefix); },
        [&](Block& block, const std::string& prefix, const Decision& decision) {
            injection.change(block, prefix, decision);
        });
    if (injection.adapted() == 0)
        problems.invalid("/target_modules",
                         fmt::format("expected a module of {}; got none that matches", model.architecture),
                         "`membudget inspect --format csv` lists the parameters of its modules");
    if (const auto& unfit = injection.unfit(); !unfit.empty())
        problems.invalid("/target_modules",
                         fmt::format("expected linear modules and embeddings; got '{}'{}", *unfit.begin(),
                                     unfit.size() > 1 ? fmt::format(" and {} more", unfit.size() - 1) : ""));
    if (!problems.empty()) return problems;

    // PEFT takes no offence at a name without a module.
    for (const std::string& saved : lora.modules_to_save)
        if (std::none_of(injection.saved().begin(), injection.saved().end(),
                         [&](const std::string& name) { return name.ends_with(saved); }))
            model.notes.push_back(fmt::format("modules_to_save: {} has no module named '{}'", model.architecture, saved));

    for (Section& section : model.sections) section.prefix = std::string(kPrefix) + section.prefix;
    std::vector<std::pair<std::string, std::string>> renamed = injection.renamed();
    for (const Block& block : model.blocks)
        for (const Parameter& parameter : block.parameters)
            if (!parameter.tied_to.empty())
                renamed.emplace_back(parameter.tied_to, std::string(kPrefix) + parameter.tied_to);
    settle_ties(model, renamed);
    if (!injection.unsimulated().empty() && model.step_unsupported.empty())
        model.step_unsupported = fmt::format("adapters on '{}'", *injection.unsimulated().begin());
    return model;
}

}  // namespace membudget
