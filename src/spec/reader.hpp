#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "membudget/spec.hpp"
#include "spec/duplicates.hpp"

/// One table of `Field` rows per struct of the spec is all there is to say about its keys: the
/// reader, the check for unknown keys, their suggestions and `spec_keys()` walk the same rows.
///
///     constexpr Field<DeviceSpec> kDeviceFields[] = {
///         field::size<&DeviceSpec::reserve>("reserve", "bytes that the job leaves free"), ...
///
/// A row names the member by pointer, so a row of the wrong type does not compile.

namespace membudget {

/// Largest parameter count, and largest batch size, length or degree: their products with the
/// widths of a model stay inside 64 bits for every job that could exist.
inline constexpr std::int64_t kLargestParameterCount = 1'000'000'000'000'000;
inline constexpr std::int64_t kLargestSize = 1'000'000'000;

/// A value of the document, where it stands, and where its mistakes go.
struct Cursor {
    const KeyTree& tree;
    std::string pointer;
    Diagnostics& errors;

    [[nodiscard]] Cursor child(std::string_view key, const KeyTree& value) const {
        return {value, pointer_child(pointer, key), errors};
    }
    [[nodiscard]] Cursor child(std::size_t index, const KeyTree& value) const {
        return {value, pointer_child(pointer, index), errors};
    }
    /// "expected EXPECTED; got WHAT STANDS THERE"
    void wrong(std::string_view expected, std::string hint = {}) const;
};

// --- values: each reads one, or reports why not --------------------------------------------------

/// An integer from `least` (0 or 1) to `most`.
std::optional<std::int64_t> read_integer(const Cursor& at, std::int64_t least, std::int64_t most);
std::optional<double> read_real(const Cursor& at, std::int64_t least, std::int64_t most);
std::optional<bool> read_flag(const Cursor& at);
std::optional<Bytes> read_size(const Cursor& at);
/// A non-empty string without control characters.
std::optional<std::string> read_text_value(const Cursor& at, std::string_view expected);
std::optional<NamedAt> read_name(const Cursor& at);
std::vector<NamedAt> read_names(const Cursor& at);
/// Reports repeated keys in a tree that is kept as it is.
KeyTree read_tree(const Cursor& at);
/// The value of an integer, also of one written 8.0 or 1e3; empty for anything else.
[[nodiscard]] std::optional<std::int64_t> exact_integer(const KeyTree& tree);
/// True for a number without a fraction, of any size.
[[nodiscard]] bool is_whole(const KeyTree& tree);

// --- objects -------------------------------------------------------------------------------------

/// One key of the object that fills in a `Struct`.
template <class Struct>
struct Field {
    std::string_view key;
    std::string_view type;
    std::string_view doc;
    void (*read)(const Cursor& at, Struct& into);
    /// Appends the keys below this one.
    void (*children)(std::string_view pointer, std::vector<SpecKey>& out) = nullptr;
};

template <class Struct>
using FieldTable = std::span<const Field<Struct>>;
template <class Struct, std::size_t N>
constexpr FieldTable<Struct> table(const Field<Struct> (&fields)[N]) {
    return fields;
}

using KeyNames = std::span<const std::string_view>;

void report_unknown_key(const Cursor& at, std::string_view key, KeyNames known);
/// True when `key` is absent from the object and no misspelt key stands for it.
[[nodiscard]] bool is_missing(const KeyTree& object, std::string_view key, KeyNames known);

template <class Struct>
std::vector<std::string_view> keys_of(FieldTable<Struct> fields) {
    std::vector<std::string_view> out;
    for (const Field<Struct>& field : fields) out.push_back(field.key);
    return out;
}

template <class Struct>
void append_keys(std::string_view pointer, FieldTable<Struct> fields,
                 std::vector<SpecKey>& out) {
    for (const Field<Struct>& field : fields) {
        const std::string place = pointer_child(pointer, field.key);
        out.push_back({place, std::string(field.type), std::string(field.doc)});
        if (field.children != nullptr) field.children(place, out);
    }
}

/// Calls `visit(child, key)` for each member in document order; repeated keys are reported instead.
template <class Visit>
void for_each_member(const Cursor& at, Visit visit) {
    const std::vector<bool> repeated = repeated_members(at.tree);
    for (std::size_t i = 0; i < repeated.size() && at.errors.size() < kMostMistakes; ++i) {
        const auto& [key, value] = at.tree.members()[i];
        const Cursor child = at.child(key, value);
        if (repeated[i])
            report_duplicate(child.pointer, key, at.errors);
        else
            visit(child, std::string_view(key));
    }
}

/// Reads each member by its row. False, and reported, when there is no object; `expected` says what
/// else could have stood there.
template <class Struct>
bool read_object(const Cursor& at, FieldTable<Struct> fields, Struct& into,
                 std::string_view expected = "an object") {
    if (!at.tree.is(KeyTree::Kind::object)) {
        at.wrong(expected);
        return false;
    }
    for_each_member(at, [&](const Cursor& child, std::string_view key) {
        for (const Field<Struct>& field : fields)
            if (field.key == key) return field.read(child, into);
        report_unknown_key(child, key, keys_of(fields));
    });
    return true;
}

// --- rows ----------------------------------------------------------------------------------------

namespace detail {
template <class Pointer>
struct MemberOf;
template <class Owner_, class Value_>
struct MemberOf<Value_ Owner_::*> {
    using Owner = Owner_;
    using Value = Value_;
};
template <auto Member>
using Owner = typename MemberOf<decltype(Member)>::Owner;
template <auto Member>
using Value = typename MemberOf<decltype(Member)>::Value;
/// What `T` holds when it is optional, else `T`.
template <class T>
struct Held {
    using Type = T;
    static T& in(T& value) { return value; }
};
template <class T>
struct Held<std::optional<T>> {
    using Type = T;
    static T& in(std::optional<T>& value) { return value ? *value : value.emplace(); }
};

template <const auto& Fields>
void keys_below(std::string_view pointer, std::vector<SpecKey>& out) {
    append_keys(pointer, table(Fields), out);
}
}  // namespace detail

template <auto Member>
using FieldFor = Field<detail::Owner<Member>>;
template <auto Member>
using OwnerOf = detail::Owner<Member>;

namespace field {

/// A count of at least one.
template <auto Member, std::int64_t Most = kLargestSize>
constexpr FieldFor<Member> count(std::string_view key, std::string_view doc) {
    return {key, "positive integer", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                into.*Member = read_integer(at, 1, Most);
            }};
}

/// A count that may be zero.
template <auto Member, std::int64_t Most = kLargestSize>
constexpr FieldFor<Member> count_or_zero(std::string_view key, std::string_view doc) {
    return {key, "non-negative integer", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                into.*Member = read_integer(at, 0, Most);
            }};
}

template <auto Member, std::int64_t Least, std::int64_t Most>
constexpr FieldFor<Member> real(std::string_view key, std::string_view type,
                                std::string_view doc) {
    return {key, type, doc, [](const Cursor& at, OwnerOf<Member>& into) {
                into.*Member = read_real(at, Least, Most);
            }};
}

template <auto Member>
constexpr FieldFor<Member> flag(std::string_view key, std::string_view doc) {
    return {key, "true or false", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                into.*Member = read_flag(at);
            }};
}

template <auto Member>
constexpr FieldFor<Member> size(std::string_view key, std::string_view doc) {
    return {key, "size", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                if (const auto bytes = read_size(at)) into.*Member = *bytes;
            }};
}

/// A name that `job` looks up.
template <auto Member>
constexpr FieldFor<Member> name(std::string_view key, std::string_view doc) {
    return {key, "name", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                into.*Member = read_name(at);
            }};
}

template <auto Member>
constexpr FieldFor<Member> names(std::string_view key, std::string_view doc) {
    return {key, "list of names", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                into.*Member = read_names(at);
            }};
}

/// A list of names, or the one word that stands for such a list.
template <auto Member>
constexpr FieldFor<Member> names_or_name(std::string_view key, std::string_view doc) {
    return {key, "name or list of names", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                if (!at.tree.is(KeyTree::Kind::string))
                    into.*Member = read_names(at);
                else if (auto one = read_name(at))
                    into.*Member = {*std::move(one)};
            }};
}

/// Text for people.
template <auto Member>
constexpr FieldFor<Member> text(std::string_view key, std::string_view doc) {
    return {key, "text", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                into.*Member = read_text_value(at, "text");
            }};
}

/// A path, relative to the folder of the spec.
template <auto Member>
constexpr FieldFor<Member> path(std::string_view key, std::string_view doc) {
    return {key, "path", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                into.*Member = read_text_value(at, "the path of a file");
            }};
}

/// A path, or a list of paths.
template <auto Member>
constexpr FieldFor<Member> paths_or_path(std::string_view key, std::string_view doc) {
    FieldFor<Member> field = names_or_name<Member>(key, doc);
    field.type = "path or list of paths";
    return field;
}

/// An object of its own.
template <auto Member, const auto& Fields>
constexpr FieldFor<Member> object(std::string_view key, std::string_view doc) {
    using Held = detail::Held<detail::Value<Member>>;
    return {key, "object", doc,
            [](const Cursor& at, OwnerOf<Member>& into) {
                read_object(at, table(Fields), Held::in(into.*Member));
            },
            detail::keys_below<Fields>};
}

/// A name, or an object with that name and more: "adamw" is {"name": "adamw"}.
template <auto Member, auto Name, const auto& Fields>
constexpr FieldFor<Member> name_or_object(std::string_view key, std::string_view doc) {
    return {key, "name or object", doc,
            [](const Cursor& at, OwnerOf<Member>& into) {
                if (at.tree.is(KeyTree::Kind::string))
                    into.*Member.*Name = read_name(at);
                else
                    read_object(at, table(Fields), into.*Member, "a name or an object");
            },
            detail::keys_below<Fields>};
}

/// An object whose keys and values are names.
template <auto Member>
constexpr FieldFor<Member> name_by_key(std::string_view key, std::string_view doc) {
    return {key, "object of names", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                if (!at.tree.is(KeyTree::Kind::object)) return at.wrong("an object of names");
                for_each_member(at, [&into](const Cursor& child, std::string_view word) {
                    if (auto value = read_name(child))
                        (into.*Member).emplace_back(word, *std::move(value));
                });
            }};
}

/// Keys that the spec keeps as they are, for the part that knows them; or one text for all of them,
/// which is kept under the empty key.
template <auto Member>
constexpr FieldFor<Member> tree_by_key_or_text(std::string_view key, std::string_view doc) {
    return {key, "object or text", doc, [](const Cursor& at, OwnerOf<Member>& into) {
                if (at.tree.is(KeyTree::Kind::string)) {
                    (into.*Member).emplace_back("", read_tree(at));
                    return;
                }
                if (!at.tree.is(KeyTree::Kind::object)) return at.wrong("an object or a text");
                for_each_member(at, [&into](const Cursor& child, std::string_view word) {
                    (into.*Member).emplace_back(word, read_tree(child));
                });
            }};
}

}  // namespace field

}  // namespace membudget
