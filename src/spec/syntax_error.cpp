#include "spec/syntax_error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

/// The parser says only that and where it stopped. Here the text before that place is split once
/// more into tokens, so that the message can say what was expected there and how to mend it.

namespace membudget {

namespace {

constexpr std::string_view kBlank = " \t\n\r";
constexpr std::string_view kPunctuation = "{}[]:,";

bool is_one_of(char c, std::string_view set) { return set.find(c) != std::string_view::npos; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

std::size_t skip_digits(std::string_view word, std::size_t i) {
    while (i < word.size() && is_digit(word[i])) ++i;
    return i;
}

/// RFC 8259, section 6.
bool is_number(std::string_view word) {
    std::size_t i = word.starts_with('-') ? 1 : 0;
    const std::size_t whole = i;
    i = skip_digits(word, i);
    if (i == whole || (word[whole] == '0' && i - whole > 1)) return false;
    if (i < word.size() && word[i] == '.') {
        const std::size_t fraction = ++i;
        i = skip_digits(word, i);
        if (i == fraction) return false;
    }
    if (i < word.size() && is_one_of(word[i], "eE")) {
        ++i;
        if (i < word.size() && is_one_of(word[i], "+-")) ++i;
        const std::size_t exponent = i;
        i = skip_digits(word, i);
        if (i == exponent) return false;
    }
    return i == word.size();
}

bool is_value(std::string_view word) {
    return word == "true" || word == "false" || word == "null" || is_number(word);
}

/// The four hexadecimal digits of the escape `\uXXXX` at the start of `text`.
std::optional<unsigned> code_unit(std::string_view text) {
    if (text.size() < 6 || !text.starts_with("\\u")) return std::nullopt;
    unsigned out = 0;
    for (const char c : text.substr(2, 4)) {
        if (!is_hex(c)) return std::nullopt;
        const int digit = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
        out = out * 16 + static_cast<unsigned>(digit);
    }
    return out;
}

/// Length of the escape at the start of `text`, or 0 when it is none of JSON's.
std::size_t escape_length(std::string_view text) {
    if (text.size() >= 2 && is_one_of(text[1], "\"\\/bfnrt")) return 2;
    const std::optional<unsigned> unit = code_unit(text);
    if (!unit || (*unit >= 0xDC00 && *unit <= 0xDFFF)) return 0;
    if (*unit < 0xD800 || *unit > 0xDBFF) return 6;
    const std::optional<unsigned> second = code_unit(text.substr(6));
    return second && *second >= 0xDC00 && *second <= 0xDFFF ? 12 : 0;
}

struct Token {
    std::size_t begin = 0;
    std::string_view text;
    /// What is wrong inside a string: the offset of a control character or bad escape, or the
    /// token's end when the closing quote is missing.
    std::optional<std::size_t> broken_at;

    [[nodiscard]] bool is_string() const { return text.starts_with('"'); }
    [[nodiscard]] bool is_word() const {
        return !text.empty() && !is_string() && !is_one_of(text[0], kPunctuation);
    }
};

Token string_token(std::string_view text, std::size_t begin) {
    std::size_t i = begin + 1;
    std::optional<std::size_t> broken;
    while (i < text.size() && text[i] != '"') {
        const std::size_t escape = text[i] == '\\' ? escape_length(text.substr(i)) : 0;
        const bool wrong = (text[i] == '\\' && escape == 0) || text[i] < 0x20;
        // Bytes of 0x80 and more are negative where char is signed: they are no control characters.
        if (wrong && static_cast<unsigned char>(text[i]) < 0x80 && !broken) broken = i;
        i += text[i] == '\\' ? std::max<std::size_t>(escape, 2) : 1;
    }
    if (i >= text.size()) return {begin, text.substr(begin), broken.value_or(text.size())};
    return {begin, text.substr(begin, i + 1 - begin), broken};
}

Token next_token(std::string_view text, std::size_t from) {
    const std::size_t begin = std::min(text.find_first_not_of(kBlank, from), text.size());
    if (begin == text.size()) return {begin, {}, {}};
    if (text[begin] == '"') return string_token(text, begin);
    if (is_one_of(text[begin], kPunctuation)) return {begin, text.substr(begin, 1), {}};
    std::size_t end = begin + 1;
    while (end < text.size() && !is_one_of(text[end], kBlank) &&
           !is_one_of(text[end], kPunctuation) && text[end] != '"')
        ++end;
    return {begin, text.substr(begin, end - begin), {}};
}

/// The token at which the parser stopped, and the one before it.
struct Stop {
    Token previous, found;
};

Stop find_stop(std::string_view text, std::size_t consumed) {
    Stop stop;
    for (std::size_t at = 0;;) {
        stop.found = next_token(text, at);
        const Token& found = stop.found;
        at = found.begin + found.text.size();
        const bool malformed = found.broken_at || (found.is_word() && !is_value(found.text));
        if (found.text.empty() || malformed || at >= consumed) return stop;
        stop.previous = found;
    }
}

const char* expected_after(const Token& previous, const ParserState& state) {
    using Container = ParserState::Container;
    const bool in_object = state.container == Container::object;
    if (previous.text.empty()) return "a JSON value";
    if (previous.text == "{") return "a key or '}'";
    if (previous.text == "[") return "a value or ']'";
    if (previous.text == ":") return "a value";
    if (previous.text == ",") return in_object ? "a key" : "a value";
    if (state.after_key) return "':'";
    if (state.container == Container::none) return "the end of the document";
    return in_object ? "',' or '}'" : "',' or ']'";
}

std::string hint_for(const Stop& stop, std::string_view expected) {
    const std::string_view found = stop.found.text;
    const bool closes = found == "}" || found == "]";
    if (closes && stop.previous.text == ",") return "remove the comma before it";
    if (found.starts_with("/") || found.starts_with("#")) return "JSON has no comments";
    if (expected == "the end of the document" && !found.empty())
        return "a file holds one JSON document";
    if (!stop.found.is_word()) return {};
    if (found.starts_with("'")) return "JSON strings stand in double quotes";
    if (expected == "a key" || expected == "a key or '}'") return "keys stand in double quotes";
    if (is_value(found)) return {};
    if (found == "True") return "write true";
    if (found == "False") return "write false";
    if (found == "None") return "write null";
    for (const std::string_view word : {"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"})
        if (found == word) return "JSON has no NaN and no infinity";
    if (is_digit(found[0]) || is_one_of(found[0], "+-."))
        return "JSON writes numbers such as 12, -3, 0.5 and 6.02e23";
    return {};
}

Diagnostic error_at(std::string_view text, std::size_t offset, std::string_view message,
                    std::string hint = {}) {
    return {.trouble = Trouble::invalid,
            .file = {},
            .pointer = {},
            .message = fmt::format("{}: {}", place_in_text(text, offset), message),
            .hint = std::move(hint)};
}

Diagnostic explain_string(std::string_view text, const Token& token) {
    const std::size_t at = *token.broken_at;
    const bool ends = at == text.size();
    if (ends || is_one_of(text[at], "\n\r"))
        return error_at(text, token.begin,
                        fmt::format("expected '\"' at the end of the string that begins here; "
                                    "got the end of the {}",
                                    ends ? "file" : "line"));
    if (text[at] == '\\') {
        // A surrogate is shown with what follows, since that is what makes it wrong.
        std::size_t shown = text.substr(at, 2) == "\\u" ? 6 : 2;
        if (code_unit(text.substr(at))) shown = 12;
        std::string_view escape = text.substr(at, shown);
        escape = escape.substr(0, escape.find('"', 2));
        return error_at(text, at,
                        fmt::format("expected one of JSON's escapes; got {}", in_quotes(escape)));
    }
    return error_at(text, at,
                    fmt::format("expected an escape such as '\\t' or '\\u0001' in a string; got a "
                                "control character (0x{:02x})",
                                static_cast<unsigned char>(text[at])));
}

}  // namespace

std::string place_in_text(std::string_view text, std::size_t offset) {
    std::size_t line = 1, column = 1;
    for (const char c : text.substr(0, offset)) {
        const bool continues = (static_cast<unsigned char>(c) & 0xC0U) == 0x80;
        if (c == '\n') {
            ++line;
            column = 1;
        } else if (!continues) {
            ++column;
        }
    }
    return fmt::format("line {}, column {}", line, column);
}

Diagnostic explain_syntax(std::string_view text, const ParserState& state) {
    const Stop stop = find_stop(text, state.consumed);
    const Token& found = stop.found;
    if (found.broken_at) return explain_string(text, found);
    const std::string_view expected = expected_after(stop.previous, state);
    if (is_number(found.text) && (expected == "a value" || expected == "a value or ']'" ||
                                  expected == "a JSON value"))
        return error_at(text, found.begin,
                        fmt::format("expected a number of at most 1.8e308; got {}",
                                    in_quotes(found.text)));
    std::string got = "the end of the file";
    if (found.is_string())
        got = fmt::format("a string ({})", in_quotes(found.text.substr(1, found.text.size() - 2)));
    else if (!found.text.empty())
        got = in_quotes(found.text);
    return error_at(text, found.begin, fmt::format("expected {}; got {}", expected, got),
                    hint_for(stop, expected));
}

}  // namespace membudget
