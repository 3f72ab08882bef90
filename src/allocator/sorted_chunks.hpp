#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "membudget/support.hpp"

namespace membudget {

/// Keys in order, as std::set keeps them, in chunks of neighbours. A replay inserts and erases one
/// free block per event, and there a set spends its time in allocating and balancing nodes; a chunk is
/// one row of memory. Any change makes iterators invalid.
template <typename Key>
class SortedChunks {
public:
    class Iterator {
    public:
        Iterator(const SortedChunks& keys, std::size_t chunk, std::size_t at)
            : keys_(&keys), chunk_(chunk), at_(at) {}
        const Key& operator*() const { return keys_->chunks_[chunk_][at_]; }
        const Key* operator->() const { return &**this; }
        Iterator& operator++() {
            if (++at_ == keys_->chunks_[chunk_].size()) {
                ++chunk_;
                at_ = 0;
            }
            return *this;
        }
        Iterator& operator--() {
            if (at_ == 0) at_ = keys_->chunks_[--chunk_].size();
            --at_;
            return *this;
        }
        friend bool operator==(const Iterator&, const Iterator&) = default;

    private:
        friend class SortedChunks;
        const SortedChunks* keys_;
        std::size_t chunk_, at_;
    };

    [[nodiscard]] Iterator begin() const { return {*this, 0, 0}; }
    [[nodiscard]] Iterator end() const { return {*this, chunks_.size(), 0}; }

    /// The first key that is not less.
    [[nodiscard]] Iterator lower_bound(const Key& key) const {
        const std::size_t chunk = chunk_of(key);
        if (chunk == chunks_.size()) return end();
        return {*this, chunk, place_in(chunks_[chunk], key)};
    }

    /// Keys differ: none that is there already.
    void insert(const Key& key) {
        if (chunks_.empty()) {
            add_chunk(0);
            return chunks_.front().push_back(key);
        }
        const std::size_t chunk = std::min(chunk_of(key), chunks_.size() - 1);
        Chunk& keys = chunks_[chunk];
        keys.insert(keys.begin() + offset(place_in(keys, key)), key);
        if (keys.size() == kMost) split(chunk);
    }

    void erase(Iterator at) {
        Chunk& keys = chunks_[at.chunk_];
        keys.erase(keys.begin() + offset(at.at_));
        if (keys.empty()) chunks_.erase(chunks_.begin() + offset(at.chunk_));
    }

    void erase(const Key& key) {
        const Iterator at = lower_bound(key);
        MEMBUDGET_ENSURE(at != end() && !(key < *at), "a key is erased that is not there");
        erase(at);
    }

private:
    using Chunk = std::vector<Key>;
    static constexpr std::size_t kMost = 64;

    static std::ptrdiff_t offset(std::size_t at) { return static_cast<std::ptrdiff_t>(at); }

    /// The chunk whose last key is not less; the number of chunks where there is none.
    [[nodiscard]] std::size_t chunk_of(const Key& key) const {
        const auto before = [&](const Chunk& chunk) { return chunk.back() < key; };
        return static_cast<std::size_t>(
            std::partition_point(chunks_.begin(), chunks_.end(), before) - chunks_.begin());
    }
    static std::size_t place_in(const Chunk& chunk, const Key& key) {
        return static_cast<std::size_t>(std::lower_bound(chunk.begin(), chunk.end(), key) - chunk.begin());
    }
    void add_chunk(std::size_t at) {
        chunks_.emplace(chunks_.begin() + offset(at))->reserve(kMost);
    }
    void split(std::size_t chunk) {
        add_chunk(chunk + 1);
        Chunk& full = chunks_[chunk];
        const auto middle = full.begin() + offset(kMost / 2);
        chunks_[chunk + 1].assign(middle, full.end());
        full.erase(middle, full.end());
    }

    std::vector<Chunk> chunks_;   ///< none is empty
};

}  // namespace membudget
