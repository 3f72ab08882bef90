// What activation checkpointing repeats, as a share of the forward pass.

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "job/resolver.hpp"

namespace membudget {
namespace {

double product(std::int64_t a, std::int64_t b, std::int64_t c) {
    return 2.0 * static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
}

/// Floating-point operations of an op's forward: two per multiply-add of its matrix products
/// [Megatron-LM, arXiv:2104.04473 appendix]. A causal mask is not subtracted; what is elementwise is
/// not counted.
double flops(const Op& op, const Block& block, const Extents& extents) {
    const auto tensor = [&](const std::vector<int>& of, std::size_t i) -> const Tensor& {
        return block.tensors[static_cast<std::size_t>(of[i])];
    };
    const OpAttributes& a = op.attributes;
    switch (op.kind) {
        case OpKind::linear: {
            const Tensor& input = tensor(op.inputs, 0);
            return product(extents.rows(input.rows), input.width, tensor(op.outputs, 0).width);
        }
        case OpKind::attention: {
            const Tensor& keyed = tensor(op.inputs, 1);
            const std::int64_t sequences = keyed.rows == Rows::patches ? extents.images : extents.batch;
            const std::int64_t sequence = extents.rows(keyed.rows) / sequences;
            std::int64_t keys = a.window > 0 ? std::min(a.window, sequence) : sequence;
            if (a.image_window > 0) {
                const std::int64_t merged = std::max<std::int64_t>(1, extents.patches / std::max<std::int64_t>(1, extents.image_tokens));
                keys = std::min(keys, a.image_window * a.image_window * merged);
            }
            const std::int64_t width = a.head_dim + (a.value_dim > 0 ? a.value_dim : a.head_dim);
            return product(extents.rows(tensor(op.inputs, 0).rows), keys, width) * static_cast<double>(a.heads);
        }
        case OpKind::moe: {
            const Tensor& input = tensor(op.inputs, 0);
            const std::int64_t widths = 3 * (a.experts_per_token * a.expert_width + a.shared_width) + a.experts;
            return product(extents.rows(input.rows), input.width, widths);
        }
        default: return 0;
    }
}

double flops(const Block& block, const Extents& extents) {
    double sum = 0;
    for (const Op& op : block.ops) sum += flops(op, block, extents);
    return sum;
}

/// Of `copies` layers at first, first + stride, ...: how many are checkpointed.
std::int64_t checkpointed(const Checkpointing& how, std::int64_t first, std::int64_t stride, std::int64_t copies) {
    if (how.first) copies = std::clamp<std::int64_t>((*how.first - first + stride - 1) / stride, 0, copies);
    std::int64_t out = 0;
    for (std::int64_t c = 0; c < std::min(copies, how.every); ++c)  // what follows repeats
        if (how.covers(first + c * stride)) out += 1 + (copies - 1 - c) / how.every;
    return out;
}

/// Share of the forward pass's operations that backward repeats.
std::optional<double> recomputed_share(const Model& model, const Checkpointing& how, const Extents& extents) {
    double whole = 0;
    double again = 0;
    std::int64_t index = 0;
    for (const Section& section : model.sections) {
        const auto stride = static_cast<std::int64_t>(section.pattern.size());
        for (std::int64_t i = 0; i < stride; ++i) {
            const Block& block = model.blocks[static_cast<std::size_t>(section.pattern[static_cast<std::size_t>(i)])];
            const double once = flops(block, extents);
            whole += once * static_cast<double>(section.count);
            if (block.checkpointable)
                again += once * static_cast<double>(checkpointed(how, index + i, stride, section.count));
        }
        const Block& block = model.blocks[static_cast<std::size_t>(section.pattern.front())];
        if (block.input >= 0 && block.output >= 0) index += stride * section.count;
    }
    if (whole <= 0) return std::nullopt;
    return again / whole;
}

}  // namespace

void Resolver::recompute_cost() {
    if (!job_.checkpointing.enabled || job_.model == nullptr) return;
    // Where the step is not simulated, ops say no more than what the weights are for.
    if (!job_.model->step_unsupported.empty()) return;
    // A reentrant region is a node of its arguments by position [torch/utils/checkpoint.py CheckpointFunction].
    const auto by_keyword = [](const Block& block) { return block.checkpointable && block.by_keyword; };
    if (job_.checkpointing.reentrant && std::ranges::any_of(job_.model->blocks, by_keyword))
        problems_.unsupported("/training/activation_checkpointing/reentrant",
                              fmt::format("reentrant checkpointing of {} is not modelled: the class passes the input of "
                                          "layers by keyword, and none of them would get a gradient",
                                          job_.model->architecture));
    const auto share = recomputed_share(*job_.model, job_.checkpointing, job_.extents);
    if (!share) return;
    assume("training.activation_checkpointing.recompute",
           fmt::format("recomputation repeats {:.1f} % of the forward pass's floating-point operations (matrix "
                       "products and attention)", 100 * *share),
           job_.checkpointing.reentrant
               ? "each checkpointed block runs once more"
               : "each checkpointed block runs once more; without reentrant it stops at the last saved tensor, "
                 "which leaves out a block's last product");
}

}  // namespace membudget
