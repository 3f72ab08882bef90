#pragma once

/// Part `quantity`: exact counts of bytes and of tensor elements, element types, and the text of
/// sizes. Integers only: a byte count is never a floating-point number, and overflow is an error.

#include <compare>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "membudget/support.hpp"

namespace membudget {

/// A count left the signed 64-bit range. Numbers of a spec are limited so that this is all but
/// impossible; the public entry points turn it into a diagnostic.
class OverflowError : public std::overflow_error {
public:
    using std::overflow_error::overflow_error;
};

/// Any integer but `bool`: the only thing by which a count may be multiplied.
template <class T>
concept WholeNumber = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>;

namespace detail {
[[noreturn]] void throw_overflow(const char* operation, std::int64_t a, std::int64_t b);

constexpr std::int64_t checked_add(std::int64_t a, std::int64_t b) {
    std::int64_t out{};
    if (__builtin_add_overflow(a, b, &out)) throw_overflow("+", a, b);
    return out;
}
constexpr std::int64_t checked_sub(std::int64_t a, std::int64_t b) {
    std::int64_t out{};
    if (__builtin_sub_overflow(a, b, &out)) throw_overflow("-", a, b);
    return out;
}
constexpr std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
    std::int64_t out{};
    if (__builtin_mul_overflow(a, b, &out)) throw_overflow("*", a, b);
    return out;
}
/// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

/// A checked signed 64-bit count; `Tag` keeps counts of different things apart.
template <class Tag>
class Count {
public:
    constexpr Count() = default;
    constexpr explicit Count(WholeNumber auto n) : n_(static_cast<std::int64_t>(n)) {
        if (!std::in_range<std::int64_t>(n)) throw_overflow("conversion", 0, 0);
    }
    [[nodiscard]] constexpr std::int64_t count() const { return n_; }

    friend constexpr Count operator+(Count a, Count b) { return Count(checked_add(a.n_, b.n_)); }
    friend constexpr Count operator-(Count a, Count b) { return Count(checked_sub(a.n_, b.n_)); }
    friend constexpr Count operator-(Count a) { return Count(checked_sub(0, a.n_)); }
    template <WholeNumber N>
    friend constexpr Count operator*(Count a, N n) {
        return Count(checked_mul(a.n_, Count(n).n_));
    }
    template <WholeNumber N>
    friend constexpr Count operator*(N n, Count a) {
        return a * n;
    }
    constexpr Count& operator+=(Count b) { return *this = *this + b; }
    constexpr Count& operator-=(Count b) { return *this = *this - b; }
    friend constexpr auto operator<=>(Count, Count) = default;

private:
    std::int64_t n_ = 0;
};
}  // namespace detail

/// A number of bytes; signed, because differences are first-class.
using Bytes = detail::Count<struct BytesTag>;
/// A number of tensor elements.
using Elements = detail::Count<struct ElementsTag>;

/// a / b as a ratio; 0 when b is 0.
[[nodiscard]] double ratio(Bytes a, Bytes b);
/// The share of each of `parts` equal owners, the last one padded: ceil(whole / parts).
/// Requires whole >= 0 and parts > 0.
[[nodiscard]] constexpr Bytes ceil_div(Bytes whole, std::int64_t parts) {
    return Bytes(detail::ceil_div(whole.count(), parts));
}
[[nodiscard]] constexpr Elements ceil_div(Elements whole, std::int64_t parts) {
    return Elements(detail::ceil_div(whole.count(), parts));
}
/// The smallest multiple of `alignment` (> 0) that is not below `bytes` (>= 0).
[[nodiscard]] constexpr Bytes align_up(Bytes bytes, std::int64_t alignment) {
    return ceil_div(bytes, alignment) * alignment;
}

/// An element type: a row of the table. Names are PyTorch's short ones.
struct Dtype {
    std::string_view name;  ///< "bf16"
    int bits;               ///< storage per element, in bits, without block scales
    std::string_view doc;
};

/// Every element type that a spec may name.
[[nodiscard]] Table<Dtype> dtypes();

namespace dtype {
extern const Dtype& fp64;
extern const Dtype& fp32;
extern const Dtype& bf16;
extern const Dtype& fp16;
extern const Dtype& fp8_e4m3;
extern const Dtype& fp8_e5m2;
extern const Dtype& int64;
extern const Dtype& int32;
extern const Dtype& int16;
extern const Dtype& int8;
extern const Dtype& uint8;
extern const Dtype& boolean;
extern const Dtype& int4;
extern const Dtype& fp4;
}  // namespace dtype

/// Bytes of `n` elements of `type`, rounded up to a whole byte: the only way from one to the other.
[[nodiscard]] constexpr Bytes bytes_of(Elements n, const Dtype& type) {
    return Bytes(detail::ceil_div(detail::checked_mul(n.count(), type.bits), 8));
}

/// `bytes_of` between plain integers, which the events of a step hold.
[[nodiscard]] constexpr std::int64_t byte_count(std::int64_t elements, const Dtype& type) {
    return bytes_of(Elements(elements), type).count();
}

/// The largest size that a spec may state: 2^53 - 1 bytes, so that every JSON reader keeps it exact.
inline constexpr std::int64_t kLargestBytes = (std::int64_t{1} << 53) - 1;

/// A size as people write it, read exactly: an integer with an optional decimal fraction and one of
/// B, kB, MB, GB, TB, PB (powers of 1000) or KiB, MiB, GiB, TiB, PiB (powers of 1024), with or
/// without a space and `_` between digits. A fraction that is not a whole number of bytes is
/// rounded up. A bare K, M, G, T is refused: it means two things.
/// The error is a message without a place: "expected a size such as '80GB' ...; got ...".
[[nodiscard]] Result<Bytes> parse_bytes(std::string_view text);

/// Which units `format_bytes` writes.
enum class Units {
    decimal,  ///< kB, MB, GB, ... (powers of 1000)
    binary,   ///< KiB, MiB, GiB, ... (powers of 1024)
    exact,    ///< the integer with " B"
};

/// A size for people: two decimals, the unit chosen so that the number is below 1000 (1024).
/// Rounds half to even on the exact integer; -1536 in binary is "-1.50 KiB"; 0 is "0 B".
[[nodiscard]] std::string format_bytes(Bytes bytes, Units units);
/// The same in one fixed unit, so that the numbers of a column compare: "16.00" for GB.
[[nodiscard]] std::string format_in_unit(Bytes bytes, std::int64_t unit, int decimals = 2);

inline constexpr std::int64_t kGB = 1'000'000'000;
inline constexpr std::int64_t kGiB = 1'073'741'824;

/// 1234567 as "1,234,567".
[[nodiscard]] std::string group_digits(std::int64_t n);

}  // namespace membudget
