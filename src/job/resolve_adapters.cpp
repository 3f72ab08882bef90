// Adapters, freezing and a quantized base: from the words of a spec, of PEFT's adapter_config.json and
// of a config's `quantization_config` to a changed model.

#include <array>

#include "job/resolver.hpp"

namespace membudget {

namespace {

/// `given`, or what the file says.
template <class T>
void prefer(std::optional<T>& given, const std::optional<T>& file) {
    if (!given) given = file;
}
template <class T>
void prefer(std::vector<T>& given, const std::vector<T>& file) {
    if (given.empty()) given = file;
}

std::vector<std::string> words(const std::vector<NamedAt>& names) {
    std::vector<std::string> out;
    for (const NamedAt& name : names) out.push_back(name.name);
    return out;
}

std::optional<std::int64_t> integer_at(const KeyTree& tree, std::string_view key) {
    const KeyTree* value = tree.find(key);
    if (value == nullptr || !value->is(KeyTree::Kind::integer)) return std::nullopt;
    return value->integer();
}
bool flag_at(const KeyTree& tree, std::string_view key) {
    const KeyTree* value = tree.find(key);
    return value != nullptr && value->is(KeyTree::Kind::boolean) && value->boolean();
}
std::string text_at(const KeyTree& tree, std::string_view key) {
    const KeyTree* value = tree.find(key);
    return value != nullptr && value->is(KeyTree::Kind::string) ? value->text() : std::string();
}

/// torch's names of types in configs.
const Dtype* torch_dtype(std::string_view name) {
    if (name == "bfloat16") return &dtype::bf16;
    if (name == "float16") return &dtype::fp16;
    if (name == "float32") return &dtype::fp32;
    return nullptr;
}

/// What a config's `quantization_config` says, in the words of a spec
/// [transformers utils/quantization_config.py]; the row is empty for methods that are not modelled.
struct Published {
    std::string method, row;
    bool double_quant = false;
    std::optional<std::int64_t> group_size;
    const Dtype* compute = nullptr;
    std::optional<std::vector<std::string>> skipped;
};

Published published(const KeyTree& config) {
    Published out;
    out.method = text_at(config, "quant_method");
    const bool four = flag_at(config, "load_in_4bit") || flag_at(config, "_load_in_4bit");
    const bool eight = flag_at(config, "load_in_8bit") || flag_at(config, "_load_in_8bit");
    if (out.method.empty() && (four || eight)) out.method = "bitsandbytes";
    if (out.method == "bitsandbytes") {
        const std::string type = text_at(config, "bnb_4bit_quant_type");
        out.row = eight ? "int8" : four ? (type.empty() ? "fp4" : type) : "";
        out.double_quant = flag_at(config, "bnb_4bit_use_double_quant");
        out.compute = torch_dtype(text_at(config, "bnb_4bit_compute_dtype"));
    } else if ((out.method == "gptq" || out.method == "awq") && integer_at(config, "bits") == 4) {
        out.row = out.method + "-int4";
        out.group_size = integer_at(config, "group_size");
        if (!out.group_size) out.group_size = integer_at(config, "q_group_size");
    }
    for (const char* key : {"llm_int8_skip_modules", "modules_to_not_convert"})
        if (const KeyTree* list = config.find(key); list != nullptr && list->is(KeyTree::Kind::array)) {
            out.skipped.emplace();
            for (const KeyTree& item : list->items())
                if (item.is(KeyTree::Kind::string)) out.skipped->push_back(item.text());
        }
    return out;
}

}  // namespace

bool Resolver::asks_for_adaptation() const {
    const TrainingSpec& t = spec_.training;
    return t.lora || !t.freeze.empty() || t.quantization.row ||
           (config_ != nullptr && config_->find("quantization_config") != nullptr);
}

std::optional<QuantizedBase> Resolver::quantized_base() {
    const QuantizationSpec& spec = spec_.training.quantization;
    QuantizedBase base;
    Published file;
    const KeyTree* own = config_ != nullptr ? config_->find("quantization_config") : nullptr;
    if (!spec.row && own != nullptr && own->is(KeyTree::Kind::object)) {
        file = published(*own);
        base.row = quantizations().find(file.row);
        if (base.row == nullptr) {
            warn("training.quantization",
                 fmt::format("the config's quantization ({}) is not modelled: weights count in the type that "
                             "training.precision says", file.method.empty() ? "unnamed" : file.method));
            return std::nullopt;
        }
        assume("training.quantization",
               fmt::format("the config's quantization_config: {}; \"none\" as training.quantization undoes it",
                           base.row->name),
               "the model's config");
    } else if (spec.row && spec.row->name != "none") {
        base.row = find_row(quantizations(), spec.row->name, spec.row->pointer, "a quantization",
                            "quantizations");
    }
    if (base.row == nullptr) return std::nullopt;
    base.options.double_quant = spec.double_quant.value_or(file.double_quant);
    base.options.block_size = spec.block_size.value_or(base.options.block_size);
    base.options.group_size = spec.group_size.value_or(file.group_size.value_or(base.options.group_size));
    if (spec.skip_modules)
        base.skipped = words(*spec.skip_modules);
    else
        base.skipped = file.skipped;
    const Precision& precision = job_.precision;
    base.compute = file.compute != nullptr           ? file.compute
                   : precision.autocast != nullptr   ? precision.autocast
                                                     : precision.parameters;
    if (spec.compute)
        if (const Dtype* type =
                find_row(dtypes(), spec.compute->name, spec.compute->pointer, "an element type", "dtypes"))
            base.compute = type;
    if (base.row->upcasts && precision.parameters->bits < 32) {
        const bool prepared = spec.prepare.value_or(true);
        if (prepared) base.others = &dtype::fp32;
        if (!spec.prepare)
            assume("training.quantization.prepare",
                   "the model is prepared for k-bit training: embeddings, norms and the output embedding become "
                   "fp32",
                   "peft utils/other.py prepare_model_for_kbit_training");
    }
    return base;
}

std::optional<LoraSpec> Resolver::lora_spec() {
    if (!spec_.training.lora) return std::nullopt;
    LoraSpec out = *spec_.training.lora;
    if (inputs_.adapter == nullptr) return out;
    const auto read = read_adapter_config(*inputs_.adapter, inputs_.adapter_file);
    if (!read) {
        problems_.take(read.errors());
        return std::nullopt;
    }
    const LoraSpec& file = *read;
    prefer(out.rank, file.rank);
    prefer(out.alpha, file.alpha);
    prefer(out.dropout, file.dropout);
    if (out.target_modules.empty() && !out.target_pattern) {
        out.target_modules = file.target_modules;
        out.target_pattern = file.target_pattern;
    }
    if (out.exclude_modules.empty() && !out.exclude_pattern) {
        out.exclude_modules = file.exclude_modules;
        out.exclude_pattern = file.exclude_pattern;
    }
    prefer(out.target_parameters, file.target_parameters);
    prefer(out.modules_to_save, file.modules_to_save);
    prefer(out.layers_to_transform, file.layers_to_transform);
    prefer(out.layers_pattern, file.layers_pattern);
    prefer(out.rank_pattern, file.rank_pattern);
    prefer(out.dora, file.dora);
    prefer(out.lora_bias, file.lora_bias);
    prefer(out.bias, file.bias);
    prefer(out.task_type, file.task_type);
    return out;
}

std::optional<Lora> Resolver::lora(const LoraSpec& spec) {
    Lora out;
    out.rank = spec.rank.value_or(out.rank);
    out.alpha = spec.alpha.value_or(out.alpha);
    out.dropout = spec.dropout.value_or(0);
    out.targets = words(spec.target_modules);
    if (spec.target_pattern) out.target_pattern = spec.target_pattern->name;
    out.target_parameters = words(spec.target_parameters);
    out.excluded = words(spec.exclude_modules);
    if (spec.exclude_pattern) out.excluded_pattern = spec.exclude_pattern->name;
    out.modules_to_save = words(spec.modules_to_save);
    out.layers = spec.layers_to_transform;
    out.layer_patterns = words(spec.layers_pattern);
    out.rank_patterns = spec.rank_pattern;
    out.dora = spec.dora.value_or(false);
    out.lora_bias = spec.lora_bias.value_or(false);
    out.sequence_classification = spec.task_type && spec.task_type->name == "SEQ_CLS";
    if (spec.bias) {
        constexpr std::array<std::string_view, 3> kNames{"none", "all", "lora_only"};
        std::size_t chosen = 0;
        while (chosen < kNames.size() && kNames[chosen] != spec.bias->name) ++chosen;
        if (chosen == kNames.size())
            problems_.invalid(spec.bias->pointer,
                              fmt::format("expected none, all or lora_only; got '{}'", spec.bias->name),
                              did_you_mean(spec.bias->name, kNames));
        else
            out.bias = static_cast<Lora::Bias>(chosen);
    }
    if (spec.dtype) {
        out.dtype = find_row(dtypes(), spec.dtype->name, spec.dtype->pointer, "an element type", "dtypes");
        return out;
    }
    // PEFT turns adapters of 16-bit models to fp32 [tuners/tuners_utils.py cast_adapter_dtype].
    out.dtype = spec.autocast_adapter_dtype.value_or(true) ? &dtype::fp32 : job_.precision.parameters;
    if (!spec.autocast_adapter_dtype && job_.precision.parameters->bits < 32)
        assume("training.lora.dtype", "adapters are held in fp32, though the model is not",
               "peft tuners/tuners_utils.py cast_adapter_dtype; autocast_adapter_dtype=False keeps its type");
    return out;
}

void Resolver::adapt() {
    if (job_.model == nullptr || !asks_for_adaptation()) return;
    const auto base = quantized_base();
    if (!base && !spec_.training.lora && spec_.training.freeze.empty()) return;
    Model model = *job_.model;
    // Failures point into the object that asked.
    const auto take = [&](Result<Model> changed, std::string_view pointer, std::string_view file) {
        if (changed) {
            model = std::move(changed).value();
            return;
        }
        model = *job_.model;  // the other changes have mistakes of their own to tell
        Diagnostics why = changed.errors();
        if (file.empty()) why.prefix_pointers(pointer);
        if (!file.empty()) why.set_file(file);
        problems_.take(std::move(why));
    };
    if (base) take(with_quantized_base(std::move(model), *base), "/training/quantization", "");
    if (const auto words_of = lora_spec()) {
        const auto adapters = lora(*words_of);
        if (adapters) {
            const bool in_file = inputs_.adapter != nullptr && spec_.training.lora->target_modules.empty() &&
                                 !spec_.training.lora->target_pattern;
            if (adapters->targets.empty() && adapters->target_pattern.empty() &&
                !default_lora_targets(model.family).empty())
                assume("training.lora.target_modules",
                       fmt::format("adapters on PEFT's choice for '{}': {}", model.family,
                                   default_lora_targets(model.family)),
                       "peft utils/constants.py TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING");
            const std::size_t noted = model.notes.size();
            take(with_lora(std::move(model), *adapters), "/training/lora", in_file ? inputs_.adapter_file : "");
            for (std::size_t i = noted; i < model.notes.size(); ++i)
                warn("training.lora", model.notes[i]);
        }
        const bool checkpointed = asks_for_checkpointing();
        job_.input_gradients = words_of->input_gradients.value_or(checkpointed);
        if (checkpointed && !words_of->input_gradients)
            assume("training.lora.input_gradients",
                   "with checkpointing the embeddings' output needs a gradient",
                   "peft peft_model.py _prepare_model_for_gradient_checkpointing");
    }
    if (!spec_.training.freeze.empty())
        take(with_frozen(std::move(model), words(spec_.training.freeze)), "/training/freeze", "");
    job_.model = std::make_shared<const Model>(std::move(model));
}

}  // namespace membudget
