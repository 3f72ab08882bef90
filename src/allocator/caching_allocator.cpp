// Requests, frees, retries; see allocator.hpp. Functions are named as what they do; the comment of
// each names its counterpart in c10/cuda/CUDACachingAllocator.cpp.

#include <algorithm>
#include <bit>

#include "allocator/state.hpp"

namespace membudget {

namespace {

constexpr std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
    return detail::checked_mul(detail::ceil_div(bytes, unit), unit);
}

/// Divisions that hold for a size: 16 intervals from 1 MiB to 64 GiB [roundup_power2_divisions].
std::int64_t divisions_of(std::int64_t bytes, const AllocatorSettings& settings) {
    const int log2 = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes))) - 1;
    const int last = static_cast<int>(settings.roundup_power2_divisions.size()) - 1;
    return settings.roundup_power2_divisions[static_cast<std::size_t>(std::clamp(log2 - 20, 0, last))];
}

/// [roundup_power2_next_division]
std::int64_t next_division(std::int64_t bytes, std::int64_t divisions) {
    const auto size = static_cast<std::uint64_t>(bytes);
    if (std::has_single_bit(size)) return bytes;
    const std::uint64_t floor = std::bit_floor(size);
    const std::uint64_t step = floor >> (std::bit_width(static_cast<std::uint64_t>(divisions)) - 1);
    return step == 0 ? detail::checked_mul(static_cast<std::int64_t>(floor), 2)
                     : round_up(bytes, static_cast<std::int64_t>(step));
}

}  // namespace

/// [round_size]
std::int64_t rounded_request(std::int64_t bytes, const AllocatorSettings& settings) {
    if (bytes < kMinBlockSize) return kMinBlockSize;
    const std::int64_t divisions = divisions_of(bytes, settings);
    if (divisions > 1 && bytes > kMinBlockSize * divisions) return next_division(bytes, divisions);
    return round_up(bytes, kMinBlockSize);
}

/// [get_allocation_size]
std::int64_t segment_size(std::int64_t rounded, const AllocatorSettings& settings) {
    if (rounded <= kSmallSize) return kSmallBuffer;
    if (rounded < kMinLargeAlloc) return settings.large_segment_size;
    return round_up(rounded, kRoundLarge);
}

// --- blocks and pools ----------------------------------------------------------------------------

CachingAllocator::State::State(const AllocatorSettings& s, AllocatorHooks h)
    : settings(s), hooks(std::move(h)) {}

std::int64_t CachingAllocator::State::limit() const {
    const std::int64_t all = settings.capacity.value_or(std::numeric_limits<std::int64_t>::max());
    if (!settings.memory_fraction) return all;
    return std::min(all, static_cast<std::int64_t>(*settings.memory_fraction * static_cast<double>(all)));
}

std::uint32_t CachingAllocator::State::make_block(const Block& block) {
    if (unused.empty()) {
        blocks.push_back(block);
        return static_cast<std::uint32_t>(blocks.size() - 1);
    }
    const std::uint32_t index = unused.back();
    unused.pop_back();
    blocks[index] = block;
    return index;
}

void CachingAllocator::State::drop_block(std::uint32_t index) {
    blocks[index] = {};
    unused.push_back(index);
}

void CachingAllocator::State::link_after(std::uint32_t previous, std::uint32_t index) {
    blocks[index].previous = previous;
    blocks[index].next = blocks[previous].next;
    blocks[previous].next = index;
    if (blocks[index].next != kNone) blocks[blocks[index].next].previous = index;
}

void CachingAllocator::State::insert_free(std::uint32_t index) {
    Block& block = blocks[index];
    Pool& home = pool_of(block);
    block.born = home.searches;
    (block.mapped ? home.free : home.unmapped).insert(key_of(block, index));
}

void CachingAllocator::State::erase_from_pool(std::uint32_t index) {
    const Block& block = blocks[index];
    Pool& home = pool_of(block);
    (block.mapped ? home.free : home.unmapped).erase(key_of(block, index));
}

/// [try_merge_blocks]
bool CachingAllocator::State::mergeable(const Block& into, std::uint32_t from) const {
    if (from == kNone) return false;
    const Block& block = blocks[from];
    return !block.allocated && !block.pending && block.mapped == into.mapped;
}

void CachingAllocator::State::merge(std::uint32_t into, std::uint32_t from) {
    erase_from_pool(from);
    Block& keeper = blocks[into];
    const Block& gone = blocks[from];
    if (keeper.previous == from) {
        keeper.address = gone.address;
        keeper.previous = gone.previous;
        if (keeper.previous != kNone) blocks[keeper.previous].next = into;
    } else {
        keeper.next = gone.next;
        if (keeper.next != kNone) blocks[keeper.next].previous = into;
    }
    keeper.size += gone.size;
    drop_block(from);
}

void CachingAllocator::State::report(const Block& block, bool comes, std::uint64_t address,
                                     std::int64_t size) const {
    if (hooks.changed)
        hooks.changed({.comes = comes,
                       .expandable = block.range != kNone,
                       .large = block.large,
                       .stream = block.stream,
                       .address = address,
                       .size = size});
}

std::uint64_t CachingAllocator::State::place(std::int64_t size, std::uint64_t stream, bool large) {
    if (hooks.place) return hooks.place(size, stream, large);
    const std::uint64_t address = next_address;
    next_address += static_cast<std::uint64_t>(round_up(size, kRoundLarge)) + kRoundLarge;
    return address;
}

// --- a request -----------------------------------------------------------------------------------

/// Best fit [get_free_block]; the block has left its pool.
std::optional<std::uint32_t> CachingAllocator::State::search(bool large, std::int64_t rounded,
                                                             std::uint64_t stream) {
    Pool& from = pool(large);
    if (limited() && settings.garbage_collection_threshold > 0) ++from.searches;
    auto it = from.free.lower_bound(Key{stream, rounded, 0, kNone});
    if (it == from.free.end() || it->stream != stream) return std::nullopt;
    if (blocks[it->block].range != kNone) {
        // The room that could be mapped right behind a block counts as its own: a block that can
        // grow far is kept for later.
        const auto room = [&](const Key& key) {
            const Block& block = blocks[key.block];
            const bool grows = block.next != kNone && !blocks[block.next].mapped;
            return block.size + (grows ? blocks[block.next].size : 0);
        };
        auto next = it;
        while (blocks[it->block].range != kNone && ++next != from.free.end() &&
               next->stream == stream && room(*next) < room(*it))
            it = next;
    }
    const std::int64_t size = blocks[it->block].size;
    if (rounded < settings.max_split_size && size >= settings.max_split_size) return std::nullopt;
    if (rounded >= settings.max_split_size && size >= rounded + settings.max_non_split_rounding)
        return std::nullopt;
    const std::uint32_t found = it->block;
    from.free.erase(it);
    return found;
}

/// A segment from the driver [alloc_block]; absent: it has no more.
std::optional<std::uint32_t> CachingAllocator::State::new_segment(bool large, std::int64_t rounded,
                                                                  std::uint64_t stream) {
    const std::int64_t size = segment_size(rounded, settings);
    if (limited() && size > limit() - totals.reserved) return std::nullopt;
    if (settings.expandable_segments) return expand(large, rounded, stream);
    if (settings.capacity && size > *settings.capacity - totals.reserved) return std::nullopt;
    Block block;
    block.address = place(size, stream, large);
    block.size = size;
    block.stream = stream;
    block.large = large;
    const std::uint32_t index = make_block(block);
    reserve(size);
    report(block, true, block.address, size);
    return index;
}

/// Splits off what is left [should_split, alloc_found_block].
std::uint32_t CachingAllocator::State::hand_out(std::uint32_t index, std::int64_t rounded,
                                                std::int64_t requested) {
    const std::int64_t rest = blocks[index].size - rounded;
    const bool split = !blocks[index].large || settings.expandable_segments
                           ? rest >= kMinBlockSize
                           : rounded < settings.max_split_size && rest > kSmallSize;
    if (split) {
        Block remainder = blocks[index];
        remainder.address += static_cast<std::uint64_t>(rounded);
        remainder.size = rest;
        blocks[index].size = rounded;
        const std::uint32_t behind = make_block(remainder);
        link_after(index, behind);
        insert_free(behind);
    }
    Block& block = blocks[index];
    block.allocated = true;
    block.requested = requested;
    totals.allocated += block.size;
    totals.active += block.size;
    totals.requested += requested;
    peak_allocated = std::max(peak_allocated, totals.allocated);
    return index;
}

/// [malloc]
std::optional<CachingAllocator::Handle> CachingAllocator::allocate(std::int64_t bytes, std::uint64_t stream) {
    MEMBUDGET_ENSURE(bytes > 0, "an empty request allocates nothing");
    State& s = *state_;
    const std::int64_t rounded = rounded_request(bytes, s.settings);
    const bool large = rounded > kSmallSize;
    auto found = s.search(large, rounded, stream);
    if (!found) {
        if (s.limited() && s.settings.garbage_collection_threshold > 0) s.collect_garbage();
        found = s.new_segment(large, rounded, stream);
        if (!found && s.release_available(large, rounded, stream))
            found = s.new_segment(large, rounded, stream);
        if (!found) {
            s.release_all_cached();
            ++s.retries;
            found = s.new_segment(large, rounded, stream);
        }
    }
    if (!found) return std::nullopt;
    return s.hand_out(*found, rounded, bytes);
}

// --- a free --------------------------------------------------------------------------------------

/// [free_block]
void CachingAllocator::State::complete(std::uint32_t index) {
    Block& block = blocks[index];
    totals.active -= block.size;
    totals.requested -= block.requested;
    block.pending = false;
    block.requested = 0;
    if (mergeable(block, block.previous)) merge(index, block.previous);
    if (mergeable(block, block.next)) merge(index, block.next);
    insert_free(index);
}

void CachingAllocator::State::complete_all() {
    for (const std::uint32_t index : pending) complete(index);
    pending.clear();
}

void CachingAllocator::free(Handle handle) {
    State::Block& block = state_->blocks.at(handle);
    MEMBUDGET_ENSURE(block.allocated, "a block is freed twice");
    block.allocated = false;
    state_->totals.allocated -= block.size;
    state_->complete(handle);
}

void CachingAllocator::free_later(Handle handle) {
    State::Block& block = state_->blocks.at(handle);
    MEMBUDGET_ENSURE(block.allocated, "a block is freed twice");
    block.allocated = false;
    block.pending = true;
    state_->totals.allocated -= block.size;
    state_->pending.push_back(handle);
}

void CachingAllocator::complete(Handle handle) {
    const auto at = std::find(state_->pending.begin(), state_->pending.end(), handle);
    // A request that waited for all streams has completed it already.
    if (at == state_->pending.end()) return;
    state_->pending.erase(at);
    state_->complete(handle);
}

// --- giving back ---------------------------------------------------------------------------------

/// [release_block]
void CachingAllocator::State::release_segment(std::uint32_t index) {
    const Block block = blocks[index];
    erase_from_pool(index);
    totals.reserved -= block.size;
    drop_block(index);
    report(block, false, block.address, block.size);
}

/// Frees whole large segments that were cached for longer than the average, until enough is free
/// [garbage_collect_cached_blocks].
void CachingAllocator::State::collect_garbage() {
    const auto threshold = static_cast<std::int64_t>(settings.garbage_collection_threshold *
                                                     static_cast<double>(limit()));
    if (totals.reserved <= threshold) return;
    const std::int64_t target = totals.reserved - threshold;
    const auto age = [&](const Block& block) { return large_pool.searches - block.born; };
    std::int64_t total_age = 0, count = 0, reclaimed = 0;
    for (const Key& key : large_pool.free) {
        if (!whole(blocks[key.block])) continue;
        total_age += age(blocks[key.block]);
        ++count;
    }
    bool freed = true;
    while (reclaimed < target && freed && count > 0) {
        const std::int64_t oldest = total_age / count;  // in whole searches
        std::vector<std::uint32_t> old;
        for (const Key& key : large_pool.free) {
            const Block& block = blocks[key.block];
            if (whole(block) && block.range == kNone && age(block) >= oldest) old.push_back(key.block);
        }
        for (const std::uint32_t index : old) {
            reclaimed += blocks[index].size;
            total_age -= age(blocks[index]);
            --count;
            release_segment(index);
        }
        freed = !old.empty();
    }
}

/// With max_split_size: frees the smallest cached oversize block that would do, else the largest
/// ones until they are enough [release_available_cached_blocks].
bool CachingAllocator::State::release_available(bool large, std::int64_t rounded, std::uint64_t stream) {
    if (settings.max_split_size == std::numeric_limits<std::int64_t>::max()) return false;
    Order& free = pool(large).free;
    const std::int64_t wanted = std::max(rounded, settings.max_split_size);
    auto it = free.lower_bound(Key{stream, wanted, 0, kNone});
    if (it != free.end() && it->stream == stream) {
        if (blocks[it->block].range != kNone) return false;
        release_segment(it->block);
        return true;
    }
    std::int64_t released = 0;
    std::vector<std::uint32_t> largest;
    while (released < wanted && it != free.begin()) {
        --it;
        if (it->stream != stream || it->size < settings.max_split_size) break;
        if (blocks[it->block].range != kNone) continue;
        released += it->size;
        largest.push_back(it->block);
    }
    for (const std::uint32_t index : largest) release_segment(index);
    return released >= wanted;
}

/// Every whole free segment of a pool; of expandable ones every whole free page [release_blocks].
void CachingAllocator::State::release_cached(Pool& of) {
    std::vector<std::uint32_t> expandable, segments;
    for (const Key& key : of.free) {
        if (blocks[key.block].range != kNone)
            expandable.push_back(key.block);
        else if (whole(blocks[key.block]))
            segments.push_back(key.block);
    }
    for (const std::uint32_t index : segments) release_segment(index);
    for (const std::uint32_t index : expandable) unmap(index);
}

/// [release_cached_blocks]
void CachingAllocator::State::release_all_cached() {
    complete_all();
    release_cached(large_pool);
    release_cached(small_pool);
}

void CachingAllocator::empty_cache() { state_->release_all_cached(); }

// --- the rest ------------------------------------------------------------------------------------

CachingAllocator::CachingAllocator(const AllocatorSettings& settings, AllocatorHooks hooks)
    : state_(std::make_unique<State>(settings, std::move(hooks))) {}
CachingAllocator::~CachingAllocator() = default;
CachingAllocator::CachingAllocator(CachingAllocator&&) noexcept = default;
CachingAllocator& CachingAllocator::operator=(CachingAllocator&&) noexcept = default;

std::uint64_t CachingAllocator::address_of(Handle block) const { return state_->blocks.at(block).address; }
std::int64_t CachingAllocator::size_of(Handle block) const { return state_->blocks.at(block).size; }
const AllocatorTotals& CachingAllocator::totals() const { return state_->totals; }
std::int64_t CachingAllocator::peak_reserved() const { return state_->peak_reserved; }
std::int64_t CachingAllocator::peak_allocated() const { return state_->peak_allocated; }
std::int64_t CachingAllocator::retries() const { return state_->retries; }

void CachingAllocator::reset_peaks() {
    state_->peak_reserved = state_->totals.reserved;
    state_->peak_allocated = state_->totals.allocated;
}

}  // namespace membudget
