#include "trace/inflate.hpp"

#include <algorithm>

namespace membudget {

namespace {

constexpr auto kCrcTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t c = i;
        for (int k = 0; k < 8; ++k) c = (c & 1U) != 0 ? 0xEDB88320U ^ (c >> 1U) : c >> 1U;
        table[i] = c;
    }
    return table;
}();

constexpr std::uint16_t kLengthBase[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                         31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr std::uint8_t kLengthExtra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr std::uint16_t kDistanceBase[] = {1,   2,   3,   4,   5,   7,    9,    13,   17,   25,
                                           33,  49,  65,  97,  129, 193,  257,  385,  513,  769,
                                           1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr std::uint8_t kDistanceExtra[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                           6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
constexpr std::uint8_t kLengthOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

}  // namespace

bool is_gzip(std::string_view head) { return head.starts_with("\x1f\x8b\x08"); }

bool HuffmanCode::build(std::span<const std::uint8_t> lengths) {
    fast.fill(0);
    count.fill(0);
    for (const std::uint8_t length : lengths) ++count[length];
    const unsigned used = static_cast<unsigned>(lengths.size()) - count[0];
    count[0] = 0;
    int left = 1;
    for (unsigned bits = 1; bits <= kMaxBits; ++bits) {
        left = left * 2 - count[bits];
        if (left < 0) return false;
    }
    if (left > 0 && used > 1) return false;

    std::array<std::uint16_t, kMaxBits + 2> offset{};
    std::array<std::uint32_t, kMaxBits + 2> next{};
    for (unsigned bits = 1; bits <= kMaxBits; ++bits) {
        offset[bits + 1] = static_cast<std::uint16_t>(offset[bits] + count[bits]);
        next[bits + 1] = (next[bits] + count[bits]) << 1U;
    }
    symbols.assign(used, 0);
    for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
        const unsigned bits = lengths[symbol];
        if (bits == 0) continue;
        symbols[offset[bits]++] = static_cast<std::uint16_t>(symbol);
        const std::uint32_t code = next[bits]++;
        if (bits > kFastBits) continue;
        std::uint32_t reversed = 0;
        for (unsigned i = 0; i < bits; ++i) reversed |= ((code >> i) & 1U) << (bits - 1 - i);
        for (std::uint32_t i = reversed; i < fast.size(); i += 1U << bits)
            fast[i] = static_cast<std::uint16_t>((symbol << 4U) | bits);
    }
    return true;
}

void GzipSource::fail(const char* what) {
    if (error_.empty()) error_ = packed_->error().empty() ? std::string("gzip: ") + what : packed_->error();
    state_ = State::done;
}

/// The next byte of the packed stream, or -1 at its end.
int GzipSource::byte() {
    if (in_.empty()) {
        in_ = packed_->next();
        if (in_.empty()) return -1;
    }
    const auto value = static_cast<unsigned char>(in_.front());
    in_.remove_prefix(1);
    return value;
}

/// Makes `bits` (at most 32) available; false at the end.
bool GzipSource::fill(unsigned bits) {
    while (bit_count_ < bits) {
        const int value = byte();
        if (value < 0) {
            fail("the stream ends early");
            return false;
        }
        bits_ |= static_cast<std::uint64_t>(value) << bit_count_;
        bit_count_ += 8;
    }
    return true;
}

/// The next `bits`, lowest first; 0 after a failure.
std::uint32_t GzipSource::take(unsigned bits) {
    if (!fill(bits)) return 0;
    const auto value = static_cast<std::uint32_t>(bits_ & ((std::uint64_t{1} << bits) - 1));
    bits_ >>= bits;
    bit_count_ -= bits;
    return value;
}

/// The next symbol of `code`, or -1.
int GzipSource::symbol(const HuffmanCode& code) {
    while (bit_count_ < HuffmanCode::kMaxBits) {  // near the end there may be fewer
        const int value = byte();
        if (value < 0) break;
        bits_ |= static_cast<std::uint64_t>(value) << bit_count_;
        bit_count_ += 8;
    }
    const std::uint16_t entry = code.fast[bits_ & (code.fast.size() - 1)];
    if (entry != 0 && (entry & 15U) <= bit_count_) {
        bits_ >>= entry & 15U;
        bit_count_ -= entry & 15U;
        return entry >> 4U;
    }
    std::uint32_t value = 0, first = 0, index = 0;
    for (unsigned length = 1; length <= HuffmanCode::kMaxBits && length <= bit_count_; ++length) {
        value |= static_cast<std::uint32_t>(bits_ >> (length - 1)) & 1U;
        if (value - first < code.count[length]) {
            bits_ >>= length;
            bit_count_ -= length;
            return code.symbols[index + (value - first)];
        }
        index += code.count[length];
        first = (first + code.count[length]) << 1U;
        value <<= 1U;
    }
    if (bit_count_ < HuffmanCode::kMaxBits) fail("the stream ends early");
    return -1;
}

void GzipSource::member() {
    const int first = bit_count_ == 0 ? byte() : static_cast<int>(take(8));
    if (first < 0 && !first_member_) {
        state_ = State::done;
        return;
    }
    // Padding after a member, as tapes and some tools leave it, is no member.
    if (first == 0 && !first_member_) {
        state_ = State::done;
        return;
    }
    if (first != 0x1f || take(8) != 0x8b || take(8) != 8) return fail("not a gzip member");
    const std::uint32_t flags = take(8);
    take(32);
    take(16);
    if ((flags & 4U) != 0)
        for (std::uint32_t left = take(16); left > 0 && state_ != State::done; --left) take(8);
    for (const std::uint32_t named : {8U, 16U})
        if ((flags & named) != 0)
            while (state_ != State::done && take(8) != 0) {
            }
    if ((flags & 2U) != 0) take(16);
    if (state_ == State::done) return;
    first_member_ = false;
    crc_ = 0xFFFFFFFF;
    length_ = 0;
    history_ = 0;
    state_ = State::block;
}

void GzipSource::block() {
    last_block_ = take(1) != 0;
    const std::uint32_t type = take(2);
    if (state_ == State::done) return;
    if (type == 0) {
        take(bit_count_ % 8);
        const std::uint32_t length = take(16);
        if ((take(16) ^ length) != 0xFFFF) return fail("a stored block contradicts itself");
        stored_left_ = length;
        state_ = State::stored;
        return;
    }
    if (type == 1)
        fixed_codes();
    else if (type != 2 || !dynamic_codes())
        return fail("a block has no valid code");
    state_ = State::coded;
}

void GzipSource::fixed_codes() {
    std::array<std::uint8_t, 288> lengths{};
    for (std::size_t i = 0; i < lengths.size(); ++i)
        lengths[i] = static_cast<std::uint8_t>(i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
    (void)literals_.build(lengths);
    // Two of the 32 codes stand for nothing; `coded` refuses them.
    std::array<std::uint8_t, 32> all{};
    all.fill(5);
    (void)distances_.build(all);
}

bool GzipSource::dynamic_codes() {
    const std::uint32_t literal_count = take(5) + 257;
    const std::uint32_t distance_count = take(5) + 1;
    const std::uint32_t length_count = take(4) + 4;
    std::array<std::uint8_t, 19> first{};
    for (std::uint32_t i = 0; i < length_count; ++i)
        first[kLengthOrder[i]] = static_cast<std::uint8_t>(take(3));
    HuffmanCode lengths_code;
    if (literal_count > 286 || distance_count > 30 || !lengths_code.build(first)) return false;

    std::array<std::uint8_t, 316> lengths{};
    std::uint32_t n = 0;
    while (n < literal_count + distance_count) {
        const int value = symbol(lengths_code);
        if (value < 0) return false;
        if (value < 16) {
            lengths[n++] = static_cast<std::uint8_t>(value);
            continue;
        }
        if (value == 16 && n == 0) return false;
        const std::uint8_t repeated = value == 16 ? lengths[n - 1] : std::uint8_t{0};
        const std::uint32_t times = value == 16 ? 3 + take(2) : value == 17 ? 3 + take(3) : 11 + take(7);
        if (n + times > literal_count + distance_count) return false;
        for (std::uint32_t i = 0; i < times; ++i) lengths[n++] = repeated;
    }
    const std::span<const std::uint8_t> all(lengths);
    return lengths[256] != 0 && literals_.build(all.first(literal_count)) &&
           distances_.build(all.subspan(literal_count, distance_count));
}

void GzipSource::stored() {
    while (stored_left_ > 0 && at_ < out_.size()) {
        const std::uint32_t value = take(8);
        if (state_ == State::done) return;
        out_[at_++] = static_cast<char>(value);
        --stored_left_;
    }
    if (stored_left_ == 0) state_ = last_block_ ? State::trailer : State::block;
}

void GzipSource::coded() {
    const std::size_t begin = at_;
    const std::uint64_t history = history_;
    while (at_ + kLongestMatch <= out_.size()) {
        const int value = symbol(literals_);
        if (value < 0 || value > 285) return fail("a code that stands for nothing");
        if (value < 256) {
            out_[at_++] = static_cast<char>(value);
            continue;
        }
        if (value == 256) {
            state_ = last_block_ ? State::trailer : State::block;
            break;
        }
        const auto row = static_cast<std::size_t>(value - 257);
        const std::size_t length = kLengthBase[row] + take(kLengthExtra[row]);
        const int code = symbol(distances_);
        if (code < 0 || code > 29) return fail("a code that stands for nothing");
        const std::size_t distance =
            kDistanceBase[code] + take(kDistanceExtra[code]);
        if (state_ == State::done) return;
        if (distance > history + (at_ - begin)) return fail("a match before the beginning");
        for (std::size_t i = 0; i < length; ++i, ++at_) out_[at_] = out_[at_ - distance];
    }
}

/// Adds what is new to the sum and the length of the member.
void GzipSource::sum() {
    std::uint32_t crc = crc_;
    for (std::size_t i = summed_; i < at_; ++i)
        crc = kCrcTable[(crc ^ static_cast<unsigned char>(out_[i])) & 0xFFU] ^ (crc >> 8U);
    crc_ = crc;
    length_ += static_cast<std::uint32_t>(at_ - summed_);
    history_ += at_ - summed_;
    summed_ = at_;
}

void GzipSource::trailer() {
    take(bit_count_ % 8);
    const std::uint32_t crc = take(32);
    const std::uint32_t length = take(32);
    if (state_ == State::done) return;
    if (crc != (crc_ ^ 0xFFFFFFFFU) || length != length_) return fail("the contents do not match their sum");
    state_ = State::member;
}

std::string_view GzipSource::next() {
    // The last 32 KiB stay in front: matches reach back so far.
    std::copy(out_.begin() + static_cast<std::ptrdiff_t>(at_ - kWindow),
              out_.begin() + static_cast<std::ptrdiff_t>(at_), out_.begin());
    at_ = summed_ = kWindow;
    while (state_ != State::done && at_ + kLongestMatch <= out_.size()) {
        switch (state_) {
            case State::member: member(); break;
            case State::block: block(); break;
            case State::stored: stored(); break;
            case State::coded: coded(); break;
            case State::trailer: trailer(); break;
            case State::done: break;
        }
        sum();
    }
    return {out_.data() + kWindow, at_ - kWindow};
}

}  // namespace membudget
