// Clipping by the global norm, between backward and the optimizer's step.

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "step/states.hpp"

namespace membudget {

namespace {

/// Elements that one block of threads sums up [aten/src/ATen/native/cuda/MultiTensorApply.cuh kChunkSize].
constexpr std::int64_t kChunk = 65'536;

}  // namespace

/// Norms are scalars, one for each gradient, which become one tensor; the gradients are scaled in place
/// [torch/nn/utils/clip_grad.py _get_total_norm, _clip_grads_with_norm_]. On CUDA the sums of all chunks come
/// first, of as many for each tensor as the largest needs [aten/src/ATen/native/cuda/ForeachReduceOp.cu
/// foreach_tensor_norm_cuda]. Engines with flat buffers of gradients have sums of their own, without such tensors
/// [DeepSpeed runtime/zero/stage_1_and_2.py, Megatron-LM core/optimizer/clip_grads.py].
void StateBooks::clipping(std::vector<Event>& events) {
    const Partition partition = job_.data.sharding->gradients;
    const bool cut = degree(partition) > 1;
    if (!job_.optimizer.clip || in_buffers() || (cut && partition != Partition::per_tensor)) return;

    const TermId term = terms_.intern("temporaries/clipping");
    const auto make = [&](std::vector<Event>& held, std::int64_t bytes, std::int64_t copies, const char* what) {
        alloc(held, term, bytes, copies, what);
        events.push_back(held.back());
    };
    const auto type_of = [&](const Parameter& p) -> const Dtype& { return gradient_dtype(job_.precision, p); };
    std::vector<Event> norms;
    std::int64_t all = 0;
    const Dtype* widest = nullptr;
    for (const Dtype* type : types_of(*job_.model, is_trained, type_of)) {
        std::int64_t tensors = 0;
        std::int64_t largest = 0;  // elements, as this rank holds them
        for_each_tensor(*job_.model, [&](const Parameter& parameter, std::int64_t copies) {
            if (!parameter.trainable || &type_of(parameter) != type) return;
            tensors = detail::checked_add(tensors, copies);
            largest = std::max(largest, ceil_div(parameter.elements(), degree(partition)).count());
        });
        std::vector<Event> sums;
        if (job_.backend == Backend::cuda)
            make(sums,
                 byte_count(detail::checked_mul(tensors, ceil_div(Elements(largest), kChunk).count()),
                            type->bits > 32 ? *type : dtype::fp32),
                 1, "sums of chunks");
        make(norms, byte_count(1, *type), tensors, "norm of a gradient");
        free_all(sums, events);
        all = detail::checked_add(all, tensors);
        if (widest == nullptr || type->bits > widest->bits) widest = type;
    }
    if (widest == nullptr) return;

    const std::int64_t scalar = byte_count(1, *widest);
    make(norms, byte_count(all, *widest), 1, "stacked norms");
    std::vector<Event> kept, quotient, coefficient;
    make(kept, scalar, 1, "total norm");
    free_all(norms, events);
    make(quotient, scalar, 1, "total norm and epsilon");
    make(quotient, scalar, 1, "reciprocal");
    make(coefficient, scalar, 1, "coefficient");
    free_all(quotient, events);
    make(kept, scalar, 1, "clamped coefficient");
    free_all(kept, events);
    free_all(coefficient, events);
    notes_.put(term, [&]() -> TermNote {
        return {Basis::derived, Total::allocated,
                fmt::format("norms of {} gradients, each a scalar, and one tensor of all", group_digits(all)),
                "torch/nn/utils/clip_grad.py"};
    });
}

}  // namespace membudget
