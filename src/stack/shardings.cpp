#include "membudget/stack.hpp"

#include <numeric>

namespace membudget {

namespace {

constexpr Sharding kShardings[] = {
    {.name = "none", .doc = "one rank, or ranks that know nothing of each other", .source = "by definition"},
    {.name = "ddp",
     .doc = "PyTorch DistributedDataParallel: everything replicated; gradients also in buckets that are "
            "all-reduced",
     .gradient_buckets = true,
     .source = "pytorch 2.13 torch/nn/parallel/distributed.py gradient_as_bucket_view=False: what a "
               "bucket view saves equals the total gradients; buckets for all trainable parameters are "
               "made at construction (torch/csrc/distributed/c10d/reducer.cpp)"},
    {.name = "ddp-bucket-view",
     .doc = "DistributedDataParallel(gradient_as_bucket_view=True): gradients are views of the buckets",
     .source = "pytorch 2.13 torch/nn/parallel/distributed.py gradient_as_bucket_view"},
    {.name = "zero1",
     .doc = "DeepSpeed ZeRO-1: optimizer states and master weights sharded",
     .states = Partition::flat,
     .flat_alignment = 2,
     .reduce_bucket_elements = 500'000'000,
     .reduce_buckets = 1,
     .source = "DeepSpeed 0.19.8 runtime/zero/stage_1_and_2.py nccl_start_alignment_factor 2 x ranks; "
               "config.py reduce_bucket_size 5e8 elements, overlap_comm off before stage 3"},
    {.name = "zero2",
     .doc = "DeepSpeed ZeRO-2: gradients, optimizer states and master weights sharded",
     .gradients = Partition::flat,
     .states = Partition::flat,
     .flat_alignment = 2,
     .reduce_bucket_elements = 500'000'000,
     .reduce_buckets = 1,
     .source = "DeepSpeed 0.19.8 runtime/zero/stage_1_and_2.py, as zero1; own gradients in a buffer of "
               "the partition's size"},
    {.name = "zero3",
     .doc = "DeepSpeed ZeRO-3: parameters too; gathered module by module, tensors of up to 1e5 elements "
            "stay gathered",
     .parameters = Partition::flat,
     .gradients = Partition::flat,
     .states = Partition::flat,
     .pads_each_tensor = true,
     .gathers_parameters = true,
     .gather_copies = 1,
     .persistent_elements = 100'000,
     .reduce_bucket_elements = 500'000'000,
     .reduce_buckets = 1,
     .reduce_buckets_persist = true,
     .source = "DeepSpeed 0.19.8 runtime/zero/partition_parameters.py _padding_size (each tensor to a "
               "multiple of the ranks), config.py param_persistence_threshold 1e5, stage3.py bucket.buffer"},
    {.name = "megatron-distributed-optimizer",
     .doc = "Megatron-LM --use-distributed-optimizer: states and master weights sharded; the gradient "
            "buffer is whole on every rank",
     .states = Partition::flat,
     .flat_multiple = 128,
     .tensor_alignment = 64,
     .source = "Megatron-Core 0.16.1 core/distributed/param_and_grad_buffer.py: tensors start at 64 "
               "elements, a bucket ends at a multiple of lcm(ranks, 128); one bucket without overlap"},
    {.name = "fsdp1",
     .doc = "PyTorch FullyShardedDataParallel (FULL_SHARD): one flat parameter per wrapped block",
     .parameters = Partition::flat,
     .gradients = Partition::flat,
     .states = Partition::flat,
     .group_per_block = true,
     .gathers_parameters = true,
     .source = "pytorch 2.13 torch/distributed/fsdp/_flat_param.py: padded to a multiple of the ranks; "
               "gathers into the unsharded flat parameter itself"},
    {.name = "fsdp1-shard-grad-op",
     .doc = "FullyShardedDataParallel (SHARD_GRAD_OP): as fsdp1, but parameters stay gathered from "
            "forward to backward",
     .parameters = Partition::flat,
     .gradients = Partition::flat,
     .states = Partition::flat,
     .group_per_block = true,
     .gathers_parameters = true,
     .reshard_after_forward = false,
     .source = "pytorch 2.13 torch/distributed/fsdp/api.py ShardingStrategy.SHARD_GRAD_OP"},
    {.name = "fsdp2",
     .doc = "PyTorch fully_shard: every tensor cut along its first dimension, gathered block by block",
     .parameters = Partition::per_tensor,
     .gradients = Partition::per_tensor,
     .states = Partition::per_tensor,
     .group_per_block = true,
     .gathers_parameters = true,
     .gather_copies = 1,
     .source = "pytorch 2.13 torch/distributed/fsdp/_fully_shard/_fsdp_param.py padded_sharded_size: "
               "ceil(first dimension / ranks) rows; _fsdp_collectives.py copies out of the all-gather"},
    {.name = "fsdp2-no-reshard",
     .doc = "fully_shard(reshard_after_forward=False): as fsdp2, but parameters stay gathered from "
            "forward to backward",
     .parameters = Partition::per_tensor,
     .gradients = Partition::per_tensor,
     .states = Partition::per_tensor,
     .group_per_block = true,
     .gathers_parameters = true,
     .reshard_after_forward = false,
     .gather_copies = 1,
     .source = "pytorch 2.13 torch/distributed/fsdp/_fully_shard/_fully_shard.py reshard_after_forward"},
    {.name = "hsdp",
     .doc = "fully_shard on a two-dimensional mesh: fsdp2 over data.shard ranks, replicated over "
            "data.replicate; replication saves nothing",
     .parameters = Partition::per_tensor,
     .gradients = Partition::per_tensor,
     .states = Partition::per_tensor,
     .group_per_block = true,
     .gathers_parameters = true,
     .gather_copies = 1,
     .source = "pytorch 2.13 torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py HSDPMeshInfo"},
};
static_assert(names_are_unique(kShardings));

std::int64_t numel_of(Shape shape) {
    std::int64_t out = 1;
    for (const std::int64_t dimension : shape) out = detail::checked_mul(out, dimension);
    return out;
}

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
    return detail::checked_mul(detail::ceil_div(n, unit), unit);
}

/// Rows of a tensor that FSDP2 cuts; a scalar counts as one row.
std::int64_t rows_of(Shape shape) { return shape.empty() ? 1 : shape.front(); }
std::int64_t row_size(Shape shape) { return shape.empty() ? 1 : numel_of(shape.subspan(1)); }

/// Where a tensor lies in its group's flat buffer.
std::int64_t place_next(std::int64_t end, const Sharding& sharding) {
    return round_up(end, sharding.tensor_alignment);
}

/// What a buffer or a tensor is padded to a multiple of.
std::int64_t padding_unit(const Sharding& sharding, std::int64_t degree) {
    const std::int64_t aligned = detail::checked_mul(sharding.flat_alignment, degree);
    return detail::checked_mul(aligned / std::gcd(aligned, sharding.flat_multiple),
                               sharding.flat_multiple);
}

/// How much of [begin, end) lies in the share of `rank`, when each rank has `share` elements.
std::int64_t overlap(std::int64_t begin, std::int64_t end, std::int64_t share, std::int64_t rank) {
    const std::int64_t low = std::max(begin, rank * share);
    const std::int64_t high = std::min(end, rank * share + share);
    return std::max<std::int64_t>(high - low, 0);
}

bool is_cut(Partition partition, std::int64_t degree) {
    MEMBUDGET_ENSURE(degree > 0, "a sharding degree is positive");
    return partition != Partition::whole && degree > 1;
}

}  // namespace

Table<Sharding> shardings() { return Table<Sharding>(kShardings); }

Elements padded(std::span<const Shape> group, Partition partition, const Sharding& sharding,
                std::int64_t degree) {
    const bool cut = is_cut(partition, degree);
    const std::int64_t unit = padding_unit(sharding, degree);
    std::int64_t end = 0;
    for (const Shape shape : group) {
        const std::int64_t numel = numel_of(shape);
        if (!cut) {
            end = detail::checked_add(end, numel);
        } else if (partition == Partition::per_tensor) {
            end = detail::checked_add(
                end, detail::checked_mul(round_up(rows_of(shape), degree), row_size(shape)));
        } else if (sharding.pads_each_tensor) {
            end = detail::checked_add(end, round_up(numel, unit));
        } else {
            end = detail::checked_add(place_next(end, sharding), numel);
        }
    }
    if (cut && partition == Partition::flat) end = round_up(end, unit);
    return Elements(end);
}

Elements padded(Shape shape, Partition partition, const Sharding& sharding, std::int64_t degree) {
    return padded(std::span(&shape, 1), partition, sharding, degree);
}

Share share_of(std::span<const Shape> group, Partition partition, const Sharding& sharding,
               std::int64_t degree, std::int64_t rank) {
    MEMBUDGET_ENSURE(partition != Partition::whole, "only a cut group has shares");
    MEMBUDGET_ENSURE(rank >= 0 && rank < degree, "a rank is below the degree");
    const std::int64_t held = padded(group, partition, sharding, degree).count() / degree;
    std::int64_t real = 0;
    if (partition == Partition::flat && !sharding.pads_each_tensor) {
        std::int64_t end = 0;
        for (const Shape shape : group) {
            const std::int64_t begin = degree > 1 ? place_next(end, sharding) : end;
            if (begin >= (rank + 1) * held) break;  // all that follows is of later ranks
            end = begin + numel_of(shape);
            real += overlap(begin, end, held, rank);
        }
        return {Elements(held), Elements(real)};
    }
    for (const Shape shape : group) {
        // What is cut in units: rows of the first dimension, or single elements.
        const bool by_rows = partition == Partition::per_tensor;
        const std::int64_t units = by_rows ? rows_of(shape) : numel_of(shape);
        const std::int64_t size = by_rows ? row_size(shape) : 1;
        const std::int64_t share = padded(shape, partition, sharding, degree).count() / degree;
        real += overlap(0, units, size == 0 ? 0 : share / size, rank) * size;
    }
    return {Elements(held), Elements(real)};
}

std::vector<std::int64_t> shard_shape(Shape shape, Partition partition, std::int64_t degree) {
    std::vector<std::int64_t> out(shape.begin(), shape.end());
    if (!is_cut(partition, degree)) return out;
    if (partition == Partition::flat) return {detail::ceil_div(numel_of(shape), degree)};
    if (out.empty()) return {1};
    out.front() = detail::ceil_div(out.front(), degree);
    return out;
}

}  // namespace membudget
