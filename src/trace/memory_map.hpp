#pragma once

/// The segments of a device as a trace moves through them: which bytes are live, which are free, and
/// which block covers more than was asked for.

#include <cstdint>
#include <map>
#include <vector>

#include "membudget/trace.hpp"

namespace membudget {

class MemoryMap {
public:
    /// The state before the first event: that of the end, with every event undone. What a block that
    /// was freed on the way occupied is not recorded; it follows from the request and from the rest
    /// behind it, which the large pool never leaves.
    MemoryMap(const TraceDevice& device, const AllocatorSettings& settings);

    /// Moves over one event; false when it contradicts the state, which then stays.
    bool apply(const TraceEvent& event);
    [[nodiscard]] std::vector<TraceSegment> segments() const;

private:
    struct Piece {
        std::int64_t size = 0;
        std::int64_t requested = 0;
        BlockState state = BlockState::inactive;
        StackId stack = 0;
        std::uint64_t segment = 0;   ///< address of its segment; expandable ones: of the first known
    };
    using Pieces = std::map<std::uint64_t, Piece>;
    /// What a piece needs to know of its segment; blocks stay empty.
    using Homes = std::map<std::uint64_t, TraceSegment>;

    void undo_all(const TraceDevice& device);
    void fill_gaps();
    void undo_map(const TraceEvent& event);
    void undo_unmap(const TraceEvent& event);
    [[nodiscard]] TraceSegment segment_of(const TraceEvent& event, bool expandable) const;
    [[nodiscard]] Homes::iterator home_of(std::uint64_t address);
    [[nodiscard]] bool splits(const TraceSegment& home, std::int64_t rounded, std::int64_t rest) const;
    bool allocate(const TraceEvent& event);
    bool release(const TraceEvent& event);
    bool add(const TraceEvent& event, bool expandable);
    bool remove(const TraceEvent& event);

    AllocatorSettings settings_;
    Homes homes_;      ///< stretches of reserved memory by address
    Pieces pieces_;    ///< live blocks, and from `fill_gaps` on also free ones
};

}  // namespace membudget
