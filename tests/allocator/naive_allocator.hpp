#pragma once

/// The rules of the caching allocator once more, as plainly as they can be said: segments are lists
/// of blocks, every question is a walk over all of them. Slow, and nothing is shared with the
/// simulator that it checks.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "membudget/allocator.hpp"

namespace naive {

using membudget::AllocatorSettings;
using membudget::SegmentChange;

constexpr std::int64_t MiB = 1 << 20;
enum class State { unmapped, free, waiting, used };

struct Block {
    std::uint64_t address;
    std::int64_t size;
    State state;
    std::int64_t requested = 0;
    std::int64_t cached_at = 0;
    int id = -1;
};

struct Segment {
    std::uint64_t address;
    std::uint64_t stream;
    bool large, expandable;
    std::vector<Block> blocks;
};

class Allocator {
public:
    Allocator(AllocatorSettings s, std::function<std::uint64_t(std::int64_t)> p)
        : settings(std::move(s)), place(std::move(p)) {}

    /// An id, or -1: out of memory.
    int allocate(std::int64_t bytes, std::uint64_t stream) {
        const std::int64_t size = rounded(bytes);
        const bool large = size > MiB;
        const bool collects = settings.memory_fraction && settings.garbage_collection_threshold > 0;
        if (collects) ++searches[large];
        auto at = best(size, stream, large);
        if (!at) {
            if (collects) collect();
            at = fresh(size, stream, large);
            if (!at && make_room(size, stream, large)) at = fresh(size, stream, large);
            if (!at) {
                empty();
                ++retries;
                at = fresh(size, stream, large);
            }
        }
        if (!at) return -1;
        auto& blocks = segments[at->first].blocks;
        const std::int64_t rest = blocks[at->second].size - size;
        const bool split = large && !settings.expandable_segments ? size < settings.max_split_size && rest > MiB
                                                                  : rest >= 512;
        if (split) {
            const Block behind{blocks[at->second].address + static_cast<std::uint64_t>(size), rest, State::free, 0,
                               searches[large], -1};
            blocks[at->second].size = size;
            blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(at->second) + 1, behind);
        }
        Block& block = blocks[at->second];
        block.state = State::used;
        block.requested = bytes;
        block.id = next_id++;
        return block.id;
    }

    void free(int id) { let_go(id, State::free); }
    void free_later(int id) { let_go(id, State::waiting); }
    void complete(int id) {
        if (find(id).second < segments.size()) let_go(id, State::free);
    }

    void empty() {
        for (bool any = true; any;) {  // completing may merge blocks: begin again each time
            any = false;
            for (Segment& segment : segments)
                for (Block& block : segment.blocks)
                    if (!any && block.state == State::waiting) {
                        let_go(block.id, State::free);
                        any = true;
                    }
        }
        for (const bool large : {true, false}) {
            for (std::size_t i = segments.size(); i-- > 0;) {
                Segment& segment = segments[i];
                if (segment.large == large && !segment.expandable && is_whole(segment)) give_back(i);
            }
            // A range goes when its last page goes; one of which nothing was ever mapped stays.
            std::erase_if(segments, [&](Segment& segment) {
                return segment.large == large && segment.expandable && unmap_pages(segment) &&
                       segment.blocks.size() == 1 && segment.blocks[0].state == State::unmapped;
            });
        }
    }

    [[nodiscard]] std::int64_t reserved() const {
        return sum([](const Block& b) { return b.state != State::unmapped ? b.size : 0; });
    }
    [[nodiscard]] std::int64_t allocated() const {
        return sum([](const Block& b) { return b.state == State::used ? b.size : 0; });
    }
    [[nodiscard]] std::int64_t active() const {
        return sum([](const Block& b) { return b.state == State::used || b.state == State::waiting ? b.size : 0; });
    }
    [[nodiscard]] std::uint64_t address_of(int id) const {
        for (const Segment& segment : segments)
            for (const Block& block : segment.blocks)
                if (block.id == id) return block.address;
        return 0;
    }

    AllocatorSettings settings;
    std::function<std::uint64_t(std::int64_t)> place;
    std::vector<Segment> segments;
    std::vector<SegmentChange> changes;
    std::int64_t retries = 0;

private:
    using Place = std::pair<std::size_t, std::size_t>;  // segment, block

    static std::int64_t up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

    [[nodiscard]] std::int64_t rounded(std::int64_t n) const {
        if (n < 512) return 512;
        int power = 0;
        while ((std::int64_t{1} << (power + 1)) <= n) ++power;
        const std::int64_t d =
            settings.roundup_power2_divisions[static_cast<std::size_t>(std::min(std::max(power - 20, 0), 15))];
        if (d <= 1 || n <= 512 * d) return up(n, 512);
        std::int64_t whole = 1;
        while (whole * 2 <= d) whole *= 2;
        const std::int64_t floor = std::int64_t{1} << power;
        if (n == floor) return n;
        return floor / whole == 0 ? 2 * floor : up(n, floor / whole);
    }

    template <class F>
    [[nodiscard]] std::int64_t sum(F f) const {
        std::int64_t out = 0;
        for (const Segment& segment : segments)
            for (const Block& block : segment.blocks) out += f(block);
        return out;
    }

    static bool is_whole(const Segment& segment) {
        return segment.blocks.size() == 1 && segment.blocks[0].state == State::free;
    }

    [[nodiscard]] std::int64_t limit() const {
        const std::int64_t all = settings.capacity.value_or(std::numeric_limits<std::int64_t>::max());
        return settings.memory_fraction
                   ? static_cast<std::int64_t>(*settings.memory_fraction * static_cast<double>(all))
                   : all;
    }

    /// Free blocks of a pool and stream, smallest first, then by address.
    [[nodiscard]] std::vector<Place> free_blocks(std::uint64_t stream, bool large) const {
        std::vector<Place> out;
        for (std::size_t i = 0; i < segments.size(); ++i)
            for (std::size_t k = 0; k < segments[i].blocks.size(); ++k)
                if (segments[i].large == large && segments[i].stream == stream &&
                    segments[i].blocks[k].state == State::free)
                    out.emplace_back(i, k);
        std::sort(out.begin(), out.end(), [&](const Place& a, const Place& b) {
            const Block &x = at(a), &y = at(b);
            return x.size != y.size ? x.size < y.size : x.address < y.address;
        });
        return out;
    }
    [[nodiscard]] const Block& at(const Place& p) const { return segments[p.first].blocks[p.second]; }

    [[nodiscard]] std::optional<Place> best(std::int64_t size, std::uint64_t stream, bool large) const {
        auto all = free_blocks(stream, large);
        std::erase_if(all, [&](const Place& p) { return at(p).size < size; });
        if (all.empty()) return std::nullopt;
        const auto with_room = [&](const Place& p) {
            const auto& blocks = segments[p.first].blocks;
            const bool grows = p.second + 1 < blocks.size() && blocks[p.second + 1].state == State::unmapped;
            return at(p).size + (grows ? blocks[p.second + 1].size : 0);
        };
        std::size_t i = 0;
        while (segments[all[i].first].expandable && i + 1 < all.size() && with_room(all[i + 1]) < with_room(all[i]))
            ++i;
        if (size < settings.max_split_size && at(all[i]).size >= settings.max_split_size) return std::nullopt;
        if (size >= settings.max_split_size && at(all[i]).size >= size + settings.max_non_split_rounding)
            return std::nullopt;
        return all[i];
    }

    std::optional<Place> fresh(std::int64_t size, std::uint64_t stream, bool large) {
        const std::int64_t segment = size <= MiB ? 2 * MiB : size < 10 * MiB ? 20 * MiB : up(size, 2 * MiB);
        if (settings.memory_fraction && reserved() + segment > limit()) return std::nullopt;
        if (settings.expandable_segments) return grow(size, stream, large);
        if (settings.capacity && reserved() + segment > *settings.capacity) return std::nullopt;
        const std::uint64_t address = place(segment);
        segments.push_back({address, stream, large, false, {{address, segment, State::free}}});
        changes.push_back({true, false, large, stream, address, segment});
        return Place{segments.size() - 1, 0};
    }

    std::optional<Place> grow(std::int64_t size, std::uint64_t stream, bool large) {
        const std::int64_t page = large ? 20 * MiB : 2 * MiB;
        // Of the free stretches that hold unmapped bytes, the one whose first unmapped byte is lowest;
        // it begins with the free block just before those bytes, if there is one.
        std::optional<Place> start;
        std::uint64_t lowest = std::numeric_limits<std::uint64_t>::max();
        for (std::size_t i = 0; i < segments.size(); ++i) {
            const Segment& segment = segments[i];
            if (!segment.expandable || segment.large != large || segment.stream != stream) continue;
            for (std::size_t k = 0; k < segment.blocks.size(); ++k) {
                if (segment.blocks[k].state != State::unmapped) continue;
                const std::size_t first = k > 0 && segment.blocks[k - 1].state == State::free ? k - 1 : k;
                std::int64_t room = 0;
                for (std::size_t j = first; j < segment.blocks.size() && segment.blocks[j].state <= State::free; ++j)
                    room += segment.blocks[j].size;
                if (room < size || segment.blocks[k].address >= lowest) continue;
                lowest = segment.blocks[k].address;
                start = Place{i, first};
            }
        }
        if (!start) {
            const std::int64_t memory = *settings.capacity;
            const std::int64_t range = up(memory + memory / 8, page);
            const std::uint64_t address = place(range);
            segments.push_back({address, stream, large, true, {{address, range, State::unmapped}}});
            start = Place{segments.size() - 1, 0};
        }
        auto& blocks = segments[start->first].blocks;
        const std::size_t first = start->second;
        for (;;) {
            if (blocks[first].state == State::free && blocks[first].size >= size) return Place{start->first, first};
            const std::size_t k = blocks[first].state == State::unmapped ? first : first + 1;
            const std::int64_t have = k == first ? 0 : blocks[first].size;
            const std::int64_t bytes = up(std::min(size - have, blocks[k].size), page);
            if (reserved() + bytes > *settings.capacity) return std::nullopt;
            const Block mapped{blocks[k].address, bytes, State::free, 0, searches[large], -1};
            changes.push_back({true, true, large, stream, mapped.address, bytes});
            blocks[k].address += static_cast<std::uint64_t>(bytes);
            blocks[k].size -= bytes;
            blocks.insert(blocks.begin() + static_cast<std::ptrdiff_t>(k), mapped);
            std::erase_if(blocks, [](const Block& b) { return b.size == 0; });
            join(segments[start->first]);
        }
    }

    /// Joins neighbours that are both free, or both unmapped; what was cached last counts.
    static void join(Segment& segment) {
        auto& blocks = segment.blocks;
        for (std::size_t k = 1; k < blocks.size();) {
            Block &a = blocks[k - 1], &b = blocks[k];
            if (a.state != b.state || a.state > State::free) {
                ++k;
                continue;
            }
            a.size += b.size;
            a.cached_at = std::max(a.cached_at, b.cached_at);
            blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(k));
        }
    }

    std::pair<std::size_t, std::size_t> find(int id) {  // block, segment
        for (std::size_t i = 0; i < segments.size(); ++i)
            for (std::size_t k = 0; k < segments[i].blocks.size(); ++k)
                if (segments[i].blocks[k].id == id) return {k, i};
        return {0, segments.size()};
    }

    void let_go(int id, State state) {
        const auto [k, i] = find(id);
        Block& block = segments[i].blocks[k];
        block.state = state;
        if (state == State::waiting) return;
        block.requested = 0;
        block.id = -1;
        block.cached_at = searches[segments[i].large];
        join(segments[i]);
    }

    void give_back(std::size_t i) {
        const Segment& segment = segments[i];
        changes.push_back({false, false, segment.large, segment.stream, segment.address, segment.blocks[0].size});
        segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(i));
    }

    /// True when there was a page to unmap.
    bool unmap_pages(Segment& segment) {
        const std::size_t before = changes.size();
        const std::int64_t page = segment.large ? 20 * MiB : 2 * MiB;
        std::vector<Block> out;
        for (const Block& block : segment.blocks) {
            const auto offset = static_cast<std::int64_t>(block.address - segment.address);
            const std::int64_t begin = up(offset, page), end = (offset + block.size) / page * page;
            if (block.state != State::free || begin >= end) {
                out.push_back(block);
                continue;
            }
            const auto piece = [&](std::int64_t from, std::int64_t to, State state) {
                if (from < to)
                    out.push_back({segment.address + static_cast<std::uint64_t>(from), to - from, state, 0,
                                   searches[segment.large], -1});
            };
            piece(offset, begin, State::free);
            piece(begin, end, State::unmapped);
            piece(end, offset + block.size, State::free);
            changes.push_back({false, true, segment.large, segment.stream,
                               segment.address + static_cast<std::uint64_t>(begin), end - begin});
        }
        segment.blocks = out;
        join(segment);
        return changes.size() > before;
    }

    void collect() {
        const auto bound = static_cast<std::int64_t>(settings.garbage_collection_threshold * static_cast<double>(limit()));
        if (reserved() <= bound) return;
        const std::int64_t target = reserved() - bound;
        std::int64_t reclaimed = 0;
        const auto age = [&](const Segment& s) { return searches[1] - s.blocks[0].cached_at; };
        const auto old = [](const Segment& s) { return s.large && !s.expandable && is_whole(s); };
        for (bool freed = true; freed && reclaimed < target;) {
            std::int64_t total = 0, count = 0;
            for (const Segment& s : segments)
                if (old(s)) {
                    total += age(s);
                    ++count;
                }
            if (count == 0) return;
            freed = false;
            for (std::size_t i = segments.size(); i-- > 0;) {
                if (!old(segments[i]) || age(segments[i]) < total / count) continue;
                reclaimed += segments[i].blocks[0].size;
                give_back(i);
                freed = true;
            }
        }
    }

    bool make_room(std::int64_t size, std::uint64_t stream, bool large) {
        if (settings.max_split_size == std::numeric_limits<std::int64_t>::max()) return false;
        const std::int64_t wanted = std::max(size, settings.max_split_size);
        auto all = free_blocks(stream, large);
        for (const Place& p : all) {
            if (at(p).size < wanted) continue;
            if (segments[p.first].expandable) return false;
            give_back(p.first);
            return true;
        }
        std::int64_t released = 0;
        while (released < wanted) {
            all = free_blocks(stream, large);
            std::erase_if(all, [&](const Place& p) { return segments[p.first].expandable; });
            if (all.empty() || at(all.back()).size < settings.max_split_size) break;
            released += at(all.back()).size;
            give_back(all.back().first);
        }
        return released >= wanted;
    }

    std::int64_t searches[2] = {0, 0};
    int next_id = 0;
};

}  // namespace naive
