#include "spec/fields.hpp"

/// Every key of a spec but those of `model` and `terms`.

namespace membudget {

namespace {

constexpr Field<PrecisionSpec> kPrecisionFields[] = {
    field::name<&PrecisionSpec::scheme>("name", "precision scheme that the other keys change"),
    field::name<&PrecisionSpec::parameters>("parameters", "dtype in which the model holds weights"),
    field::name<&PrecisionSpec::gradients>("gradients", "dtype of accumulated gradients"),
    field::name<&PrecisionSpec::master_weights>(
        "master_weights", "dtype of the copy that the optimizer updates, or 'none'"),
    field::name<&PrecisionSpec::compute>("compute", "dtype of matrix multiplications"),
};

/// What a state slot may say about itself.
struct StateFields {
    std::optional<NamedAt> dtype;
};
constexpr Field<StateFields> kStateFields[] = {
    field::name<&StateFields::dtype>("dtype", "dtype of the slot"),
};

void read_states(const Cursor& at, OptimizerSpec& into) {
    if (!at.tree.is(KeyTree::Kind::object)) return at.wrong("an object of state slots");
    for_each_member(at, [&into](const Cursor& child, std::string_view slot) {
        StateFields state;
        if (child.tree.is(KeyTree::Kind::string))
            state.dtype = read_name(child);
        else
            read_object(child, table(kStateFields), state, "a dtype or an object with one");
        if (state.dtype) into.states.emplace_back(slot, *std::move(state.dtype));
    });
}

void state_keys(std::string_view pointer, std::vector<SpecKey>& out) {
    append_keys(pointer_child(pointer, "SLOT"), table(kStateFields), out);
}

void read_options(const Cursor& at, OptimizerSpec& into) {
    if (!at.tree.is(KeyTree::Kind::object)) return at.wrong("an object of integers");
    for_each_member(at, [&into](const Cursor& child, std::string_view option) {
        if (const auto value = exact_integer(child.tree))
            into.options.emplace_back(option, KeyTree(*value));
        else
            child.wrong("an integer");
    });
}

/// The norm itself decides no byte: whether there is one does.
void read_clip(const Cursor& at, OptimizerSpec& into) {
    const bool number = at.tree.is(KeyTree::Kind::integer) || at.tree.is(KeyTree::Kind::number);
    if (at.tree.is(KeyTree::Kind::boolean))
        into.clip = at.tree.boolean();
    else if (number && at.tree.number() > 0)
        into.clip = true;
    else
        at.wrong("true, false or a positive norm");
}

constexpr Field<OptimizerSpec> kOptimizerFields[] = {
    field::name<&OptimizerSpec::row>("name", "optimizer"),
    field::name<&OptimizerSpec::implementation>("implementation",
                                                "how a step is run: for-loop, foreach, fused"),
    {"states", "object", "state slots whose dtype differs from the optimizer's own", read_states,
     state_keys},
    {"options", "object of integers", "options of the optimizer, such as its rank", read_options},
    {"clip", "true, false or number", "the norm of the gradients is clipped, at the number if one is given",
     read_clip},
    field::flag<&OptimizerSpec::in_backward>(
        "in_backward", "each gradient is applied and freed as backward makes it"),
    field::name<&OptimizerSpec::ema>("ema", "dtype of a moving average of the weights, or 'none'"),
};

constexpr Field<CheckpointingSpec> kCheckpointingFields[] = {
    field::name<&CheckpointingSpec::mode>("mode", "none or full"),
    field::count<&CheckpointingSpec::every>("every", "checkpoint every n-th block"),
    field::count<&CheckpointingSpec::first>("first", "checkpoint only the first n blocks"),
    field::flag<&CheckpointingSpec::reentrant>("reentrant", "the framework's reentrant variant"),
    field::flag<&CheckpointingSpec::offload>("offload", "checkpointed inputs move to the host"),
};

constexpr Field<LossSpec> kLossFields[] = {
    field::name<&LossSpec::row>("name", "loss kernel"),
    field::count<&LossSpec::chunks>("chunks", "pieces of the sequence in which a chunked loss is computed"),
};

/// An empty list means that none is skipped.
void read_skipped(const Cursor& at, QuantizationSpec& into) {
    const bool none = at.tree.is(KeyTree::Kind::array) && at.tree.items().empty();
    into.skip_modules = none ? std::vector<NamedAt>() : read_names(at);
}

constexpr Field<QuantizationSpec> kQuantizationFields[] = {
    field::name<&QuantizationSpec::row>("type", "quantization, or 'none'"),
    field::flag<&QuantizationSpec::double_quant>("double_quant", "the scales are quantized too (nf4, fp4)"),
    field::count<&QuantizationSpec::block_size>("block_size", "weights that share a scale (nf4, fp4: 64)"),
    field::count<&QuantizationSpec::group_size>("group_size", "inputs that share a scale (gptq, awq: 128)"),
    field::name<&QuantizationSpec::compute>("compute", "dtype into which weights are dequantized"),
    {"skip_modules", "list of names", "modules that stay as they are, instead of the output embedding, tied "
     "modules and the last one; [] for none", read_skipped},
    field::flag<&QuantizationSpec::prepare>(
        "prepare", "what is left in 16 bits becomes fp32 (prepare_model_for_kbit_training)"),
};

/// One number is the side of a square.
void read_image_size(const Cursor& at, TrainingSpec& into) {
    constexpr std::int64_t kLargest = 1 << 14;  // attention is simulated window by window
    if (!at.tree.is(KeyTree::Kind::array)) {
        if (const auto side = read_integer(at, 1, kLargest)) into.image_size = {*side, *side};
        return;
    }
    if (at.tree.items().size() != 2) return at.wrong("a positive integer, or a list of height and width");
    const auto side = [&](std::size_t i) { return read_integer(at.child(i, at.tree.items()[i]), 1, kLargest); };
    const auto height = side(0), width = side(1);
    if (height && width) into.image_size = {*height, *width};
}

void read_kernels(const Cursor& at, TrainingSpec& into) {
    field::name_by_key<&KernelsSpec::choices>("", "").read(at, into.kernels);
}

constexpr Field<TrainingSpec> kTrainingFields[] = {
    field::name<&TrainingSpec::framework>("framework", "preset of defaults"),
    field::name_or_object<&TrainingSpec::precision, &PrecisionSpec::scheme, kPrecisionFields>(
        "precision", "precision scheme"),
    field::name_or_object<&TrainingSpec::optimizer, &OptimizerSpec::row, kOptimizerFields>(
        "optimizer", "optimizer"),
    field::count<&TrainingSpec::micro_batch_size>(
        "micro_batch_size", "sequences or images of one forward pass on one rank"),
    field::count<&TrainingSpec::gradient_accumulation_steps>(
        "gradient_accumulation_steps", "forward and backward passes per optimizer step"),
    field::count<&TrainingSpec::global_batch_size>(
        "global_batch_size", "sequences or images per optimizer step, over all ranks"),
    field::count<&TrainingSpec::sequence_length>("sequence_length", "tokens per sequence"),
    field::count<&TrainingSpec::target_length>("target_length",
                                               "tokens per target of an encoder-decoder"),
    field::count_or_zero<&TrainingSpec::images>("images", "images per sequence"),
    {"image_size", "positive integer, or a list of two",
     "height and width of the images in pixels, for models that take images of any size", read_image_size},
    field::flag<&TrainingSpec::padding_mask>("padding_mask", "batches hold padding"),
    field::flag<&TrainingSpec::keep_logits>("keep_logits",
                                            "the model's outputs stay alive during backward"),
    field::flag<&TrainingSpec::use_cache>("use_cache",
                                          "a decoder's outputs hold its keys and values"),
    field::flag<&TrainingSpec::carry_outputs>(
        "carry_outputs", "a step's outputs live until the next forward has made its own"),
    field::name<&TrainingSpec::step>("step", "which step is estimated: steady or first"),
    field::name<&TrainingSpec::zero_grad>("zero_grad",
                                          "how gradients are cleared: set_to_none or zero"),
    field::name_or_object<&TrainingSpec::activation_checkpointing, &CheckpointingSpec::mode,
                          kCheckpointingFields>("activation_checkpointing",
                                                "which activations are recomputed"),
    field::name<&TrainingSpec::attention>("attention", "attention kernel"),
    field::name_or_object<&TrainingSpec::loss, &LossSpec::row, kLossFields>("loss", "loss kernel"),
    {"kernels", "object of names", "kernel by op", read_kernels},
    field::real<&TrainingSpec::dropout, 0, 1>("dropout", "number from 0 to 1",
                                              "replaces the model's own probabilities"),
    {"lora", "object or path", "low-rank adapters, or an adapter_config.json that describes them", read_lora,
     lora_keys},
    field::names<&TrainingSpec::freeze>(
        "freeze", "modules or parameters that are not trained: path, suffix after a dot, or text with *; "
                  "after ! they are"),
    field::name_or_object<&TrainingSpec::quantization, &QuantizationSpec::row, kQuantizationFields>(
        "quantization", "how the frozen weights of linear modules are stored"),
    field::name_by_key<&TrainingSpec::offload>("offload", "'host' for optimizer_states, and for gradients beside them"),
    field::real<&TrainingSpec::moe_imbalance, 1, 1'000'000>(
        "moe_imbalance", "number from 1", "tokens of the busiest expert over their mean"),
};

constexpr Field<ParallelismSpec> kDataFields[] = {
    field::count<&ParallelismSpec::replicate>("replicate", "copies of the model"),
    field::count<&ParallelismSpec::shard>("shard", "ranks over which a copy is sharded"),
};

void read_data(const Cursor& at, ParallelismSpec& into) {
    if (at.tree.is(KeyTree::Kind::object))
        read_object(at, table(kDataFields), into);
    else
        into.data = read_integer(at, 1, kLargestSize);
}

constexpr Field<ParallelismSpec> kParallelismFields[] = {
    {"data", "positive integer or object", "data-parallel ranks", read_data,
     detail::keys_below<kDataFields>},
    field::name<&ParallelismSpec::sharding>("sharding", "what data-parallel ranks divide"),
    field::count<&ParallelismSpec::tensor>("tensor", "tensor-parallel degree"),
    field::flag<&ParallelismSpec::sequence_parallel>(
        "sequence_parallel", "tensor-parallel ranks divide the sequence between matrix products"),
    field::count<&ParallelismSpec::pipeline>("pipeline", "pipeline stages"),
    field::name<&ParallelismSpec::schedule>("schedule", "pipeline schedule"),
    field::count<&ParallelismSpec::context>("context", "context-parallel degree"),
    field::count<&ParallelismSpec::expert>("expert", "expert-parallel degree"),
};

constexpr Field<DeviceSpec> kDeviceFields[] = {
    field::name<&DeviceSpec::name>("name", "device"),
    field::size<&DeviceSpec::memory>("memory", "its memory"),
    field::size<&DeviceSpec::reserve>("reserve", "bytes of it that the job must leave free"),
};

void read_scenarios(const Cursor& at, Spec& into) {
    if (!at.tree.is(KeyTree::Kind::object)) return at.wrong("an object of merge patches");
    for_each_member(at, [&into](const Cursor& child, std::string_view key) {
        const KeyTree name(key);
        if (!read_text_value({name, child.pointer, child.errors}, "a scenario's name")) return;
        if (!child.tree.is(KeyTree::Kind::object))
            return child.wrong("a merge patch, which is an object");
        if (const KeyTree* inner = child.tree.find("scenarios"))
            child.child("scenarios", *inner).wrong("a scenario without scenarios of its own");
        into.scenarios.push_back({std::string(key), read_tree(child)});
    });
}

/// The version decides whether anything else is read at all, so it was checked before.
void read_version(const Cursor& at, Spec&) {
    if (!exact_integer(at.tree)) at.wrong("the integer 1, the version of the format");
}

constexpr Field<Spec> kSpecFields[] = {
    {"membudget", "the integer 1", "version of the format", read_version},
    field::text<&Spec::name>("name", "title of the report"),
    {"model", "object", "what is trained: one of config, name, family, parameters", read_model,
     model_keys},
    field::object<&Spec::training, kTrainingFields>("training", "how it is trained"),
    field::object<&Spec::parallelism, kParallelismFields>("parallelism", "over how many ranks"),
    {"terms", "object", "bytes that are stated instead of derived, by path", read_terms, term_keys},
    field::name_or_object<&Spec::device, &DeviceSpec::name, kDeviceFields>(
        "device", "what one rank runs on"),
    field::tree_by_key_or_text<&Spec::allocator>(
        "allocator", "settings of the caching allocator, by name, or as PYTORCH_ALLOC_CONF has them"),
    {"scenarios", "object of merge patches", "named changes of this spec (RFC 7396)",
     read_scenarios},
};

}  // namespace

FieldTable<Spec> spec_fields() { return kSpecFields; }

}  // namespace membudget
