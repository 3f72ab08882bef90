#include <sstream>
#include <string>

#include "catch.hpp"
#include "membudget/trace.hpp"

namespace membudget {
namespace {

/// gzip files as Python's gzip.compress(..., mtime=0) makes them, in hexadecimal.
std::string bytes(std::string_view hex) {
    std::string out;
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
        out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
    return out;
}

std::string all_of(ByteSource& source) {
    std::string out;
    for (std::string_view more = source.next(); !more.empty(); more = source.next()) out += more;
    return out;
}

// "hello hello hello hello\n", compressed; "abc", stored.
const std::string kHello = "1f8b0800000000000203cb48cdc9c957c84027b9000088590b18000000";
const std::string kStored = "1f8b0800000000000403010300fcff616263c241243503000000";

TEST_CASE("gzip is undone, member after member", "[trace]") {
    const std::string hello = bytes(kHello), stored = bytes(kStored);
    for (const auto& [packed, plain] :
         {std::pair{hello, std::string("hello hello hello hello\n")}, std::pair{stored, std::string("abc")},
          std::pair{hello + stored, std::string("hello hello hello hello\nabc")},
          std::pair{stored + std::string(512, '\0'), std::string("abc")}}) {
        const auto source = source_of(packed);
        CHECK(all_of(*source) == plain);
        CHECK(source->error().empty());
        std::istringstream in(packed);
        const auto streamed = source_of(in);
        CHECK(all_of(*streamed) == plain);
    }
}

TEST_CASE("what is not gzip passes unchanged", "[trace]") {
    for (const std::string plain : {"", "x", "\x1f\x8b", "plain text"}) {
        const auto source = source_of(plain);
        CHECK(all_of(*source) == plain);
        CHECK(source->error().empty());
    }
}

TEST_CASE("a damaged gzip stream says so", "[trace]") {
    const std::string hello = bytes(kHello);
    for (std::size_t length = 3; length < hello.size(); ++length) {
        const std::string cut = hello.substr(0, length);
        const auto source = source_of(cut);
        all_of(*source);
        INFO(length);
        CHECK(source->error() == "gzip: the stream ends early");
    }
    std::string wrong = hello;
    wrong[wrong.size() - 5] = static_cast<char>(wrong[wrong.size() - 5] ^ 1);
    const auto source = source_of(wrong);
    all_of(*source);
    CHECK(source->error() == "gzip: incorrect data check");
    // Every single flipped bit is noticed, or makes no difference.
    for (std::size_t bit = 0; bit < hello.size() * 8; ++bit) {
        std::string flipped = hello;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
        const auto damaged = source_of(flipped);
        const std::string out = all_of(*damaged);
        INFO(bit);
        CHECK((!damaged->error().empty() || out == "hello hello hello hello\n" || bit < 24));
    }
}

}  // namespace
}  // namespace membudget
