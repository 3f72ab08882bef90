/// Any bytes through the size parser: a size within its limits that survives being written and read
/// again, or one diagnostic.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "membudget/quantity.hpp"

namespace {

using namespace membudget;

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const Result<Bytes> bytes = parse_bytes(text);
    if (!bytes) {
        require(bytes.errors().size() == 1);
        for (const char c : bytes.errors().list()[0].message)
            require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
        return 0;
    }
    require(bytes->count() >= 0 && bytes->count() <= kLargestBytes);
    const Result<Bytes> again = parse_bytes(format_bytes(*bytes, Units::exact));
    require(again.ok() && *again == *bytes);
    for (const Units units : {Units::decimal, Units::binary}) {
        const std::string rounded = format_bytes(*bytes, units);
        // Only what rounds up beyond the largest size is not a size.
        require(parse_bytes(rounded).ok() || bytes->count() > kLargestBytes / 1000 * 999);
    }
    return 0;
}
