#pragma once

/// Differences of what is live, as events. Profilers say by how much memory changed and not which
/// block came or went; a free is paired with the latest block of its size, else with a part of one.

#include <cstdint>
#include <map>
#include <vector>

#include "membudget/trace.hpp"

namespace membudget::trace {

class DeltaEvents {
public:
    /// `bytes` more (less, when negative) of `category` from `time_us` on.
    void change(std::int64_t bytes, TraceCategory category, std::int64_t time_us);
    /// The same for a block that is known by its address.
    void change_at(std::uint64_t address, std::int64_t bytes, std::int64_t time_us);
    /// `live_before`: what was freed without having been seen.
    [[nodiscard]] TraceDevice finish(int device) &&;

private:
    struct Block {
        std::int64_t size;
        std::uint64_t address;
    };
    void push(TraceAction action, std::int64_t size, std::uint64_t address, TraceCategory category,
              std::int64_t time_us);
    void free_some(std::int64_t bytes, TraceCategory category, std::int64_t time_us);

    TraceDevice device_;
    std::map<TraceCategory, std::vector<Block>> live_;       ///< without an address of their own
    std::map<std::uint64_t, std::int64_t> by_address_;
    std::uint64_t next_ = std::uint64_t{1} << 40;
};

}  // namespace membudget::trace
