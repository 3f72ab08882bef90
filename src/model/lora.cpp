// Low-rank adapters, as PEFT adds them [peft tuners/tuners_utils.py inject_adapter,
// tuners/lora/model.py, tuners/lora/layer.py, utils/other.py; 0.21].

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "model/lora_targets.hpp"

namespace membudget {

namespace {

/// PEFT wraps the model twice: PeftModel.base_model, LoraModel.model.
constexpr std::string_view kPrefix = "base_model.model.";

/// Decisions about a module beside a rank: no adapter, or a trained copy of the module.
constexpr std::int64_t kNone = 0;
constexpr std::int64_t kSaved = -1;

/// Families whose stacks of experts are matrices of in x out: classes that set `is_transposed`
/// [transformers models/*/modeling_*.py use_experts_implementation]. All others count as out x in, in
/// what order ever they lie [ParamWrapper.update_layer].
constexpr std::string_view kStacksInOut[] = {"gpt_oss"};

/// Families in which PEFT refuses two modules that Mamba reads past their forward
/// [tuners/tuners_utils.py _check_lora_target_modules_mamba].
constexpr std::string_view kMambaFamilies[] = {"falcon_h1", "mamba", "mamba2", "falcon_mamba", "nemotron_h"};
constexpr std::string_view kMambaRefused[] = {"out_proj", "conv1d"};

template <std::size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// Rewrites the blocks of one model.
class Injection {
public:
    Injection(const Lora& lora, const Targets& targets, const Model& model)
        : lora_(lora), targets_(targets), family_(model.family), stacks_in_out_(contains(kStacksInOut, family_)),
          mamba_(contains(kMambaFamilies, family_)) {}

    /// A number for each module, then one for each parameter.
    Decision decide(const Block& block, const std::string& prefix) {
        Decision decision;
        const std::vector<Module>& modules = modules_of_original(block);
        for (const Module& module : modules) {
            const std::string name = prefix + module.path;
            std::int64_t chosen = kNone;
            if (!saved_root(name, lora_).empty()) {
                chosen = kSaved;
                saved_any_.insert(std::string(saved_root(name, lora_)));
            } else if (targets_.chooses(name, module.kind)) {
                chosen = targets_.rank_of(name);
                ++adapted_;
                check(block, module, name, chosen);
            }
            decision.push_back(chosen);
        }
        for (const Parameter& parameter : block.parameters) {
            const std::string name = prefix + parameter.name;
            check_containers(name);
            decision.push_back(targets_.chooses_parameter(name) ? targets_.rank_of(name) : kNone);
            if (decision.back() == kNone) continue;
            ++adapted_;
            const std::string_view path = split_name(parameter.name).first;
            for (std::size_t i = 0; i < modules.size(); ++i)
                if (modules[i].path == path && decision[i] != kNone) clashing_.insert(name);
            if (parameter.shape.size() != 2 && parameter.shape.size() != 3) {
                shapeless_.insert(name);
                decision.back() = kNone;
            }
        }
        return decision;
    }

    /// The block that `decide` saw last.
    void change(Block& block, const std::string& prefix, const Decision& decision) {
        for (Parameter& parameter : block.parameters) parameter.trainable = false;
        const std::vector<Module>& modules = *decided_;
        for (std::size_t i = 0; i < modules.size(); ++i) {
            if (decision[i] == kSaved)
                save(block, prefix, modules[i]);
            else if (decision[i] != kNone && modules[i].kind != ModuleKind::other)
                adapt(block, prefix, modules[i], decision[i]);
        }
        const std::size_t first = modules.size();
        for (const Module& module : modules) {
            std::vector<std::size_t> chosen;
            std::vector<std::int64_t> ranks;
            for (const std::size_t index : module.parameters) {
                if (decision[first + index] == kNone) continue;
                chosen.push_back(index);
                ranks.push_back(decision[first + index]);
            }
            if (!chosen.empty()) wrap(block, prefix, chosen, ranks);
        }
        if (lora_.bias == Lora::Bias::all)
            for (Parameter& parameter : block.parameters)
                if (parameter.name == "bias" || parameter.name.ends_with(".bias")) parameter.trainable = true;
    }

    /// What PEFT does not take.
    void report(Diagnostics& problems) const {
        const auto refuse = [&problems](const std::set<std::string>& names, std::string_view pointer,
                                        std::string_view expected) {
            if (names.empty()) return;
            const std::string more = names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "";
            problems.invalid(std::string(pointer), fmt::format("expected {}; got '{}'{}", expected, *names.begin(), more));
        };
        refuse(unfit_, "/target_modules", "linear modules, convolutions and embeddings");
        refuse(refused_, "/target_modules", "modules whose forward runs, which Mamba's kernels pass by");
        refuse(uneven_, "/r", "a rank that the groups of a convolution divide");
        refuse(clashing_, "/target_parameters", "parameters of modules without adapters of their own");
        refuse(shapeless_, "/target_parameters", "parameters of two or three dimensions");
        if (!fused_.empty())
            problems.unsupported("/target_modules",
                                 fmt::format("adapters on torch.nn.MultiheadAttention, '{}', are not modelled",
                                             *fused_.begin()));
    }

    [[nodiscard]] std::int64_t adapted() const { return adapted_; }
    [[nodiscard]] bool stacks() const { return stacks_; }
    [[nodiscard]] const std::set<std::string>& saved() const { return saved_any_; }
    [[nodiscard]] const std::set<std::string>& unsimulated() const { return unsimulated_; }
    [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& renamed() const { return renamed_; }

private:
    void check(const Block& block, const Module& module, const std::string& name, std::int64_t rank) {
        const bool fused = std::any_of(module.parameters.begin(), module.parameters.end(), [&](std::size_t index) {
            return last_part(block.parameters[index].name) == "in_proj_weight";
        });
        if (fused)
            fused_.insert(name);
        else if (module.kind == ModuleKind::other || (module.kind == ModuleKind::embedding && lora_.lora_bias))
            unfit_.insert(name);
        if (mamba_ && contains(kMambaRefused, last_part(module.path))) refused_.insert(name);
        if (rank % module.groups != 0) uneven_.insert(name);
    }

    /// A module that only holds others takes no adapter, whatever the name by which it is meant.
    void check_containers(const std::string& name) {
        const std::size_t own = name.rfind('.');
        if (own == std::string::npos) return;
        // Names come module by module: what this one shares with the one before was looked at.
        const std::string_view container = std::string_view(name).substr(0, own);
        const auto shared = static_cast<std::size_t>(
            std::ranges::mismatch(container, last_container_).in1 - container.begin());
        for (std::size_t dot = name.find('.', shared); dot < own; dot = name.find('.', dot + 1))
            if (const std::string path = name.substr(0, dot); containers_.insert(path).second && targets_.matches(path))
                unfit_.insert(path);
        last_container_.assign(name, 0, own);
    }

    /// Of a block of the model as it was.
    const std::vector<Module>& modules_of_original(const Block& block) {
        const auto [place, fresh] = modules_.try_emplace(&block);
        if (fresh) place->second = modules_of(block, family_);
        decided_ = &place->second;
        return place->second;
    }

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
        const auto add = [&](std::string_view name, std::vector<std::int64_t> shape) {
            added.push_back(this->add(block, fmt::format("{}.{}", module.path, name), std::move(shape), component));
            return static_cast<int>(added.size()) - 1;
        };
        std::vector<std::int64_t> magnitude{module.out};
        if (looked_up) {
            adapter.a = add("lora_embedding_A.default", {rank, module.in});
            adapter.b = add("lora_embedding_B.default", {module.out, rank});
        } else {
            // Of a convolution the first factor has its kernel, and the second one's is 1 [_ConvNd].
            std::vector<std::int64_t> a{rank, module.in}, b{module.out, rank / module.groups};
            a.insert(a.end(), module.kernel.begin(), module.kernel.end());
            b.resize(a.size(), 1);
            if (!module.kernel.empty()) {
                magnitude.insert(magnitude.begin(), 1);
                magnitude.resize(a.size(), 1);
            }
            adapter.a = add("lora_A.default.weight", std::move(a));
            adapter.b = add("lora_B.default.weight", std::move(b));
            if (lora_.lora_bias) adapter.bias = add("lora_B.default.bias", {module.out});
        }
        if (lora_.dora) adapter.magnitude = add("lora_magnitude_vector.default.weight", std::move(magnitude));
        attach(block, module, adapter, added);
    }

    /// Adapters on parameters themselves. Wrappers of one module nest, the first parameter's inmost
    /// [ParamWrapper].
    void wrap(Block& block, const std::string& prefix, const std::vector<std::size_t>& chosen,
              const std::vector<std::int64_t>& ranks) {
        const std::string first = block.parameters[chosen.front()].name;
        const std::string path(split_name(first).first);
        const auto wrapped = [&path](std::size_t depth, std::string_view name) {
            std::string out = path;
            while (depth-- > 0) out += ".base_layer";
            return fmt::format("{}.{}", out, name);
        };
        const std::vector<Parameter> before = block.parameters;
        for (std::size_t i = 0; i < before.size(); ++i) {
            if (!before[i].name.starts_with(path + ".")) continue;
            const std::string name = wrapped(chosen.size(), before[i].name.substr(path.size() + 1));
            if (before[i].role == ParameterRole::adapter)
                block.parameters[i].name = name;
            else
                rename(block.parameters[i], prefix, name);
        }
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            const std::vector<std::int64_t>& shape = before[chosen[i]].shape;
            // A stack has a factor for each of its matrices, side by side.
            const std::int64_t factor = ranks[i] * (shape.size() == 3 ? shape.front() : 1);
            std::int64_t out = shape[shape.size() - 2], in = shape.back();
            if (shape.size() == 3 && stacks_in_out_) std::swap(out, in);
            const std::size_t depth = chosen.size() - 1 - i;
            const int a = add(block, wrapped(depth, "lora_A.default.weight"), {factor, in}, before[chosen[i]].component);
            const int b = add(block, wrapped(depth, "lora_B.default.weight"), {out, factor}, before[chosen[i]].component);
            ParameterAdapter adapter;
            adapter.rank = ranks[i];
            adapter.scaled = lora_.alpha != lora_.rank;
            adapter.in_out = stacks_in_out_;
            stacks_ = stacks_ || shape.size() == 3;
            if (!attach(block, chosen[i], adapter, {a, b})) unsimulated_.insert(first);
        }
    }

    /// Hands the factors, which are parameters of the block, to the op of the parameter; false where the op
    /// is not known to fold them in.
    static bool attach(Block& block, std::size_t parameter, ParameterAdapter adapter, std::array<int, 2> factors) {
        for (Op& op : block.ops) {
            const auto at = std::find(op.parameters.begin(), op.parameters.end(), static_cast<int>(parameter));
            if (at == op.parameters.end()) continue;
            adapter.parameter = static_cast<int>(at - op.parameters.begin());
            adapter.a = static_cast<int>(op.parameters.size());
            adapter.b = adapter.a + 1;
            op.parameters.insert(op.parameters.end(), factors.begin(), factors.end());
            op.parameter_adapters.push_back(adapter);
            // DBRX reads its experts' weights outside the module that holds them.
            return op.kind == OpKind::moe && op.attributes.router != RouterForm::dbrx;
        }
        return block.ops.empty();
    }

    int add(Block& block, std::string name, std::vector<std::int64_t> shape, Component component) {
        Parameter made;
        made.name = std::move(name);
        made.shape = std::move(shape);
        made.component = component;
        made.role = ParameterRole::adapter;
        made.dtype = lora_.dtype;
        block.parameters.push_back(std::move(made));
        return static_cast<int>(block.parameters.size()) - 1;
    }

    /// Hands the adapter to the op that multiplies with the module's weight.
    void attach(Block& block, const Module& module, Adapter adapter, const std::vector<int>& added) {
        bool attached = false;
        for (Op& op : block.ops) {
            const auto at = std::find(op.parameters.begin(), op.parameters.end(), static_cast<int>(module.weight));
            if (at == op.parameters.end()) continue;
            adapter.weight = static_cast<int>(at - op.parameters.begin());
            // Routers that are linear modules return more than their product, and PEFT's wrapper fails on it.
            const bool router = op.kind == OpKind::moe && adapter.weight == 0;
            const bool runs_modules = op.kind == OpKind::moe ||
                                      (op.kind == OpKind::sparse_mask && op.attributes.key_block > 0);
            attached = op.kind == OpKind::linear || (runs_modules && !router) ||
                       (op.kind == OpKind::embedding && !lora_.dora);
            const int base = static_cast<int>(op.parameters.size());
            op.parameters.insert(op.parameters.end(), added.begin(), added.end());
            for (int* index : {&adapter.a, &adapter.b, &adapter.bias, &adapter.magnitude})
                if (*index >= 0) *index += base;
            if (runs_modules)
                op.inner_adapters.push_back(adapter);
            else
                op.adapter = adapter;
            break;
        }
        if (!attached && !block.ops.empty()) unsimulated_.insert(module.path);
    }

    const Lora& lora_;
    const Targets& targets_;
    std::int64_t adapted_ = 0;
    std::string family_;
    bool stacks_in_out_, mamba_;
    bool stacks_ = false;  ///< of experts are adapted
    std::set<std::string> containers_;
    std::string last_container_;
    std::map<const Block*, std::vector<Module>> modules_;
    const std::vector<Module>* decided_ = nullptr;  ///< of the block that `decide` saw last
    std::set<std::string> saved_any_, unsimulated_;
    std::set<std::string> unfit_, fused_, refused_, uneven_, clashing_, shapeless_;
    std::vector<std::pair<std::string, std::string>> renamed_;
};

/// Modules that look up in another module's table: they take adapters of their own, under the name that
/// their op has.
void name_lookups(Model& model) {
    for (const Section& section : model.sections)
        for (const int index : section.pattern) {
            Block& block = model.blocks[static_cast<std::size_t>(index)];
            for (const Op& op : block.ops) {
                if (op.kind != OpKind::embedding || op.parameters.empty()) continue;
                Parameter& table = block.parameters[static_cast<std::size_t>(op.parameters.front())];
                const std::string own = op.name + ".weight";
                const bool named = std::any_of(block.parameters.begin(), block.parameters.end(),
                                               [&](const Parameter& parameter) { return parameter.name == own; });
                if (named || split_name(table.name).second != "weight") continue;
                if (section.prefix + table.name == table.tied_to) {  // another block has it
                    table.name = own;
                    continue;
                }
                Parameter alias = table;
                alias.tied_to = section.prefix + table.name;
                alias.name = own;
                block.parameters.push_back(std::move(alias));
            }
        }
}

}  // namespace

Result<Model> with_lora(Model model, const Lora& given) {
    Diagnostics problems;
    const Lora lora = settled_targets(given, model, problems);
    const Targets targets(lora, model, problems);
    if (!lora.target_parameters.empty() && (lora.dropout > 0 || lora.lora_bias || lora.dora))
        problems.invalid("/target_parameters",
                         "expected no dropout, no lora_bias and no DoRA beside adapters on parameters");
    if (!problems.empty()) return problems;

    name_lookups(model);
    Injection injection(lora, targets, model);
    rewrite_layers(
        model, targets.layers(), [&](const Block& block, const std::string& prefix) { return injection.decide(block, prefix); },
        [&](Block& block, const std::string& prefix, const Decision& decision) {
            injection.change(block, prefix, decision);
        });
    injection.report(problems);
    if (injection.adapted() == 0 && problems.empty())
        problems.invalid("/target_modules",
                         fmt::format("expected a module of {}; got none that matches", model.architecture),
                         "`membudget inspect --format csv` lists the parameters of its modules");
    if (!problems.empty()) return problems;

    // PEFT takes no offence at a name without a module.
    for (const std::string& saved : lora.modules_to_save)
        if (std::none_of(injection.saved().begin(), injection.saved().end(),
                         [&](const std::string& name) { return name.ends_with(saved); }))
            model.notes.push_back(fmt::format("modules_to_save: {} has no module named '{}'", model.architecture, saved));

    if (injection.stacks())
        model.notes.push_back("adapters on experts: each layer adds the update to whole stacks of weights, and keeps the "
                              "sum for backward [peft tuners/lora/layer.py ParamWrapper]");

    for (Section& section : model.sections) section.prefix = std::string(kPrefix) + section.prefix;
    std::vector<std::pair<std::string, std::string>> renamed = injection.renamed();
    for (const Block& block : model.blocks)
        for (const Parameter& parameter : block.parameters)
            if (!parameter.tied_to.empty())
                renamed.emplace_back(parameter.tied_to, std::string(kPrefix) + parameter.tied_to);
    settle_ties(model, renamed, TiedTraining::as_any);
    if (!injection.unsimulated().empty() && model.step_unsupported.empty())
        model.step_unsupported = fmt::format("adapters on '{}'", *injection.unsimulated().begin());
    return model;
}

}  // namespace membudget
