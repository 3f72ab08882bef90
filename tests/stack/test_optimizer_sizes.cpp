#include <set>
#include <string>

#include "catch.hpp"
#include "membudget/stack.hpp"
#include "shapes.hpp"

using namespace membudget;
using namespace membudget::test;

namespace {

const Optimizer& row(std::string_view name) {
    const Optimizer* found = optimizers().find(name);
    REQUIRE(found != nullptr);
    return *found;
}

const StateSlot& slot(const Optimizer& optimizer, std::string_view name) {
    for (const StateSlot& one : optimizer.slots)
        if (one.name == name) return one;
    throw InternalError("no such slot");
}

std::int64_t slot_total(std::string_view optimizer, std::string_view name, const Shapes& shapes,
                        const Dtype& type, OptimizerOptions options = {}) {
    const Optimizer& of = row(optimizer);
    Bytes out;
    for (const auto& shape : shapes)
        out += slot_bytes(slot(of, name), shape, type, nullptr, options.empty() ? of.options : options);
    return out.count();
}

std::int64_t total(std::string_view optimizer, Shape shape, const Dtype& type) {
    return state_bytes(row(optimizer), shape, type).count();
}

}  // namespace

TEST_CASE("every optimizer row is complete") {
    std::set<std::string_view> names;
    CHECK(optimizers().size() >= 38);
    for (const Optimizer& optimizer : optimizers()) {
        INFO(optimizer.name);
        CHECK(names.insert(optimizer.name).second);
        CHECK_FALSE(optimizer.doc.empty());
        CHECK_FALSE(optimizer.source.empty());
        CHECK_FALSE(optimizer.implementations.empty());
        std::set<std::string_view> implementations, slots, options;
        for (const OptimizerImplementation& one : optimizer.implementations) {
            CHECK(implementations.insert(one.name).second);
            CHECK_FALSE(one.source.empty());
            CHECK(one.list_copies_tenths >= 0);
            CHECK(one.list_copies_tenths_first >= 0);
        }
        bool pages = false;
        for (const StateSlot& one : optimizer.slots) {
            CHECK(slots.insert(one.name).second);
            CHECK(one.size != nullptr);
            CHECK_FALSE(one.rule.empty());
            pages = pages || one.paged_from > 0;
        }
        CHECK(pages == optimizer.paged);
        for (const OptimizerOption& one : optimizer.options) {
            CHECK(options.insert(one.name).second);
            CHECK(one.value > 0);
            CHECK_FALSE(one.doc.empty());
        }
        CHECK((optimizer.handles == nullptr) == optimizer.fallback.empty());
        if (optimizer.fallback.empty()) continue;
        const Optimizer& fallback = row(optimizer.fallback);
        CHECK(fallback.handles == nullptr);
        if (optimizer.fallback_implementation.empty()) continue;
        const auto& all = fallback.implementations;
        CHECK(std::any_of(all.begin(), all.end(), [&](const auto& one) {
            return one.name == optimizer.fallback_implementation;
        }));
    }
}

TEST_CASE("size rules take any shape, also one cut flat") {
    const Shapes shapes{{}, {0}, {1}, {7}, {4096}, {3, 5}, {1, 4096}, {4096, 1}, {2, 3, 4}, {64, 3, 7, 7}};
    for (const Optimizer& optimizer : optimizers())
        for (const auto& shape : shapes)
            for (const Dtype* type : {&dtype::fp32, &dtype::bf16}) {
                INFO(optimizer.name << " with " << shape.size() << " dimensions");
                for (const StateSlot& one : optimizer.slots)
                    CHECK(slot_bytes(one, shape, *type, nullptr, optimizer.options) >= Bytes(0));
                for (const OptimizerImplementation& one : optimizer.implementations) {
                    const auto bytes = [&](StateSize rule) {
                        return rule == nullptr ? Bytes(0) : rule(shape, *type, optimizer.options);
                    };
                    CHECK(bytes(one.tensor_scratch) >= bytes(one.tensor_carried));
                }
            }
}

// Bytes of the tensors in `optimizer.state` after three steps, without scalars: PyTorch 2.13.0,
// transformers 5.24.0, bitsandbytes 0.50.2, lion-pytorch 0.2.5, schedulefree 1.4.1, adam-mini 1.1.1,
// galore-torch 1.0 (rank 8), pytorch-optimizer 4.1.0.
TEST_CASE("state bytes as measured: fp32 parameters") {
    struct Measured {
        const char* optimizer;
        const char* slot;
        std::int64_t bytes;
    };
    const Measured measured[] = {
        {"sgd-momentum", "momentum_buffer", 132096},
        {"adam", "exp_avg", 132096},
        {"adam", "exp_avg_sq", 132096},
        {"adamw", "exp_avg", 132096},
        {"adamw", "exp_avg_sq", 132096},
        {"adam-amsgrad", "max_exp_avg_sq", 132096},
        {"adamw-amsgrad", "max_exp_avg_sq", 132096},
        {"nadam", "exp_avg_sq", 132096},
        {"radam", "exp_avg_sq", 132096},
        {"adamax", "exp_inf", 132096},
        {"adadelta", "square_avg", 132096},
        {"adadelta", "acc_delta", 132096},
        {"adagrad", "sum", 132096},
        {"rmsprop", "square_avg", 132096},
        {"rmsprop-momentum", "momentum_buffer", 132096},
        {"rmsprop-centered", "grad_avg", 132096},
        {"rmsprop-centered-momentum", "grad_avg", 132096},
        {"adafactor", "row_var", 2048},
        {"adafactor", "col_var", 1792},
        {"adafactor", "variance", 1024},
        {"adafactor-hf", "exp_avg_sq_row", 2048},
        {"adafactor-hf", "exp_avg_sq_col", 1792},
        {"adafactor-hf", "exp_avg_sq", 1024},
        {"adafactor-hf-momentum", "exp_avg", 132096},
        {"lion", "exp_avg", 132096},
        {"lamb", "exp_avg", 132096},
        {"lamb", "exp_avg_sq", 132096},
        {"schedule-free-adamw", "z", 132096},
        {"schedule-free-adamw", "exp_avg_sq", 132096},
        {"adam-mini", "m", 132096},
        {"adam-mini", "vmean", 2048 + 4 * 4},  // and a scalar for each vector
        {"adamw-8bit", "state1", 33792},
        {"adamw-8bit", "absmax1", 512},
        {"adamw-8bit", "state2", 33792},
        {"adamw-8bit", "absmax2", 512},
        {"lion-8bit", "state1", 33792},
        {"lion-8bit", "absmax1", 512},
        {"adamw-bnb-32bit", "state1", 132096},
        {"adamw-bnb-32bit", "state2", 132096},
        {"soap", "exp_avg", 132096},
        {"soap", "GG", 278528},
        {"soap", "Q", 278528},
        {"shampoo", "momentum_buffer", 132096},
        {"shampoo", "pre_cond", 229376 + 114688},
        {"shampoo", "inv_pre_cond", 229376 + 114688},
    };
    for (const Measured& one : measured) {
        INFO(one.optimizer << " " << one.slot);
        CHECK(slot_total(one.optimizer, one.slot, mixed(), dtype::fp32) == one.bytes);
    }
    CHECK(slot_total("muon", "momentum_buffer", matrices(), dtype::fp32) == 131072);
    // The projection is a view of the orthogonal matrix, which stays whole.
    constexpr OptimizerOption rank8[] = {{"rank", 8, ""}};
    CHECK(slot_total("galore-adamw", "projector", matrices(), dtype::fp32, rank8) == 114688);
    CHECK(slot_total("galore-adamw", "exp_avg", matrices(), dtype::fp32, rank8) == 17408 - 1024);
    CHECK(slot_total("galore-adamw", "exp_avg_sq", matrices(), dtype::fp32, rank8) == 17408 - 1024);
}

TEST_CASE("state bytes as measured: bf16 parameters") {
    CHECK(slot_total("adamw", "exp_avg", mixed(), dtype::bf16) == 66048);
    CHECK(slot_total("lion", "exp_avg", mixed(), dtype::bf16) == 66048);
    CHECK(slot_total("schedule-free-adamw", "z", mixed(), dtype::bf16) == 66048);
    CHECK(slot_total("adam-mini", "vmean", mixed(), dtype::bf16) == 1024 + 4 * 2);
    CHECK(slot_total("shampoo", "pre_cond", mixed(), dtype::bf16) == 114688 + 57344);
    // fp32 whatever the parameters are
    CHECK(slot_total("adafactor-hf", "exp_avg_sq_row", mixed(), dtype::bf16) == 2048);
    CHECK(slot_total("adafactor-hf-momentum", "exp_avg", mixed(), dtype::bf16) == 132096);
    CHECK(slot_total("adamw-bnb-32bit", "state1", mixed(), dtype::bf16) == 132096);
    CHECK(slot_total("adamw-8bit", "state1", mixed(), dtype::bf16) == 33792);
    CHECK(slot_total("adamw-apex-fused", "exp_avg", mixed(), dtype::bf16) == 132096);
    // A projection in bf16 is a copy, not a view.
    constexpr OptimizerOption rank8[] = {{"rank", 8, ""}};
    CHECK(slot_total("galore-adamw", "projector", matrices(), dtype::bf16, rank8) == 7168);
    CHECK(slot_total("galore-adamw", "exp_avg", matrices(), dtype::bf16, rank8) == 8704 - 512);
    // lomo-optim 0.1.1: 768 bytes for a matrix of 128 x 64, 32768 for a vector of 8192, at construction
    CHECK(total("adalomo", std::vector<std::int64_t>{128, 64}, dtype::bf16) == 768);
    CHECK(total("adalomo", std::vector<std::int64_t>{8192}, dtype::bf16) == 32768);
    CHECK(row("lomo").slots.empty());
}

TEST_CASE("torchao states as measured: codes, scales and table; small or odd tensors stay") {
    struct Measured {
        std::vector<std::int64_t> shape;
        std::int64_t ao8, ao4, fp8;       // bytes of one state, fp32 parameter
        std::int64_t ao8_bf16, ao4_bf16;  // bf16 parameter
    };
    const Measured measured[] = {
        {{64, 64}, 4096 + 64 + 1024, 2048 + 128 + 64, 4096 + 64, 4096 + 64 + 1024, 2048 + 128 + 64},
        {{4095}, 16380, 16380, 16380, 8190, 8190},
        {{64, 65}, 16640, 16640, 16640, 8320, 8320},
        {{128, 64}, 8192 + 128 + 1024, 4096 + 256 + 64, 8192 + 128, 8192 + 128 + 1024, 4096 + 256 + 64},
        {{4224}, 16896, 2112 + 132 + 64, 16896, 8448, 2112 + 132 + 64},
    };
    for (const Measured& one : measured) {
        INFO(one.shape.front() << " x " << one.shape.back());
        CHECK(total("ao-adamw-8bit", one.shape, dtype::fp32) == 2 * one.ao8);
        CHECK(total("ao-adamw-4bit", one.shape, dtype::fp32) == 2 * one.ao4);
        CHECK(total("ao-adamw-fp8", one.shape, dtype::fp32) == 2 * one.fp8);
        CHECK(total("ao-adamw-8bit", one.shape, dtype::bf16) == 2 * one.ao8_bf16);
        CHECK(total("ao-adamw-4bit", one.shape, dtype::bf16) == 2 * one.ao4_bf16);
    }
}

TEST_CASE("8-bit states against a count block by block") {
    // An element at a time: a code of one byte, and at each block's first element its maximum.
    const auto slow = [](std::int64_t n) {
        std::int64_t bytes = 0;
        for (std::int64_t i = 0; i < n; ++i) bytes += n < 4096 ? 4 : 1 + (i % 256 == 0 ? 4 : 0);
        return bytes;
    };
    for (const std::int64_t n : {1, 255, 256, 4095, 4096, 4097, 4352, 65'535, 65'536, 1'000'001}) {
        INFO(n);
        const std::vector<std::int64_t> shape{n};
        CHECK(total("lion-8bit", shape, dtype::bf16) == slow(n));
        CHECK(total("adamw-8bit", shape, dtype::bf16) == 2 * slow(n));
        CHECK(total("paged-adamw-8bit", shape, dtype::bf16) == 2 * slow(n));
    }
    // 2.03125 bytes per parameter for two states [bitsandbytes optim/optimizer.py]
    const std::vector<std::int64_t> large{4096, 4096};
    CHECK(total("adamw-8bit", large, dtype::bf16) * 32 == 65LL * 4096 * 4096);
}

TEST_CASE("only large states are paged, and block maxima never") {
    for (const StateSlot& one : row("paged-adamw-8bit").slots)
        CHECK((one.paged_from == 100'000) == (one.name == "state1" || one.name == "state2"));
    for (const StateSlot& one : row("adamw-8bit").slots) CHECK(one.paged_from == 0);
}

TEST_CASE("options change sizes") {
    const std::vector<std::int64_t> shape{64, 64};
    constexpr OptimizerOption larger[] = {{"min_8bit_size", 4097, ""}};
    CHECK(state_bytes(row("adamw-8bit"), shape, dtype::bf16, larger).count() == 2 * 4 * 4096);
    constexpr OptimizerOption block64[] = {{"block_size", 64, ""}};
    CHECK(state_bytes(row("ao-adamw-fp8"), shape, dtype::bf16, block64).count() == 2 * (4096 + 256));
    constexpr OptimizerOption limit[] = {{"max_precondition_dim", 100, ""}};
    const std::vector<std::int64_t> wide{128, 64};
    CHECK(slot_bytes(slot(row("soap"), "GG"), wide, dtype::bf16, nullptr, limit).count() == 64 * 64 * 4);
    CHECK_THROWS_AS(option({}, "rank"), InternalError);
}

TEST_CASE("a chosen type replaces that of a slot") {
    const std::vector<std::int64_t> shape{100};
    const Optimizer& adamw = row("adamw");
    CHECK(slot_bytes(adamw.slots[0], shape, dtype::fp32, &dtype::bf16, {}).count() == 200);
    CHECK(slot_bytes(adamw.slots[0], shape, dtype::fp32, nullptr, {}).count() == 400);
    const Optimizer& bnb = row("adamw-bnb-32bit");
    CHECK(slot_bytes(bnb.slots[0], shape, dtype::bf16, &dtype::bf16, {}).count() == 200);
}

TEST_CASE("under the Trainer of transformers, 8-bit optimizers keep embeddings at 32 bits") {
    const Optimizer& hf = row("adamw-8bit-hf");
    const std::vector<std::int64_t> table{50257, 768};
    CHECK_FALSE(hf.handles(Component::embedding, table));
    CHECK(hf.handles(Component::head, table));
    CHECK(hf.handles(Component::norm, std::vector<std::int64_t>{768}));
    CHECK(total(hf.fallback, table, dtype::bf16) == 8LL * 50257 * 768);
    CHECK(row(row("paged-adamw-8bit-hf").fallback).paged);
}

TEST_CASE("Muon and GaLore leave some parameters to AdamW") {
    const std::vector<std::int64_t> matrix{64, 64}, vector{64}, convolution{64, 3, 7, 7};
    const auto muon = row("muon").handles;
    CHECK(muon(Component::attention, matrix));
    CHECK(muon(Component::mlp, matrix));
    CHECK_FALSE(muon(Component::embedding, matrix));
    CHECK_FALSE(muon(Component::head, matrix));
    CHECK_FALSE(muon(Component::norm, vector));
    CHECK_FALSE(muon(Component::vision, convolution));
    const auto galore = row("galore-adamw").handles;
    CHECK(galore(Component::attention, matrix));
    CHECK_FALSE(galore(Component::embedding, matrix));
    CHECK_FALSE(galore(Component::attention, vector));
}

TEST_CASE("factored moments of a tensor with three dimensions keep the leading one") {
    // torch: row_var has the last dimension 1, col_var the one before it
    const std::vector<std::int64_t> experts{8, 32, 16};
    CHECK(slot_total("adafactor", "row_var", {experts}, dtype::fp32) == 8 * 32 * 4);
    CHECK(slot_total("adafactor", "col_var", {experts}, dtype::fp32) == 8 * 16 * 4);
    CHECK(slot_total("adafactor", "variance", {experts}, dtype::fp32) == 0);
}
