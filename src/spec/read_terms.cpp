#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "spec/fields.hpp"

namespace membudget {

namespace {

constexpr Field<StatedTerm> kShapeFields[] = {
    field::count<&StatedTerm::at_micro_batch_size>("micro_batch_size", "micro-batch"),
    field::count<&StatedTerm::at_sequence_length>("sequence_length", "tokens per sequence"),
};

void read_shape(const Cursor& at, StatedTerm& into) {
    read_object(at, table(kShapeFields), into);
}

constexpr Field<StatedTerm> kTermFields[] = {
    field::size<&StatedTerm::bytes>("bytes", "the most likely value"),
    field::size<&StatedTerm::lower>("lower", "it is not less than this"),
    field::size<&StatedTerm::upper>("upper", "it is not more than this"),
    field::names<&StatedTerm::phases>("phases", "the phases of a step in which it is live"),
    {"at", "object", "the shape for which it was stated, if not the file's own", read_shape,
     detail::keys_below<kShapeFields>},
};

constexpr std::size_t kLongestPath = 200;
/// A ledger with more lines is no ledger; everything after this works on all of them.
constexpr std::size_t kMostTerms = 10'000;

bool is_path_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

/// "a/b_c/d-2": components of at least one lower-case letter, digit, `_` or `-`.
bool is_path(std::string_view path) {
    if (path.empty() || path.size() > kLongestPath) return false;
    if (path.front() == '/' || path.back() == '/') return false;
    if (path.find("//") != std::string_view::npos) return false;
    return std::all_of(path.begin(), path.end(),
                       [](char c) { return c == '/' || is_path_character(c); });
}

/// Whether a term may have this path; reported when not.
bool check_path(const Cursor& at, std::string_view path) {
    const std::string_view group = first_component(path);
    if (!is_path(path)) {
        at.errors.invalid(at.pointer,
                          fmt::format("expected a path of lower-case words such as "
                                      "'activations/attention', of at most {} characters; got {}",
                                      kLongestPath, in_quotes(path)),
                          did_you_mean(group, kTermGroups));
        return false;
    }
    if (std::find(kTermGroups.begin(), kTermGroups.end(), group) != kTermGroups.end()) return true;
    std::string hint = did_you_mean(group, kTermGroups);
    if (hint.empty()) hint = fmt::format("groups: {}", fmt::join(kTermGroups, ", "));
    at.errors.invalid(at.pointer,
                      fmt::format("expected a path that begins with a group of terms; got {}",
                                  in_quotes(path)),
                      std::move(hint));
    return false;
}

/// The paths stated so far. A path replaces its whole subtree, so none may lie within another.
class StatedPaths {
public:
    /// An earlier path that contains `path` or lies within it, else empty.
    [[nodiscard]] std::string_view conflict(std::string_view path) const {
        for (std::size_t end = path.find('/'); end != std::string_view::npos;
             end = path.find('/', end + 1))
            if (const auto above = paths_.find(path.substr(0, end)); above != paths_.end())
                return above->first;
        const std::string below = std::string(path) + "/";
        const auto first = paths_.lower_bound(below);
        if (first != paths_.end() && first->first.starts_with(below)) return first->first;
        return {};
    }
    void add(std::string_view path) { paths_.emplace(path, 0); }

private:
    std::map<std::string, int, std::less<>> paths_;
};

void check_bounds(const Cursor& at, const StatedTerm& term) {
    const auto refuse = [&](std::string_view key, std::string_view relation, Bytes bound) {
        at.errors.invalid(pointer_child(at.pointer, key),
                          fmt::format("expected {} 'bytes' ({}); got {}", relation,
                                      group_digits(term.bytes.count()),
                                      group_digits(bound.count())));
    };
    if (term.lower && *term.lower > term.bytes) refuse("lower", "at most", *term.lower);
    if (term.upper && *term.upper < term.bytes) refuse("upper", "at least", *term.upper);
}

void read_term(const Cursor& at, StatedTerm& term) {
    if (!at.tree.is(KeyTree::Kind::object)) {
        if (const auto bytes = read_size(at)) term.bytes = *bytes;
        return;
    }
    const std::size_t before = at.errors.size();
    read_object(at, table(kTermFields), term);
    if (is_missing(at.tree, "bytes", keys_of(table(kTermFields))))
        at.errors.invalid(at.pointer, "expected a key 'bytes'; got none");
    if (at.errors.size() == before) check_bounds(at, term);
}

}  // namespace

void read_terms(const Cursor& at, Spec& into) {
    if (!at.tree.is(KeyTree::Kind::object)) return at.wrong("an object of terms");
    if (at.tree.members().size() > kMostTerms)
        return at.errors.invalid(at.pointer, fmt::format("expected at most {} terms; got {}",
                                                         kMostTerms, at.tree.members().size()));
    StatedPaths paths;
    for_each_member(at, [&](const Cursor& child, std::string_view path) {
        StatedTerm term;
        term.path = path;
        term.pointer = child.pointer;
        if (check_path(child, path)) {
            if (const std::string_view other = paths.conflict(path); !other.empty())
                child.errors.invalid(
                    child.pointer,
                    fmt::format("expected paths that do not contain each other; got '{}' beside "
                                "'{}'",
                                path, other),
                    "a stated path replaces everything below it");
            paths.add(path);
        }
        read_term(child, term);
        into.terms.push_back(std::move(term));
    });
}

void term_keys(std::string_view pointer, std::vector<SpecKey>& out) {
    const std::string one = pointer_child(pointer, "PATH");
    out.push_back({one, "size or object", "a term, such as activations/attention"});
    append_keys(one, table(kTermFields), out);
}

}  // namespace membudget
