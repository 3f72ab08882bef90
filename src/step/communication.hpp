#pragma once

/// What sharded data parallelism adds around the blocks: gathered parameters, buffers of reductions,
/// shards of gradients.

#include <cstdint>
#include <vector>

#include "step/states.hpp"

namespace membudget {

class Communication {
public:
    Communication(const Job& job, StateBooks& books) : job_(job), books_(books) {}

    /// Parameters are gathered for a block and dropped after it.
    [[nodiscard]] bool gathers() const {
        return job_.data.shard > 1 && job_.data.sharding->gathers_parameters;
    }
    /// Gradients are reduced to shards.
    [[nodiscard]] bool reduces() const {
        return job_.data.shard > 1 && job_.data.sharding->gradients != Partition::whole;
    }
    /// Embeddings and head are one group whose parameters and whole gradients stay until backward ends.
    [[nodiscard]] bool keeps_root() const {
        return gathers() && job_.data.sharding->group_per_block;
    }
    /// The type in which blocks see their parameters.
    [[nodiscard]] const Dtype& parameter_type() const;

    void before_forward(const Block& block, std::vector<Event>& events);
    void after_forward(const Block& block, std::vector<Event>& events);
    void before_backward(const Block& block, std::vector<Event>& events);
    /// Around the moment when the block's whole gradients go: `reduce` allocates, `reduced` frees.
    void reduce(const Block& block, std::vector<Event>& events);
    void reduced(const Block& block, bool first_micro_batch, std::vector<Event>& events);
    /// The reduction whose input still waits for the next block; to see whether blocks are alike.
    [[nodiscard]] std::int64_t waiting() const { return waiting_; }

    /// Buckets and gradient partitions of a backward as a whole.
    void begin_backward(bool first_micro_batch, std::vector<Event>& events);
    void end_backward(std::vector<Event>& events);

private:
    /// Bytes of a block's parameters once gathered, and of its gradients on their way to shards.
    [[nodiscard]] std::int64_t gathered_bytes(const Block& block) const;
    [[nodiscard]] std::int64_t reduced_bytes(const Block& block) const;
    void gather(const Block& block, std::vector<Event>& events);
    void drop(const Block& block, std::vector<Event>& events);
    void free_buffer(std::string_view path, std::int64_t bytes, const char* what, std::vector<Event>& events);

    const Job& job_;
    StateBooks& books_;
    std::int64_t waiting_ = 0;
};

}  // namespace membudget
