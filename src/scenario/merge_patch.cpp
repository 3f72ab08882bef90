#include "membudget/scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace membudget {
namespace {

/// Calls `visit(pointer, from, to)` for every leaf that differs; an absent side is null. An object
/// that is absent on one side counts as empty, so that each key it brings is a change of its own.
template <class Visit>
void for_each_difference(const KeyTree* from, const KeyTree* to, const std::string& pointer,
                         const Visit& visit) {
    const auto has_members = [](const KeyTree* tree) {
        return tree != nullptr && tree->is(KeyTree::Kind::object) && !tree->members().empty();
    };
    const auto is_open = [](const KeyTree* tree) {
        return tree == nullptr || tree->is(KeyTree::Kind::object);
    };
    if (!is_open(from) || !is_open(to) || (!has_members(from) && !has_members(to))) {
        if (from == nullptr || to == nullptr || *from != *to) visit(pointer, from, to);
        return;
    }
    if (to != nullptr)
        for (const auto& [key, value] : to->members())
            for_each_difference(from == nullptr ? nullptr : from->find(key), &value,
                                pointer_child(pointer, key), visit);
    if (from != nullptr)
        for (const auto& [key, value] : from->members())
            if (to == nullptr || to->find(key) == nullptr)
                for_each_difference(&value, nullptr, pointer_child(pointer, key), visit);
}

/// The technique that the change at `pointer` turns on, or null.
const Technique* recognise_technique(std::string_view pointer, const KeyTree& from,
                                     const KeyTree& to) {
    for (const Technique& technique : techniques()) {
        if (!is_at_or_below(pointer, technique.pointer) &&
            !is_at_or_below(technique.pointer, pointer))
            continue;
        const KeyTree* before = value_at(from, technique.pointer);
        const KeyTree* after = value_at(to, technique.pointer);
        const bool same = before == nullptr || after == nullptr ? before == after
                                                                : *before == *after;
        if (!same && technique.turned_on(before, after)) return &technique;
    }
    return nullptr;
}

/// A reference token of a pointer as the key that it means (RFC 6901, section 4).
std::string unescape_token(std::string_view token) {
    std::string out;
    for (std::size_t i = 0; i < token.size(); ++i) {
        if (token[i] != '~' || i + 1 == token.size())
            out += token[i];
        else
            out += token[++i] == '1' ? '/' : '~';
    }
    return out;
}

void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    for (const char c : text) {
        switch (c) {
            case '"': out += "\\\""; break;
            case '\\': out += "\\\\"; break;
            case '\n': out += "\\n"; break;
            case '\t': out += "\\t"; break;
            case '\r': out += "\\r"; break;
            default:
                if (static_cast<unsigned char>(c) < 0x20)
                    fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
                else
                    out += c;
        }
    }
    out += '"';
}

void append_json(std::string& out, const KeyTree& tree) {
    switch (tree.kind()) {
        case KeyTree::Kind::null: out += "null"; return;
        case KeyTree::Kind::boolean: out += tree.boolean() ? "true" : "false"; return;
        case KeyTree::Kind::integer: out += std::to_string(tree.integer()); return;
        case KeyTree::Kind::number: out += tree.text(); return;
        case KeyTree::Kind::string: append_json_string(out, tree.text()); return;
        case KeyTree::Kind::array: {
            out += '[';
            const char* separator = "";
            for (const KeyTree& item : tree.items()) {
                out += std::exchange(separator, ",");
                append_json(out, item);
            }
            out += ']';
            return;
        }
        case KeyTree::Kind::object: {
            out += '{';
            const char* separator = "";
            for (const auto& [key, value] : tree.members()) {
                out += std::exchange(separator, ",");
                append_json_string(out, key);
                out += ':';
                append_json(out, value);
            }
            out += '}';
            return;
        }
    }
}

}  // namespace

KeyTree merge_patch(KeyTree target, const KeyTree& patch) {
    if (!patch.is(KeyTree::Kind::object)) return patch;
    if (!target.is(KeyTree::Kind::object)) target = KeyTree::object();
    for (const auto& [key, value] : patch.members()) {
        if (value.is_null()) {
            target.remove(key);
            continue;
        }
        KeyTree& member = target.at_or_add(key);
        member = merge_patch(std::move(member), value);
    }
    return target;
}

KeyTree patch_at(std::string_view pointer, KeyTree value) {
    if (pointer.empty()) return value;
    MEMBUDGET_ENSURE(pointer.front() == '/', "a pointer starts with '/'");
    const std::string_view rest = pointer.substr(1);
    const std::size_t end = rest.find('/');
    const bool last = end == std::string_view::npos;
    KeyTree out = KeyTree::object();
    out.at_or_add(unescape_token(last ? rest : rest.substr(0, end))) =
        patch_at(last ? std::string_view{} : rest.substr(end), std::move(value));
    return out;
}

const KeyTree* value_at(const KeyTree& tree, std::string_view pointer) {
    const KeyTree* at = &tree;
    while (!pointer.empty() && at != nullptr) {
        if (pointer.front() != '/') return nullptr;
        pointer.remove_prefix(1);
        const std::size_t end = std::min(pointer.find('/'), pointer.size());
        at = at->find(unescape_token(pointer.substr(0, end)));
        pointer.remove_prefix(end);
    }
    return at;
}

std::string to_json(const KeyTree& tree) {
    std::string out;
    append_json(out, tree);
    return out;
}

std::vector<KnobChange> changed_knobs(const KeyTree& from, const KeyTree& to) {
    const auto text = [](const KeyTree* tree) {
        return tree == nullptr ? std::string("absent") : to_json(*tree);
    };
    std::vector<KnobChange> out;
    for_each_difference(&from, &to, "", [&](const std::string& pointer, const KeyTree* before,
                                            const KeyTree* after) {
        if (is_at_or_below(pointer, "/name") || is_at_or_below(pointer, "/scenarios")) return;
        out.push_back({pointer, text(before), text(after), recognise_technique(pointer, from, to)});
    });
    return out;
}

}  // namespace membudget
