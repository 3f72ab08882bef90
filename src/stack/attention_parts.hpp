#pragma once

/// What the attention kernels share.

#include "membudget/stack.hpp"

namespace membudget::kernel {

/// Whether an input of the attention comes from a rotation, whose gradient is copied there.
[[nodiscard]] bool rotated(const KernelCall& call, std::size_t input);
/// Sequences over which an input runs: those of the micro-batch, or its images.
[[nodiscard]] std::int64_t sequences_of(const KernelCall& call, std::size_t input);
/// Tokens per sequence of an input.
[[nodiscard]] std::int64_t sequence_of(const KernelCall& call, std::size_t input);
/// Elements of batch x heads x queries x keys.
[[nodiscard]] std::int64_t scores_numel(const KernelCall& call);
/// Heads are transposed before the sequence, so a batch of more than one cannot be flattened into
/// batches of matrices without a copy; unless the tensor lies in memory head by head.
[[nodiscard]] Ref flatten(KernelCall& call, Ref x, bool head_major = false);
/// What a product of matrices gets of a tensor of heads: cast by autocast, then flattened into a batch of
/// matrices; `written`: it lies in memory head by head.
[[nodiscard]] Ref factor(KernelCall& call, const Ref& x, bool written = false);
/// An input of the attention. The projection before the transposition wants gradients token by token,
/// which arrive head by head.
[[nodiscard]] Ref untransposed(KernelCall& call, std::size_t input);
[[nodiscard]] bool has_mask(const KernelCall& call);
/// Keys or values of fewer heads, for all query heads: `expand`, then `reshape`, which copies unless
/// there is one head [transformers repeat_kv].
[[nodiscard]] Ref repeat_heads(KernelCall& call, Ref x);
struct HeadTensors {
    Ref query, key, value;
};
/// The inputs as the classes' functions find them.
[[nodiscard]] HeadTensors untransposed_heads(KernelCall& call);
/// The same, keys and values for all query heads.
[[nodiscard]] HeadTensors repeated_heads(KernelCall& call);
/// The gradient of a transposed tensor of `heads` heads, viewed token by token.
[[nodiscard]] Tape::ViewGradient transposed_gradient(std::int64_t heads);
/// The type of `softmax(scores)` where the class names none: autocast makes it fp32 on CUDA, but not
/// on the CPU [aten/src/ATen/autocast_mode.cpp].
[[nodiscard]] const Dtype& softmax_dtype(const KernelCall& call, const Ref& scores);
/// Dropout of the attention's probabilities.
[[nodiscard]] Ref drop_probabilities(KernelCall& call, Ref probabilities);
/// Back from [batch, heads, tokens, dim] to [batch, tokens, heads x dim]: a copy.
[[nodiscard]] Ref merge_heads(KernelCall& call, Ref out);

/// What the memory-efficient kernel allocates beside its output and the gradients, computing in `type`.
[[nodiscard]] Tape::FusedAttention efficient_sizes(const KernelCall& call, const Dtype& type);

/// Keys and values have fewer heads than queries.
[[nodiscard]] inline bool is_grouped(const OpAttributes& a) { return a.kv_heads > 0 && a.kv_heads != a.heads; }
/// Falcon's one key for all heads goes to SDPA as it is. No fused kernel takes heads that are to be broadcast
/// [models/falcon/modeling_falcon.py FalconAttention.forward; aten/src/ATen/native/transformers/sdp_utils_cpp.h
/// check_batch_size_and_num_heads_dense].
[[nodiscard]] inline bool broadcasts_heads(const OpAttributes& a) {
    return a.form == AttentionForm::falcon && a.kv_heads == 1 && a.heads > 1;
}
/// The widest heads of which transformers leaves groups to the kernel [integrations/sdpa_attention.py
/// use_gqa_in_sdpa].
inline constexpr std::int64_t kWidestGrouped = 256;
/// Heads of values have another width than those of queries and keys.
[[nodiscard]] inline bool values_differ(const OpAttributes& a) { return a.value_dim > 0 && a.value_dim != a.head_dim; }
/// The type that a fused kernel computes in.
[[nodiscard]] const Dtype& computed_dtype(const KernelCall& call);
/// The output of a fused kernel lies in memory as its queries do; where that is head by head, it is
/// copied before the projection.
void finish_fused(KernelCall& call, Ref out);

/// The kernel that scaled_dot_product_attention takes on CUDA.
enum class Sdpa { flash, efficient, math };
[[nodiscard]] Sdpa sdpa_choice(const KernelCall& call);
/// Its flash kernel.
void finish_flash(KernelCall& call);
/// The flash-attn package, as transformers calls it.
void flash_package(KernelCall& call);

/// DeBERTa's attention, and the scores of contents that it computes before positions are projected.
void disentangled(KernelCall& call);
void disentangled_joined(KernelCall& call);
[[nodiscard]] Ref disentangled_scores(KernelCall& call);
[[nodiscard]] Ref joined_scores(KernelCall& call);

/// Where each image, or window of an image, attends to itself alone: runs `attend` for one after the other;
/// false for other attentions.
bool run_image_by_image(KernelCall& call, void (*attend)(KernelCall& call));

// kernels_attention_kin.cpp
void granite_swa(KernelCall& call);
void openai_gpt(KernelCall& call);
void xglm(KernelCall& call);
void returned(KernelCall& call);
void mpnet(KernelCall& call);

// kernels_windows.cpp
void cosine(KernelCall& call);

/// Runs the function of a class that writes attention out by itself; false when it has none for an
/// eager kernel.
bool run_eager_form(KernelCall& call);
/// Scores beside a learned one per head, the op's first parameter, in the wider type of both.
[[nodiscard]] Ref with_sinks(KernelCall& call, const Ref& scores, std::int64_t rows);
/// `scores - scores.max(dim=-1, keepdim=True).values`.
[[nodiscard]] Ref less_row_maximum(Tape& tape, const Ref& scores, std::int64_t rows);

}  // namespace membudget::kernel
