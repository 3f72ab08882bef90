// Clipping by the global norm, between backward and the optimizer's step.

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "step/states.hpp"

namespace membudget {

namespace {

/// Elements that one block of threads sums up [aten/src/ATen/native/cuda/MultiTensorApply.cuh kChunkSize].
constexpr std::int64_t kChunk = 65'536;

/// Gradients of one type.
struct Gradients {
    const Dtype* type = nullptr;
    std::int64_t tensors = 0;
    std::int64_t largest = 0;  ///< elements of the largest, as this rank holds it
};

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

    std::vector<Gradients> kinds;
    for_each_tensor(*job_.model, [&](const Parameter& parameter, std::int64_t copies) {
        if (!parameter.trainable) return;
        const Dtype& type = gradient_dtype(job_.precision, parameter);
        auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Gradients& k) { return k.type == &type; });
        if (kind == kinds.end()) kind = kinds.insert(kind, Gradients{&type});
        kind->tensors = detail::checked_add(kind->tensors, copies);
        kind->largest = std::max(kind->largest, ceil_div(parameter.elements(), degree(partition)).count());
    });
    if (kinds.empty()) return;

    const TermId term = terms_.intern("temporaries/clipping");
    std::vector<Event> norms;
    std::int64_t tensors = 0;
    const Dtype* widest = kinds.front().type;
    for (const Gradients& kind : kinds) {
        std::vector<Event> sums;
        if (job_.backend == Backend::cuda)
            alloc(sums, term,
                  byte_count(detail::checked_mul(kind.tensors, ceil_div(Elements(kind.largest), kChunk).count()),
                             kind.type->bits > 32 ? *kind.type : dtype::fp32),
                  1, "sums of chunks");
        events.insert(events.end(), sums.begin(), sums.end());
        std::vector<Event> of_kind;
        alloc(of_kind, term, byte_count(1, *kind.type), kind.tensors, "norm of a gradient");
        events.insert(events.end(), of_kind.begin(), of_kind.end());
        free_all(sums, events);
        norms.insert(norms.end(), of_kind.begin(), of_kind.end());
        tensors = detail::checked_add(tensors, kind.tensors);
        if (kind.type->bits > widest->bits) widest = kind.type;
    }
    const auto scalar = [&](std::vector<Event>& into, const char* what) {
        alloc(into, term, byte_count(1, *widest), 1, what);
    };
    alloc(norms, term, byte_count(tensors, *widest), 1, "stacked norms");
    events.push_back(norms.back());
    std::vector<Event> kept;
    scalar(kept, "total norm");
    events.push_back(kept.back());
    free_all(norms, events);
    std::vector<Event> quotient;
    for (const char* what : {"total norm and epsilon", "reciprocal", "coefficient"}) scalar(quotient, what);
    events.insert(events.end(), quotient.begin(), quotient.end());
    free_all({quotient.begin(), quotient.begin() + 2}, events);
    scalar(kept, "clamped coefficient");
    kept.push_back(quotient.back());
    events.push_back(kept[1]);
    free_all(kept, events);
    notes_.put(term, [&]() -> TermNote {
        return {Basis::derived, Total::allocated,
                fmt::format("norms of {} gradients, each a scalar, and one tensor of all", group_digits(tensors)),
                "torch/nn/utils/clip_grad.py"};
    });
}

}  // namespace membudget
