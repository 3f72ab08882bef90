#include <fmt/format.h>

#include "membudget/quantity.hpp"

namespace membudget {

namespace detail {
void throw_overflow(const char* operation, std::int64_t a, std::int64_t b) {
    throw OverflowError(fmt::format("{} {} {} does not fit into 64 bits", a, operation, b));
}
}  // namespace detail

double ratio(Bytes a, Bytes b) {
    if (b.count() == 0) return 0;
    return static_cast<double>(a.count()) / static_cast<double>(b.count());
}

}  // namespace membudget
