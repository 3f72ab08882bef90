#include <set>

#include "catch.hpp"
#include "membudget/stack.hpp"

using namespace membudget;

namespace {

/// Bytes per parameter, in whole 1/degree-ths: what is replicated and what is sharded.
struct PerParameter {
    std::int64_t replicated = 0;
    std::int64_t sharded = 0;
    friend bool operator==(const PerParameter&, const PerParameter&) = default;
};

std::int64_t bytes(const Dtype* type) { return type == nullptr ? 0 : type->bits / 8; }

/// Weight, gradient, master and Adam's two moments, and the gradient copy for the step.
PerParameter per_parameter(std::string_view precision, std::string_view sharding) {
    const Precision& p = *precisions().find(precision);
    const Sharding& s = *shardings().find(sharding);
    const Dtype* gradient = p.gradients != nullptr ? p.gradients : p.parameters;
    const Dtype* updated = p.master_weights != nullptr ? p.master_weights : p.parameters;
    const Dtype* moment = p.states != nullptr ? p.states : updated;
    PerParameter out;
    const auto add = [&](Partition partition, std::int64_t n) {
        (partition == Partition::whole ? out.replicated : out.sharded) += n;
    };
    add(s.parameters, bytes(p.parameters));
    add(s.gradients, bytes(gradient));
    add(s.states, bytes(p.master_weights) + bytes(p.gradient_copy));
    // Through the optimizer's row: 2^20 elements, so that no rounding hides anything.
    const std::vector<std::int64_t> shape{1 << 20};
    add(s.states, state_bytes(*optimizers().find("adamw"), shape, *moment).count() >> 20);
    return out;
}

}  // namespace

TEST_CASE("every precision row is complete") {
    std::set<std::string_view> names;
    for (const Precision& row : precisions()) {
        INFO(row.name);
        CHECK(names.insert(row.name).second);
        CHECK_FALSE(row.doc.empty());
        CHECK_FALSE(row.source.empty());
        CHECK(row.parameters != nullptr);
        // A copy of gradients to the type that they have already would be none.
        CHECK(row.gradient_copy != (row.gradients != nullptr ? row.gradients : row.parameters));
        CHECK((row.reduced == nullptr || row.gathered != nullptr));
        CHECK((row.autocast == nullptr || row.gathered == nullptr));
    }
    CHECK(names.size() >= 15);
}

TEST_CASE("bytes per parameter with Adam, replicated") {
    const auto bytes = [](std::string_view precision) { return per_parameter(precision, "none").replicated; };
    CHECK(bytes("fp32") == 16);
    CHECK(bytes("bf16-autocast") == 16);
    CHECK(bytes("fp16-autocast") == 16);
    CHECK(bytes("bf16") == 8);
    CHECK(bytes("fp16") == 8);
    CHECK(bytes("bf16-fp32-master") == 18);
    CHECK(bytes("fp16-fp32-master") == 16);
    CHECK(bytes("megatron-bf16") == 18);
    CHECK(bytes("megatron-fp16") == 20);
    CHECK(bytes("megatron-fp32") == 16);
    CHECK(bytes("megatron-bf16-grad-reduce-in-bf16") == 20);
    CHECK(bytes("deepspeed-bf16") == 16 + 4);
    CHECK(bytes("deepspeed-fp16") == 16 + 4);
    CHECK(bytes("deepspeed-bf16-fp32-grads") == 18);
}

TEST_CASE("bytes per parameter with Adam, sharded over d ranks") {
    // Megatron-LM docs/user-guide/features/dist_optimizer.md: 6 + 12/d, 4 + 16/d, 8 + 8/d
    CHECK(per_parameter("megatron-bf16", "megatron-distributed-optimizer") == PerParameter{6, 12});
    CHECK(per_parameter("megatron-fp16", "megatron-distributed-optimizer") == PerParameter{4, 16});
    CHECK(per_parameter("megatron-fp32", "megatron-distributed-optimizer") == PerParameter{8, 8});
    CHECK(per_parameter("megatron-precision-aware", "megatron-distributed-optimizer") ==
          PerParameter{6, 10});
    // DeepSpeed's own estimators: 2 + 18/d for stage 2 (stage_1_and_2.py), 20/d for stage 3 with the copy
    CHECK(per_parameter("deepspeed-bf16", "zero1") == PerParameter{4, 16});
    CHECK(per_parameter("deepspeed-bf16", "zero2") == PerParameter{2, 18});
    CHECK(per_parameter("deepspeed-bf16", "zero3") == PerParameter{0, 20});
    CHECK(per_parameter("deepspeed-bf16-fp32-grads", "zero1") == PerParameter{6, 12});
    for (const char* fsdp : {"fsdp1", "fsdp2", "hsdp"}) {
        CHECK(per_parameter("fsdp-mixed", fsdp) == PerParameter{0, 16});
        CHECK(per_parameter("accelerate-fsdp-bf16", fsdp) == PerParameter{0, 16});
        CHECK(per_parameter("bf16", fsdp) == PerParameter{0, 8});
    }
    CHECK(per_parameter("fp32", "ddp") == PerParameter{16, 0});
}

TEST_CASE("bytes per parameter with states whose type the optimizer fixes") {
    // bf16 weights and gradients: 4; bitsandbytes and Apex keep fp32 moments: 12 in all
    const std::vector<std::int64_t> shape{1 << 20};
    const Dtype& bf16 = *precisions().find("bf16")->parameters;
    CHECK(state_bytes(*optimizers().find("adamw-bnb-32bit"), shape, bf16).count() >> 20 == 8);
    CHECK(state_bytes(*optimizers().find("adamw-apex-fused"), shape, bf16).count() >> 20 == 8);
    CHECK(state_bytes(*optimizers().find("paged-adamw-32bit"), shape, bf16).count() >> 20 == 8);
}
