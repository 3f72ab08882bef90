#include "autograd/row_sums.hpp"

#include <algorithm>
#include <bit>

namespace membudget {

namespace {

using detail::ceil_div;

// Limits of a data-center GPU of the Ampere generation (A100: 108 multiprocessors). They bound the number of
// thread blocks for wide rows only; an H100 has 132.
constexpr std::int64_t kMultiprocessors = 108;
constexpr std::int64_t kThreadsPerMultiprocessor = 2048;

// Reduce.cuh: MAX_NUM_THREADS, values of setReduceConfig.
constexpr std::int64_t kMaxThreads = 512;
constexpr std::int64_t kWarp = 32;
constexpr std::int64_t kMinValuesPerThread = 16;
constexpr std::int64_t kMaxValuesPerThread = 256;
/// Partial sums are fp32, of half types too.
constexpr std::int64_t kSumBytes = 4;

std::int64_t last_power_of_2(std::int64_t n) {
    return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
}

}  // namespace

RowSumScratch row_sum_scratch(std::int64_t outputs, std::int64_t rows) {
    if (outputs < 1 || rows < 1) return {};
    std::int64_t vector = 4;  // numbers that a thread reads at once
    while (outputs % vector != 0) vector /= 2;
    const std::int64_t threads = kMaxThreads / vector;
    const std::int64_t columns = last_power_of_2(std::min(outputs / vector, threads));
    const std::int64_t lines = last_power_of_2(std::min(rows, threads));
    const std::int64_t height = std::min(lines, threads / std::min(columns, kWarp));
    const std::int64_t width = std::min(columns, threads / height);

    const bool across_warps = rows >= std::min(height * 16, kMaxValuesPerThread);
    if (!across_warps) return {};
    const std::int64_t per_thread = ceil_div(rows, height);
    const std::int64_t grid = ceil_div(outputs / vector, width);
    const std::int64_t target = kMultiprocessors * (kThreadsPerMultiprocessor / (width * height));
    if (per_thread < kMaxValuesPerThread || grid > target) return {};
    const std::int64_t blocks = std::max(std::min(ceil_div(target, grid), ceil_div(per_thread, kMinValuesPerThread)),
                                         ceil_div(per_thread, kMaxValuesPerThread));
    if (blocks <= 1) return {};
    return {detail::checked_mul(kSumBytes * outputs, blocks * width * vector), kSumBytes * grid};
}

void grad_of_row(Tape::NodeBuilder& node, std::size_t input, Backend backend, std::int64_t outputs,
                 std::int64_t rows, const char* what) {
    node.grad(input, what);
    if (backend != Backend::cuda || !node.needs(input)) return;
    const RowSumScratch scratch = row_sum_scratch(outputs, rows);
    if (scratch.partial_sums == 0) return;
    const std::int16_t sums = node.temp(scratch.partial_sums, "partial sums over rows");
    const std::int16_t semaphores = node.temp(scratch.semaphores, "semaphores of sums");
    node.drop(semaphores);
    node.drop(sums);
}

}  // namespace membudget
