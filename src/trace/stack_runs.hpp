#pragma once

/// Stacks by the bytes that a pickle writes for them: a training loop comes back to the same few
/// stacks, each a run of the same references, which needs to be understood once.

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "membudget/trace.hpp"
#include "trace/interner.hpp"

namespace membudget {

/// Remembers the latest run of each of its slots. Valid as long as no reference is given a new meaning.
class StackRuns {
public:
    /// Longer runs are rare, and not remembered.
    static constexpr std::size_t kLongest = 1024;

    [[nodiscard]] std::optional<StackId> find(std::string_view run) const {
        const Slot& slot = (*slots_)[slot_of(run)];
        if (slot.run != run) return std::nullopt;
        return slot.stack;
    }
    void keep(std::string_view run, StackId stack) {
        Slot& slot = (*slots_)[slot_of(run)];
        slot.run = run;
        slot.stack = stack;
    }
    void forget() { slots_ = std::make_unique<Slots>(); }

private:
    struct Slot {
        std::string run;   ///< empty: none
        StackId stack = 0;
    };
    using Slots = std::array<Slot, 4096>;

    static std::size_t slot_of(std::string_view run) {
        std::uint64_t hash = run.size();
        const auto add = [&](std::uint64_t word) {
            hash = (((hash << 5U) | (hash >> 59U)) ^ word) * 0x517cc1b727220a95ULL;
        };
        std::uint64_t word = 0;
        for (; run.size() >= sizeof word; run.remove_prefix(sizeof word)) {
            std::memcpy(&word, run.data(), sizeof word);
            add(word);
        }
        word = 0;
        std::memcpy(&word, run.data(), run.size());
        add(word);
        return mixed(hash) % std::tuple_size_v<Slots>;
    }

    std::unique_ptr<Slots> slots_ = std::make_unique<Slots>();
};

}  // namespace membudget
