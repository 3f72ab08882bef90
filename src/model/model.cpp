#include "membudget/model.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/config.hpp"
#include "model/decoder.hpp"
#include "model/stored_names.hpp"

namespace membudget {
namespace {

/// More parameters than this are a mistake in the config; bytes of states and gradients of so many
/// still fit 64 bits with room for every multiple that a step makes of them.
constexpr std::int64_t kLargestModel = std::int64_t{1} << 48;

std::vector<std::string_view> words(std::string_view text) {
    std::vector<std::string_view> out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        if (end > 0) out.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

std::string list_of(const std::vector<std::string_view>& names) {
    std::string out;
    for (const std::string_view name : names) {
        if (!out.empty()) out += ", ";
        out += name;
    }
    return out;
}

/// The string at `key`, or the first of a list of strings there; empty when there is none.
std::string first_string(const KeyTree& config, std::string_view key) {
    const KeyTree* value = config.find(key);
    if (value == nullptr) return {};
    if (value->is(KeyTree::Kind::array) && !value->items().empty()) value = &value->items().front();
    return value->is(KeyTree::Kind::string) ? value->text() : std::string();
}

/// The part of an op's expert parameters that one token uses.
Elements active_elements(const Block& block, const Parameter& parameter) {
    if (parameter.component != Component::experts) return parameter.elements();
    for (const Op& op : block.ops)
        if (op.kind == OpKind::moe && op.attributes.experts > 0)
            return Elements(parameter.elements().count() / op.attributes.experts *
                            op.attributes.experts_per_token);
    return parameter.elements();
}

/// Whether the family has a class of this name.
bool builds(const Family& family, std::string_view architecture) {
    const std::vector<std::string_view> known = words(family.architectures);
    return std::find(known.begin(), known.end(), architecture) != known.end();
}

const Family* find_family(const KeyTree& config, Diagnostics& diagnostics) {
    for (const std::string_view key : {"model_type", "_class_name"}) {
        const KeyTree* type = config.find(key);
        if (type == nullptr) continue;
        const std::string pointer = pointer_child("", key);
        if (!type->is(KeyTree::Kind::string)) {
            diagnostics.invalid(pointer, "expected the name of a model family; got " +
                                             type->describe());
            return nullptr;
        }
        if (const Family* family = families().find(type->text())) return family;
        diagnostics.unsupported(
            pointer, fmt::format("expected a known model family; got {}", type->describe()),
            did_you_mean(type->text(), families().names()));
        return nullptr;
    }
    const std::string architecture = first_string(config, "architectures");
    if (!architecture.empty()) {
        // Several families may build a class: that whose own it is comes first.
        const Family* found = nullptr;
        for (const Family& family : families()) {
            if (words(family.architectures).front() == architecture) return &family;
            if (found == nullptr && builds(family, architecture)) found = &family;
        }
        if (found != nullptr) return found;
        diagnostics.unsupported("/architectures/0",
                                fmt::format("expected a known class; got '{}'", architecture));
        return nullptr;
    }
    diagnostics.invalid("", "expected one of the keys 'model_type', 'architectures' or "
                            "'_class_name'; got none of them");
    return nullptr;
}

void read_common_facts(const KeyTree& config, Model& model) {
    for (const std::string_view key : {"max_position_embeddings", "n_positions", "max_seq_len"})
        if (const KeyTree* value = config.find(key))
            if (value->is(KeyTree::Kind::integer) && model.facts.max_positions == 0)
                model.facts.max_positions = value->integer();
    model.facts.torch_dtype = first_string(config, "torch_dtype");
    if (model.facts.torch_dtype.empty()) model.facts.torch_dtype = first_string(config, "dtype");
    if (model.facts.torch_dtype.empty())
        if (const KeyTree* text = config.find("text_config")) {
            model.facts.torch_dtype = first_string(*text, "torch_dtype");
            if (model.facts.torch_dtype.empty())
                model.facts.torch_dtype = first_string(*text, "dtype");
        }
}

}  // namespace

std::string_view name_of(Component component) {
    switch (component) {
        case Component::embedding: return "embedding";
        case Component::attention: return "attention";
        case Component::mlp: return "mlp";
        case Component::experts: return "experts";
        case Component::router: return "router";
        case Component::norm: return "norm";
        case Component::head: return "head";
        case Component::vision: return "vision";
        case Component::other: return "other";
    }
    throw InternalError("a component without a name");
}

std::string_view name_of(OpKind kind) {
    switch (kind) {
        case OpKind::embedding: return "embedding";
        case OpKind::position_embedding: return "position_embedding";
        case OpKind::scale: return "scale";
        case OpKind::add: return "add";
        case OpKind::multiply: return "multiply";
        case OpKind::layer_norm: return "layer_norm";
        case OpKind::rms_norm: return "rms_norm";
        case OpKind::linear: return "linear";
        case OpKind::split: return "split";
        case OpKind::rotary: return "rotary";
        case OpKind::attention: return "attention";
        case OpKind::activation: return "activation";
        case OpKind::gated_activation: return "gated_activation";
        case OpKind::softcap: return "softcap";
        case OpKind::clip: return "clip";
        case OpKind::zero_padding: return "zero_padding";
        case OpKind::pad: return "pad";
        case OpKind::roll: return "roll";
        case OpKind::window_mask: return "window_mask";
        case OpKind::window_bias: return "window_bias";
        case OpKind::merge_patches: return "merge_patches";
        case OpKind::span_loss: return "span_loss";
        case OpKind::drop_path: return "drop_path";
        case OpKind::dropout: return "dropout";
        case OpKind::causal_lm_loss: return "causal_lm_loss";
        case OpKind::masked_lm_loss: return "masked_lm_loss";
        case OpKind::pooler_loss: return "pooler_loss";
        case OpKind::linear_loss: return "linear_loss";
        case OpKind::spread_streams: return "spread_streams";
        case OpKind::collapse_streams: return "collapse_streams";
        case OpKind::mix_streams: return "mix_streams";
        case OpKind::compress: return "compress";
        case OpKind::position_bias: return "position_bias";
        case OpKind::transpose_heads: return "transpose_heads";
        case OpKind::convolution: return "convolution";
        case OpKind::classification_loss: return "classification_loss";
        case OpKind::moe: return "moe";
        case OpKind::conv_patches: return "conv_patches";
        case OpKind::concat: return "concat";
        case OpKind::mean_patches: return "mean_patches";
        case OpKind::average_pool: return "average_pool";
        case OpKind::attention_pool: return "attention_pool";
        case OpKind::pick_token: return "pick_token";
        case OpKind::contrastive_loss: return "contrastive_loss";
        case OpKind::join_images: return "join_images";
        case OpKind::add_images: return "add_images";
        case OpKind::altup: return "altup";
        case OpKind::sparsify: return "sparsify";
        case OpKind::grid_positions: return "grid_positions";
        case OpKind::pool_grid: return "pool_grid";
        case OpKind::unfold: return "unfold";
        case OpKind::ids: return "ids";
        case OpKind::reorder: return "reorder";
        case OpKind::interpolate: return "interpolate";
        case OpKind::latent_expand: return "latent_expand";
        case OpKind::sparse_mask: return "sparse_mask";
        case OpKind::rotary_tables: return "rotary_tables";
        case OpKind::attention_mask: return "attention_mask";
    }
    throw InternalError("an op kind without a name");
}

std::string_view name_of(Act act) {
    switch (act) {
        case Act::gelu: return "gelu";
        case Act::gelu_new: return "gelu_new";
        case Act::gelu_tanh: return "gelu_pytorch_tanh";
        case Act::quick_gelu: return "quick_gelu";
        case Act::silu: return "silu";
        case Act::relu: return "relu";
        case Act::relu2: return "relu2";
        case Act::tanh: return "tanh";
        case Act::sigmoid: return "sigmoid";
        case Act::bloom_gelu: return "bloom_gelu";
        case Act::xielu: return "xielu";
        case Act::swigluoai: return "swigluoai";
    }
    throw InternalError("an activation without a name");
}

Elements Parameter::elements() const {
    Elements product{1};
    for (const std::int64_t extent : shape) product = product * extent;
    return product;
}

Bytes StoredTensor::bytes() const {
    Elements product{1};
    for (const std::int64_t extent : shape) product = product * extent;
    return bytes_of(product, *dtype);
}

Bytes Parameter::bytes(const Dtype& otherwise) const {
    if (stored.empty()) return bytes_of(elements(), dtype != nullptr ? *dtype : otherwise);
    Bytes sum;
    for (const StoredTensor& tensor : stored) sum += tensor.bytes();
    return sum;
}

namespace {

/// The resolution into which an image fits with most pixels of its own, and then with least padding
/// [transformers image_processing_utils.py select_best_resolution].
std::pair<std::int64_t, std::int64_t> best_resolution(const ImageShape& image, std::int64_t high, std::int64_t wide) {
    std::pair<std::int64_t, std::int64_t> best = image.grids.front();
    std::int64_t most = 0, least_wasted = 0;
    for (const auto& [grid_high, grid_wide] : image.grids) {
        const double scale = std::min(static_cast<double>(grid_wide) / static_cast<double>(wide),
                                      static_cast<double>(grid_high) / static_cast<double>(high));
        const auto scaled = [&](std::int64_t side) { return static_cast<std::int64_t>(static_cast<double>(side) * scale); };
        const std::int64_t effective = std::min(scaled(wide) * scaled(high), wide * high);
        const std::int64_t wasted = grid_wide * grid_high - effective;
        if (effective < most || (effective == most && wasted >= least_wasted)) continue;
        most = effective;
        least_wasted = wasted;
        best = {grid_high, grid_wide};
    }
    return best;
}

/// What is left of `length` rows (or columns) of tokens when the padding on both sides is cut off
/// [transformers models/llava_next/modeling_llava_next.py unpad_image].
std::int64_t unpadded(std::int64_t length, std::int64_t side, double scale) {
    const auto kept = static_cast<std::int64_t>(std::round(static_cast<double>(side) * scale * 1e7) / 1e7);
    return length - 2 * ((length - kept) / 2);
}

}  // namespace

void ImageShape::set_size(std::int64_t high, std::int64_t wide) {
    if (grids.empty()) {
        height = high;
        width = wide;
        token_rows = high / cell();
        token_columns = wide / cell();
        tokens = detail::checked_mul(token_rows, token_columns);
        rows = patches = detail::checked_mul(tokens, merge * merge);
        return;
    }
    const auto [grid_high, grid_wide] = best_resolution(*this, high, wide);
    tiles = (grid_high / height) * (grid_wide / width) + 1;
    token_rows = grid_high / height * (height / patch);
    token_columns = grid_wide / width * (width / patch);
    const double rows_each = static_cast<double>(token_rows), columns_each = static_cast<double>(token_columns);
    const double tall = static_cast<double>(high), broad = static_cast<double>(wide);
    if (broad / tall > columns_each / rows_each)
        token_rows = unpadded(token_rows, high, columns_each / broad);
    else
        token_columns = unpadded(token_columns, wide, rows_each / tall);
    // Those of the whole image, then rows that end with a learned one.
    tokens = patches + detail::checked_mul(token_rows, token_columns + 1);
}

bool uses(const Op& op, std::size_t index) {
    return std::find(op.parameters.begin(), op.parameters.end(), static_cast<int>(index)) != op.parameters.end();
}

const Op* find_op(const Model& model, OpKind kind) {
    for (const Block& block : model.blocks)
        for (const Op& op : block.ops)
            if (op.kind == kind) return &op;
    return nullptr;
}

ParameterCounts count_parameters(const Model& model) {
    ParameterCounts counts;
    for (const Section& section : model.sections)
        for (const int index : section.pattern) {
            const Block& block = model.blocks[static_cast<std::size_t>(index)];
            for (const Parameter& parameter : block.parameters) {
                const bool tied = !parameter.tied_to.empty();
                if (tied && section.prefix + parameter.name == parameter.tied_to) continue;  // counted already
                const Elements all = parameter.elements() * section.count;
                counts.untied += all;
                if (tied) continue;
                counts.total += all;
                counts.active += active_elements(block, parameter) * section.count;
                if (parameter.trainable) counts.trainable += all;
            }
        }
    return counts;
}

std::vector<std::string_view> key_names(const Family& family) {
    std::vector<std::string_view> out;
    for (const ConfigKey& key : config_keys(family.keys)) {
        std::string_view names = key.names;
        while (!names.empty()) {
            const std::size_t end = std::min(names.find('|'), names.size());
            out.push_back(names.substr(0, end));
            names.remove_prefix(std::min(end + 1, names.size()));
        }
    }
    return out;
}

Diagnostics unknown_keys(const Family& family, const KeyTree& config) {
    // Keys that any config may have and that decide no shape.
    constexpr std::string_view kCommon[] = {"family",      "model_type", "_class_name",
                                            "architecture", "architectures", "torch_dtype",
                                            "dtype",       "id2label",   "num_labels", "problem_type",
                                            "rope_theta",  "rope_scaling", "rope_parameters",
                                            "rms_norm_eps", "layer_norm_eps",
                                            "max_position_embeddings"};
    std::vector<std::string_view> known = key_names(family);
    known.insert(known.end(), std::begin(kCommon), std::end(kCommon));
    Diagnostics diagnostics;
    for (const auto& [key, value] : config.members())
        if (std::find(known.begin(), known.end(), key) == known.end())
            diagnostics.invalid(pointer_child("", key),
                                fmt::format("expected a key of family '{}'; got '{}'", family.name,
                                            key),
                                did_you_mean(key, known));
    return diagnostics;
}

std::string choose_architecture(const Family& family, const KeyTree& config,
                                std::string_view asked, Diagnostics& diagnostics) {
    const std::vector<std::string_view> known = words(family.architectures);
    const std::string named =
        asked.empty() ? first_string(config, "architectures") : std::string(asked);
    if (named.empty()) return std::string(known.front());
    if (builds(family, named)) return named;
    // The class that a file names may ship with its weights; of a family with one class it is clear which to take.
    const std::string close = did_you_mean(named, known);
    const bool only = asked.empty() && known.size() == 1;
    diagnostics.unsupported(asked.empty() ? "/architectures/0" : "",
                            fmt::format("expected a class of '{}' ({}); got '{}'", family.name,
                                        list_of(known), named),
                            only ? fmt::format("--architecture {} takes the class of transformers for it", known.front())
                                 : close);
    return std::string(known.front());
}

void note_origin(Model& model, const Family& family, std::string_view architecture, const ConfigReader& reader) {
    model.family = family.name;
    model.architecture = architecture;
    model.source = family.source;
    for (const std::string& note : reader.notes()) model.notes.push_back(note);
}

std::int64_t label_count(const KeyTree& config) {
    constexpr std::int64_t kDefault = 2;
    if (const KeyTree* labels = config.find("id2label"))
        if (labels->is(KeyTree::Kind::object) && !labels->members().empty())
            return static_cast<std::int64_t>(labels->members().size());
    if (const KeyTree* count = config.find("num_labels"))
        if (count->is(KeyTree::Kind::integer) && count->integer() > 0 &&
            count->integer() <= kLargestWidth)
            return count->integer();
    return kDefault;
}

Problem problem_of(const KeyTree& config, std::int64_t labels, Diagnostics& diagnostics) {
    const KeyTree* given = config.find("problem_type");
    if (given == nullptr || given->is_null())
        return labels == 1 ? Problem::regression : Problem::single_label;
    const std::string name = given->is(KeyTree::Kind::string) ? given->text() : std::string();
    if (name == "single_label_classification") return Problem::single_label;
    if (name == "multi_label_classification") return Problem::multi_label;
    if (name == "regression") return Problem::regression;
    diagnostics.invalid("/problem_type",
                        "expected 'single_label_classification', 'multi_label_classification' or "
                        "'regression'; got " + given->describe());
    return Problem::single_label;
}

void classification_loss(BlockBuilder& builder, int logits, Problem problem) {
    const int loss = builder.tensor("loss", 1, Rows::one);
    builder.op(OpKind::classification_loss, "loss", place::loss, {logits}, {loss}).attributes.problem =
        problem;
}

ModelInput class_labels(Rows rows, std::int64_t labels, Problem problem) {
    if (problem == Problem::single_label) return {"labels", rows};
    return {"labels", rows, labels, &dtype::fp32};
}

namespace {

constexpr std::string_view kLanguagePart = "text_config";

/// The family of a composite config's language model; null: there is none, or none that is known.
const Family* language_family(const KeyTree& config) {
    const KeyTree* text = config.find(kLanguagePart);
    if (text == nullptr || !text->is(KeyTree::Kind::object)) return nullptr;
    Diagnostics of_the_whole;  // has its own to say where the part is of no known family
    return find_family(*text, of_the_whole);
}

/// Whether `architecture` is a class of the config's language model and none of the whole
/// [transformers configuration_utils.py base_config_key: from_pretrained takes that part].
bool is_of_language_part(const Family& family, const KeyTree& config, std::string_view architecture) {
    if (architecture.empty() || builds(family, architecture)) return false;
    const Family* own = language_family(config);
    return own != nullptr && builds(*own, architecture);
}

}  // namespace

std::string_view language_model_class(const KeyTree& config) {
    const Family* family = config.is(KeyTree::Kind::object) ? language_family(config) : nullptr;
    if (family == nullptr) return {};
    for (const std::string_view name : words(family->architectures))
        if (name.ends_with("ForCausalLM")) return name;
    return {};
}

Result<Model> build_model(const KeyTree& config, std::string_view architecture) {
    Diagnostics diagnostics;
    if (!config.is(KeyTree::Kind::object)) {
        diagnostics.invalid("", "expected an object with the keys of a model config; got " +
                                    config.describe());
        return diagnostics;
    }
    const Family* family = find_family(config, diagnostics);
    if (family == nullptr) return diagnostics;
    if (is_of_language_part(*family, config, architecture)) {
        Result<Model> model = build_model(*config.find(kLanguagePart), architecture);
        if (model) return model;
        Diagnostics errors = model.errors();
        errors.prefix_pointers(pointer_child("", kLanguagePart));
        return errors;
    }
    try {
        Result<Model> model = family->build(*family, config, architecture);
        if (!model) return model;
        if (count_parameters(*model).untied.count() > kLargestModel)
            throw OverflowError("too many parameters");
        read_common_facts(config, *model);
        set_checkpoint_names(*family, *model);
        return model;
    } catch (const OverflowError&) {
        diagnostics.invalid("", fmt::format("expected a model of at most {} parameters; got more",
                                            group_digits(kLargestModel)));
        return diagnostics;
    }
}

}  // namespace membudget
