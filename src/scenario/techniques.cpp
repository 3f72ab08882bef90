#include <algorithm>
#include <string>
#include <utility>

#include "membudget/scenario.hpp"

namespace membudget {
namespace {

constexpr unsigned bit(Phase phase) { return 1U << static_cast<unsigned>(phase); }
constexpr unsigned kWholeStep = 0b1111;
constexpr unsigned kActivationsLive = bit(Phase::forward) | bit(Phase::loss) | bit(Phase::backward);
constexpr unsigned kGradientsLive = bit(Phase::backward) | bit(Phase::optimizer_step);

using Patch = std::optional<KeyTree>;

// --- reading a knob ------------------------------------------------------------------------------

/// The name in a knob that is a name or an object with `key`; empty when there is none.
std::string_view name_in(const KeyTree* knob, std::string_view key = "name") {
    if (knob != nullptr && knob->is(KeyTree::Kind::object)) knob = knob->find(key);
    return knob != nullptr && knob->is(KeyTree::Kind::string) ? std::string_view(knob->text()) : "";
}

std::int64_t count_in(const KeyTree* knob, std::int64_t otherwise) {
    return knob != nullptr && knob->is(KeyTree::Kind::integer) ? knob->integer() : otherwise;
}

bool is_set(const KeyTree* knob) { return knob != nullptr && !knob->is_null(); }

bool turns_checkpointing_on(const KeyTree*, const KeyTree* to) {
    return is_set(to) && name_in(to, "mode") != "none";
}
bool is_lowered(const KeyTree* from, const KeyTree* to) {
    return from != nullptr && to != nullptr && count_in(to, 1) < count_in(from, 1);
}
bool is_anything(const KeyTree*, const KeyTree* to) { return is_set(to); }
bool is_quantized(const KeyTree*, const KeyTree* to) {
    return is_set(to) && name_in(to, "type") != "none";
}
bool is_true(const KeyTree*, const KeyTree* to) {
    return to != nullptr && to->is(KeyTree::Kind::boolean) && to->boolean();
}

const Sharding* sharding_in(const KeyTree* knob) { return shardings().find(name_in(knob)); }
bool shards_states_only(const KeyTree*, const KeyTree* to) {
    const Sharding* row = sharding_in(to);
    return row != nullptr && row->states != Partition::whole &&
           row->gradients == Partition::whole && row->parameters == Partition::whole;
}
bool shards_gradients(const KeyTree*, const KeyTree* to) {
    const Sharding* row = sharding_in(to);
    return row != nullptr && row->gradients != Partition::whole &&
           row->parameters == Partition::whole;
}
bool shards_parameters(const KeyTree*, const KeyTree* to) {
    const Sharding* row = sharding_in(to);
    return row != nullptr && row->parameters != Partition::whole;
}

const Precision* precision_in(const KeyTree* knob) {
    return precisions().find(name_in(knob, "scheme"));
}
bool is_autocast(const KeyTree*, const KeyTree* to) {
    const Precision* row = precision_in(to);
    return row != nullptr && row->autocast != nullptr;
}
bool is_half_precision(const KeyTree*, const KeyTree* to) {
    const Precision* row = precision_in(to);
    return row != nullptr && row->parameters != nullptr && row->parameters->bits < 32;
}
bool has_small_states(const KeyTree*, const KeyTree* to) {
    const Optimizer* row = optimizers().find(name_in(to));
    return row != nullptr && std::any_of(row->slots.begin(), row->slots.end(), [](const auto& slot) {
               return slot.quantized || (slot.dtype != nullptr && slot.dtype->bits <= 8);
           });
}
bool is_fused_step(const KeyTree*, const KeyTree* to) { return name_in(to) == "fused"; }
bool is_set_to_none(const KeyTree*, const KeyTree* to) { return name_in(to) == "set_to_none"; }
bool avoids_logits(const KeyTree*, const KeyTree* to) {
    return name_in(to).find("liger") != std::string_view::npos ||
           name_in(to).find("chunked") != std::string_view::npos ||
           name_in(to).find("fused") != std::string_view::npos;
}
bool avoids_scores(const KeyTree*, const KeyTree* to) {
    return name_in(to).starts_with("flash") || name_in(to).find("efficient") != std::string_view::npos;
}

// --- turning a knob ------------------------------------------------------------------------------

Patch set(std::string_view pointer, KeyTree value) { return patch_at(pointer, std::move(value)); }

Patch checkpoint_every_block(const KeyTree&, const Job& job) {
    if (job.checkpointing.enabled && job.checkpointing.every == 1 && !job.checkpointing.first)
        return std::nullopt;
    return set("/training/activation_checkpointing", KeyTree("full"));
}

Patch keep_checkpoints_on_host(const KeyTree& spec, const Job& job) {
    constexpr std::string_view kKnob = "/training/activation_checkpointing";
    if (!job.checkpointing.enabled || job.checkpointing.offload) return std::nullopt;
    KeyTree patch = patch_at(std::string(kKnob) + "/offload", KeyTree(true));
    const KeyTree* now = value_at(spec, kKnob);
    if (now != nullptr && !now->is(KeyTree::Kind::object))  // a name alone: an object takes its place
        patch = merge_patch(std::move(patch), patch_at(std::string(kKnob) + "/mode", KeyTree("full")));
    return patch;
}

/// The smallest prime factor of n > 1: the least by which a micro-batch can be divided evenly.
std::int64_t smallest_factor(std::int64_t n) {
    for (std::int64_t p = 2; p * p <= n; ++p)
        if (n % p == 0) return p;
    return n;
}

Patch halve_micro_batch(const KeyTree&, const Job& job) {
    if (job.extents.batch <= 1) return std::nullopt;
    const std::int64_t by = smallest_factor(job.extents.batch);
    return merge_patch(
        patch_at("/training/micro_batch_size", KeyTree(job.extents.batch / by)),
        patch_at("/training/gradient_accumulation_steps",
                 KeyTree(detail::checked_mul(job.micro_batches, by))));
}

Patch halve_sequence(const KeyTree&, const Job& job) {
    if (job.extents.sequence < 2) return std::nullopt;
    return set("/training/sequence_length", KeyTree((job.extents.sequence + 1) / 2));
}

/// Selects the sharding row `name`. A single rank has nobody to share with: then a second one is
/// added, at the same micro-batch, and the global batch is kept if the accumulation allows it.
Patch shard_with(const char* name, const KeyTree& spec, const Job& job) {
    if (shardings().find(name) == nullptr) return std::nullopt;
    KeyTree patch = patch_at("/parallelism/sharding", KeyTree(name));
    if (job.data.ranks() > 1) return patch;
    patch = merge_patch(std::move(patch), patch_at("/parallelism/data", KeyTree(std::int64_t{2})));
    const KeyTree* global = value_at(spec, "/training/global_batch_size");
    const KeyTree* steps = value_at(spec, "/training/gradient_accumulation_steps");
    if (global == nullptr || steps == nullptr) return patch;
    if (job.micro_batches % 2 != 0) return std::nullopt;
    return merge_patch(std::move(patch), patch_at("/training/gradient_accumulation_steps",
                                                  KeyTree(job.micro_batches / 2)));
}
Patch shard_states(const KeyTree& spec, const Job& job) {
    if (job.data.sharding->states != Partition::whole) return std::nullopt;
    return shard_with("zero1", spec, job);
}
Patch shard_gradients(const KeyTree& spec, const Job& job) {
    if (job.data.sharding->gradients != Partition::whole) return std::nullopt;
    return shard_with("zero2", spec, job);
}
Patch shard_everything(const KeyTree& spec, const Job& job) {
    if (job.data.sharding->parameters != Partition::whole) return std::nullopt;
    return shard_with("fsdp2", spec, job);
}

/// Sets a field of the optimizer, whether the spec holds its name or an object.
KeyTree optimizer_patch(const KeyTree& spec, const Job& job, std::string_view field,
                        KeyTree value) {
    KeyTree optimizer = KeyTree::object();
    const KeyTree* stated = value_at(spec, "/training/optimizer");
    if (stated == nullptr || !stated->is(KeyTree::Kind::object))
        optimizer.at_or_add("name") = KeyTree(job.optimizer.row->name);
    optimizer.at_or_add(field) = std::move(value);
    return patch_at("/training/optimizer", std::move(optimizer));
}

Patch quantize_states(const KeyTree&, const Job& job) {
    for (const char* suffix : {"-8bit", "_8bit", "8bit"}) {
        const std::string name = std::string(job.optimizer.row->name) + suffix;
        if (optimizers().find(name) != nullptr)
            return set("/training/optimizer", KeyTree(name));
    }
    return std::nullopt;
}

Patch move_update_to_host(const KeyTree&, const Job& job) {
    if (job.model == nullptr || job.optimizer.host) return std::nullopt;
    KeyTree patch = patch_at("/training/offload/optimizer_states", KeyTree("host"));
    if (!job.zero_grad_to_none)
        patch = merge_patch(std::move(patch), patch_at("/training/zero_grad", KeyTree("set_to_none")));
    if (job.micro_batches > 1) return patch;  // gradients accumulate on the device
    return merge_patch(std::move(patch), patch_at("/training/offload/gradients", KeyTree("host")));
}

bool is_plain_fp32(const Job& job) {
    return job.precision.parameters == &dtype::fp32 && job.precision.autocast == nullptr &&
           job.precision.master_weights == nullptr;
}
Patch autocast_bf16(const KeyTree&, const Job& job) {
    if (!is_plain_fp32(job) || precisions().find("bf16-autocast") == nullptr) return std::nullopt;
    return set("/training/precision", KeyTree("bf16-autocast"));
}
Patch hold_in_bf16(const KeyTree&, const Job& job) {
    if (job.precision.parameters != &dtype::fp32 || precisions().find("bf16") == nullptr)
        return std::nullopt;
    return set("/training/precision", KeyTree("bf16"));
}

Patch fuse_loss(const KeyTree&, const Job& job) {
    // It refuses a head that is joined with the loss already, too.
    if (job.model == nullptr || job.backend == Backend::cpu || !with_linear_loss(*job.model))
        return std::nullopt;
    return set("/training/loss", KeyTree(kernel_names(OpKind::linear_loss).front()));
}

Patch use_flash_attention(const KeyTree&, const Job& job) {
    if (job.model == nullptr) return std::nullopt;
    const std::string_view current = job.kernel(OpKind::attention).name;
    if (current.starts_with("flash")) return std::nullopt;
    if (has_op(*job.model, OpKind::position_bias)) return std::nullopt;  // T5's class has no other kernel
    // Of the flash kernels only the package's caps scores.
    const std::string_view wanted = caps_scores(*job.model) ? "flash-attention-2" : "flash";
    for (const std::string_view name : kernel_names(OpKind::attention))
        if (name.starts_with(wanted)) return set("/training/attention", KeyTree(name));
    return std::nullopt;
}

Patch free_gradients(const KeyTree&, const Job& job) {
    if (job.zero_grad_to_none || job.precision.gradient_buffer) return std::nullopt;
    return set("/training/zero_grad", KeyTree("set_to_none"));
}

Patch step_in_backward(const KeyTree& spec, const Job& job) {
    if (job.optimizer.in_backward || job.optimizer.row->fused_in_backward || job.optimizer.clip ||
        job.micro_batches > 1)
        return std::nullopt;
    return optimizer_patch(spec, job, "in_backward", KeyTree(true));
}

Patch fuse_step(const KeyTree& spec, const Job& job) {
    const auto& choices = job.optimizer.row->implementations;
    const bool offered = std::any_of(choices.begin(), choices.end(),
                                     [](const auto& row) { return row.name == "fused"; });
    if (!offered || job.optimizer.implementation == nullptr ||
        job.optimizer.implementation->name == "fused")
        return std::nullopt;
    return optimizer_patch(spec, job, "implementation", KeyTree("fused"));
}

Patch train_adapters(const KeyTree& spec, const Job& job) {
    if (job.model == nullptr || value_at(spec, "/training/lora") != nullptr) return std::nullopt;
    return merge_patch(
        patch_at("/training/lora/rank", KeyTree(std::int64_t{16})),
        patch_at("/training/lora/target_modules", KeyTree("all-linear")));
}

Patch quantize_base(const KeyTree& spec, const Job& job) {
    if (job.model == nullptr || value_at(spec, "/training/quantization") != nullptr) return std::nullopt;
    KeyTree patch = patch_at("/training/quantization", KeyTree("nf4"));
    if (const Patch adapters = train_adapters(spec, job)) patch = merge_patch(std::move(patch), *adapters);
    return patch;
}

// --- the table -----------------------------------------------------------------------------------

/// Adding a technique is one row. Where two rows share a knob, `turned_on` tells them apart.
constexpr Technique kTechniques[] = {
    Technique{
        .name = "activation_checkpointing",
        .pointer = "/training/activation_checkpointing",
        .term = "activations",
        .cost = "recomputation: backward runs the forward of each block again, about one more "
                "forward pass per step",
        .limits = "block inputs stay, and one block at a time holds all its activations again; "
                  "parameters, gradients and optimizer states stay",
        .measure = "the step time, and the peak: it can move to the loss or the optimizer step",
        .phases = kActivationsLive,
        .turned_on = turns_checkpointing_on,
        .patch = checkpoint_every_block,
        .doc = "keep only the inputs of each block and recompute the rest in backward",
        .source = "Chen et al. 2016, arXiv:1604.06174; torch.utils.checkpoint"},
    Technique{
        .name = "checkpoint_offload",
        .pointer = "/training/activation_checkpointing/offload",
        .term = "activations/checkpoint_inputs",
        .cost = "each block's input crosses the bus twice per step, and as much pinned host memory",
        .limits = "the input of one block comes back at a time; everything else that checkpointing leaves stays",
        .measure = "the step time, the host's memory, and the peak",
        .phases = kActivationsLive,
        .turned_on = is_true,
        .patch = keep_checkpoints_on_host,
        .doc = "keep the inputs of checkpointed blocks in the memory of the host",
        .source = "torch.autograd.graph.save_on_cpu; transformers gradient_checkpointing_enable(offload=True)"},
    Technique{
        .name = "smaller_micro_batch",
        .pointer = "/training/micro_batch_size",
        .term = "activations",
        .cost = "more, smaller passes for the same global batch (gradient accumulation), which "
                "may leave the device idle",
        .limits = "one sequence is the floor; parameters, gradients and optimizer states do not "
                  "depend on the batch, so an optimizer-step peak stays",
        .measure = "tokens per second, and the peak",
        .phases = kActivationsLive,
        .turned_on = is_lowered,
        .patch = halve_micro_batch,
        .doc = "halve the micro-batch and double the accumulation: the global batch stays",
        .source = "PyTorch documentation, gradient accumulation"},
    Technique{
        .name = "optimizer_sharding",
        .pointer = "/parallelism/sharding",
        .term = "optimizer_states",
        .cost = "communication: ranks gather the updated parameters after each step, through "
                "buffers; gathered states for a checkpoint need room",
        .limits = "divides by the data-parallel ranks, plus padding; every rank still holds all "
                  "parameters and gradients",
        .measure = "the time of the reduction and the gathering, their buffers, and the peak of "
                   "the optimizer step on each rank",
        .phases = kWholeStep,
        .turned_on = shards_states_only,
        .patch = shard_states,
        .doc = "each data-parallel rank keeps its share of the optimizer states (ZeRO-1)",
        .source = "Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, sections 5.1 and 7.1"},
    Technique{
        .name = "gradient_sharding",
        .pointer = "/parallelism/sharding",
        .term = "gradients",
        .cost = "communication: gradients are reduced to their owners in buckets during backward, "
                "in every micro-batch",
        .limits = "divides by the data-parallel ranks; every rank still holds all parameters, and "
                  "a bucket of whole gradients at a time",
        .measure = "the overlap of the reduction with backward, the bucket buffers, and the peak",
        .also = {"optimizer_states"},
        .phases = kGradientsLive,
        .turned_on = shards_gradients,
        .patch = shard_gradients,
        .doc = "each rank keeps its share of the gradients and optimizer states (ZeRO-2)",
        .source = "Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, sections 5.2 and 7.1"},
    Technique{
        .name = "parameter_sharding",
        .pointer = "/parallelism/sharding",
        .term = "parameters",
        .cost = "communication: parameters are gathered for each block in forward and in "
                "backward, 1.5 times the volume of plain data parallelism",
        .limits = "divides by the data-parallel ranks; gathered parameters of the blocks in use "
                  "come back as communication; activations stay",
        .measure = "the overlap of gathering with compute, the gathered states, and the peak",
        .phases = kWholeStep,
        .turned_on = shards_parameters,
        .patch = shard_everything,
        .doc = "each rank keeps its share of parameters, gradients and optimizer states (FSDP, "
               "ZeRO-3)",
        .source = "Rajbhandari et al. 2020, ZeRO, arXiv:1910.02054, sections 5.3 and 7.2; Zhao et "
                  "al. 2023, PyTorch FSDP, arXiv:2304.11277"},
    Technique{
        .name = "low_precision_states",
        .pointer = "/training/optimizer",
        .term = "optimizer_states",
        .cost = "rounding: states are quantized block by block after every step, and their error "
                "is remembered",
        .limits = "small tensors stay in fp32 and each block keeps a scale; parameters and "
                  "gradients stay",
        .measure = "the loss curve against full-precision states, and the peak of the optimizer "
                   "step",
        .phases = kWholeStep,
        .turned_on = has_small_states,
        .patch = quantize_states,
        .doc = "hold the optimizer states in 8 bits, with a scale for each block",
        .source = "Dettmers et al. 2022, 8-bit Optimizers via Block-wise Quantization, "
                  "arXiv:2110.02861"},
    Technique{
        .name = "bf16_autocast",
        .pointer = "/training/precision",
        .term = "activations",
        .cost = "matrix products with 8 significant bits; casts of the weights live beside them "
                "during forward, 2 more bytes for each",
        .limits = "weights, gradients and optimizer states stay fp32, and so do norms, softmax, "
                  "loss and the residual stream",
        .measure = "the loss curve, and the peak at the end of forward",
        .phases = kActivationsLive,
        .turned_on = is_autocast,
        .patch = autocast_bf16,
        .doc = "compute matrix products in bf16, keep the weights in fp32",
        .source = "PyTorch, aten/src/ATen/autocast_mode.cpp"},
    Technique{
        .name = "bf16_weights",
        .pointer = "/training/precision",
        .term = "optimizer_states",
        .cost = "updates that are small against their weight are rounded away, unless an fp32 "
                "master copy is kept",
        .limits = "at most half of an fp32 job; the loss is often still computed in fp32",
        .measure = "the loss curve against fp32 weights, and the peak",
        .also = {"parameters", "gradients"},
        .phases = kWholeStep,
        .turned_on = is_half_precision,
        .patch = hold_in_bf16,
        .doc = "hold weights, gradients and optimizer states in bf16",
        .source = "torch.optim: states have the type of their parameter"},
    Technique{
        .name = "fused_loss",
        .pointer = "/training/loss",
        .term = "activations/logits",
        .cost = "the gradient of the head is made in forward and kept until backward; logits are "
                "computed chunk by chunk",
        .limits = "only the logits and what the loss makes of them; metrics get no logits",
        .measure = "the time of the loss, and the peak: it can move into the blocks",
        .also = {"activations/loss", "temporaries/backward"},
        .phases = kActivationsLive,
        .turned_on = avoids_logits,
        .patch = fuse_loss,
        .doc = "compute the head and the cross-entropy together, chunk by chunk",
        .source = "Liger-Kernel, src/liger_kernel/ops/fused_linear_cross_entropy.py"},
    Technique{
        .name = "flash_attention",
        .pointer = "/training/attention",
        .term = "activations/attention",
        .cost = "scores are computed again in backward; needs half precision, and certain head "
                "sizes and masks",
        .limits = "only the scores: queries, keys, values and output are still kept",
        .measure = "the step time, and the peak",
        .phases = kActivationsLive,
        .turned_on = avoids_scores,
        .patch = use_flash_attention,
        .doc = "never write the matrix of attention scores",
        .source = "Dao et al. 2022, FlashAttention, arXiv:2205.14135"},
    Technique{
        .name = "set_to_none",
        .pointer = "/training/zero_grad",
        .term = "gradients",
        .cost = "gradients are allocated anew in each step",
        .limits = "lowers forward and early backward only: at the end of backward all gradients "
                  "exist again",
        .measure = "the peak of forward",
        .phases = bit(Phase::forward) | bit(Phase::loss) | bit(Phase::backward),
        .turned_on = is_set_to_none,
        .patch = free_gradients,
        .doc = "free the gradients after each step instead of zeroing them",
        .source = "torch.optim.Optimizer.zero_grad"},
    Technique{
        .name = "optimizer_in_backward",
        .pointer = "/training/optimizer/in_backward",
        .term = "gradients",
        .cost = "no gradient accumulation and no clipping by the global norm",
        .limits = "the gradient of one tensor at a time remains; the largest is often the "
                  "embedding or the head",
        .measure = "the step time, and the peak of backward",
        .phases = kGradientsLive,
        .turned_on = is_true,
        .patch = step_in_backward,
        .doc = "update each parameter as soon as its gradient is there, and free the gradient",
        .source = "Lv et al. 2023, LOMO, arXiv:2306.09782; torch.Tensor."
                  "register_post_accumulate_grad_hook"},
    Technique{
        .name = "fused_optimizer",
        .pointer = "/training/optimizer/implementation",
        .term = "temporaries/optimizer_step",
        .cost = "another kernel: last bits differ, and not every optimizer and device has one",
        .limits = "only the temporaries of the step: states, gradients and parameters stay",
        .measure = "the peak of the optimizer step",
        .phases = bit(Phase::optimizer_step),
        .turned_on = is_fused_step,
        .patch = fuse_step,
        .doc = "update without copies of the whole list of tensors",
        .source = "torch.optim documentation: for-loop, foreach and fused implementations"},
    Technique{
        .name = "shorter_sequence",
        .pointer = "/training/sequence_length",
        .term = "activations",
        .cost = "training on less context: this changes the task, not only the memory",
        .limits = "parameters, gradients and optimizer states do not depend on the length, so an "
                  "optimizer-step peak stays",
        .measure = "the quality on long inputs, tokens per second, and the peak",
        .phases = kActivationsLive,
        .turned_on = is_lowered,
        .patch = halve_sequence,
        .doc = "halve the sequence length",
        .source = "activations are linear in the tokens of a micro-batch; eager attention scores "
                  "are quadratic"},
    Technique{
        .name = "lora",
        .pointer = "/training/lora",
        .term = "optimizer_states",
        .cost = "only low-rank updates are learnt, which may reach a worse optimum; small extra "
                "matrix products in each layer",
        .limits = "the frozen weights and most activations stay: backward still passes through "
                  "every layer",
        .measure = "the quality against full training, and the peak: activations then dominate",
        .also = {"gradients", "activations"},
        .phases = kWholeStep,
        .turned_on = is_anything,
        .patch = train_adapters,
        .doc = "freeze the model and train adapters of rank 16 on all linear layers",
        .source = "Hu et al. 2021, LoRA, arXiv:2106.09685"},
    Technique{
        .name = "qlora",
        .pointer = "/training/quantization",
        .term = "parameters",
        .cost = "rounding of the frozen weights, and their dequantization in forward and in backward",
        .limits = "only frozen linear modules: embeddings, norms and the output embedding stay, and become "
                  "fp32 when the model is prepared; each dequantized weight is whole for a moment",
        .measure = "the quality against an unquantized base, the step time, and the peak: activations then "
                   "dominate",
        .phases = kWholeStep,
        .turned_on = is_quantized,
        .patch = quantize_base,
        .doc = "store the frozen weights in 4 bits (NF4) and train adapters",
        .source = "Dettmers et al. 2023, QLoRA, arXiv:2305.14314"},
    Technique{
        .name = "freezing",
        .pointer = "/training/freeze",
        .term = "optimizer_states",
        .cost = "what is frozen does not learn",
        .limits = "weights stay, and so do the activations of everything above the lowest trained module",
        .measure = "the quality, and the peak",
        .phases = kWholeStep,
        .turned_on = is_anything,
        .patch = nullptr,
        .doc = "train a part of the model only",
        .source = "torch.nn.Parameter.requires_grad"},
    Technique{
        .name = "host_offload",
        .pointer = "/training/offload",
        .term = "optimizer_states",
        .cost = "transfers over the bus in every step, an update on the host, and the host's memory: "
                "the states, and copies of parameters and gradients; no clipping",
        .limits = "parameters and activations stay, tensors of less than 4096 elements too, and "
                  "gradients where micro-batches accumulate them",
        .measure = "the step time, the host's memory, and the peak",
        .also = {"gradients", "temporaries/optimizer_step"},
        .phases = kWholeStep,
        .turned_on = is_anything,
        .patch = move_update_to_host,
        .doc = "keep the optimizer's states on the host, and update there",
        .source = "Ren et al. 2021, ZeRO-Offload, arXiv:2101.06840; torchao optim/cpu_offload.py"},
};
static_assert(names_are_unique(kTechniques));

}  // namespace

Table<Technique> techniques() { return Table<Technique>(kTechniques); }

}  // namespace membudget
