#pragma once

/// Gradients that CUDA sums over rows: those of what was broadcast over tokens, a bias or a norm's weight.

#include <cstdint>

#include "membudget/autograd.hpp"

namespace membudget {

/// Bytes of partial sums in global memory that CUDA's reduction allocates to sum `rows` rows of `outputs`
/// numbers to one row, and of the semaphores beside them; none where a thread block sums a column by itself
/// [aten/src/ATen/native/cuda/Reduce.cuh setReduceConfig, global_memory_size, semaphore_size].
struct RowSumScratch {
    std::int64_t partial_sums = 0;
    std::int64_t semaphores = 0;
};
[[nodiscard]] RowSumScratch row_sum_scratch(std::int64_t outputs, std::int64_t rows);

/// The gradient of input `input`, one row of `outputs` numbers, summed over `rows` rows.
void grad_of_row(Tape::NodeBuilder& node, std::size_t input, Backend backend, std::int64_t outputs,
                 std::int64_t rows, const char* what);

}  // namespace membudget
