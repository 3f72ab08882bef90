#pragma once

/// The GPT of Stanford's CS336 assignments, written on the tape as its authors wrote it in Python: the
/// model of the recorded steps. Its modules are not those of any row of `membudget list kernels`; the
/// ops that they consist of are the tape's.

#include <cstdint>
#include <string_view>
#include <vector>

#include "membudget/autograd.hpp"

namespace cuda_test {

/// What an op of that model is, for the table of what was confirmed.
enum class Part : std::uint16_t {
    embedding, rms_norm, linear, heads, rotary, mask, scores, softmax, values, silu, gate, residual, loss, seed, count
};
[[nodiscard]] std::string_view name_of(Part part);

struct GptShape {
    std::int64_t layers = 24, hidden = 1024, heads = 16, feed_forward = 4096, vocabulary = 10000;
    std::int64_t batch = 4, sequence = 128;
    const membudget::Dtype* autocast = nullptr;
    /// The assignment of 2024: rotary tables are indexed by a tensor of positions, the embedding by `[ids, :]`.
    bool indexed_positions = false;
};

/// Events of forward, loss and backward of one step, in their order; `Event::label.op` is the `Part`
/// that made the tensor. No gradient exists before; logits and loss outlive the step.
[[nodiscard]] std::vector<membudget::Event> gpt_step(const GptShape& shape);

}  // namespace cuda_test
