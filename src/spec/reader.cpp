#include "spec/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>


namespace membudget {

namespace {

using Kind = KeyTree::Kind;

/// The digits of a JSON number and the power of ten by which they are to be multiplied:
/// "-1.50e3" is 15 and 2.
struct ScaledDigits {
    std::string digits;  ///< without leading and trailing zeros; empty for zero
    std::int64_t power = 0;
    bool negative = false;
};

ScaledDigits scaled_digits(std::string_view text) {
    ScaledDigits out;
    const std::size_t e = std::min(text.find_first_of("eE"), text.size());
    std::string_view exponent = text.substr(std::min(e + 1, text.size()));
    if (exponent.starts_with('+')) exponent.remove_prefix(1);
    // What from_chars refuses as too large is too large here too: the power stays off by far.
    constexpr std::int64_t kFar = 1'000'000'000;
    std::int64_t power = 0;
    if (std::from_chars(exponent.data(), exponent.data() + exponent.size(), power).ec ==
        std::errc::result_out_of_range)
        power = exponent.starts_with('-') ? -kFar : kFar;
    out.power = std::clamp(power, -kFar, kFar);

    bool fraction = false;
    for (const char c : text.substr(0, e)) {
        if (c == '-') out.negative = true;
        if (c == '.') fraction = true;
        if (c < '0' || c > '9') continue;
        out.digits += c;
        if (fraction) --out.power;
    }
    out.digits.erase(0, out.digits.find_first_not_of('0'));
    const std::size_t last = out.digits.find_last_not_of('0');
    const std::size_t kept = last == std::string::npos ? 0 : last + 1;
    out.power += static_cast<std::int64_t>(out.digits.size() - kept);
    out.digits.resize(kept);
    return out;
}

std::string_view sign_of(std::int64_t least) {
    return least > 0 ? "a positive integer" : "a non-negative integer";
}

/// Where else in the spec `key` would have been right.
std::string place_hint(std::string_view key) {
    std::string places;
    int found = 0;
    const std::string ending = pointer_child("", key);
    for (const SpecKey& known : spec_keys()) {
        if (!known.pointer.ends_with(ending)) continue;
        const std::string parent = known.pointer.substr(0, known.pointer.size() - ending.size());
        places += (found++ == 0 ? "" : " or ") + (parent.empty() ? "the top level" : parent);
    }
    if (found == 0 || found > 2) return {};
    return fmt::format("'{}' is a key of {}", key, places);
}

}  // namespace

void Cursor::wrong(std::string_view expected, std::string hint) const {
    if (hint.empty() && tree.is_null() && !pointer.empty())
        hint = "to state nothing, leave the key out";
    errors.invalid(pointer, fmt::format("expected {}; got {}", expected, tree.describe()),
                   std::move(hint));
}

bool is_whole(const KeyTree& tree) {
    if (tree.is(Kind::integer)) return true;
    return tree.is(Kind::number) && scaled_digits(tree.text()).power >= 0;
}

std::optional<std::int64_t> exact_integer(const KeyTree& tree) {
    if (tree.is(Kind::integer)) return tree.integer();
    if (!tree.is(Kind::number)) return std::nullopt;
    ScaledDigits number = scaled_digits(tree.text());
    if (number.digits.empty()) return 0;
    constexpr std::int64_t kMostDigits = 18;  // all of them fit into 64 bits
    if (number.power < 0 || number.power > kMostDigits) return std::nullopt;
    number.digits.append(static_cast<std::size_t>(number.power), '0');
    if (number.digits.size() > kMostDigits) return std::nullopt;
    std::int64_t out = 0;
    for (const char digit : number.digits) out = out * 10 + (digit - '0');
    return number.negative ? -out : out;
}

std::optional<std::int64_t> read_integer(const Cursor& at, std::int64_t least, std::int64_t most) {
    const std::optional<std::int64_t> value = exact_integer(at.tree);
    if (value && *value >= least && *value <= most) return value;
    const bool positive = at.tree.number() > 0;
    if (is_whole(at.tree) && positive) {
        at.wrong(fmt::format("an integer of at most {}", group_digits(most)));
        return std::nullopt;
    }
    const std::string& text = at.tree.text();
    const bool digits = at.tree.is(Kind::string) && !text.empty() &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    at.wrong(sign_of(least), digits ? "write the number without quotes" : "");
    return std::nullopt;
}

std::optional<double> read_real(const Cursor& at, std::int64_t least, std::int64_t most) {
    const bool number = at.tree.is(Kind::integer) || at.tree.is(Kind::number);
    if (number && at.tree.number() >= static_cast<double>(least) &&
        at.tree.number() <= static_cast<double>(most))
        return at.tree.number();
    at.wrong(fmt::format("a number from {} to {}", least, group_digits(most)));
    return std::nullopt;
}

std::optional<bool> read_flag(const Cursor& at) {
    if (at.tree.is(Kind::boolean)) return at.tree.boolean();
    at.wrong("true or false");
    return std::nullopt;
}

std::optional<Bytes> read_size(const Cursor& at) {
    if (at.tree.is(Kind::string)) {
        const Result<Bytes> bytes = parse_bytes(at.tree.text());
        if (bytes) return *bytes;
        for (const Diagnostic& why : bytes.errors().list())
            at.errors.invalid(at.pointer, why.message, why.hint);
        return std::nullopt;
    }
    const std::optional<std::int64_t> bytes = exact_integer(at.tree);
    if (bytes && *bytes >= 0 && *bytes <= kLargestBytes) return Bytes(*bytes);
    if (is_whole(at.tree) && at.tree.number() > 0)
        at.wrong(fmt::format("a size of at most {} bytes", group_digits(kLargestBytes)));
    else
        at.wrong("a size: a string such as '80GB', or an integer of bytes");
    return std::nullopt;
}

std::optional<std::string> read_text_value(const Cursor& at, std::string_view expected) {
    if (!at.tree.is(Kind::string) || at.tree.text().empty()) {
        at.wrong(expected);
        return std::nullopt;
    }
    if (has_control_characters(at.tree.text())) {
        at.wrong(fmt::format("{} without control characters", expected));
        return std::nullopt;
    }
    return at.tree.text();
}

std::optional<NamedAt> read_name(const Cursor& at) {
    constexpr std::size_t kLongestName = 200;
    auto text = read_text_value(at, "a name");
    if (!text) return std::nullopt;
    if (text->size() > kLongestName) {  // a message about an unknown name shows all of it
        at.wrong(fmt::format("a name of at most {} bytes", kLongestName));
        return std::nullopt;
    }
    return NamedAt{*std::move(text), at.pointer};
}

std::vector<NamedAt> read_names(const Cursor& at) {
    std::vector<NamedAt> out;
    if (!at.tree.is(Kind::array) || at.tree.items().empty()) {
        at.wrong("a list of at least one name");
        return out;
    }
    for (std::size_t i = 0; i < at.tree.items().size() && at.errors.size() < kMostMistakes; ++i)
        if (auto name = read_name(at.child(i, at.tree.items()[i]))) out.push_back(*std::move(name));
    return out;
}

KeyTree read_tree(const Cursor& at) {
    report_duplicates(at.tree, at.pointer, at.errors);
    return at.tree;
}

void report_unknown_key(const Cursor& at, std::string_view key, KeyNames known) {
    std::string hint = did_you_mean(key, known);
    if (hint.empty()) hint = place_hint(key);
    if (hint.empty()) hint = fmt::format("keys: {}", fmt::join(known, ", "));
    at.errors.invalid(at.pointer, fmt::format("unknown key {}", in_quotes(key)), std::move(hint));
}

bool is_missing(const KeyTree& object, std::string_view key, KeyNames known) {
    if (object.find(key) != nullptr) return false;
    return std::none_of(object.members().begin(), object.members().end(),
                        [key, known](const KeyTree::Member& member) {
                            return closest(member.first, known) == key;
                        });
}

}  // namespace membudget
