#pragma once

/// gzip (RFC 1952) over deflate (RFC 1951), undone front to back in bounded memory.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/trace.hpp"

namespace membudget {

/// True when `head` begins a gzip stream.
[[nodiscard]] bool is_gzip(std::string_view head);

/// A canonical Huffman code: a table of the short codes, counts for the long ones.
class HuffmanCode {
public:
    /// False when the lengths are no complete code (one single code of one bit is allowed).
    [[nodiscard]] bool build(std::span<const std::uint8_t> lengths);

    static constexpr unsigned kFastBits = 10;
    static constexpr unsigned kMaxBits = 15;
    /// By the next bits: symbol << 4 | length; 0: longer than the table.
    std::array<std::uint16_t, std::size_t{1} << kFastBits> fast{};
    std::array<std::uint16_t, kMaxBits + 1> count{};
    std::vector<std::uint16_t> symbols;  ///< in order of their codes
};

/// The members of a gzip stream one after the other, checked against their sums.
class GzipSource final : public ByteSource {
public:
    explicit GzipSource(std::unique_ptr<ByteSource> packed) : packed_(std::move(packed)) {}
    [[nodiscard]] std::string_view next() override;
    [[nodiscard]] const std::string& error() const override { return error_; }

private:
    enum class State { member, block, stored, coded, trailer, done };

    void member();
    void block();
    void stored();
    void coded();
    void trailer();
    bool dynamic_codes();
    void fixed_codes();
    int symbol(const HuffmanCode& code);
    int byte();
    bool fill(unsigned bits);
    std::uint32_t take(unsigned bits);
    void fail(const char* what);

    static constexpr std::size_t kWindow = 32768;
    static constexpr std::size_t kOutput = 262144;
    static constexpr std::size_t kLongestMatch = 258;

    std::unique_ptr<ByteSource> packed_;
    std::string error_;
    std::string_view in_;
    std::uint64_t bits_ = 0;
    unsigned bit_count_ = 0;
    State state_ = State::member;
    bool last_block_ = false, first_member_ = true;
    std::uint32_t stored_left_ = 0;
    std::uint32_t crc_ = 0xFFFFFFFF;
    std::uint32_t length_ = 0;        ///< of the member so far, modulo 2^32
    std::uint64_t history_ = 0;       ///< bytes of the member that a match may reach back to
    HuffmanCode literals_, distances_;
    std::vector<char> out_ = std::vector<char>(kWindow + kOutput);
    std::size_t at_ = kWindow;        ///< where the next byte goes
    std::size_t summed_ = kWindow;    ///< up to here the sum is taken
    void sum();
};

}  // namespace membudget
