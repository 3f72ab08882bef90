#include "membudget/support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace membudget {

std::size_t utf8_length(std::string_view text) {
    const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    if (text.empty()) return 0;
    const unsigned first = byte(0);
    if (first < 0x80) return 1;

    // Well-formed sequences of the Unicode standard, table 3-7: only the second byte has ranges of
    // its own, which is what rules out overlong forms, surrogates and values beyond U+10FFFF.
    std::size_t length = 0;
    unsigned low = 0x80, high = 0xBF;
    if (first >= 0xC2 && first <= 0xDF) {
        length = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
        length = 3;
        if (first == 0xE0) low = 0xA0;
        if (first == 0xED) high = 0x9F;
    } else if (first >= 0xF0 && first <= 0xF4) {
        length = 4;
        if (first == 0xF0) low = 0x90;
        if (first == 0xF4) high = 0x8F;
    }
    if (length == 0 || text.size() < length) return 0;
    if (byte(1) < low || byte(1) > high) return 0;
    for (std::size_t i = 2; i < length; ++i)
        if ((byte(i) & 0xC0U) != 0x80) return 0;
    return length;
}

namespace {
/// Control characters of the character of `length` bytes at the start of `text`: C0, DEL, and C1,
/// which are U+0080 to U+009F or C2 80 to C2 9F.
bool is_control(std::string_view text, std::size_t length) {
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 1) return first < 0x20 || first == 0x7F;
    return length == 2 && first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0;
}
}  // namespace

bool has_control_characters(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        if (length == 0 || is_control(text, length)) return true;
        text.remove_prefix(length);
    }
    return false;
}

std::string in_quotes(std::string_view text, std::size_t limit) {
    std::string out = "'";
    std::size_t shown = 0;
    while (!text.empty()) {
        if (shown++ == limit) {
            out += "...";
            break;
        }
        const std::size_t length = utf8_length(text);
        const auto first = static_cast<unsigned char>(text.front());
        if (first == '\n')
            out += "\\n";
        else if (first == '\t')
            out += "\\t";
        else if (length == 0 || (length == 1 && is_control(text, 1)))
            out += fmt::format("\\x{:02x}", first);
        else if (is_control(text, length))
            out += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[1]));
        else
            out += text.substr(0, length);
        text.remove_prefix(length == 0 ? 1 : length);
    }
    out += '\'';
    return out;
}

std::string in_words(std::string_view name) {
    std::string out(name);
    std::replace(out.begin(), out.end(), '_', ' ');
    return out;
}

}  // namespace membudget
