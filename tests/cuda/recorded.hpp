#pragma once

/// What a memory snapshot says that CUDA's allocator was asked for, with the op that asked.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cuda_test {

struct RecordedEvent {
    std::int64_t bytes = 0;    ///< allocated (+) or freed (-)
    std::size_t made = 0;      ///< index of the allocation; of a tensor that is older than the trace: kOlder
    std::string op;            ///< what allocated the tensor: "mul_Tensor", "MmBackward0 mm"
    bool in_optimizer = false; ///< in the `step` of an optimizer
};
inline constexpr std::size_t kOlder = static_cast<std::size_t>(-1);
/// `RecordedEvent::op` of what cuBLAS works in.
inline constexpr const char* kWorkspace = "cuBLAS workspace";

/// Allocations and frees of the busiest device of a snapshot, in their order; empty: no such file.
[[nodiscard]] std::vector<RecordedEvent> recorded(const std::string& path);

}  // namespace cuda_test
