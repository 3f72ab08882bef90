// Which kernel computes each op: the framework's default, or what the spec says.

#include <algorithm>
#include <array>

#include "job/resolver.hpp"

namespace membudget {

namespace {

/// A framework: the kernels that differ from the first row of each op.
struct Framework {
    std::string_view name;
    std::string_view doc;
    Backend backend;
    std::span<const std::pair<OpKind, std::string_view>> kernels;
};

using Choice = std::pair<OpKind, std::string_view>;
constexpr std::array kTransformers{Choice{OpKind::rms_norm, "hf"}};
constexpr std::array kCpu{Choice{OpKind::rms_norm, "hf"}, Choice{OpKind::attention, "sdpa-cpu"}};
constexpr std::array kLiger{Choice{OpKind::rms_norm, "fused"}, Choice{OpKind::rotary, "fused"},
                            Choice{OpKind::gated_activation, "fused"}};

constexpr Framework kFrameworks[] = {
    {"transformers", "Hugging Face transformers on CUDA, attention through SDPA", Backend::cuda,
     kTransformers},
    {"transformers-liger", "the same with Liger's norm, rotary and MLP kernels", Backend::cuda, kLiger},
    {"transformers-cpu", "Hugging Face transformers on the CPU: what the differential tests run",
     Backend::cpu, kCpu},
};

/// The mask that an attention kernel needs [transformers masking_utils.py]: eager always adds one, the
/// flash-attn package knows causality and windows itself, SDPA decides by shape.
std::string_view mask_for(std::string_view attention) {
    if (attention.starts_with("eager")) return "additive";
    return attention == "flash-attention-2" ? "none" : "sdpa";
}

bool is_quantized(const Block& block, const Op& op) {
    return std::any_of(op.parameters.begin(), op.parameters.end(), [&](int p) {
        return block.parameters[static_cast<std::size_t>(p)].quantization != nullptr;
    });
}

}  // namespace

void Resolver::choose_kernel(OpKind op, const NamedAt& given) {
    const std::vector<std::string_view> names = kernel_names(op);
    if (const Kernel* row = find_kernel(op, given.name)) {
        job_.kernels[static_cast<std::size_t>(op)] = row;
        if (op == OpKind::attention) check_flash_package(given);
        return;
    }
    std::string hint = did_you_mean(given.name, names);
    problems_.invalid(given.pointer,
                      fmt::format("expected a kernel of {} ({}); got '{}'", name_of(op),
                                  fmt::join(names, ", "), given.name),
                      hint);
}

/// The loss is a kernel of the loss, or one of the head and the loss together, for which the model's
/// head is rewritten.
void Resolver::loss() {
    const LossSpec& spec = spec_.training.loss;
    if (!spec.row) {
        if (spec.chunks)
            problems_.invalid("/training/loss/chunks", "expected a loss that is computed in chunks; got none",
                              "\"loss\": {\"name\": \"torchtune-chunked\", \"chunks\": 8}");
        return;
    }
    const NamedAt& given = *spec.row;
    const Kernel* joint = find_kernel(OpKind::linear_loss, given.name);
    if (spec.chunks && (joint == nullptr || !joint->in_chunks))
        problems_.invalid("/training/loss/chunks",
                          fmt::format("expected a loss that is computed in chunks; got '{}'", given.name),
                          "torchtune-chunked and litgpt-chunked are");
    if (joint == nullptr) {
        std::vector<std::string_view> names = kernel_names(OpKind::causal_lm_loss);
        if (const Kernel* row = find_kernel(OpKind::causal_lm_loss, given.name)) {
            job_.kernels[static_cast<std::size_t>(OpKind::causal_lm_loss)] = row;
            return;
        }
        for (const std::string_view name : kernel_names(OpKind::linear_loss)) names.push_back(name);
        problems_.invalid(given.pointer,
                          fmt::format("expected a kernel of the loss ({}); got '{}'", fmt::join(names, ", "),
                                      given.name),
                          did_you_mean(given.name, names));
        return;
    }
    job_.kernels[static_cast<std::size_t>(OpKind::linear_loss)] = joint;
    job_.extents.loss_chunks = spec.chunks.value_or(0);
    if (job_.model == nullptr || !job_.model->step_unsupported.empty()) return;
    Result<Model> joined = with_linear_loss(*job_.model);
    if (joined && !joint->in_chunks) {
        const Block& head = joined->blocks[static_cast<std::size_t>(joined->sections.back().pattern.front())];
        for (const Op& op : head.ops)
            if (op.kind == OpKind::linear_loss && (op.adapter || is_quantized(head, op)))
                problems_.unsupported(given.pointer, fmt::format("the loss '{}' is not modelled for a head that "
                                                                 "is quantized or has an adapter",
                                                                 given.name));
    }
    if (joined)
        job_.model = std::make_shared<const Model>(std::move(joined).value());
    else
        problems_.unsupported(given.pointer, fmt::format("the loss '{}' is not modelled for {}: {}", given.name,
                                                         job_.model->architecture,
                                                         joined.errors().list().front().message));
}

void Resolver::attention() {
    const std::optional<NamedAt>& given = spec_.training.attention;
    // Position biases with gradients: T5's class names no kernel but its own function. SDPA knows no
    // softcapped scores.
    const bool biased = job_.model != nullptr && has_op(*job_.model, OpKind::position_bias);
    const bool softcapped = job_.model != nullptr && caps_scores(*job_.model);
    if (biased || softcapped)
        job_.kernels[static_cast<std::size_t>(OpKind::attention)] = find_kernel(OpKind::attention, "eager");
    const bool known = given && (given->name == "sdpa" || find_kernel(OpKind::attention, given->name) != nullptr);
    if (known && biased && given->name != "eager") {
        problems_.invalid(given->pointer,
                          fmt::format("expected 'eager': {} adds position biases and supports no other kernel; "
                                      "got '{}'",
                                      job_.model->architecture, given->name),
                          "leave it out");
    } else if (known && softcapped && given->name != "eager" && given->name != "flash-attention-2") {
        problems_.invalid(given->pointer,
                          fmt::format("expected 'eager' or 'flash-attention-2': {} caps its scores, which no other "
                                      "kernel does; got '{}'",
                                      job_.model->architecture, given->name),
                          "leave it out");
    } else if (known && given->name == "flash-attention-2" && job_.model != nullptr &&
               has_op(*job_.model, OpKind::sparse_mask)) {
        problems_.invalid(given->pointer,
                          fmt::format("expected another kernel: {} attends to the keys that a mask names, which the "
                                      "flash-attn package does not take; got '{}'",
                                      job_.model->architecture, given->name),
                          "take \"sdpa\" or \"eager\"");
    } else if (given) {
        NamedAt attention = *given;
        if (attention.name == "sdpa") attention.name = job_.backend == Backend::cpu ? "sdpa-cpu" : "flash";
        choose_kernel(OpKind::attention, attention);
    } else if (job_.model != nullptr) {
        assume("training.attention",
               fmt::format("attention runs the '{}' kernel", job_.kernel(OpKind::attention).name),
               biased ? "transformers models/t5/modeling_t5.py: neither SDPA nor flash is supported"
               : softcapped
                   ? "transformers models/gemma2/modeling_gemma2.py _supports_sdpa: SDPA does not cap scores"
                   : "transformers: SDPA where the class supports it");
    }
}

/// The package takes half precision alone. Of a quantized base transformers turns fp32 queries back
/// [flash-attn flash_attn_interface.py; transformers integrations/flash_attention.py get_target_dtype].
void Resolver::check_flash_package(const NamedAt& attention) {
    const Precision& precision = job_.precision;
    // A precision with a type to gather in is refused where nothing is gathered.
    const Dtype* type = precision.autocast != nullptr   ? precision.autocast
                        : precision.gathered != nullptr ? precision.gathered
                                                        : precision.parameters;
    // A quantized base is no exception: what is fp32 is cast to the type that the model was loaded in
    // [transformers integrations/flash_attention.py get_target_dtype].
    if (attention.name != "flash-attention-2" || type->bits <= 16) return;
    problems_.invalid(attention.pointer,
                      fmt::format("expected another kernel in {}: the flash-attn package computes in bf16 and fp16 "
                                  "alone; got '{}'",
                                  type->name, attention.name),
                      "give a \"precision\" such as \"bf16\" or \"bf16-autocast\", or take \"sdpa\"");
}

void Resolver::kernels() {
    constexpr auto kOps = static_cast<std::size_t>(OpKind::attention_mask) + 1;
    job_.kernels.assign(kOps, nullptr);
    for (const Kernel& row : membudget::kernels()) {
        const Kernel*& slot = job_.kernels[static_cast<std::size_t>(row.op)];
        if (slot == nullptr) slot = &row;
    }
    const TrainingSpec& t = spec_.training;
    const std::string_view name = t.framework ? std::string_view(t.framework->name) : "transformers";
    const Framework* framework = nullptr;
    std::vector<std::string_view> names;
    for (const Framework& row : kFrameworks) {
        names.push_back(row.name);
        if (row.name == name) framework = &row;
    }
    if (framework == nullptr) {
        problems_.invalid(t.framework->pointer,
                          fmt::format("expected a framework ({}); got '{}'", fmt::join(names, ", "), name),
                          did_you_mean(name, names));
        framework = &kFrameworks[0];
    }
    job_.backend = framework->backend;
    for (const auto& [op, kernel] : framework->kernels)
        job_.kernels[static_cast<std::size_t>(op)] = find_kernel(op, kernel);
    attention();
    loss();
    for (const auto& [op_name, kernel] : t.kernels.choices) {
        bool found = false;
        std::vector<std::string_view> ops;
        for (std::size_t i = 0; i < kOps; ++i) {
            const auto op = static_cast<OpKind>(i);
            ops.push_back(membudget::name_of(op));
            if (ops.back() != op_name) continue;
            if (op == OpKind::attention_mask)
                problems_.invalid(kernel.pointer,
                                  fmt::format("expected no choice: the mask follows from the kernel of "
                                              "attention; got '{}'",
                                              kernel.name));
            else if (op == OpKind::linear_loss)
                problems_.invalid(kernel.pointer,
                                  fmt::format("expected no choice: \"loss\" makes the head and the loss one "
                                              "op; got '{}'",
                                              kernel.name),
                                  "\"training\": {\"loss\": \"" + kernel.name + "\"}");
            else
                choose_kernel(op, kernel);
            found = true;
        }
        if (!found)
            problems_.invalid(pointer_child("/training/kernels", op_name),
                              fmt::format("expected an op; got '{}'", op_name), did_you_mean(op_name, ops));
    }
    job_.kernels[static_cast<std::size_t>(OpKind::attention_mask)] =
        find_kernel(OpKind::attention_mask, mask_for(job_.kernel(OpKind::attention).name));
    if (job_.model == nullptr) return;
    if (!t.framework)
        assume("training.framework", fmt::format("kernels of {}: {}", framework->name, framework->doc), "");
    if (!job_.model->step_unsupported.empty()) return;  // said already
    for (const Block& block : job_.model->blocks)
        for (const Op& op : block.ops)
            if (job_.kernels[static_cast<std::size_t>(op.kind)] == nullptr) {
                problems_.unsupported(
                    "/model", fmt::format("no kernel computes '{}' ({}) of {}", membudget::name_of(op.kind),
                                          op.name, job_.model->architecture));
                return;
            }
}

/// Routed experts: how evenly they are used, and the loss that evens them out.
void Resolver::experts() {
    const Op* op = job_.model != nullptr ? find_op(*job_.model, OpKind::moe) : nullptr;
    const std::optional<double>& given = spec_.training.moe_imbalance;
    constexpr std::string_view kPointer = "/training/moe_imbalance";
    if (op == nullptr) {
        if (given)
            problems_.invalid(kPointer, "expected no imbalance of experts: the model has no routed ones");
        return;
    }
    if (!job_.model->step_unsupported.empty()) return;
    const KeyTree* logits = config_ != nullptr ? config_->find("output_router_logits") : nullptr;
    const OpAttributes& mixture = op->attributes;
    constexpr RouterForm kWithLoss[] = {RouterForm::mixtral, RouterForm::qwen,    RouterForm::granite, RouterForm::gpt_oss,
                                        RouterForm::minimax, RouterForm::ernie,   RouterForm::phimoe,  RouterForm::dbrx};
    const Op* const loss = find_op(*job_.model, OpKind::causal_lm_loss);
    const bool modelled =
        loss != nullptr && loss->attributes.routers > 0 && job_.kernel(OpKind::causal_lm_loss).name == "eager";
    const bool auxiliary =
        !modelled && std::ranges::find(kWithLoss, mixture.router) != std::end(kWithLoss);
    if (auxiliary && logits != nullptr && logits->kind() == KeyTree::Kind::boolean && logits->boolean())
        problems_.unsupported("/model",
                              "the router's auxiliary loss (output_router_logits) is modelled for causal language "
                              "models with the loss of transformers alone");
    const double most = static_cast<double>(mixture.experts) / static_cast<double>(mixture.experts_per_token);
    if (given && *given > most)
        problems_.invalid(kPointer, fmt::format("expected at most {:g}, where the busiest of {} experts sees every "
                                                "token ({} per token); got {:g}",
                                                most, mixture.experts, mixture.experts_per_token, *given));
    job_.moe_imbalance = given.value_or(1);
    const bool loops = job_.kernel(OpKind::moe).name == "loop" || mixture.looped;
    if (!loops && given && *given > 1)
        assume("training.moe_imbalance",
               "experts computed as one grouped product: their rows together do not depend on how tokens are "
               "routed, on one device",
               "transformers integrations/moe.py grouped_mm_experts_forward");
    if (loops && !given)
        assume("training.moe_imbalance", "tokens are routed evenly: training.moe_imbalance is not given", "");
}

}  // namespace membudget
