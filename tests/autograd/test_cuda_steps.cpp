// The tape against recorded CUDA steps, allocation by allocation: sizes and order are those of the
// allocator history of a GPT-like model in fp32 (24 layers, hidden size 1024, feed-forward 4096, batch
// 4 x 128 tokens, PyTorch on CUDA), as published in
// Wedsonlin/assignment2-systems@87b08641 results/medium_128_training_memory_snapshot.pickle.

#include "catch.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include "autograd/row_sums.hpp"
#include "membudget/autograd.hpp"

using namespace membudget;

namespace {

using Changes = std::vector<std::int64_t>;

constexpr std::int64_t kTokens = 4 * 128;
constexpr std::int64_t kHidden = 4 * kTokens * 1024;       // 2097152 bytes
constexpr std::int64_t kFeedForward = 4 * kTokens * 4096;  // 8388608 bytes
constexpr std::int64_t kPerToken = 4 * kTokens;            // 2048 bytes

/// A tape on CUDA and the bytes of what it allocates (+) and frees (-).
class Recorder {
public:
    Recorder() : tape(TapeTerms{}, Backend::cuda) { tape.record_to(&events_); }

    [[nodiscard]] Changes take() {
        Changes out;
        for (const Event& event : events_) out.push_back(event.bytes);
        events_.clear();
        return out;
    }
    Ref input(std::int64_t bytes) { return tape.adopt(bytes / 4, dtype::fp32, true, 0); }
    Ref weight(std::int64_t numel) {
        Leaf leaf;
        leaf.numel = numel;
        leaf.dtype = &dtype::fp32;
        return tape.parameter(tape.add_leaf(leaf));
    }
    /// Backward from `output` with a gradient that an op after it made.
    Changes backward(Ref output) {
        const Ref alias = tape.alias(output);
        const std::int64_t bytes = output.numel() * 4;
        output.reset();
        (void)take();
        tape.seed(alias, {true, false, bytes, {}});
        tape.backward();
        return take();
    }

private:
    std::vector<Event> events_;  // before the tape: what dies with it still writes here

public:
    Tape tape;
};

}  // namespace

TEST_CASE("RMSNorm in fp32, op by op", "[autograd]") {
    // rms = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps); x = x * rms; return weight * x
    Recorder recorder;
    Tape& tape = recorder.tape;
    const Ref weight = recorder.weight(1024);
    Ref x = recorder.input(kHidden);
    Ref square = tape.square(x);
    Ref mean = tape.mean(square, kTokens);
    square.reset();
    Ref sum = tape.add_scalar(mean);
    mean.reset();
    Ref rms = tape.rsqrt(sum);
    sum.reset();
    Ref scaled = tape.mul(x, rms);
    Ref out = tape.mul(weight, scaled);
    CHECK(recorder.take() == Changes{kHidden, kPerToken, -kHidden, kPerToken, -kPerToken, kPerToken,
                                     -kPerToken, kHidden, kHidden});
    for (Ref* name : {&x, &rms, &scaled}) name->reset();

    CHECK(recorder.backward(std::move(out)) ==
          Changes{// weight * x: two products, one summed to the weight's shape
                  kHidden, kHidden, 4096, -kHidden, -kHidden, -kHidden,
                  // x * rms: two products, one summed to a number per token
                  kHidden, kHidden, kPerToken, -kHidden, -kHidden,
                  // rsqrt
                  kPerToken, kPerToken, kPerToken, -kPerToken, -kPerToken, -kPerToken, -kPerToken,
                  // mean
                  kHidden, -kPerToken,
                  // pow; its gradient is added to that of x in place
                  kHidden, kHidden, kHidden, -kHidden, -kHidden, -kHidden, -kHidden, -kHidden});
}

TEST_CASE("a gated feed-forward in fp32, op by op", "[autograd]") {
    // silu(gate) * up with silu(x) = x * torch.sigmoid(x)
    Recorder recorder;
    Tape& tape = recorder.tape;
    Ref gate = recorder.input(kFeedForward);
    Ref up = recorder.input(kFeedForward);
    Ref sigmoid = tape.unary_saving_output(gate, "sigmoid");
    Ref silu = tape.mul(gate, sigmoid);
    Ref out = tape.mul(silu, up);
    CHECK(recorder.take() == Changes{kFeedForward, kFeedForward, kFeedForward});
    for (Ref* name : {&gate, &up, &sigmoid, &silu}) name->reset();

    constexpr std::int64_t n = kFeedForward;
    CHECK(recorder.backward(std::move(out)) == Changes{// silu * up
                                                       n, n, -n, -n, -n,
                                                       // x * sigmoid(x): x is still needed by none
                                                       n, n, -n, -n,
                                                       // sigmoid; its gradient is added in place
                                                       n, -n, -n, -n});
}

TEST_CASE("sums over rows take partial sums in global memory", "[autograd]") {
    // 1024 numbers: blocks of 32 x 4 threads, 4 numbers each, so 8 blocks side by side.
    const auto bytes = [](std::int64_t outputs, std::int64_t rows) {
        const RowSumScratch scratch = row_sum_scratch(outputs, rows);
        return std::pair{scratch.partial_sums, scratch.semaphores};
    };
    using Pair = std::pair<std::int64_t, std::int64_t>;
    CHECK(bytes(1024, 512) == Pair{0, 0});  // 128 rows per thread: no block needs another
    // As recorded: Wedsonlin/assignment2-systems@87b08641, 256 and 1024 tokens per sequence.
    CHECK(bytes(1024, 1024) == Pair{8388608, 32});   // 256 rows per thread / 16 = 16 blocks per column
    CHECK(bytes(1024, 4096) == Pair{33554432, 32});  // 1024 / 16 = 64
    // Wide rows: ceil(108 x 16 / 128) = 14 blocks per column fill an A100.
    CHECK(bytes(16384, 8192) == Pair{4 * 16384 * 14 * 128, 512});
    CHECK(bytes(7, 1 << 20).first > 0);  // an odd width is read number by number
    CHECK(bytes(0, 4) == Pair{0, 0});
}

TEST_CASE("the gradient of an embedding of many ids sorts them", "[autograd]") {
    Recorder recorder;
    Tape& tape = recorder.tape;
    const Ref table = recorder.weight(std::int64_t{10000} * 8);
    constexpr std::int64_t kIds = 4000;
    const Ref ids = tape.borrow(kIds, dtype::int64, false);
    Ref out = tape.embedding(ids, table, kIds * 8);
    // 4000 segments at most, and 400 sums more: 10 rows each.
    constexpr std::int64_t n = 8 * kIds;
    CHECK(recorder.backward(std::move(out)) ==
          Changes{n, n, n, -n, 4 * 80000, n, n, n, 8 * 4400, 4 * 4400 * 8,  //
                  -4 * 4400 * 8, -8 * 4400, -n, -n, -n, -n, -n, -4 * kIds * 8});
}
