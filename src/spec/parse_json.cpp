#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "membudget/spec.hpp"
#include "spec/duplicates.hpp"
#include "spec/syntax_error.hpp"

namespace membudget {

namespace {

/// Builds the tree from the parser's events. Each event answers whether to go on.
class TreeBuilder {
public:
    explicit TreeBuilder(ReadLimits limits) : limits_(limits) {}

    bool null() { return put(KeyTree()); }
    bool boolean(bool value) { return put(KeyTree(value)); }
    bool number_integer(std::int64_t value) { return put(KeyTree(value)); }
    bool number_unsigned(std::uint64_t value) {
        if (std::in_range<std::int64_t>(value))
            return put(KeyTree(static_cast<std::int64_t>(value)));
        return put(KeyTree::number(static_cast<double>(value), std::to_string(value)));
    }
    bool number_float(double value, const std::string& text) {
        return put(KeyTree::number(value, text));
    }
    bool string(std::string& value) { return put(KeyTree(std::move(value))); }
    bool binary(std::vector<std::uint8_t>&) { return false; }  // no event of a JSON text
    bool start_object(std::size_t) { return open(KeyTree::object()); }
    bool start_array(std::size_t) { return open(KeyTree::array()); }
    bool key(std::string& key) {
        open_.back()->members().emplace_back(std::move(key), KeyTree());
        after_key_ = true;
        return true;
    }
    bool end_object() { return close(); }
    bool end_array() { return close(); }
    bool parse_error(std::size_t consumed, const std::string&, const nlohmann::json::exception&) {
        stopped_at_ = consumed;
        return false;
    }

    [[nodiscard]] KeyTree take_root() { return std::move(root_); }
    /// Why the last event answered "stop"; `text` is what was parsed.
    [[nodiscard]] Diagnostic failure(std::string_view text) const {
        if (!limit_.empty()) return Diagnostic{Trouble::invalid, {}, {}, limit_, {}};
        using Container = ParserState::Container;
        Container container = Container::none;
        if (!open_.empty())
            container = open_.back()->is(KeyTree::Kind::object) ? Container::object
                                                                : Container::array;
        return explain_syntax(text, {stopped_at_, container, after_key_});
    }

private:
    /// The place of the next value: the root, the end of an array, or the member just named.
    KeyTree* next() {
        if (++values_ > limits_.values) {
            limit_ = fmt::format("expected at most {} values; got more", limits_.values);
            return nullptr;
        }
        after_key_ = false;
        if (open_.empty()) return &root_;
        KeyTree& parent = *open_.back();
        if (parent.is(KeyTree::Kind::object)) return &parent.members().back().second;
        return &parent.items().emplace_back();
    }
    bool put(KeyTree value) {
        KeyTree* const place = next();
        if (place == nullptr) return false;
        *place = std::move(value);
        return true;
    }
    bool open(KeyTree value) {
        if (open_.size() == limits_.depth) {
            limit_ = fmt::format("expected at most {} levels of nesting; got more", limits_.depth);
            return false;
        }
        KeyTree* const place = next();
        if (place == nullptr) return false;
        *place = std::move(value);
        open_.push_back(place);  // stays valid: its parent does not grow while it is open
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    ReadLimits limits_;
    KeyTree root_;
    std::vector<KeyTree*> open_;  ///< the containers around the next value, outermost first
    bool after_key_ = false;
    std::size_t values_ = 0;
    std::size_t stopped_at_ = 0;
    std::string limit_;
};

/// The encoding of `text`, as iconv names it, when by its byte order mark or its zero bytes it is
/// not UTF-8.
std::string_view foreign_encoding(std::string_view text) {
    struct Mark {
        std::string_view bytes, encoding;
    };
    using namespace std::string_view_literals;
    // The longer marks first: UTF-32 begins as UTF-16 does. A document begins with an ASCII
    // character, so that without a mark the zero bytes around it tell the encoding.
    static constexpr Mark kMarks[] = {
        {"\xFF\xFE\0\0"sv, "UTF-32LE"},
        {"\0\0\xFE\xFF"sv, "UTF-32BE"},
        {"\xFF\xFE"sv, "UTF-16LE"},
        {"\xFE\xFF"sv, "UTF-16BE"},
    };
    for (const Mark& mark : kMarks)
        if (text.starts_with(mark.bytes)) return mark.encoding;
    if (text.size() < 2) return {};
    if (text[0] == '\0' && text[1] != '\0') return "UTF-16BE";
    if (text[0] != '\0' && text[1] == '\0') return "UTF-16LE";
    return {};
}

/// The first thing in `text` that is no text, in words; empty when all of it is UTF-8.
std::string not_text(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t length = text[i] == '\0' ? 0 : utf8_length(text.substr(i));
        if (length == 0)
            return fmt::format("{}: expected UTF-8 text; got the byte 0x{:02x}",
                               place_in_text(text, i), static_cast<unsigned char>(text[i]));
        i += length;
    }
    return {};
}

/// `text` with null for the numbers that Python's json writes and JSON lacks: configs hold
/// `"time_step_limit": [0.0, Infinity]`.
std::string without_python_numbers(std::string_view text) {
    constexpr std::string_view kNumbers[] = {"-Infinity", "Infinity", "NaN"};
    std::string out;
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (in_string && text[i] == '\\' && i + 1 < text.size()) {
            out += text.substr(i, 2);
            ++i;
            continue;
        }
        if (text[i] == '"') in_string = !in_string;
        std::string_view found;
        for (const std::string_view number : kNumbers)
            if (!in_string && text.substr(i).starts_with(number)) found = number;
        if (found.empty()) {
            out += text[i];
            continue;
        }
        out += "null";  // padded, so that messages name the right column
        if (found.size() > 4) out.append(found.size() - 4, ' ');
        i += found.size() - 1;
    }
    return out;
}

Result<KeyTree> parse(std::string_view text, DuplicateKeys duplicates, ReadLimits limits) {
    const auto refuse = [](std::string message, std::string hint = {}) {
        return Diagnostic{Trouble::invalid, {}, {}, std::move(message), std::move(hint)};
    };
    if (text.size() > limits.bytes)
        return refuse(fmt::format("expected at most {} bytes; got {}", limits.bytes, text.size()));
    if (const std::string_view encoding = foreign_encoding(text); !encoding.empty())
        return refuse(fmt::format("expected UTF-8; got {}", encoding),
                      fmt::format("convert it: iconv -f {} -t UTF-8", encoding));
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    if (text.find_first_not_of(" \t\n\r") == std::string_view::npos)
        return refuse(text.empty() ? "expected a JSON document; got an empty file"
                                   : "expected a JSON document; got only blank space");
    if (std::string message = not_text(text); !message.empty()) return refuse(std::move(message));

    std::string changed;
    if (duplicates == DuplicateKeys::last_wins &&
        (text.find("Infinity") != text.npos || text.find("NaN") != text.npos)) {
        changed = without_python_numbers(text);
        text = changed;
    }
    TreeBuilder builder(limits);
    if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder))
        return builder.failure(text);
    KeyTree tree = builder.take_root();
    if (duplicates == DuplicateKeys::last_wins) fold_duplicates(tree);
    if (duplicates == DuplicateKeys::refuse) {
        Diagnostics errors;
        report_duplicates(tree, "", errors);
        if (!errors.empty()) return errors;
    }
    return tree;
}

}  // namespace

Result<KeyTree> parse_json(std::string_view text, std::string_view file, DuplicateKeys duplicates,
                           ReadLimits limits) {
    Result<KeyTree> out = parse(text, duplicates, limits);
    if (out) return out;
    Diagnostics errors = out.errors();
    errors.set_file(file);
    return errors;
}

}  // namespace membudget
