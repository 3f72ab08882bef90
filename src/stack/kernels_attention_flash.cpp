// Flash attention on CUDA: the kernel of scaled_dot_product_attention and when it runs, and the flash-attn
// package with what transformers does around it.

#include <cstdint>
#include <utility>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

using detail::ceil_div;
using detail::checked_add;
using detail::checked_mul;

/// The flash kernels know heads of at most so many numbers.
constexpr std::int64_t kWidestHead = 256;

std::int64_t product(std::int64_t a, std::int64_t b, std::int64_t c) { return checked_mul(a, checked_mul(b, c)); }

std::int64_t up(std::int64_t n, std::int64_t to) { return ceil_div(n, to) * to; }

/// What the flash kernels allocate over heads of `head_dim` [flash_api.cpp mha_fwd, mha_bwd, mha_varlen_bwd]:
/// the log-sum-exp and the random state; in backward the row sums of dout * out, whose rows are padded to 128,
/// and the fp32 accumulator of dq, whose heads are padded to 32 (64 beyond 128). Of sequences without padding
/// tokens (`packed`) the accumulator has 128 rows more for each.
Tape::FusedAttention flash_sizes(const KernelCall& call, bool packed) {
    const OpAttributes& a = call.attributes();
    const std::int64_t batch = sequences_of(call, 0);
    const std::int64_t queries = sequence_of(call, 0);
    const std::int64_t padded_rows = up(queries, 128);
    const std::int64_t padded_dim = up(a.head_dim, a.head_dim > 128 ? 64 : 32);
    const std::int64_t rows =
        packed ? checked_add(checked_mul(batch, queries), 128 * batch) : checked_mul(batch, padded_rows);
    Tape::FusedAttention how;
    how.lse_numel = product(batch, a.heads, queries);
    how.rng_bytes = 16;
    how.backward_workspace = checked_add(4 * product(rows, a.heads, padded_dim), 4 * product(batch, a.heads, padded_rows));
    if (is_grouped(a))  // dk and dv for each query head, summed into those of the groups
        how.expanded_kv_numel = product(call.rows(call.input_tensor(1)), a.heads, a.head_dim);
    return how;
}

/// A tensor whose gradient is made anew with the tensor's size: gathered, padded, cut.
Ref rebuilt(Tape& tape, const Ref& x, std::int64_t numel, const Ref& saved, const char* what) {
    Ref out = tape.fresh(numel, x.dtype(), what);
    Tape::NodeBuilder node(tape, what, {&x});
    node.save(saved);
    node.grad(0);
    node.finish(out);
    return out;
}

}  // namespace

Sdpa sdpa_choice(const KernelCall& call) {
    // [aten/src/ATen/native/transformers/cuda/sdp_utils.cpp can_use_flash_attention: check_for_attn_mask,
    // check_tensor_dtype, check_head_dim_size_flash; can_use_mem_efficient_attention]
    const OpAttributes& a = call.attributes();
    const bool one_width = !values_differ(a) && a.head_dim <= kWidestHead;
    const bool half = computed_dtype(call).bits <= 16;
    if (broadcasts_heads(a)) return Sdpa::math;
    if (!has_mask(call) && half && one_width) return Sdpa::flash;
    // Groups are left to the kernel where no mask and no width speaks against it [transformers
    // integrations/sdpa_attention.py use_gqa_in_sdpa]; on CUDA flash and math alone know them
    // [torch/nn/functional.py scaled_dot_product_attention; sdp_utils_cpp.h
    // check_batch_size_and_num_heads_dense].
    if (!has_mask(call) && one_width && is_grouped(a)) return Sdpa::math;
    return Sdpa::efficient;
}

void finish_flash(KernelCall& call) {
    call.out(0, call.tape.fused_attention(call.in(0), call.in(1), call.in(2), Ref(),
                                          call.numel(call.output_tensor(0)), flash_sizes(call, false)));
}

/// transformers integrations/flash_attention.py flash_attention_forward and
/// modeling_flash_attention_utils.py _flash_attention_forward; flash_attn_interface.py.
void flash_package(KernelCall& call) {
    Tape& tape = call.tape;
    const OpAttributes& a = call.attributes();
    const bool padded = call.extents.padding_mask;
    Ref q = call.in(0);
    Ref k = call.in(1);
    Ref v = call.in(2);
    // Queries and values share a width: values are padded to it, the output is cut.
    const std::int64_t kv_heads = a.kv_heads > 0 ? a.kv_heads : a.heads;
    const bool widened = values_differ(a);
    if (widened)
        v = rebuilt(tape, v, product(call.rows(call.input_tensor(2)), kv_heads, a.head_dim), Ref(), "padded values");
    const std::int64_t queries = call.rows(call.input_tensor(0));
    Ref positions;
    if (padded) {
        // _upad_input: tokens that are no padding are gathered by their positions; at most all of them.
        positions = tape.fresh(queries, dtype::int64, "positions of tokens");
        for (Ref* x : {&k, &v, &q}) *x = rebuilt(tape, *x, x->numel(), positions, "tokens without padding");
    }
    Ref out = tape.fused_attention(std::move(q), std::move(k), std::move(v), Ref(),
                                   product(queries, a.heads, a.head_dim), flash_sizes(call, padded));
    if (padded) out = rebuilt(tape, out, out.numel(), positions, "output with padding");
    if (widened) {
        Ref cut = tape.slice(std::move(out), call.numel(call.output_tensor(0)));
        out = tape.copy(std::move(cut));
    }
    call.out(0, std::move(out));
}

}  // namespace membudget::kernel
