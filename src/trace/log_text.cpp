#include "trace/log_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "membudget/quantity.hpp"

namespace membudget::trace {
namespace {

void append_utf8(std::string& out, unsigned code) {
    const auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0 | code >> 6);
        put(0x80 | (code & 0x3F));
    } else {
        put(0xE0 | code >> 12);
        put(0x80 | (code >> 6 & 0x3F));
        put(0x80 | (code & 0x3F));
    }
}

}  // namespace

std::string to_utf8(std::string text) {
    const std::string_view bytes = text;
    if (bytes.starts_with("\xEF\xBB\xBF")) return text.substr(3);
    const bool little = bytes.starts_with("\xFF\xFE"), big = bytes.starts_with("\xFE\xFF");
    if (!little && !big) return text;
    std::string out;
    out.reserve(bytes.size() / 2);
    for (std::size_t i = 2; i + 1 < bytes.size(); i += 2) {
        const auto first = static_cast<unsigned char>(bytes[i]);
        const auto second = static_cast<unsigned char>(bytes[i + 1]);
        // Characters beyond the basic plane mean nothing to these tables: halves become U+FFFD.
        const unsigned code = little ? first | static_cast<unsigned>(second) << 8
                                     : second | static_cast<unsigned>(first) << 8;
        append_utf8(out, code >= 0xD800 && code <= 0xDFFF ? 0xFFFD : code);
    }
    return out;
}

std::string_view take_line(std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
}

std::optional<FoundNumber> number_at(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    double value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    if (end.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end.ptr - text.data()));
    return FoundNumber{value, text};
}

std::optional<FoundNumber> number_after(std::string_view text, std::string_view anchor) {
    const std::size_t at = text.find(anchor);
    return at == std::string_view::npos ? std::nullopt : number_at(text.substr(at + anchor.size()));
}

std::optional<std::int64_t> last_whole_after(std::string_view text, std::string_view anchor) {
    const std::size_t at = text.rfind(anchor);
    if (at == std::string_view::npos) return std::nullopt;
    text.remove_prefix(at + anchor.size());
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    std::int64_t value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> bytes_of(double value, std::int64_t unit) {
    const double bytes = value * static_cast<double>(unit);
    if (!(bytes >= 0) || !(bytes < static_cast<double>(kLargestBytes))) return std::nullopt;
    return static_cast<std::int64_t>(std::llround(bytes));
}

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string lowered(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

char separator_of(std::string_view text) {
    char best = ',';
    std::ptrdiff_t most = 0;
    for (const char separator : {',', ';', '\t'}) {
        std::ptrdiff_t count = 0;
        bool quoted = false;
        for (const char c : text.substr(0, text.find('\n'))) {
            if (c == '"') quoted = !quoted;
            count += !quoted && c == separator;
        }
        if (count > most) {
            most = count;
            best = separator;
        }
    }
    return best;
}

std::vector<std::string> take_record(std::string_view& text, char separator) {
    std::vector<std::string> cells;
    std::string cell;
    bool quoted = false;
    std::size_t i = 0;
    for (; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '"') {
            if (quoted && i + 1 < text.size() && text[i + 1] == '"') {
                cell += '"';
                ++i;
            } else {
                quoted = !quoted;
            }
        } else if (!quoted && (c == separator || c == '\n')) {
            cells.emplace_back(trimmed(cell));
            cell.clear();
            if (c == '\n') break;
        } else {
            cell += c;
        }
    }
    if (i == text.size() && (!cell.empty() || !cells.empty())) cells.emplace_back(trimmed(cell));
    text.remove_prefix(std::min(i + 1, text.size()));
    return cells;
}

}  // namespace membudget::trace
