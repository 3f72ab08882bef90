#pragma once

/// Part `spec`: text -> a neutral key tree with JSON pointers -> `Spec`. Finds every mistake of
/// *shape* (syntax, type, range, unknown or duplicate key) of a file in one run. It does not know
/// which optimizers, models or devices exist: `job` resolves names.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "membudget/quantity.hpp"
#include "membudget/support.hpp"

namespace membudget {

/// A JSON value that keeps what readers need and parsers usually lose: the order of keys,
/// integers exactly, and the text of numbers that are no 64-bit integers.
class KeyTree {
public:
    enum class Kind { null, boolean, integer, number, string, array, object };
    using Member = std::pair<std::string, KeyTree>;

    // Not "= default": `Member` asks for it inside the class, where clang 14 would then say no.
    KeyTree() noexcept {}
    explicit KeyTree(bool value) : kind_(Kind::boolean), integer_(value) {}
    explicit KeyTree(std::int64_t value) : kind_(Kind::integer), integer_(value) {}
    explicit KeyTree(std::string text) : kind_(Kind::string), text_(std::move(text)) {}
    explicit KeyTree(std::string_view text) : KeyTree(std::string(text)) {}
    explicit KeyTree(const char* text) : KeyTree(std::string(text)) {}
    /// A number with a fraction, an exponent or too many digits: its text as found, and its value.
    static KeyTree number(double value, std::string text);
    static KeyTree array(std::vector<KeyTree> items = {});
    static KeyTree object(std::vector<Member> members = {});

    [[nodiscard]] Kind kind() const { return kind_; }
    [[nodiscard]] bool is(Kind kind) const { return kind_ == kind; }
    [[nodiscard]] bool is_null() const { return kind_ == Kind::null; }
    [[nodiscard]] bool boolean() const { return integer_ != 0; }
    [[nodiscard]] std::int64_t integer() const { return integer_; }
    [[nodiscard]] double number() const {
        return kind_ == Kind::integer ? static_cast<double>(integer_) : number_;
    }
    /// The string, or the text of a number as found.
    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] const std::vector<KeyTree>& items() const { return items_; }
    [[nodiscard]] const std::vector<Member>& members() const { return members_; }
    [[nodiscard]] std::vector<KeyTree>& items() { return items_; }
    [[nodiscard]] std::vector<Member>& members() { return members_; }
    /// The first member `key` of an object, or null when absent or no object.
    [[nodiscard]] const KeyTree* find(std::string_view key) const;
    [[nodiscard]] KeyTree* find(std::string_view key);
    /// The member `key` of an object, made (as null) when absent. A null becomes an object first.
    KeyTree& at_or_add(std::string_view key);
    void remove(std::string_view key);
    /// For messages: "a string ('abc')", "a negative integer (-4)", "an object", "null", ...;
    /// long strings are cut and control characters escaped.
    [[nodiscard]] std::string describe() const;

    friend bool operator==(const KeyTree&, const KeyTree&) = default;

private:
    Kind kind_ = Kind::null;
    std::int64_t integer_ = 0;
    double number_ = 0;
    std::string text_;
    std::vector<KeyTree> items_;
    std::vector<Member> members_;
};

/// What a reader accepts at most; a larger input is an error, not a slow run.
struct ReadLimits {
    std::size_t bytes = std::size_t{64} << 20;
    std::size_t depth = 200;
    std::size_t values = 2'000'000;  ///< bounds the memory of a tree
};

/// What to do with a key that stands twice in one object.
enum class DuplicateKeys {
    refuse,      ///< an error that names the key (our own files)
    last_wins,   ///< as Python's json reads it (files of others); so are Infinity and NaN, as null
    keep,        ///< all of them stay in the tree: `read_spec` reports them among its errors
};

/// Parses one JSON document (UTF-8, a BOM is skipped; UTF-16 is refused by name). Syntax errors say
/// line and column. `file` only labels diagnostics.
[[nodiscard]] Result<KeyTree> parse_json(std::string_view text, std::string_view file,
                                         DuplicateKeys duplicates = DuplicateKeys::refuse,
                                         ReadLimits limits = {});

/// Reads a whole file, or standard input for "-". The error says why (absent, a directory,
/// unreadable, too large).
[[nodiscard]] Result<std::string> read_text(const std::string& path, ReadLimits limits = {});

// --- the spec -----------------------------------------------------------------------------------

/// An element of a spec that is a name, with the place where it stands.
struct NamedAt {
    std::string name;
    std::string pointer;
};

/// `model`: exactly one of `config`, `name`, `family`, `parameters`.
struct ModelSpec {
    std::optional<std::string> config;        ///< path of a config.json, relative to the spec
    std::optional<KeyTree> config_tree;       ///< the config itself, when it was read already
    std::optional<NamedAt> architecture;      ///< overrides the config's `architectures`
    std::optional<NamedAt> name;              ///< a catalogue name
    std::optional<NamedAt> family;            ///< with the family's config keys beside it
    KeyTree family_config;                    ///< those keys, when `family` is given
    std::optional<std::int64_t> parameters;   ///< a bare count: no architecture
    std::vector<NamedAt> weights;             ///< paths of weight files to check, relative to the spec
};

/// `training.precision`: a row's name, and fields that override it.
struct PrecisionSpec {
    std::optional<NamedAt> scheme;
    std::optional<NamedAt> parameters;      ///< dtype in which the model holds its weights
    std::optional<NamedAt> gradients;       ///< dtype of accumulated gradients
    std::optional<NamedAt> master_weights;  ///< dtype, or "none"
    std::optional<NamedAt> compute;         ///< dtype of matrix multiplications
};

/// `training.optimizer`.
struct OptimizerSpec {
    std::optional<NamedAt> row;
    std::optional<NamedAt> implementation;                  ///< "for-loop" | "foreach" | "fused"
    std::vector<std::pair<std::string, NamedAt>> states;    ///< slot -> dtype
    std::vector<std::pair<std::string, KeyTree>> options;   ///< of the row: "rank": 128, ...
    std::optional<bool> clip;                               ///< clip the gradient norm
    std::optional<bool> in_backward;
    std::optional<NamedAt> ema;                             ///< dtype of an EMA copy, or "none"
};

/// `training.activation_checkpointing`.
struct CheckpointingSpec {
    std::optional<NamedAt> mode;              ///< "none" | "full"
    std::optional<std::int64_t> every;        ///< checkpoint every n-th block
    std::optional<std::int64_t> first;        ///< checkpoint only the first n blocks
    std::optional<bool> reentrant;
    std::optional<bool> offload;              ///< checkpointed inputs go to the host
};

/// `training.loss`: a name, or an object.
struct LossSpec {
    std::optional<NamedAt> row;
    std::optional<std::int64_t> chunks;       ///< pieces of the sequence
};

/// `training.kernels`: which implementation computes an op; rows of the kernels table.
struct KernelsSpec {
    std::vector<std::pair<std::string, NamedAt>> choices;  ///< op -> kernel
};

/// `training.lora`: the keys of PEFT's adapter_config.json, under its names or shorter ones.
struct LoraSpec {
    std::optional<std::string> adapter_config;  ///< path of an adapter_config.json
    std::optional<std::int64_t> rank;
    std::optional<std::int64_t> alpha;
    std::optional<double> dropout;
    std::vector<NamedAt> target_modules;        ///< module names, or the one word "all-linear"
    std::optional<NamedAt> target_pattern;      ///< `target_modules` as a regular expression
    std::vector<NamedAt> target_parameters;     ///< parameters, such as "experts.down_proj"
    std::vector<NamedAt> exclude_modules;
    std::optional<NamedAt> exclude_pattern;
    std::vector<NamedAt> modules_to_save;
    std::vector<std::int64_t> layers_to_transform;
    std::vector<NamedAt> layers_pattern;
    std::vector<std::pair<std::string, std::int64_t>> rank_pattern;  ///< regular expression -> rank
    std::optional<bool> dora;
    std::optional<bool> rslora;
    std::optional<bool> lora_bias;
    std::optional<NamedAt> bias;                ///< "none" | "all" | "lora_only"
    std::optional<NamedAt> task_type;           ///< PEFT's, such as "SEQ_CLS"
    std::optional<NamedAt> dtype;
    std::optional<bool> autocast_adapter_dtype; ///< adapters of 16-bit models in fp32; PEFT's default
    std::optional<bool> input_gradients;        ///< `enable_input_require_grads`
};

/// `training.quantization`.
struct QuantizationSpec {
    std::optional<NamedAt> row;                 ///< a quantization, or "none"
    std::optional<bool> double_quant;
    std::optional<std::int64_t> block_size;
    std::optional<std::int64_t> group_size;
    std::optional<NamedAt> compute;             ///< dtype into which weights are dequantized
    std::optional<std::vector<NamedAt>> skip_modules;
    std::optional<bool> prepare;                ///< `prepare_model_for_kbit_training`
};

/// `training.image_size`: pixels.
struct ImageSize {
    std::int64_t height = 0, width = 0;
};

/// `training`.
struct TrainingSpec {
    std::optional<NamedAt> framework;
    PrecisionSpec precision;
    OptimizerSpec optimizer;
    std::optional<std::int64_t> micro_batch_size;
    std::optional<std::int64_t> gradient_accumulation_steps;
    std::optional<std::int64_t> global_batch_size;
    std::optional<std::int64_t> sequence_length;
    std::optional<std::int64_t> target_length;
    std::optional<std::int64_t> images;
    std::optional<ImageSize> image_size;       ///< for models that take images of any size
    std::optional<bool> padding_mask;
    std::optional<bool> keep_logits;           ///< the outputs object stays alive during backward
    std::optional<bool> use_cache;             ///< the outputs hold the keys and values of a decoder
    std::optional<bool> carry_outputs;         ///< the loop refers to outputs until the next are there
    std::optional<NamedAt> step;               ///< "steady" | "first"
    std::optional<NamedAt> zero_grad;          ///< "set_to_none" | "zero"
    CheckpointingSpec activation_checkpointing;
    std::optional<NamedAt> attention;
    LossSpec loss;
    KernelsSpec kernels;
    std::optional<double> dropout;             ///< overrides the config's probabilities
    std::optional<LoraSpec> lora;
    std::vector<NamedAt> freeze;               ///< patterns of parameter names
    QuantizationSpec quantization;
    std::vector<std::pair<std::string, NamedAt>> offload;  ///< term -> "host"
    std::optional<double> moe_imbalance;
};

/// `parallelism`.
struct ParallelismSpec {
    std::optional<std::int64_t> data;
    std::optional<std::int64_t> replicate;
    std::optional<std::int64_t> shard;
    std::optional<NamedAt> sharding;
    std::optional<std::int64_t> tensor, pipeline, context, expert;
    std::optional<bool> sequence_parallel;
    std::optional<NamedAt> schedule;
};

/// The first components that a term's path may have.
inline constexpr std::array<std::string_view, 10> kTermGroups{
    "parameters",    "gradients", "optimizer_states", "activations", "temporaries",
    "communication", "workspace", "allocator",        "outside",     "padding"};

/// One entry of `terms`: bytes that the user states instead of having them derived.
struct StatedTerm {
    std::string path;
    std::string pointer;
    Bytes bytes;
    std::optional<Bytes> lower, upper;
    std::vector<NamedAt> phases;                          ///< empty: the term's default phases
    std::optional<std::int64_t> at_micro_batch_size;      ///< the shape for which it was stated
    std::optional<std::int64_t> at_sequence_length;
};

/// `device`.
struct DeviceSpec {
    std::optional<NamedAt> name;
    std::optional<Bytes> memory;
    std::optional<Bytes> reserve;
};

/// One entry of `scenarios`: an RFC 7396 merge patch of the document that holds it.
struct ScenarioSpec {
    std::string name;
    KeyTree patch;
};

/// A training job as the user described it. What was not said is absent here; `job` fills it in and
/// records the default as an assumption.
struct Spec {
    std::string file;  ///< as the user named it; paths in the spec are relative to its folder
    std::optional<std::string> name;
    ModelSpec model;
    TrainingSpec training;
    ParallelismSpec parallelism;
    std::vector<StatedTerm> terms;
    DeviceSpec device;
    /// By name; one text for all of them, as PYTORCH_ALLOC_CONF has it, stands under the empty name.
    std::vector<std::pair<std::string, KeyTree>> allocator;
    std::vector<ScenarioSpec> scenarios;
};

/// Reads the spec in `tree`; every mistake of shape in one run, in the order of the document.
/// Keys that `parse_json` kept twice are among them. Another version of the format is `unsupported`
/// and then the only diagnostic. Counts may be written 8, 8.0 or 8e0: what JSON calls one number.
[[nodiscard]] Result<Spec> read_spec(const KeyTree& tree, std::string_view file);

/// Reads PEFT's adapter_config.json (`peft_type` LORA): the keys that decide about memory. What it
/// knows and this program does not model is `unsupported`.
[[nodiscard]] Result<LoraSpec> read_adapter_config(const KeyTree& tree, std::string_view file);

/// What a document is, by its content.
enum class InputKind { spec, model_config, unknown };
[[nodiscard]] InputKind recognise(const KeyTree& tree);

/// One key of the spec, for the generated reference, the JSON schema and completion.
struct SpecKey {
    std::string pointer;   ///< "/training/optimizer/name"
    std::string type;      ///< "positive integer", "name", "size", ...
    std::string doc;
};
[[nodiscard]] std::vector<SpecKey> spec_keys();

}  // namespace membudget
