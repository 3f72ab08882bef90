// The memory-efficient kernel of scaled_dot_product_attention. Sizes of blocks are those of devices
// with 163 KB of shared memory per block (A100, H100).

#include <algorithm>
#include <cstdint>

#include "stack/attention_parts.hpp"
#include "stack/kernels.hpp"

namespace membudget::kernel {

namespace {

using detail::ceil_div;
using detail::checked_add;
using detail::checked_mul;

/// What one call of the kernel runs over.
struct Extent {
    std::int64_t batch_heads, queries, keys, head_dim;
    bool half;
};

/// Tile of queries x keys of the backward kernel [mem_eff_attention/kernels/cutlassB.h
/// dispatch_cutlassB_{f32,f16,bf16}_sm80: the first that fits].
struct Tile {
    std::int64_t queries, keys;
    bool in_registers;  ///< gradients of keys and values: kOutputInRF
};

Tile tile_of(const Extent& e) {
    if (e.head_dim <= 64) return {64, 64, e.half};
    if (e.half && e.head_dim <= 128) return {128, 128, true};
    return {128, 64, false};
}

/// Bytes of `workspace` [mem_eff_attention/kernel_backward.h Params::workspace_size]: an fp32 tile of
/// dq with its lock for every block of queries and columns; for half types whose dk and dv do not fit
/// into registers, an fp32 tile of each for every split of the keys.
std::int64_t accumulators(const Extent& e) {
    const Tile tile = tile_of(e);
    const std::int64_t dq = checked_mul(
        checked_mul(ceil_div(e.queries, tile.queries), ceil_div(e.head_dim, tile.keys)),
        4 + tile.queries * tile.keys);
    std::int64_t dkv = 0;
    if (e.half && !tile.in_registers) {
        // Splits stop at 200 blocks [xformers 0.0.23 csrc/attention/cuda/fmha/attention_backward_generic.cu,
        // from which torch has the kernel].
        const std::int64_t blocks = std::max<std::int64_t>(e.batch_heads, 1);
        const std::int64_t splits = std::max<std::int64_t>(
            1, std::min(200 / blocks, ceil_div(e.keys, tile.keys)));
        const std::int64_t width = checked_mul(ceil_div(e.head_dim, tile.queries), tile.queries);
        dkv = checked_mul(2 * splits * tile.keys, width);
    }
    return checked_mul(4 * e.batch_heads, checked_add(dq, dkv));
}

/// The largest sum of what backward holds beside the gradients: `delta`, the row sums of dout * out,
/// with the accumulators. In fp32 the kernel does not compute delta: the whole product is written
/// first, and gone before the accumulators come.
std::int64_t backward_workspace(const Extent& e) {
    const std::int64_t rows = checked_mul(e.batch_heads, e.queries);
    const std::int64_t product = e.half ? 0 : checked_mul(4, checked_mul(rows, e.head_dim));
    return checked_add(checked_mul(4, rows), std::max(accumulators(e), product));
}

}  // namespace

Tape::FusedAttention efficient_sizes(const KernelCall& call, const Dtype& type) {
    const OpAttributes& a = call.attributes();
    const Extent e{checked_mul(sequences_of(call, 0), a.heads), sequence_of(call, 0),
                   sequence_of(call, 1), a.head_dim, type.bits <= 16};
    Tape::FusedAttention how;
    // Rows of the log-sum-exp are padded [kernel_forward.h kAlignLSE]; the random state is on the host.
    how.lse_numel = checked_mul(e.batch_heads, checked_mul(ceil_div(e.queries, 32), 32));
    how.backward_workspace = backward_workspace(e);
    return how;
}

}  // namespace membudget::kernel
