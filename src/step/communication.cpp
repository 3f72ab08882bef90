#include "step/communication.hpp"

namespace membudget {

namespace {
constexpr std::string_view kGathered = "communication/unsharded_parameters";
constexpr std::string_view kAllGather = "communication/all_gather";
constexpr std::string_view kReduceScatter = "communication/reduce_scatter";
constexpr std::string_view kBuckets = "communication/reduce_buckets";

}  // namespace

const Dtype& Communication::parameter_type() const {
    const Precision& precision = job_.precision;
    return gathers() && precision.gathered != nullptr ? *precision.gathered : *precision.parameters;
}

std::int64_t Communication::gathered_bytes(const Block& block) const {
    std::int64_t sum = 0;
    for (const Parameter& parameter : block.parameters) {
        if (!parameter.tied_to.empty() ||
            parameter.elements().count() <= job_.data.sharding->persistent_elements)
            continue;
        if (parameter.stored.empty())
            sum += parameter.bytes(parameter_type()).count();
        else  // only the codes are sharded
            for (const StoredTensor& tensor : parameter.stored) sum += tensor.codes ? tensor.bytes().count() : 0;
    }
    return sum;
}

std::int64_t Communication::reduced_bytes(const Block& block) const {
    const Dtype& type = job_.precision.reduced != nullptr ? *job_.precision.reduced : parameter_type();
    std::int64_t sum = 0;
    for (const Parameter& parameter : block.parameters)
        if (parameter.tied_to.empty() && parameter.trainable &&
            parameter.elements().count() > job_.data.sharding->persistent_elements)
            sum += parameter.bytes(type).count();
    return sum;
}

void Communication::free_buffer(std::string_view path, std::int64_t size, const char* what,
                                std::vector<Event>& events) {
    std::vector<Event> allocated;
    books_.buffer(allocated, path, size, what);
    free_all(allocated, events);
}

void Communication::gather(const Block& block, std::vector<Event>& events) {
    const std::int64_t size = gathered_bytes(block);
    // The all-gather's output is copied out into the parameters; the next block's is under way by then.
    for (int copy = 0; copy < job_.data.sharding->gather_copies; ++copy)
        books_.buffer(events, kAllGather, size, "all-gather output");
    books_.buffer(events, kGathered, size, "gathered parameters");
}

void Communication::drop(const Block& block, std::vector<Event>& events) {
    const std::int64_t size = gathered_bytes(block);
    free_buffer(kGathered, size, "gathered parameters", events);
}

void Communication::before_forward(const Block& block, std::vector<Event>& events) {
    if (gathers()) gather(block, events);
}

void Communication::after_forward(const Block& block, std::vector<Event>& events) {
    if (!gathers()) return;
    const std::int64_t size = gathered_bytes(block);
    for (int copy = 0; copy < job_.data.sharding->gather_copies; ++copy)
        free_buffer(kAllGather, size, "all-gather output", events);
    // The root group (embeddings, head) is not resharded after forward
    // [torch/distributed/fsdp/_fully_shard/_fully_shard.py _auto_reshard_after_forward].
    if (job_.data.sharding->reshard_after_forward && block.checkpointable) drop(block, events);
}

void Communication::before_backward(const Block& block, std::vector<Event>& events) {
    if (gathers() && job_.data.sharding->reshard_after_forward && block.checkpointable)
        gather(block, events);
}

void Communication::reduce(const Block& block, std::vector<Event>& events) {
    if (!reduces() || !gathers()) return;
    const bool resharded = job_.data.sharding->reshard_after_forward && block.checkpointable;
    const std::int64_t size = gathered_bytes(block);
    drop(block, events);
    if (resharded)
        for (int copy = 0; copy < job_.data.sharding->gather_copies; ++copy)
            free_buffer(kAllGather, size, "all-gather output", events);
    if (waiting_ > 0) free_buffer(kReduceScatter, waiting_, "reduce-scatter input", events);
    // The input of the reduction is kept until the next block's
    // [_fsdp_param_group.py post_backward: reduce_scatter_state].
    waiting_ = reduced_bytes(block);
    books_.buffer(events, kReduceScatter, waiting_, "reduce-scatter input");
}

void Communication::reduced(const Block& block, bool first_micro_batch, std::vector<Event>& events) {
    if (!reduces() || !gathers() || books_.gradients_exist()) return;
    const std::vector<Event> shards = books_.gradients(block);
    events.insert(events.end(), shards.begin(), shards.end());
    if (!first_micro_batch) free_all(shards, events);  // added to the shards that exist
}

void Communication::begin_backward(bool first_micro_batch, std::vector<Event>& events) {
    if (job_.data.shard <= 1) return;
    const Sharding& sharding = *job_.data.sharding;
    if (!sharding.reduce_buckets_persist)
        for (int i = 0; i < sharding.reduce_buckets; ++i)
            books_.buffer(events, kBuckets, byte_count(sharding.reduce_bucket_elements, books_.gradient_type()),
                          "bucket");
    // ZeRO-2 copies its part of the gradients into one buffer; whole gradients go bucket by bucket.
    if (reduces() && !gathers() && first_micro_batch && !books_.gradients_exist()) {
        const std::vector<Event> shards = books_.gradients();
        events.insert(events.end(), shards.begin(), shards.end());
    }
}

void Communication::end_backward(std::vector<Event>& events) {
    if (job_.data.shard <= 1) return;
    if (waiting_ > 0) free_buffer(kReduceScatter, waiting_, "reduce-scatter input", events);
    waiting_ = 0;
    const Sharding& sharding = *job_.data.sharding;
    if (!sharding.reduce_buckets_persist)
        for (int i = 0; i < sharding.reduce_buckets; ++i)
            free_buffer(kBuckets, byte_count(sharding.reduce_bucket_elements, books_.gradient_type()), "bucket",
                        events);
}

}  // namespace membudget
