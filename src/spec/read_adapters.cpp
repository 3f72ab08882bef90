#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "spec/fields.hpp"

namespace membudget {

namespace {

/// A list of names, or one regular expression for whole names.
template <auto Names, auto Pattern>
constexpr Field<LoraSpec> names_or_pattern(std::string_view key, std::string_view doc) {
    return {key, "list of names, or a regular expression", doc, [](const Cursor& at, LoraSpec& into) {
                constexpr std::string_view kAllLinear = "all-linear";
                if (!at.tree.is(KeyTree::Kind::string))
                    into.*Names = read_names(at);
                else if (at.tree.text() == kAllLinear)
                    into.*Names = {{std::string(kAllLinear), at.pointer}};
                else if (auto text = read_text_value(at, "a regular expression"))
                    into.*Pattern = NamedAt{*std::move(text), at.pointer};
            }};
}

void read_layers(const Cursor& at, LoraSpec& into) {
    constexpr std::int64_t kMostLayers = 1'000'000;
    if (!at.tree.is(KeyTree::Kind::array)) {
        if (const auto layer = read_integer(at, 0, kMostLayers)) into.layers_to_transform = {*layer};
        return;
    }
    for (std::size_t i = 0; i < at.tree.items().size() && at.errors.size() < kMostMistakes; ++i)
        if (const auto layer = read_integer(at.child(i, at.tree.items()[i]), 0, kMostLayers))
            into.layers_to_transform.push_back(*layer);
}

void read_layers_pattern(const Cursor& at, LoraSpec& into) {
    if (!at.tree.is(KeyTree::Kind::string))
        into.layers_pattern = read_names(at);
    else if (auto one = read_name(at))
        into.layers_pattern = {*std::move(one)};
}

void read_rank_pattern(const Cursor& at, LoraSpec& into) {
    if (!at.tree.is(KeyTree::Kind::object)) return at.wrong("an object of ranks");
    for_each_member(at, [&into](const Cursor& child, std::string_view pattern) {
        if (const auto rank = read_integer(child, 1, kLargestSize)) into.rank_pattern.emplace_back(pattern, *rank);
    });
}

/// Checked and left: of a stack of experts a scale other than 1 multiplies the gradients of two factors.
void read_alpha_pattern(const Cursor& at, LoraSpec&) {
    if (!at.tree.is(KeyTree::Kind::object)) return at.wrong("an object of numbers");
    for_each_member(at, [](const Cursor& child, std::string_view) {
        if (!child.tree.is(KeyTree::Kind::integer) && !child.tree.is(KeyTree::Kind::number)) child.wrong("a number");
    });
}

constexpr Field<LoraSpec> kLoraFields[] = {
    field::path<&LoraSpec::adapter_config>("adapter_config", "an adapter_config.json"),
    field::count<&LoraSpec::rank>("rank", "rank of the adapters (8)"),
    field::count<&LoraSpec::rank>("r", "the same, as PEFT names it"),
    field::count<&LoraSpec::alpha>("alpha", "scale of the adapters (8)"),
    field::count<&LoraSpec::alpha>("lora_alpha", "the same, as PEFT names it"),
    field::real<&LoraSpec::dropout, 0, 1>("dropout", "number from 0 to 1",
                                          "dropout before the adapters"),
    field::real<&LoraSpec::dropout, 0, 1>("lora_dropout", "number from 0 to 1",
                                          "the same, as PEFT names it"),
    names_or_pattern<&LoraSpec::target_modules, &LoraSpec::target_pattern>(
        "target_modules", "modules that get adapters; 'all-linear' means all linear modules but the "
                          "output embedding, and without the key PEFT's choice for the family counts"),
    field::names<&LoraSpec::target_parameters>(
        "target_parameters", "parameters that get adapters themselves, such as 'experts.down_proj'"),
    names_or_pattern<&LoraSpec::exclude_modules, &LoraSpec::exclude_pattern>(
        "exclude_modules", "modules that get none"),
    field::names<&LoraSpec::modules_to_save>("modules_to_save", "modules of which a whole copy is trained"),
    {"layers_to_transform", "list of integers", "indices of the layers that get adapters", read_layers},
    {"layers_pattern", "name or list of names", "names of the lists of layers that these count",
     read_layers_pattern},
    {"rank_pattern", "object of integers", "ranks that differ, by regular expression of module names",
     read_rank_pattern},
    {"alpha_pattern", "object of numbers", "scales that differ; they decide next to nothing", read_alpha_pattern},
    field::flag<&LoraSpec::dora>("dora", "magnitudes are trained beside directions (DoRA)"),
    field::flag<&LoraSpec::dora>("use_dora", "the same, as PEFT names it"),
    field::flag<&LoraSpec::rslora>("rslora", "rank-stabilised scale"),
    field::flag<&LoraSpec::rslora>("use_rslora", "the same, as PEFT names it"),
    field::flag<&LoraSpec::lora_bias>("lora_bias", "the second factor of an adapter has a bias"),
    field::name<&LoraSpec::bias>("bias", "biases that are trained: none, all, lora_only"),
    field::name<&LoraSpec::task_type>("task_type", "PEFT's type of the task: SEQ_CLS spares the classifier"),
    field::name<&LoraSpec::dtype>("dtype", "dtype of the adapters"),
    field::flag<&LoraSpec::autocast_adapter_dtype>(
        "autocast_adapter_dtype", "adapters of a 16-bit model are fp32, as PEFT's default is"),
    field::flag<&LoraSpec::input_gradients>(
        "input_gradients", "embeddings' outputs need gradients (enable_input_require_grads)"),
};

/// Keys of PEFT's config that change what is trained or computed and that no key here stands for.
constexpr std::array<std::string_view, 11> kNotModelled{
    "alora_invocation_tokens", "arrow_config",      "kasa_config",   "layer_replication",
    "megatron_config",         "monteclora_config", "trainable_token_indices", "use_bdlora",
    "use_qalora",              "velora_config",     "ensure_weight_tying"};

/// null, false, and what is empty: a key of PEFT's config that is not used.
bool is_unused(const KeyTree& value) {
    return value.is_null() || (value.is(KeyTree::Kind::boolean) && !value.boolean()) ||
           (value.is(KeyTree::Kind::array) && value.items().empty()) ||
           (value.is(KeyTree::Kind::object) && value.members().empty());
}

}  // namespace

void read_lora(const Cursor& at, TrainingSpec& into) {
    if (at.tree.is(KeyTree::Kind::string)) {
        into.lora.emplace().adapter_config = read_text_value(at, "the path of an adapter_config.json");
        return;
    }
    read_object(at, table(kLoraFields), into.lora.emplace(), "an object or the path of an adapter_config.json");
}

void lora_keys(std::string_view pointer, std::vector<SpecKey>& out) {
    append_keys(pointer, table(kLoraFields), out);
}

Result<LoraSpec> read_adapter_config(const KeyTree& tree, std::string_view file) {
    Diagnostics errors;
    const KeyTree* type = tree.find("peft_type");
    if (type == nullptr || !type->is(KeyTree::Kind::string))
        errors.invalid("/peft_type", fmt::format("expected an adapter_config.json, which names its 'peft_type'; "
                                                 "got {}", type == nullptr ? "none" : type->describe()));
    else if (type->text() != "LORA")
        errors.unsupported("/peft_type", fmt::format("expected LORA; got {}", in_quotes(type->text())));
    LoraSpec lora;
    if (errors.empty()) {
        // Most keys of PEFT's decide no byte, and those that are not used are null.
        KeyTree known = KeyTree::object();
        for (const auto& [key, value] : tree.members()) {
            if (is_unused(value) && key != "autocast_adapter_dtype") continue;
            const bool decides = std::any_of(std::begin(kLoraFields), std::end(kLoraFields),
                                             [&key = key](const auto& field) { return field.key == key; });
            // A scale may be any number; one that is no integer is no rank, and that is all it decides.
            const bool other = key == "lora_alpha" && !(value.is(KeyTree::Kind::integer) && value.integer() > 0);
            if (decides && !other) known.members().emplace_back(key, value);
            if (std::find(kNotModelled.begin(), kNotModelled.end(), key) != kNotModelled.end())
                errors.unsupported(pointer_child("", key),
                                   fmt::format("'{}' of an adapter config is not modelled", key));
        }
        read_object({known, "", errors}, table(kLoraFields), lora);
    }
    if (errors.empty()) return lora;
    errors.set_file(file);
    return errors;
}

}  // namespace membudget
