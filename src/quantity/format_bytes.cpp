#include <fmt/format.h>

#include <span>

#include "membudget/quantity.hpp"
#include "quantity/units.hpp"

namespace membudget {

namespace {

/// |n|, also for the one number whose magnitude no signed integer holds.
std::uint64_t magnitude(std::int64_t n) {
    const auto bits = static_cast<std::uint64_t>(n);
    return n < 0 ? 0 - bits : bits;
}

/// A non-negative decimal number: `whole` and `decimals` digits of fraction.
struct Decimal {
    std::uint64_t whole = 0;
    std::uint64_t fraction = 0;
};

/// `n` / `unit` by long division, rounded half to even at the last decimal.
Decimal divide(std::uint64_t n, std::uint64_t unit, int decimals) {
    Decimal out{.whole = n / unit};
    std::uint64_t rest = n % unit;
    std::uint64_t one = 1;  // the fraction that makes a whole
    for (int i = 0; i < decimals; ++i) {
        rest *= 10;
        out.fraction = out.fraction * 10 + rest / unit;
        rest %= unit;
        one *= 10;
    }
    const std::uint64_t last = decimals == 0 ? out.whole : out.fraction;
    const bool odd = last % 2 == 1;
    if (rest > unit - rest || (rest == unit - rest && odd)) ++out.fraction;
    // Without decimals one == 1, so rounding up carries into the whole as well.
    out.whole += out.fraction / one;
    out.fraction %= one;
    return out;
}

std::string text_of(Decimal number, int decimals, bool negative) {
    // What rounds to zero has no sign.
    const char* sign = negative && (number.whole != 0 || number.fraction != 0) ? "-" : "";
    if (decimals == 0) return fmt::format("{}{}", sign, number.whole);
    return fmt::format("{}{}.{:0{}}", sign, number.whole, number.fraction, decimals);
}

}  // namespace

std::string format_in_unit(Bytes bytes, std::int64_t unit, int decimals) {
    // Within these limits long division stays inside 64 bits.
    MEMBUDGET_ENSURE(unit > 0 && unit <= kBinaryUnits.back().bytes, "unit out of range");
    MEMBUDGET_ENSURE(decimals >= 0 && decimals <= 15, "decimals out of range");
    const Decimal number =
        divide(magnitude(bytes.count()), static_cast<std::uint64_t>(unit), decimals);
    return text_of(number, decimals, bytes.count() < 0);
}

std::string format_bytes(Bytes bytes, Units units) {
    const std::uint64_t n = magnitude(bytes.count());
    const auto& table = units == Units::binary ? kBinaryUnits : kDecimalUnits;
    const std::uint64_t step = units == Units::binary ? 1024 : 1000;
    if (units == Units::exact || n < step) return fmt::format("{} B", bytes.count());

    // The rounded number decides: 999,999 is 1.00 MB and not 1000.00 kB. Beyond the largest unit
    // the number grows.
    constexpr int kDecimals = 2;
    for (const Unit& unit : std::span(table).subspan(1)) {
        const Decimal number = divide(n, static_cast<std::uint64_t>(unit.bytes), kDecimals);
        if (number.whole >= step && &unit != &table.back()) continue;
        return fmt::format("{} {}", text_of(number, kDecimals, bytes.count() < 0), unit.name);
    }
    MEMBUDGET_ENSURE(false, "the last unit takes every number");
    return {};
}

std::string group_digits(std::int64_t n) {
    const std::string digits = fmt::format("{}", magnitude(n));
    std::string out = n < 0 ? "-" : "";
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i != 0 && (digits.size() - i) % 3 == 0) out += ',';
        out += digits[i];
    }
    return out;
}

}  // namespace membudget
