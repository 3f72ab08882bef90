#include <algorithm>

#include "catch.hpp"
#include "membudget/stack.hpp"
#include "shapes.hpp"

using namespace membudget;
using namespace membudget::test;

namespace {

const OptimizerImplementation& implementation(std::string_view optimizer, std::string_view name) {
    for (const OptimizerImplementation& one : optimizers().find(optimizer)->implementations)
        if (one.name == name) return one;
    throw InternalError("no such implementation");
}

/// Measured bytes per element of a tensor of `numel` elements.
std::int64_t per_element(double bytes, int numel) { return static_cast<std::int64_t>(bytes * numel); }

/// Temporaries of a step over `shapes`, at their highest, as the row describes them.
std::int64_t temporaries(std::string_view optimizer, std::string_view name, const Shapes& shapes,
                         const Dtype& type, OptimizerOptions options = {}) {
    const OptimizerImplementation& of = implementation(optimizer, name);
    if (options.empty()) options = optimizers().find(optimizer)->options;
    std::int64_t list = 0, matrices = 0, worst = 0, carried = 0;
    for (const auto& shape : shapes) {
        const std::int64_t own = bytes_of(Elements(elements({shape})), type).count() * of.list_copies_tenths / 10;
        list += own;
        if (of.list_beside != nullptr && shape.size() > 1) matrices += own + of.list_beside(shape, type, options).count();
        if (of.tensor_scratch != nullptr)
            worst = std::max(worst, of.tensor_scratch(shape, type, options).count() + carried);
        if (of.tensor_carried != nullptr) carried = of.tensor_carried(shape, type, options).count();
    }
    return std::max(list, matrices) + worst;
}

}  // namespace

// Highest live bytes beyond parameters, gradients and states in a steady step(), PyTorch 2.13.0, fp32.
// In tensors of 64 x 64: ten of them, one, and the mixed list (8.0625 of them, the first of two).
TEST_CASE("temporaries of torch.optim as measured") {
    struct Measured {
        const char* optimizer;
        const char* implementation;
        double ten, one, mixed;  // negative: the row does not claim it
    };
    const Measured measured[] = {
        {"sgd", "foreach", 0, 0, 0},
        {"sgd", "fused", 0, 0, 0},
        {"sgd", "for-loop", 0, 0, 0},
        {"sgd-momentum", "foreach", 0, 0, 0},
        {"sgd-momentum", "for-loop", 0, 0, 0},
        {"adam", "foreach", 10, 1, 8.0625},
        {"adam", "fused", 0, 0, 0},
        {"adam", "for-loop", 3, 2, 4},
        {"adamw", "foreach", 10, 1, 8.0625},
        {"adamw", "fused", 0, 0, 0},
        {"adamw", "for-loop", 3, 2, 4},
        {"adamw-amsgrad", "foreach", 10, 1, 8.0625},
        {"adamw-amsgrad", "for-loop", 3, 2, 4},
        {"nadam", "foreach", 10, 1, 8.0625},
        {"nadam", "for-loop", 3, 2, 4},
        {"radam", "foreach", 10, 1, 8.0625},
        {"radam", "for-loop", 2, 2, 4},
        {"adamax", "foreach", 10, 1, 8.0625},
        {"adamax", "for-loop", 1, 1, 2},
        {"adadelta", "foreach", 20, 2, 16.125},
        {"adadelta", "for-loop", 3, 2, -1},
        {"adagrad", "foreach", 20, 2, 16.125},
        {"adagrad", "fused", 0, 0, 0},
        {"adagrad", "for-loop", 2, 1, 3},
        {"rmsprop", "foreach", 10, 1, 8.0625},
        {"rmsprop", "for-loop", 2, 1, 3},
        {"rmsprop-centered-momentum", "foreach", 10, 1, 8.0625},
        {"rmsprop-centered-momentum", "for-loop", 2, 1, 3},
        // 4 B more for each matrix: the means of the rows' means.
        {"adafactor", "foreach", 10.00244140625, 1.000244140625, 8.0625},
        {"adafactor", "for-loop", 2.031494140625, 1.031494140625, 3.031494140625},
        {"lion", "for-loop", 2, 2, 4},
        {"lion", "foreach", 10, 1, 8.0625},
        {"schedule-free-adamw", "foreach", 10, 1, 8.0625},
        {"schedule-free-adamw", "for-loop", 2, 1, 3},
        {"lamb", "for-loop", 1, 1, 2},
        {"adamw-8bit", "fused", 0, 0, 0},
        {"adamw-bnb-32bit", "fused", 0, 0, 0},
    };
    const auto tensors = [](double n) { return static_cast<std::int64_t>(n * 64 * 64 * 4); };
    for (const Measured& one : measured) {
        INFO(one.optimizer << " " << one.implementation);
        const auto bytes = [&](const Shapes& shapes) {
            return temporaries(one.optimizer, one.implementation, shapes, dtype::fp32);
        };
        CHECK(bytes(ten_equal()) == tensors(one.ten));
        CHECK(bytes(test::one()) == tensors(one.one));
        if (one.mixed >= 0) CHECK(bytes(mixed()) == tensors(one.mixed));
    }
    // Of filters there are means for each pair of channels.
    const Shapes filters{{64, 32, 3, 3}, {64}, {128, 64, 3, 3}, {128}};
    CHECK(temporaries("adafactor", "foreach", filters, dtype::fp32) == 409600);
    CHECK(temporaries("adafactor", "for-loop", {filters.front()}, dtype::fp32) == 131072);
    CHECK(temporaries("muon", "for-loop", ten_equal(), dtype::fp32) == tensors(3));
    CHECK(temporaries("muon", "for-loop", matrices(), dtype::fp32) == tensors(5));
}

TEST_CASE("the first step of torch.optim has the same temporaries beside the new states") {
    for (const Optimizer& optimizer : optimizers())
        for (const OptimizerImplementation& one : optimizer.implementations)
            CHECK(one.list_copies_tenths == one.list_copies_tenths_first);
}

TEST_CASE("step counters are on the device where torch fuses the step") {
    for (const Optimizer& optimizer : optimizers())
        for (const OptimizerImplementation& one : optimizer.implementations) {
            INFO(optimizer.name << " " << one.name);
            const bool torch_fused = one.name == "fused" &&
                                     one.source.find("pytorch 2.13") != std::string_view::npos &&
                                     optimizer.name.substr(0, 3) != "sgd";
            CHECK(one.device_scalar_bytes == (torch_fused ? 4 : 0));
        }
}

TEST_CASE("temporaries of transformers' Adafactor as measured") {
    CHECK(temporaries("adafactor-hf", "for-loop", ten_equal(), dtype::fp32) == per_element(12, 4096));
    CHECK(temporaries("adafactor-hf", "for-loop", ten_equal(), dtype::bf16) == per_element(20, 4096));
    // The factors of rows and columns are left out: 8.125 and 16.125 bytes per element were measured.
    CHECK(temporaries("adafactor-hf-momentum", "for-loop", ten_equal(), dtype::fp32) == per_element(8, 4096));
    CHECK(temporaries("adafactor-hf-momentum", "for-loop", ten_equal(), dtype::bf16) == per_element(16, 4096));
}

TEST_CASE("temporaries of Adam-mini as measured") {
    CHECK(temporaries("adam-mini", "for-loop", ten_equal(), dtype::fp32) == per_element(8.25, 4096));
    CHECK(temporaries("adam-mini", "for-loop", ten_equal(), dtype::bf16) == per_element(4.125, 4096));
}

TEST_CASE("temporaries of GaLore as measured: an ordinary step in fp32, a refresh in bf16") {
    constexpr OptimizerOption rank8[] = {{"rank", 8, ""}};
    CHECK(temporaries("galore-adamw", "for-loop", one(), dtype::fp32, rank8) == per_element(9.5, 4096));
    // The first step: 12.0625 beyond what it leaves behind, which is 0.75.
    CHECK(temporaries("galore-adamw", "for-loop", one(), dtype::bf16, rank8) == per_element(12.8125, 4096));
}

TEST_CASE("temporaries of SOAP as measured, bases renewed in every step") {
    const auto soap = [](std::int64_t n, std::int64_t m) {
        return temporaries("soap", "for-loop", {{n, m}}, dtype::fp32);
    };
    CHECK(soap(256, 64) == 1'412'096);
    CHECK(soap(64, 256) == 1'674'240);
    CHECK(soap(64, 64) == 197'376);
    CHECK(soap(4096, 16) == 269'797'376);
    CHECK(temporaries("soap", "for-loop", {{4096}}, dtype::fp32) == 32'768);
}

TEST_CASE("temporaries of Shampoo as measured") {
    const auto shampoo = [](std::int64_t n, std::int64_t m, const Dtype& type) {
        return temporaries("shampoo", "for-loop", {{n, m}}, type);
    };
    CHECK(shampoo(64, 64, dtype::fp32) == 82'176);
    CHECK(shampoo(64, 64, dtype::bf16) == 73'984);
    CHECK(shampoo(64, 256, dtype::fp32) == 1'115'136);
    CHECK(shampoo(64, 256, dtype::bf16) == 1'082'368);
    CHECK(shampoo(256, 64, dtype::fp32) == 1'049'600);
    CHECK(shampoo(256, 64, dtype::bf16) == 1'049'600);
}

TEST_CASE("temporaries of LOMO as measured, beyond the gradient that they replace") {
    const auto scratch = [](const char* optimizer, Shape shape, const Dtype& type) {
        const OptimizerImplementation& of = implementation(optimizer, "in-backward");
        return of.tensor_scratch(shape, type, {}).count();
    };
    const std::vector<std::int64_t> matrix{128, 64}, vector{8192};
    CHECK(scratch("lomo", matrix, dtype::fp32) == 0);
    CHECK(scratch("lomo", matrix, dtype::bf16) == per_element(6, 8192));
    CHECK(scratch("adalomo", matrix, dtype::fp32) == per_element(8.09375, 8192));
    CHECK(scratch("adalomo", matrix, dtype::bf16) == per_element(10.09375, 8192));
    CHECK(scratch("adalomo", vector, dtype::fp32) == per_element(8, 8192));
    CHECK(scratch("adalomo", vector, dtype::bf16) == per_element(10, 8192));
}
