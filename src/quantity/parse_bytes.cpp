#include <fmt/format.h>

#include <optional>

#include "membudget/quantity.hpp"
#include "quantity/units.hpp"

namespace membudget {

namespace {

/// A hint repeats a size with its unit put right only when people can have typed it.
constexpr std::size_t kLongestRepeated = 40;

constexpr const char* kExpected = "expected a size such as '80GB', '1.5 GiB' or '4096B'";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Diagnostic wrong(std::string_view text, std::string why, std::string hint = {}) {
    return {.trouble = Trouble::invalid,
            .file = {},
            .pointer = {},
            .message = fmt::format("{}; got {}{}", kExpected, in_quotes(text), why),
            .hint = std::move(hint)};
}

Diagnostic too_large(std::string_view text) {
    return {.trouble = Trouble::invalid,
            .file = {},
            .pointer = {},
            .message = fmt::format("expected a size of at most {} bytes; got {}",
                                   group_digits(kLargestBytes), in_quotes(text)),
            .hint = {}};
}

/// The pieces of a size, checked for form and not for value.
struct SizeText {
    std::string whole;     ///< digits, at least one
    std::string fraction;  ///< digits, without trailing zeros
    std::string_view unit; ///< what follows, as found
};

/// Takes digits, with single `_` between them, from the front of `text`.
std::string take_digits(std::string_view& text) {
    std::string digits;
    while (!text.empty()) {
        const bool separator =
            text.size() > 1 && text[0] == '_' && is_digit(text[1]) && !digits.empty();
        if (!is_digit(text[0]) && !separator) break;
        if (!separator) digits += text[0];
        text.remove_prefix(1);
    }
    return digits;
}

std::optional<SizeText> split(std::string_view text) {
    SizeText out;
    out.whole = take_digits(text);
    if (out.whole.empty()) return std::nullopt;
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        out.fraction = take_digits(text);
        if (out.fraction.empty()) return std::nullopt;
        out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
    }
    if (text.starts_with(' ')) text.remove_prefix(1);
    out.unit = text;
    return out;
}

const Unit* find_unit(std::string_view name) {
    for (const auto* table : {&kDecimalUnits, &kBinaryUnits})
        for (const Unit& unit : *table)
            if (unit.name == name) return &unit;
    return nullptr;
}

/// ceil(0.fraction x unit), exact for any number of digits: schoolbook multiplication from the
/// right, of which only the carry into the whole and "was anything left" are kept.
std::int64_t fraction_bytes(std::string_view fraction, std::int64_t unit) {
    std::int64_t carry = 0;
    bool left = false;
    for (std::size_t i = fraction.size(); i-- > 0;) {
        carry += (fraction[i] - '0') * unit;
        left = left || carry % 10 != 0;
        carry /= 10;
    }
    return carry + (left ? 1 : 0);
}

/// The value in bytes; empty when it exceeds `kLargestBytes`.
std::optional<Bytes> value_of(const SizeText& size, const Unit& unit) {
    const std::int64_t limit = kLargestBytes / unit.bytes;
    std::int64_t whole = 0;
    for (const char digit : size.whole) {
        whole = whole * 10 + (digit - '0');
        if (whole > limit) return std::nullopt;
    }
    const std::int64_t bytes = whole * unit.bytes + fraction_bytes(size.fraction, unit.bytes);
    if (bytes > kLargestBytes) return std::nullopt;
    return Bytes(bytes);
}

std::string upper(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return out;
}

/// A prefix without its "B" or "iB" means two things; both are named, with their values.
std::optional<Diagnostic> bare_prefix(std::string_view text, const SizeText& size) {
    if (size.unit.size() != 1) return std::nullopt;
    for (std::size_t i = 1; i < kDecimalUnits.size(); ++i) {
        const Unit& decimal = kDecimalUnits[i];
        const Unit& binary = kBinaryUnits[i];
        if (upper(size.unit) != binary.name.substr(0, 1)) continue;
        const auto low = value_of(size, decimal);
        const auto high = value_of(size, binary);
        if (!low || !high) return too_large(text);
        std::string_view number = text.substr(0, text.size() - 1);
        if (number.size() > kLongestRepeated) number = "...";
        return Diagnostic{
            .trouble = Trouble::invalid,
            .file = {},
            .pointer = {},
            .message = fmt::format("expected a size with its whole unit; got {}, which could mean "
                                   "{} or {} bytes",
                                   in_quotes(text), group_digits(low->count()),
                                   group_digits(high->count())),
            .hint = fmt::format("write '{}{}' or '{}{}'", number, decimal.name, number,
                                binary.name)};
    }
    return std::nullopt;
}

/// What to write instead of a unit that does not exist.
std::string unit_hint(std::string_view unit) {
    const std::string name = upper(unit);
    if (name == "KB") return "did you mean 'kB' (1000 bytes) or 'KiB' (1024 bytes)?";
    for (const auto* table : {&kDecimalUnits, &kBinaryUnits})
        for (const Unit& known : *table)
            if (name == upper(known.name) || name + "B" == upper(known.name))
                return fmt::format("did you mean '{}'?", known.name);
    return "units: B, kB, MB, GB, TB, PB (powers of 1000), KiB, MiB, GiB, TiB, PiB "
           "(powers of 1024)";
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
    if (text.empty()) return wrong(text, ", an empty string");
    if (text.starts_with('-')) return wrong(text, ", a negative size");
    const std::optional<SizeText> size = split(text);
    if (!size) return wrong(text, "");
    if (size->unit.empty())
        return wrong(text, " without a unit",
                     fmt::format("a number of bytes is written '{}B'",
                                 text.size() > kLongestRepeated ? "..." : text));
    if (size->unit.front() == ',')
        return wrong(text, "", "the decimal point is '.', and digits are grouped with '_'");
    if (auto ambiguous = bare_prefix(text, *size)) return *std::move(ambiguous);
    const Unit* unit = find_unit(size->unit);
    if (unit == nullptr)
        return wrong(text, fmt::format(" with an unknown unit {}", in_quotes(size->unit)),
                     unit_hint(size->unit));
    const std::optional<Bytes> bytes = value_of(*size, *unit);
    if (!bytes) return too_large(text);
    return *bytes;
}

}  // namespace membudget
