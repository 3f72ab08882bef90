// The tape against recorded CUDA steps, allocation by allocation: sizes and order are those of the
// allocator history of a GPT-like model in fp32 (24 layers, hidden size 1024, feed-forward 4096, batch
// 4 x 128 tokens, PyTorch on CUDA), as published in
// Wedsonlin/assignment2-systems@87b08641 results/medium_128_training_memory_snapshot.pickle.

#include "catch.hpp"

#include <cstdint>
#include <vector>

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
