#include "catch.hpp"
#include "membudget/quantity.hpp"

#include <limits>
#include <random>
#include <set>

using namespace membudget;

namespace {
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
}  // namespace

TEST_CASE("counts refuse to overflow", "[quantity]") {
    CHECK_THROWS_AS(Bytes(kMax) + Bytes(1), OverflowError);
    CHECK_THROWS_AS(Bytes(kMin) - Bytes(1), OverflowError);
    CHECK_THROWS_AS(Bytes(kMax) * 2, OverflowError);
    CHECK_THROWS_AS(-Bytes(kMin), OverflowError);
    CHECK_THROWS_AS(Bytes(std::numeric_limits<std::uint64_t>::max()), OverflowError);
    CHECK_THROWS_AS(Bytes(2) * std::numeric_limits<std::uint64_t>::max(), OverflowError);
    CHECK_THROWS_WITH(Elements(kMax) * 2, "9223372036854775807 * 2 does not fit into 64 bits");
    CHECK_THROWS_AS(bytes_of(Elements(kMax / 8), dtype::fp64), OverflowError);
    CHECK(Bytes(kMax) + Bytes(kMin) == Bytes(-1));
}

TEST_CASE("sums and shares", "[quantity]") {
    Bytes sum;
    sum += Bytes(5);
    sum -= Bytes(7);
    CHECK(sum == Bytes(-2));
    CHECK(ratio(Bytes(1), Bytes(4)) == 0.25);
    CHECK(ratio(Bytes(1), Bytes(0)) == 0);
    CHECK(ceil_div(Elements(7), 7) == Elements(1));
    CHECK(ceil_div(Elements(8), 7) == Elements(2));
    CHECK(ceil_div(Elements(0), 7) == Elements(0));
    // No intermediate sum that could overflow.
    CHECK(ceil_div(Bytes(kMax), kMax) == Bytes(1));
}

TEST_CASE("element types", "[quantity]") {
    CHECK(dtype::boolean.name == "bool");
    CHECK(dtypes().find("bf16") == &dtype::bf16);
    CHECK(dtypes().find("fp12") == nullptr);
    CHECK(dtypes().closest("FP8-E4M3") == "fp8_e4m3");
    for (const Dtype& row : dtypes()) {
        INFO(row.name);
        CHECK(row.bits > 0);
        CHECK(64 % row.bits == 0);
        CHECK_FALSE(row.doc.empty());
    }
    CHECK(bytes_of(Elements(100'000'000), dtype::fp32) == Bytes(400'000'000));
    CHECK(bytes_of(Elements(3), dtypes().find("nf4")[0]) == Bytes(2));
    CHECK(bytes_of(Elements(0), dtype::int4) == Bytes(0));
}

TEST_CASE("parse_bytes reads sizes exactly", "[quantity]") {
    struct Case {
        const char* text;
        std::int64_t bytes;
    };
    const auto [text, bytes] = GENERATE(values<Case>({
        {"0B", 0},
        {"1B", 1},
        {"4096B", 4096},
        {"4096 B", 4096},
        {"1kB", 1000},
        {"1KiB", 1024},
        {"80GB", 80'000'000'000},
        {"80GiB", 85'899'345'920},
        {"80 GB", 80'000'000'000},
        {"1.5GiB", 1'610'612'736},
        {"1.50000GiB", 1'610'612'736},
        {"0.1GB", 100'000'000},
        {"1_000_000B", 1'000'000},
        {"1_5.2_5kB", 15'250},
        {"007MB", 7'000'000},
        {"2TB", 2'000'000'000'000},
        {"1TiB", 1'099'511'627'776},
        {"5TiB", 5'497'558'138'880},
        {"1PB", 1'000'000'000'000'000},
        {"1PiB", 1'125'899'906'842'624},
        {"1.1B", 2},                      // a part of a byte is a byte
        {"0.0000000001kB", 1},
        {"0.1KiB", 103},                  // 102.4
        {"0.3GiB", 322'122'548},          // 322122547.2
        {"0.5B", 1},
        {"9007199254740991B", kLargestBytes},
        {"9.007199254740991PB", kLargestBytes},
        {"7.99999999999999911182158029987PiB", kLargestBytes},  // (2^53 - 1) / 2^50, cut
        {"0.0000000000000000000000000000000000000000000001B", 1},
    }));
    INFO(text);
    const Result<Bytes> parsed = parse_bytes(text);
    REQUIRE(parsed.ok());
    CHECK(parsed->count() == bytes);
}

TEST_CASE("parse_bytes says what is wrong", "[quantity]") {
    struct Case {
        std::string text, message, hint;
    };
    const std::string such = "expected a size such as '80GB', '1.5 GiB' or '4096B'; got ";
    const std::string units =
        "units: B, kB, MB, GB, TB, PB (powers of 1000), KiB, MiB, GiB, TiB, PiB (powers of 1024)";
    const std::string most = "expected a size of at most 9,007,199,254,740,991 bytes; got ";
    const std::vector<Case> cases{
        {"", such + "'', an empty string", ""},
        {" ", such + "' '", ""},
        {"GB", such + "'GB'", ""},
        {"eighty GB", such + "'eighty GB'", ""},
        {"-5GB", such + "'-5GB', a negative size", ""},
        {"+5GB", such + "'+5GB'", ""},
        {".5GB", such + "'.5GB'", ""},
        {"5.GB", such + "'5.GB'", ""},
        {"_5GB", such + "'_5GB'", ""},
        {"5_GB", such + "'5_GB' with an unknown unit '_GB'", units},
        {"5__0GB", such + "'5__0GB' with an unknown unit '__0GB'", units},
        {" 5GB", such + "' 5GB'", ""},
        {"5GB ", such + "'5GB ' with an unknown unit 'GB '", units},
        {"5  GB", such + "'5  GB' with an unknown unit ' GB'", units},
        {"80", such + "'80' without a unit", "a number of bytes is written '80B'"},
        {"80.5", such + "'80.5' without a unit", "a number of bytes is written '80.5B'"},
        {"80G",
         "expected a size with its whole unit; got '80G', which could mean 80,000,000,000 or "
         "85,899,345,920 bytes",
         "write '80GB' or '80GiB'"},
        {"1.5g",
         "expected a size with its whole unit; got '1.5g', which could mean 1,500,000,000 or "
         "1,610,612,736 bytes",
         "write '1.5GB' or '1.5GiB'"},
        {"64 K",
         "expected a size with its whole unit; got '64 K', which could mean 64,000 or 65,536 bytes",
         "write '64 kB' or '64 KiB'"},
        {"8P",
         "expected a size of at most 9,007,199,254,740,991 bytes; got '8P'", ""},
        {"64KB", such + "'64KB' with an unknown unit 'KB'",
         "did you mean 'kB' (1000 bytes) or 'KiB' (1024 bytes)?"},
        {"80gb", such + "'80gb' with an unknown unit 'gb'", "did you mean 'GB'?"},
        {"80Gb", such + "'80Gb' with an unknown unit 'Gb'", "did you mean 'GB'?"},
        {"80gib", such + "'80gib' with an unknown unit 'gib'", "did you mean 'GiB'?"},
        {"80Gi", such + "'80Gi' with an unknown unit 'Gi'", "did you mean 'GiB'?"},
        {"80b", such + "'80b' with an unknown unit 'b'", "did you mean 'B'?"},
        {"80bytes", such + "'80bytes' with an unknown unit 'bytes'", units},
        {"1e9B", such + "'1e9B' with an unknown unit 'e9B'", units},
        {"1,5GB", such + "'1,5GB'", "the decimal point is '.', and digits are grouped with '_'"},
        {"9007199254740992B", most + "'9007199254740992B'", ""},
        {"9007199254740991.1B", most + "'9007199254740991.1B'", ""},
        {"8PiB", most + "'8PiB'", ""},
        {"99999999999999999999999999GB", most + "'99999999999999999999999999GB'", ""},
        {"5\x1b[31mGB", such + "'5\\x1b[31mGB' with an unknown unit '\\x1b[31mGB'", units},
        {"5\xb5" "B", such + "'5\\xb5B' with an unknown unit '\\xb5B'", units},
        {std::string(50, '0'), such + "'" + std::string(40, '0') + "...' without a unit",
         "a number of bytes is written '...B'"},
    };
    for (const Case& c : cases) {
        INFO(c.text);
        const Result<Bytes> parsed = parse_bytes(c.text);
        REQUIRE_FALSE(parsed.ok());
        REQUIRE(parsed.errors().size() == 1);
        CHECK(parsed.errors().list()[0] ==
              Diagnostic{Trouble::invalid, "", "", c.message, c.hint});
    }
}

TEST_CASE("the exact text of any size reads back as itself", "[quantity]") {
    std::mt19937_64 random(7);
    for (int i = 0; i < 20'000; ++i) {
        // All magnitudes alike, not only the largest.
        const auto n = static_cast<std::int64_t>((random() >> 11) >> (random() % 53));
        const Result<Bytes> back = parse_bytes(format_bytes(Bytes(n), Units::exact));
        REQUIRE(back.ok());
        REQUIRE(back->count() == n);
    }
}

TEST_CASE("a rounded text lies within half a unit of the last place", "[quantity]") {
    std::mt19937_64 random(11);
    for (const Units units : {Units::decimal, Units::binary}) {
        for (int i = 0; i < 20'000; ++i) {
            const auto n = static_cast<std::int64_t>((random() >> 12) >> (random() % 52));
            const std::string text = format_bytes(Bytes(n), units);
            const Result<Bytes> back = parse_bytes(text);
            INFO(n << " " << text);
            REQUIRE(back.ok());
            const Result<Bytes> place = parse_bytes("0.01" + text.substr(text.find(' ')));
            // parse_bytes rounds up, by less than one byte.
            REQUIRE(std::abs(back->count() - n) <= place->count() / 2 + 1);
        }
    }
}

TEST_CASE("format_bytes writes for people", "[quantity]") {
    struct Case {
        std::int64_t bytes;
        const char *decimal, *binary, *exact;
    };
    const std::vector<Case> cases{
        {0, "0 B", "0 B", "0 B"},
        {1, "1 B", "1 B", "1 B"},
        {-1, "-1 B", "-1 B", "-1 B"},
        {999, "999 B", "999 B", "999 B"},
        {1000, "1.00 kB", "1000 B", "1000 B"},
        {1023, "1.02 kB", "1023 B", "1023 B"},
        {1024, "1.02 kB", "1.00 KiB", "1024 B"},
        {1025, "1.02 kB", "1.00 KiB", "1025 B"},
        {-1536, "-1.54 kB", "-1.50 KiB", "-1536 B"},
        {999'994, "999.99 kB", "976.56 KiB", "999994 B"},
        {999'995, "1.00 MB", "976.56 KiB", "999995 B"},  // 999.995: to even, and so to 1000.00
        {999'999, "1.00 MB", "976.56 KiB", "999999 B"},
        {1'048'575, "1.05 MB", "1.00 MiB", "1048575 B"},
        {1'005, "1.00 kB", "1005 B", "1005 B"},  // 1.005 to even
        {1'015, "1.02 kB", "1015 B", "1015 B"},  // 1.015 to even
        {1'600'000'000, "1.60 GB", "1.49 GiB", "1600000000 B"},
        {1'099'511'627'776, "1.10 TB", "1.00 TiB", "1099511627776 B"},
        {5'497'558'138'880, "5.50 TB", "5.00 TiB", "5497558138880 B"},
        {kLargestBytes, "9.01 PB", "8.00 PiB", "9007199254740991 B"},
        {kMax, "9223.37 PB", "8192.00 PiB", "9223372036854775807 B"},
        {kMin, "-9223.37 PB", "-8192.00 PiB", "-9223372036854775808 B"},
    };
    for (const Case& c : cases) {
        INFO(c.bytes);
        CHECK(format_bytes(Bytes(c.bytes), Units::decimal) == c.decimal);
        CHECK(format_bytes(Bytes(c.bytes), Units::binary) == c.binary);
        CHECK(format_bytes(Bytes(c.bytes), Units::exact) == c.exact);
    }
}

TEST_CASE("format_in_unit keeps one unit for a column", "[quantity]") {
    CHECK(format_in_unit(Bytes(16'000'000'000), kGB) == "16.00");
    CHECK(format_in_unit(Bytes(16'000'000'000), kGiB) == "14.90");
    CHECK(format_in_unit(Bytes(0), kGB) == "0.00");
    CHECK(format_in_unit(Bytes(-4'999'999), kGB) == "0.00");  // no negative zero
    CHECK(format_in_unit(Bytes(-5'000'001), kGB) == "-0.01");
    CHECK(format_in_unit(Bytes(5'000'000), kGB) == "0.00");   // half to even
    CHECK(format_in_unit(Bytes(15'000'000), kGB) == "0.02");  // half to even
    CHECK(format_in_unit(Bytes(1'500'000'000), kGB, 0) == "2");
    CHECK(format_in_unit(Bytes(2'500'000'000), kGB, 0) == "2");
    CHECK(format_in_unit(Bytes(1'234'567'891), kGB, 9) == "1.234567891");
    CHECK(format_in_unit(Bytes(999'999'999), kGB, 3) == "1.000");
    CHECK(format_in_unit(Bytes(kMin), 1, 0) == "-9223372036854775808");
    CHECK_THROWS_AS(format_in_unit(Bytes(1), 0), InternalError);
    CHECK_THROWS_AS(format_in_unit(Bytes(1), kGB, 16), InternalError);
}

TEST_CASE("group_digits", "[quantity]") {
    CHECK(group_digits(0) == "0");
    CHECK(group_digits(999) == "999");
    CHECK(group_digits(1000) == "1,000");
    CHECK(group_digits(-1234567) == "-1,234,567");
    CHECK(group_digits(kMin) == "-9,223,372,036,854,775,808");
}
