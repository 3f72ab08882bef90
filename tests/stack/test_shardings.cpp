#include <algorithm>
#include <random>
#include <set>

#include "catch.hpp"
#include "membudget/stack.hpp"
#include "shapes.hpp"

using namespace membudget;
using namespace membudget::test;

namespace {

std::vector<Shape> views(const Shapes& shapes) { return {shapes.begin(), shapes.end()}; }

/// Who owns each place of the buffers of a group, place by place: -1 is padding. One vector per rank.
using Layout = std::vector<std::vector<int>>;

/// DeepSpeed stage 1 and 2, FSDP1, Megatron: one buffer, filled as their code fills it.
Layout flat_layout(const Shapes& shapes, std::int64_t tensor_alignment, std::int64_t end_multiple,
                   std::int64_t degree) {
    std::vector<int> buffer;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        while (static_cast<std::int64_t>(buffer.size()) % tensor_alignment != 0) buffer.push_back(-1);
        buffer.insert(buffer.end(), static_cast<std::size_t>(elements({shapes[i]})), static_cast<int>(i));
    }
    while (static_cast<std::int64_t>(buffer.size()) % end_multiple != 0) buffer.push_back(-1);
    const auto share = static_cast<std::ptrdiff_t>(static_cast<std::int64_t>(buffer.size()) / degree);
    Layout out;
    for (std::int64_t rank = 0; rank < degree; ++rank)
        out.emplace_back(buffer.begin() + share * rank, buffer.begin() + share * (rank + 1));
    return out;
}

/// FSDP2: torch.chunk along the first dimension, every chunk padded to the first one's size.
Layout chunk_layout(const Shapes& shapes, std::int64_t degree) {
    Layout out(static_cast<std::size_t>(degree));
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        const std::int64_t rows = shapes[i].empty() ? 1 : shapes[i].front();
        const std::int64_t width = rows == 0 ? 0 : elements({shapes[i]}) / rows;
        const std::int64_t chunk = (rows + degree - 1) / degree;
        for (std::int64_t rank = 0; rank < degree; ++rank)
            for (std::int64_t r = rank * chunk; r < (rank + 1) * chunk; ++r)
                out[static_cast<std::size_t>(rank)].insert(out[static_cast<std::size_t>(rank)].end(),
                                                           static_cast<std::size_t>(width),
                                                           r < rows ? static_cast<int>(i) : -1);
    }
    return out;
}

Layout layout(const Sharding& row, const Shapes& shapes, std::int64_t degree) {
    if (row.name == "zero1" || row.name == "zero2") return flat_layout(shapes, 1, 2 * degree, degree);
    if (row.name == "megatron-distributed-optimizer") {
        std::int64_t both = degree;
        while (both % 128 != 0) both += degree;
        return flat_layout(shapes, 64, both, degree);
    }
    if (row.name.substr(0, 5) == "fsdp1") return flat_layout(shapes, 1, degree, degree);
    if (row.name == "zero3") {
        Layout out(static_cast<std::size_t>(degree));
        for (const auto& shape : shapes) {
            const Layout one = flat_layout({shape}, 1, degree, degree);
            for (std::size_t rank = 0; rank < out.size(); ++rank)
                out[rank].insert(out[rank].end(), one[rank].begin(), one[rank].end());
        }
        return out;
    }
    return chunk_layout(shapes, degree);
}

Shapes random_shapes(std::mt19937& random) {
    std::uniform_int_distribution<int> tensors(1, 6), dimensions(0, 3), size(1, 13);
    Shapes out(static_cast<std::size_t>(tensors(random)));
    for (auto& shape : out) {
        shape.resize(static_cast<std::size_t>(dimensions(random)));
        for (std::int64_t& one : shape) one = size(random);
    }
    return out;
}

const Sharding& row(std::string_view name) { return *shardings().find(name); }

}  // namespace

TEST_CASE("every sharding row is complete") {
    std::set<std::string_view> names;
    for (const Sharding& one : shardings()) {
        INFO(one.name);
        CHECK(names.insert(one.name).second);
        CHECK_FALSE(one.doc.empty());
        CHECK_FALSE(one.source.empty());
        CHECK(one.flat_alignment > 0);
        CHECK(one.flat_multiple > 0);
        CHECK(one.tensor_alignment > 0);
        // What is gathered was cut; who cuts gradients cuts states too.
        CHECK(one.gathers_parameters == (one.parameters != Partition::whole));
        CHECK((one.gradients == Partition::whole || one.states != Partition::whole));
        CHECK((one.reduce_bucket_elements > 0) == (one.reduce_buckets > 0));
    }
    for (const char* name : {"none", "ddp", "ddp-bucket-view", "zero1", "zero2", "zero3",
                             "megatron-distributed-optimizer", "fsdp1", "fsdp2", "fsdp2-no-reshard", "hsdp"})
        CHECK(names.count(name) == 1);
}

TEST_CASE("shares equal a layout place by place") {
    std::mt19937 random(7);
    for (int round = 0; round < 60; ++round) {
        const Shapes shapes = random_shapes(random);
        const std::vector<Shape> group = views(shapes);
        for (const Sharding& one : shardings()) {
            if (one.states == Partition::whole) continue;
            for (const std::int64_t degree : {2, 3, 4, 7, 8}) {
                INFO(one.name << " over " << degree << ", round " << round);
                const Layout slow = layout(one, shapes, degree);
                const std::int64_t held = padded(group, one.states, one, degree).count();
                CHECK(held % degree == 0);
                std::int64_t real = 0;
                for (std::int64_t rank = 0; rank < degree; ++rank) {
                    const auto& places = slow[static_cast<std::size_t>(rank)];
                    const auto owned = std::count_if(places.begin(), places.end(),
                                                     [](int owner) { return owner >= 0; });
                    CHECK(static_cast<std::int64_t>(places.size()) == held / degree);
                    const std::int64_t share = share_of(group, one.states, one, degree, rank).real.count();
                    CHECK(share == owned);
                    real += share;
                }
                CHECK(real == elements(shapes));
            }
        }
    }
}

TEST_CASE("one rank and replicas hold the whole without padding") {
    const Shapes shapes{{5, 7}, {3}, {}};
    const std::vector<Shape> group = views(shapes);
    for (const Sharding& one : shardings()) {
        CHECK(padded(group, one.states, one, 1).count() == 39);
        CHECK(padded(group, Partition::whole, one, 8).count() == 39);
    }
    CHECK_THROWS_AS(padded(group, Partition::flat, row("zero1"), 0), InternalError);
    CHECK_THROWS_AS(share_of(group, Partition::flat, row("zero1"), 4, 4), InternalError);
    CHECK_THROWS_AS(share_of(group, Partition::whole, row("ddp"), 4, 0), InternalError);
}

TEST_CASE("padding in known cases") {
    const std::vector<std::int64_t> odd{1001}, narrow{2, 1000}, norm{4096};
    // DeepSpeed: to a multiple of 2 x ranks
    CHECK(padded(odd, Partition::flat, row("zero2"), 4).count() == 1008);
    // ZeRO-3: to a multiple of the ranks
    CHECK(padded(odd, Partition::flat, row("zero3"), 4).count() == 1004);
    // Megatron: to lcm(ranks, 128), here 384
    CHECK(padded(odd, Partition::flat, row("megatron-distributed-optimizer"), 3).count() == 1152);
    // FSDP2: two rows over eight ranks waste six rows
    CHECK(padded(narrow, Partition::per_tensor, row("fsdp2"), 8).count() == 8000);
    CHECK(share_of(std::vector<Shape>{narrow}, Partition::per_tensor, row("fsdp2"), 8, 1).real.count() == 1000);
    CHECK(share_of(std::vector<Shape>{narrow}, Partition::per_tensor, row("fsdp2"), 8, 2).real.count() == 0);
    // What divides needs none
    for (const char* name : {"zero1", "zero3", "megatron-distributed-optimizer", "fsdp1", "fsdp2"})
        CHECK(padded(norm, row(name).states, row(name), 8).count() == 4096);
}

TEST_CASE("a shard's shape is what one rank holds of a tensor") {
    const std::vector<std::int64_t> matrix{10, 6}, scalar{};
    CHECK(shard_shape(matrix, Partition::per_tensor, 4) == std::vector<std::int64_t>{3, 6});
    CHECK(shard_shape(matrix, Partition::flat, 4) == std::vector<std::int64_t>{15});
    CHECK(shard_shape(matrix, Partition::whole, 4) == std::vector<std::int64_t>{10, 6});
    CHECK(shard_shape(matrix, Partition::flat, 1) == std::vector<std::int64_t>{10, 6});
    CHECK(shard_shape(scalar, Partition::per_tensor, 4) == std::vector<std::int64_t>{1});
    std::mt19937 random(11);
    for (int round = 0; round < 100; ++round)
        for (const auto& shape : random_shapes(random))
            for (const char* name : {"fsdp2", "zero3"}) {
                const Sharding& one = row(name);
                const auto shard = shard_shape(shape, one.states, 4);
                CHECK(elements({shard}) * 4 == padded(shape, one.states, one, 4).count());
            }
}

TEST_CASE("an 8-bit state is decided by the shard, not by the whole tensor") {
    // 8192 elements over 4 ranks: shards of 2048 stay fp32
    const std::vector<std::int64_t> shape{128, 64};
    const auto shard = shard_shape(shape, Partition::per_tensor, 4);
    const Optimizer& row = *optimizers().find("adamw-8bit");
    CHECK(state_bytes(row, shard, dtype::fp32).count() == 2 * 2048 * 4);
    CHECK(state_bytes(row, shape, dtype::fp32).count() == 2 * (8192 + 32 * 4));
}
