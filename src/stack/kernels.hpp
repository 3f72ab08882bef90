#pragma once

/// The functions behind the rows of `kernels.cpp`. Each runs one op on the tape.

#include "membudget/stack.hpp"

namespace membudget::kernel {

// kernels_linear.cpp
void embedding(KernelCall& call);
void linear(KernelCall& call);
void linear_of_early_bitsandbytes(KernelCall& call);
/// A linear module that a kernel runs: its input, where its own parameters begin, and the sizes of its product.
struct LinearModule {
    KernelCall& call;
    Ref x;                    ///< held by the module's forward until it returns
    std::size_t weight = 0;   ///< index of the weight; the bias follows it
    bool biased = false;
    std::int64_t rows = 0, in = 0, out = 0;
    const Adapter* adapter = nullptr;
    bool keeps = false;       ///< a 4-bit product refers to its input as long as its node exists

    [[nodiscard]] const Parameter& shape() const { return call.shape_of_parameter(weight); }
    [[nodiscard]] Ref bias() const { return biased ? call.parameter(weight + 1) : Ref(); }
};
[[nodiscard]] Ref run_linear(LinearModule module);
/// Rows, inputs and outputs of a linear module.
struct LinearShape {
    std::int64_t rows = 0, in = 0, out = 0;
};
/// A linear module that an op of another kind runs, with the adapter that it may have.
[[nodiscard]] Ref inner_linear(KernelCall& call, Ref x, std::size_t weight, bool biased, LinearShape shape);

// kernels_basic.cpp
void scale(KernelCall& call);
void add(KernelCall& call);
void multiply(KernelCall& call);
void split(KernelCall& call);
void transpose_heads(KernelCall& call);
void convolution(KernelCall& call);
void dropout(KernelCall& call);
void activation(KernelCall& call);
Ref gate(KernelCall& call);
void gated_activation(KernelCall& call);
/// `Act::swigluoai` of two halves, whose names are bound to what is clamped
/// [models/gpt_oss/modeling_gpt_oss.py GptOssExperts._apply_gate].
[[nodiscard]] Ref gated_by_sigmoid(Tape& tape, Ref& gate, Ref& up, Ref& glu);
void fused_gated_activation(KernelCall& call);
void softcap(KernelCall& call);
/// cap * tanh(x / cap).
[[nodiscard]] Ref softcapped(Tape& tape, Ref x);

// kernels_elementwise.cpp
void clip(KernelCall& call);
/// How many bounds `torch.clamp` is given.
enum class Bounds { one, both };
[[nodiscard]] Ref clamp(Tape& tape, const Ref& x, Bounds bounds);
void drop_path(KernelCall& call);
void zero_padding(KernelCall& call);
/// x / y, of which y has one number per row.
[[nodiscard]] Ref divide(Tape& tape, const Ref& x, const Ref& y);
/// x.norm(p=2, dim=-1, keepdim=True) of `rows` rows.
[[nodiscard]] Ref row_norm(Tape& tape, const Ref& x, std::int64_t rows);
/// A sum to `rows` numbers, whose gradient is expanded and read by the next op alone.
[[nodiscard]] Ref row_sum(Tape& tape, const Ref& x, std::int64_t rows);
/// torch.max or torch.min of x and a number: ties share the gradient [derivatives.yaml: maximum, minimum].
[[nodiscard]] Ref bounded(Tape& tape, const Ref& x, const char* what);
/// The activation xIELU (arXiv:2411.13010), whose two parameters are trained.
[[nodiscard]] Ref xielu(KernelCall& call, const Ref& x);

// kernels_windows.cpp
void pad(KernelCall& call);
void roll(KernelCall& call);
void window_mask(KernelCall& call);
void window_bias(KernelCall& call);
void merge_patches(KernelCall& call);

// kernels_norm.cpp
void layer_norm(KernelCall& call);
void hf_rms_norm(KernelCall& call);
/// (weight * x_normalised).to(x.dtype); a `narrow` weight is cast to fp32 first.
[[nodiscard]] Ref weighted_norm(Tape& tape, Ref x, Ref weight, std::int64_t rows, bool narrow = false);
void wide_rms_norm(KernelCall& call);
/// x_normalised * (1 + weight) in fp32, cast back [GemmaRMSNorm].
[[nodiscard]] Ref norm_one_plus(Tape& tape, const Ref& x, const Ref& weight, std::int64_t rows);
void fused_rms_norm(KernelCall& call);

/// act(x), op by op [transformers activations.py].
[[nodiscard]] Ref apply_activation(Tape& tape, Act act, const Ref& x);

// kernels_moe.cpp
void grouped_moe(KernelCall& call);
void looped_moe(KernelCall& call);

// kernels_rotary.cpp
void hf_rotary(KernelCall& call);
void fused_rotary(KernelCall& call);
void rotary_tables(KernelCall& call);
void latent_expand(KernelCall& call);
/// x * cos + cross(x) * sin, where the halves of x cross.
[[nodiscard]] Ref rotate(Tape& tape, const Ref& x, const Ref& cos, const Ref& sin);
/// cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin]) of the even and odd elements
/// [modeling_deepseek_v3.py apply_rotary_pos_emb_interleave].
[[nodiscard]] Ref rotate_even_odd(Tape& tape, const Ref& even, const Ref& odd, const Ref& cos, const Ref& sin);

/// rotate_half. Halves: cat((-x[..., d/2:], x[..., :d/2])). Pairs: stack((-x[..., 1::2], x[..., ::2])), flattened.
/// Both write the result once, from a negated half and a view.
[[nodiscard]] Ref cross_halves(Tape& tape, const Ref& x);

// kernels_altup.cpp
void altup(KernelCall& call);
void sparsify(KernelCall& call);

// kernels_grid.cpp
void grid_positions(KernelCall& call);
void pool_grid(KernelCall& call);
/// Both halves of each head rotate by themselves, one by rows and one by columns of patches
/// [models/gemma4/modeling_gemma4.py apply_multidimensional_rope].
[[nodiscard]] Ref rotate_axial(Tape& tape, const Ref& x, const Ref& cos, const Ref& sin);

// kernels_indexer.cpp
void sparse_mask(KernelCall& call);

// kernels_block_indexer.cpp
/// The mask of blocks of keys that MiniMax-M3's indexer chooses.
void block_mask(KernelCall& call);

// kernels_streams.cpp
void spread_streams(KernelCall& call);
void collapse_streams(KernelCall& call);
void mix_streams(KernelCall& call);
/// x * rsqrt(x.float().square().mean(-1) + eps).to(x.dtype)
[[nodiscard]] Ref unweighted_norm(Tape& tape, const Ref& x, std::int64_t rows);

// kernels_compressed.cpp
void compress(KernelCall& call);
/// The bias of the windows' entries that DeepSeek-V4's indexer chooses.
void entry_bias(KernelCall& call);
/// The last `rotary_dim` of each `head_dim` dimensions, rotated in fp32 by tables of one angle for each pair.
[[nodiscard]] Ref rotate_trailing(Tape& tape, const Ref& x, const Ref& cos, const Ref& sin, std::int64_t head_dim,
                                  std::int64_t rotary_dim);
void compressed_attention(KernelCall& call);

// kernels_attention.cpp
void no_mask(KernelCall& call);
void additive_mask(KernelCall& call);
void sdpa_mask(KernelCall& call);
void flash_attention(KernelCall& call);
void flash_package_attention(KernelCall& call);
void efficient_attention(KernelCall& call);
void cpu_flash_attention(KernelCall& call);
void math_attention(KernelCall& call);
void eager_attention(KernelCall& call);
Ref early_scores(KernelCall& call);

// kernels_positions.cpp
void position_bias(KernelCall& call);

// kernels_loss.cpp
void causal_lm_loss(KernelCall& call);
void shifted_logits_loss(KernelCall& call);
void float_logits_loss(KernelCall& call);
void masked_lm_loss(KernelCall& call);
void small_loss(KernelCall& call);
void span_loss(KernelCall& call);
void classification_loss(KernelCall& call);

// kernels_vision.cpp
void conv_patches(KernelCall& call);
void concat(KernelCall& call);
void mean_patches(KernelCall& call);
void average_pool(KernelCall& call);

void join_images(KernelCall& call);
void add_images(KernelCall& call);
void unfold(KernelCall& call);
void ids(KernelCall& call);
void reorder(KernelCall& call);
void interpolate(KernelCall& call);

// kernels_contrastive.cpp
void pick_token(KernelCall& call);
void attention_pool(KernelCall& call);
void contrastive_loss(KernelCall& call);

/// `F.linear` of an input that is not contiguous: it is copied, and the bias added in place
/// [aten/src/ATen/native/Linear.cpp linear].
[[nodiscard]] Ref linear_of_strided(Tape& tape, Ref x, Ref weight, Ref bias, LinearShape shape);

// kernels_linear_loss.cpp
void torchtune_chunked_loss(KernelCall& call);
void litgpt_chunked_loss(KernelCall& call);
void liger_loss(KernelCall& call);
void liger_loss_with_products(KernelCall& call);

}  // namespace membudget::kernel
