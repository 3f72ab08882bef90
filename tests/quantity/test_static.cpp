/// What must and what must not compile: compiling this file is the test.

#include <concepts>

#include "membudget/quantity.hpp"

using namespace membudget;

namespace {

template <class A, class B>
concept adds = requires(A a, B b) { a + b; };
template <class A, class B>
concept subtracts = requires(A a, B b) { a - b; };
template <class A, class B>
concept multiplies = requires(A a, B b) { a * b; };
template <class A, class B>
concept divides = requires(A a, B b) { a / b; };
template <class A, class B>
concept compares = requires(A a, B b) { a == b; };
template <class A, class B>
concept orders = requires(A a, B b) { a < b; };

static_assert(adds<Bytes, Bytes> && subtracts<Bytes, Bytes>);
static_assert(multiplies<Bytes, int> && multiplies<long long, Bytes>);
static_assert(multiplies<Bytes, unsigned>);
static_assert(compares<Bytes, Bytes> && orders<Bytes, Bytes>);

// A bare number has no unit.
static_assert(!adds<Bytes, int> && !adds<int, Bytes> && !subtracts<Bytes, int>);
static_assert(!compares<Bytes, int> && !orders<Bytes, int>);
static_assert(!std::convertible_to<int, Bytes> && !std::convertible_to<Bytes, long>);
static_assert(!std::convertible_to<Bytes, bool> && !std::constructible_from<Bytes, bool>);

// Bytes are counted, never scaled by a fraction or by a truth value.
static_assert(!multiplies<Bytes, double> && !multiplies<float, Bytes> && !multiplies<Bytes, bool>);
static_assert(!std::constructible_from<Bytes, double>);
static_assert(!divides<Bytes, Bytes> && !divides<Bytes, int>);
static_assert(!multiplies<Bytes, Bytes>);

// Elements and bytes are different things; bytes_of is the only way from one to the other.
static_assert(!adds<Bytes, Elements> && !compares<Bytes, Elements> && !orders<Bytes, Elements>);
static_assert(!std::constructible_from<Bytes, Elements>);

// All of the arithmetic is available at compile time.
static_assert(Bytes(3) * 4 - Bytes(2) == Bytes(10));
static_assert(-Bytes(1) < Bytes(0));
static_assert(ceil_div(Bytes(10), 4) == Bytes(3));
static_assert(align_up(Bytes(513), 512) == Bytes(1024));
static_assert(align_up(Bytes(0), 512) == Bytes(0));
static_assert(bytes_of(Elements(3), Dtype{"half a byte", 4, ""}) == Bytes(2));

}  // namespace
