// Spec -> Job: names become rows, defaults are filled in with their provenance, and what the numbers
// must agree on is checked. Mistakes are collected; a value that is wrong is replaced by its default
// so that the rest can be checked too.

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "job/resolver.hpp"

namespace membudget {

namespace {

/// Chooses between a micro-batch, its accumulation and a global batch: any two give the third.
struct Batch {
    std::int64_t micro = 1;
    std::int64_t steps = 1;
    std::int64_t global = 1;
};

}  // namespace

Resolver::Resolver(const Spec& spec, const ResolveInputs& inputs) : spec_(spec), inputs_(inputs) {}

Result<Job> Resolver::run() {
    job_.name = spec_.name.value_or("");
    model();
    parallelism();
    precision();
    adapt();
    check_simulated();
    drop_long_windows();
    leave_unused();
    optimizer();
    shape();
    checkpointing();
    recompute_cost();
    kernels();
    experts();
    options();
    offload();
    stated_terms();
    device();
    allocator();
    unsupported();
    if (!problems_.empty()) {
        problems_.set_file(spec_.file);
        return problems_;
    }
    return std::move(job_);
}

void Resolver::assume(std::string id, std::string text, std::string_view source) {
    job_.assumptions.push_back({std::move(id), std::move(text), std::string(source)});
}

void Resolver::warn(std::string id, std::string text) {
    job_.warnings.push_back({std::move(id), std::move(text)});
}

bool Resolver::find_config() {
    const ModelSpec& model = spec_.model;
    if (model.family) {
        const Family* row =
            find_row(families(), model.family->name, model.family->pointer, "a model family", "families");
        if (row == nullptr) return false;
        own_config_ = model.family_config;
        own_config_.at_or_add("model_type") = KeyTree(model.family->name);
        config_ = &own_config_;
        Diagnostics unknown = unknown_keys(*row, model.family_config);
        unknown.prefix_pointers("/model");
        problems_.take(std::move(unknown));
    } else if (inputs_.config != nullptr) {
        config_ = inputs_.config.get();
    } else if (model.name) {
        const CatalogueModel* row = find_row(catalogue(), model.name->name, model.name->pointer,
                                             "a model of the catalogue", "models");
        if (row == nullptr) return false;
        own_config_ = row->config();
        config_ = &own_config_;
    }
    return true;
}

std::shared_ptr<const Model> Resolver::build() {
    if (!find_config() || config_ == nullptr) return nullptr;
    if (inputs_.model != nullptr) return inputs_.model;
    Result<Model> built =
        build_model(*config_, spec_.model.architecture ? std::string_view(spec_.model.architecture->name) : "");
    if (built) return std::make_shared<const Model>(std::move(built).value());
    const bool in_file = config_ != &own_config_;
    Diagnostics why = built.errors();
    if (!in_file) why.prefix_pointers("/model");
    why.set_file(in_file ? inputs_.config_file : spec_.file);
    problems_.take(std::move(why));
    return nullptr;
}

void Resolver::model() {
    if (spec_.model.parameters) {
        job_.anonymous_parameters = *spec_.model.parameters;
        return;
    }
    job_.model = job_.unadapted = build();
    if (job_.model == nullptr) return;
    for (const std::string& note : job_.model->notes) assume("model.config", note, job_.model->source);
}

void Resolver::check_simulated() {
    if (job_.model == nullptr) return;
    if (problems_.empty() && count_parameters(*job_.model).trainable.count() == 0)
        problems_.invalid("/training", "expected something to train; got every parameter frozen",
                          "a quantized base is frozen: add \"lora\"");
    if (job_.model->step_unsupported.empty()) return;
    const std::string_view alone = config_ != nullptr ? language_model_class(*config_) : std::string_view();
    std::string hint =
        !alone.empty() && alone != job_.model->architecture
            ? fmt::format("its language model alone: --architecture {}", alone)
            : fmt::format("`membudget inspect` lists its parameters; a spec with \"model\": {{\"parameters\": {}}} and "
                          "the activations as a stated term estimates the rest",
                          count_parameters(*job_.model).total.count());
    problems_.unsupported("/model", fmt::format("the training step of {} is not simulated: {}", job_.model->architecture,
                                                job_.model->step_unsupported),
                          std::move(hint));
}

Result<Model> Resolver::only_model() {
    job_.model = build();
    if (job_.model != nullptr && asks_for_adaptation()) {
        parallelism();
        precision();
        adapt();
        if (problems_.empty()) {
            Model adapted = *job_.model;
            // What has no type of its own is held as the precision says, not as the file was published.
            if (spec_.training.precision.scheme || spec_.training.precision.parameters)
                adapted.facts.torch_dtype = job_.precision.parameters == &dtype::bf16   ? "bfloat16"
                                            : job_.precision.parameters == &dtype::fp16 ? "float16"
                                                                                        : "float32";
            return adapted;
        }
    } else if (job_.model != nullptr && problems_.empty()) {
        return *job_.model;
    }
    if (problems_.empty())
        problems_.invalid("/model", "expected a model with an architecture; got " +
                                        std::string(spec_.model.parameters
                                                        ? "a bare count of parameters"
                                                        : "none"));
    problems_.set_file(spec_.file);
    return problems_;
}

void Resolver::parallelism() {
    const ParallelismSpec& spec = spec_.parallelism;
    DataParallel& data = job_.data;
    std::string_view name = "none";
    const std::int64_t ranks =
        spec.data.value_or(spec.replicate.value_or(1) * spec.shard.value_or(1));
    if (spec.sharding) {
        name = spec.sharding->name;
    } else if (ranks > 1) {
        name = "ddp";
        assume("parallelism.sharding",
               fmt::format("{} data-parallel ranks without parallelism.sharding: replicated with DDP",
                           ranks),
               "torch.nn.parallel.DistributedDataParallel");
    }
    data.sharding = find_row(shardings(), name, spec.sharding ? spec.sharding->pointer : "",
                             "a sharding of data parallelism", "shardings");
    if (data.sharding == nullptr) data.sharding = shardings().find("none");
    const bool shards = data.sharding->parameters != Partition::whole ||
                        data.sharding->gradients != Partition::whole ||
                        data.sharding->states != Partition::whole;
    if (spec.replicate || spec.shard) {
        data.replicate = spec.replicate.value_or(1);
        data.shard = spec.shard.value_or(1);
        if (!shards && data.shard > 1)
            problems_.invalid("/parallelism/data/shard",
                              fmt::format("expected 1 with sharding '{}', which shards nothing; got {}",
                                          data.sharding->name, data.shard),
                              "choose parallelism.sharding, such as 'fsdp2' or 'zero1'");
    } else if (shards) {
        data.shard = ranks;
    } else {
        data.replicate = ranks;
    }
}

void Resolver::precision() {
    const PrecisionSpec& spec = spec_.training.precision;
    const std::string_view name = spec.scheme ? std::string_view(spec.scheme->name) : "fp32";
    const Precision* row = find_row(precisions(), name, spec.scheme ? spec.scheme->pointer : "",
                                    "a precision scheme", "precisions");
    if (row == nullptr) row = precisions().find("fp32");
    job_.precision = *row;
    if (!spec.scheme)
        assume("training.precision", "training.precision is not given: fp32 throughout",
               "PyTorch's default");
    const auto override_with = [&](const std::optional<NamedAt>& given, const Dtype*& field,
                                   bool may_be_none) {
        if (!given) return;
        if (may_be_none && given->name == "none") {
            field = nullptr;
            return;
        }
        if (const Dtype* type = find_row(dtypes(), given->name, given->pointer, "an element type", "dtypes"))
            field = type;
    };
    Precision& chosen = job_.precision;
    override_with(spec.parameters, chosen.parameters, false);
    override_with(spec.gradients, chosen.gradients, false);
    override_with(spec.master_weights, chosen.master_weights, true);
    override_with(spec.compute, chosen.autocast, true);
    if (chosen.gathered != nullptr && !(job_.data.shard > 1 && job_.data.sharding->gathers_parameters))
        problems_.invalid(spec.scheme ? spec.scheme->pointer : "/training/precision",
                          fmt::format("precision '{}' needs sharding that gathers parameters over more than "
                                      "one rank; got '{}' over {}", chosen.name, job_.data.sharding->name,
                                      job_.data.shard),
                          "set parallelism.sharding to 'fsdp2' and parallelism.data, or choose "
                          "'bf16-autocast'");
}

void Resolver::optimizer() {
    const OptimizerSpec& spec = spec_.training.optimizer;
    JobOptimizer& out = job_.optimizer;
    const std::string_view name = spec.row ? std::string_view(spec.row->name) : "adamw";
    out.row = find_row(optimizers(), name, spec.row ? spec.row->pointer : "", "an optimizer", "optimizers");
    if (out.row == nullptr) out.row = optimizers().find("adamw");
    if (!spec.row)
        assume("training.optimizer", "training.optimizer is not given: AdamW", "the most used one");
    std::optional<NamedAt> implementation = spec.implementation;
    // CPUOffloadOptimizer asks torch's AdamW for its fused step [torchao optim/cpu_offload.py].
    if (!implementation && offloads_states() && out.row->name == "adamw") implementation = NamedAt{"fused", ""};
    out.implementation = implementation_of(*out.row, implementation);
    out.options.assign(out.row->options.begin(), out.row->options.end());
    for (const auto& [key, value] : spec.options) optimizer_option(key, value);
    out.slot_dtypes.assign(out.row->slots.size(), nullptr);
    for (const auto& [slot, type] : spec.states) optimizer_slot(slot, type);
    if (!out.row->fallback.empty()) {
        out.fallback = optimizers().find(out.row->fallback);
        MEMBUDGET_ENSURE(out.fallback != nullptr, "an optimizer's fallback is no row");
        for (const OptimizerImplementation& one : out.fallback->implementations)
            if (out.fallback_implementation == nullptr || one.name == out.row->fallback_implementation)
                out.fallback_implementation = &one;
    }
    if (out.row->paged)
        assume("training.optimizer.paged",
               fmt::format("large states of {} live in unified memory, outside the caching allocator: they "
                           "are in no total here", out.row->name),
               out.row->source);
    out.clip = spec.clip.value_or(false);
    out.in_backward = spec.in_backward.value_or(out.row->fused_in_backward);
    if (spec.ema && spec.ema->name != "none")
        out.ema = find_row(dtypes(), spec.ema->name, spec.ema->pointer, "an element type", "dtypes");
}

const OptimizerImplementation* Resolver::implementation_of(const Optimizer& row,
                                                           const std::optional<NamedAt>& given) {
    const auto all = row.implementations;
    if (all.empty()) return nullptr;
    if (!given) {
        if (all.size() > 1 && job_.model != nullptr)
            assume("training.optimizer.implementation",
                   fmt::format("{} runs its '{}' implementation", row.name, all.front().name),
                   all.front().source);
        return &all.front();
    }
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const auto& one) { return one.name == given->name; });
    if (found != all.end()) return &*found;
    std::vector<std::string_view> names;
    for (const auto& one : all) names.push_back(one.name);
    problems_.invalid(given->pointer,
                      fmt::format("expected an implementation of {} ({}); got '{}'", row.name,
                                  fmt::join(names, ", "), given->name),
                      did_you_mean(given->name, names));
    return &all.front();
}

void Resolver::optimizer_option(const std::string& key, const KeyTree& value) {
    const std::string pointer = pointer_child("/training/optimizer/options", key);
    for (OptimizerOption& option : job_.optimizer.options) {
        if (option.name != key) continue;
        if (value.is(KeyTree::Kind::integer) && value.integer() > 0)
            option.value = value.integer();
        else
            problems_.invalid(pointer, "expected a positive integer; got " + value.describe());
        return;
    }
    std::vector<std::string_view> names;
    for (const OptimizerOption& option : job_.optimizer.options) names.push_back(option.name);
    problems_.invalid(pointer,
                      names.empty() ? fmt::format("optimizer '{}' has no options", job_.optimizer.row->name)
                                    : fmt::format("expected an option of '{}' ({})",
                                                  job_.optimizer.row->name, fmt::join(names, ", ")),
                      did_you_mean(key, names));
}

void Resolver::optimizer_slot(const std::string& slot, const NamedAt& type) {
    const Optimizer& row = *job_.optimizer.row;
    const Dtype* dtype = find_row(dtypes(), type.name, type.pointer, "an element type", "dtypes");
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < row.slots.size(); ++i) {
        names.push_back(row.slots[i].name);
        if (row.slots[i].name != slot) continue;
        job_.optimizer.slot_dtypes[i] = dtype;
        return;
    }
    problems_.invalid(pointer_child("/training/optimizer/states", slot),
                      names.empty() ? fmt::format("optimizer '{}' keeps no states", row.name)
                                    : fmt::format("expected a state of '{}' ({})", row.name,
                                                  fmt::join(names, ", ")),
                      did_you_mean(slot, names));
}

void Resolver::shape() {
    const TrainingSpec& t = spec_.training;
    Batch batch;
    const std::int64_t ranks = job_.data.ranks();
    const auto per_rank = [&](std::int64_t global) -> std::int64_t {
        if (global % ranks == 0) return global / ranks;
        problems_.invalid("/training/global_batch_size",
                          fmt::format("expected a multiple of the {} data-parallel ranks; got {}", ranks,
                                      global));
        return 1;
    };
    const auto divide = [&](std::int64_t whole, std::int64_t part, std::string_view pointer,
                            std::string_view what) -> std::int64_t {
        if (whole % part == 0 && whole >= part) return whole / part;
        problems_.invalid(pointer,
                          fmt::format("expected a divisor of the global batch per rank ({}); got {} {}",
                                      whole, part, what));
        return 1;
    };
    if (t.global_batch_size) {
        const std::int64_t whole = per_rank(*t.global_batch_size);
        if (t.micro_batch_size && t.gradient_accumulation_steps) {
            batch.micro = *t.micro_batch_size;
            batch.steps = *t.gradient_accumulation_steps;
            if (detail::checked_mul(batch.micro, batch.steps) != whole && problems_.empty())
                problems_.invalid(
                    "/training/global_batch_size",
                    fmt::format("expected micro_batch_size x gradient_accumulation_steps x data-parallel "
                                "ranks = {} x {} x {} = {}; got {}",
                                batch.micro, batch.steps, ranks,
                                detail::checked_mul(detail::checked_mul(batch.micro, batch.steps), ranks),
                                *t.global_batch_size),
                    "leave one of the three out");
        } else if (t.micro_batch_size) {
            batch.micro = *t.micro_batch_size;
            batch.steps = divide(whole, batch.micro, "/training/micro_batch_size", "sequences");
        } else if (t.gradient_accumulation_steps) {
            batch.steps = *t.gradient_accumulation_steps;
            batch.micro = divide(whole, batch.steps, "/training/gradient_accumulation_steps", "steps");
        } else {
            batch.micro = whole;
        }
    } else {
        batch.micro = t.micro_batch_size.value_or(1);
        batch.steps = t.gradient_accumulation_steps.value_or(1);
        if (!t.micro_batch_size && job_.model != nullptr)
            assume("training.micro_batch_size", "training.micro_batch_size is not given: 1", "");
    }
    batch.global = detail::checked_mul(detail::checked_mul(batch.micro, batch.steps), ranks);
    job_.micro_batches = batch.steps;
    job_.global_batch = batch.global;
    job_.extents.batch = batch.micro;
    job_.extents.padding_mask = t.padding_mask.value_or(false);
    image_size();
    images();
    std::int64_t sequence = t.sequence_length.value_or(0);
    if (job_.model != nullptr && reads_tokens(*job_.model) && sequence == 0) {
        sequence = std::min<std::int64_t>(
            job_.model->facts.max_positions > 0 ? job_.model->facts.max_positions : 2048, 8192);
        assume("training.sequence_length",
               fmt::format("training.sequence_length is not given: {} tokens (the config's "
                           "max_position_embeddings, at most 8192)", sequence),
               "the model's config");
    }
    if (const std::int64_t positions = learned_positions(); positions > 0 && sequence > positions)
        problems_.invalid("/training/sequence_length",
                          fmt::format("expected at most the {} learned positions of the model; got {}",
                                      positions, sequence));
    job_.extents.sequence = std::max<std::int64_t>(sequence, 1);
    image_tokens();
    job_.extents.target_sequence = t.target_length.value_or(job_.extents.sequence);
    // Where the encoder reads sequences of one length, a sequence length is the target's.
    if (job_.model != nullptr && job_.model->source_positions > 0)
        job_.extents.sequence = job_.model->source_positions;
}

std::int64_t Resolver::learned_positions() const {
    const bool learned = job_.model != nullptr && has_op(*job_.model, OpKind::position_embedding);
    return learned ? job_.model->facts.max_positions : 0;
}

bool Resolver::asks_for_checkpointing() const {
    const CheckpointingSpec& spec = spec_.training.activation_checkpointing;
    return spec.mode ? spec.mode->name != "none" : spec.every || spec.first;
}

/// A checkpoint moves to the host what it gets by position: the input, and other tensors that some classes
/// pass beside it, which are not simulated.
void Resolver::check_offload() {
    constexpr std::string_view kPointer = "/training/activation_checkpointing/offload";
    if (!job_.checkpointing.enabled)
        return problems_.invalid(kPointer, "expected true only where activations are checkpointed; got true and none",
                                 "set training.activation_checkpointing.mode to \"full\"");
    if (job_.model == nullptr) return;
    const auto by_position = [&](const Tensor& tensor) {
        return tensor.shared >= 0 &&
               job_.model->shared[static_cast<std::size_t>(tensor.shared)].held == Held::until_scope_end;
    };
    if (std::ranges::any_of(job_.model->blocks, [&](const Block& block) {
            return block.checkpointable && std::ranges::any_of(block.tensors, by_position);
        }))
        problems_.unsupported(kPointer, fmt::format("offloading of checkpoints of {} is not modelled yet: its layers "
                                                    "get more than their input by position",
                                                    job_.model->family));
}

void Resolver::checkpointing() {
    const CheckpointingSpec& spec = spec_.training.activation_checkpointing;
    Checkpointing& out = job_.checkpointing;
    out.enabled = asks_for_checkpointing();
    if (!spec.mode) {
        if (!out.enabled && job_.model != nullptr)
            assume("training.activation_checkpointing",
                   "training.activation_checkpointing is not given: none", "PyTorch's default");
    } else if (out.enabled && spec.mode->name != "full") {
        constexpr std::array<std::string_view, 2> kModes{"none", "full"};
        problems_.invalid(spec.mode->pointer,
                          fmt::format("expected 'none' or 'full'; got '{}'", spec.mode->name),
                          did_you_mean(spec.mode->name, kModes));
    }
    if (out.enabled && job_.model != nullptr && !job_.model->checkpointing_unsupported.empty())
        problems_.unsupported("/training/activation_checkpointing",
                              fmt::format("activation checkpointing of {} is not modelled: {}",
                                          job_.model->architecture, job_.model->checkpointing_unsupported));
    out.every = spec.every.value_or(1);
    out.first = spec.first;
    out.reentrant = spec.reentrant.value_or(false);
    out.offload = spec.offload.value_or(false);
    if (out.offload) check_offload();
    // transformers 5 hooks the embeddings of every class whose first input is `input_ids`
    // [modeling_utils.py _activation_checkpointing_enable, enable_input_require_grads].
    if (out.enabled && !spec_.training.lora && job_.model != nullptr && !job_.model->inputs.empty() &&
        job_.model->inputs.front().name == "ids")
        job_.input_gradients = true;
}

void Resolver::options() {
    const TrainingSpec& t = spec_.training;
    const auto choice = [&](const std::optional<NamedAt>& given, std::string_view yes, std::string_view no,
                            bool fallback) {
        if (!given) return fallback;
        if (given->name == yes) return true;
        if (given->name == no) return false;
        const std::array<std::string_view, 2> names{yes, no};
        problems_.invalid(given->pointer,
                          fmt::format("expected '{}' or '{}'; got '{}'", yes, no, given->name),
                          did_you_mean(given->name, names));
        return fallback;
    };
    job_.steady = choice(t.step, "steady", "first", true);
    job_.zero_grad_to_none = choice(t.zero_grad, "set_to_none", "zero", true);
    job_.keep_logits = t.keep_logits.value_or(false);
    // The classes turn the cache off where layers are checkpointed.
    job_.use_cache = t.use_cache.value_or(false) && !job_.checkpointing.enabled;
    job_.carry_outputs = t.carry_outputs.value_or(false);
    if (t.dropout) job_.dropout_override = *t.dropout;
    if (job_.model != nullptr) {
        if (!t.keep_logits)
            assume("training.keep_logits",
                   "the model's outputs are not referenced after the loss is computed, so the logits "
                   "are freed before backward",
                   "transformers Trainer.compute_loss; a loop that keeps `outputs` adds them");
        if (!t.step)
            assume("training.step", "a steady step: optimizer states exist from the step before", "");
    }
    if (job_.optimizer.in_backward && job_.micro_batches > 1)
        problems_.invalid("/training/gradient_accumulation_steps",
                          fmt::format("expected 1 with an optimizer that runs in backward; got {}",
                                      job_.micro_batches),
                          "gradients are consumed as they appear, so they cannot accumulate");
    if (job_.optimizer.in_backward && job_.optimizer.clip)
        problems_.invalid("/training/optimizer/clip", "expected no clipping with an optimizer that runs in backward",
                          "gradients are consumed before the norm of all is known");
}

Result<Job> resolve(const Spec& spec, const ResolveInputs& inputs) {
    return Resolver(spec, inputs).run();
}

Result<Model> resolve_model(const Spec& spec, const ResolveInputs& inputs) {
    return Resolver(spec, inputs).only_model();
}

}  // namespace membudget
