#pragma once

/// Part `support`: how the program speaks about mistakes, and tables of named rows.
/// Knows nothing of memory or models.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace membudget {

/// A defect of this program, never of its input. The command line turns it into exit code 70.
class InternalError : public std::logic_error {
public:
    using std::logic_error::logic_error;
};

/// Throws `InternalError` naming the condition and the place.
[[noreturn]] void fail_ensure(const char* condition, const char* text, const char* file, int line);

/// Checks a condition that only a defect of ours can break; always on.
#define MEMBUDGET_ENSURE(condition, text)                                                         \
    ((condition) ? static_cast<void>(0)                                                           \
                 : ::membudget::fail_ensure(#condition, (text), __FILE__, __LINE__))

/// What kind of trouble a diagnostic reports; decides between exit codes 2 and 3.
enum class Trouble {
    invalid,      ///< the input is wrong: exit 2
    unsupported,  ///< the input is right, but this program does not model it: exit 3
};

/// One mistake, in words: where, what was expected, what was found, and what to do about it.
/// Printed as `error: FILE: POINTER: MESSAGE` and, where there is one, `hint: HINT`.
struct Diagnostic {
    Trouble trouble = Trouble::invalid;
    std::string file;     ///< as the user named it; empty when no file is at fault
    std::string pointer;  ///< RFC 6901 pointer into the file; empty for the whole file
    std::string message;  ///< lower case, no full stop: "what was expected; got what"
    std::string hint;     ///< what to do; may be empty

    friend bool operator==(const Diagnostic&, const Diagnostic&) = default;
};

/// All mistakes found so far, in the order in which they stand in the input.
class Diagnostics {
public:
    void add(Diagnostic diagnostic) { list_.push_back(std::move(diagnostic)); }
    void invalid(std::string_view pointer, std::string message, std::string hint = {});
    void unsupported(std::string_view pointer, std::string message, std::string hint = {});
    /// Appends all of `other`.
    void take(Diagnostics other);
    /// Fills in the file of every diagnostic that names none.
    void set_file(std::string_view file);
    /// Puts `prefix` before the pointer of every diagnostic.
    void prefix_pointers(std::string_view prefix);

    [[nodiscard]] bool empty() const { return list_.empty(); }
    [[nodiscard]] std::size_t size() const { return list_.size(); }
    [[nodiscard]] const std::vector<Diagnostic>& list() const { return list_; }
    /// True when at least one of them is `invalid`: then the exit code is 2, else 3.
    [[nodiscard]] bool any_invalid() const;

private:
    std::vector<Diagnostic> list_;
};

/// A value, or at least one diagnostic that says why there is none.
template <class T>
class Result {
public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit
    Result(Diagnostics why) : state_(std::in_place_index<1>, std::move(why)) {  // NOLINT
        MEMBUDGET_ENSURE(!std::get<1>(state_).empty(), "a failed result needs a diagnostic");
    }
    Result(Diagnostic why) : state_(std::in_place_index<1>) {  // NOLINT: implicit
        std::get<1>(state_).add(std::move(why));
    }

    [[nodiscard]] bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }
    [[nodiscard]] const T& value() const& { return checked(); }
    [[nodiscard]] T& value() & { return const_cast<T&>(checked()); }
    [[nodiscard]] T&& value() && { return std::move(const_cast<T&>(checked())); }
    const T* operator->() const { return &value(); }
    T* operator->() { return &value(); }
    const T& operator*() const& { return value(); }
    T& operator*() & { return value(); }
    [[nodiscard]] const Diagnostics& errors() const {
        MEMBUDGET_ENSURE(!ok(), "errors() of a good result");
        return std::get<1>(state_);
    }

private:
    const T& checked() const {
        MEMBUDGET_ENSURE(ok(), "value() of a failed result");
        return std::get<0>(state_);
    }
    std::variant<T, Diagnostics> state_;
};

/// Appends one reference token to an RFC 6901 JSON pointer, escaping `~` and `/`.
[[nodiscard]] std::string pointer_child(std::string_view pointer, std::string_view token);
[[nodiscard]] std::string pointer_child(std::string_view pointer, std::size_t index);

/// `text` in single quotes for a message: control characters and bytes that are not UTF-8 are
/// escaped, and what exceeds `limit` characters is cut and replaced by "...".
[[nodiscard]] std::string in_quotes(std::string_view text, std::size_t limit = 40);

/// True when `path` is `ancestor` or lies below it: for pointers and for paths of terms.
[[nodiscard]] bool is_at_or_below(std::string_view path, std::string_view ancestor);
/// The path of a term up to its first '/': its group.
[[nodiscard]] inline std::string_view first_component(std::string_view path) { return path.substr(0, path.find('/')); }

/// "optimizer step" of "optimizer_step".
[[nodiscard]] std::string in_words(std::string_view name);

/// Levenshtein distance between `a` and `b`, or `limit + 1` once it is known to exceed `limit`.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);

/// The candidate nearest to `name`, or empty when none is near enough to be a typing slip:
/// at most 1 edit for names up to 4 letters, 2 up to 8, 3 beyond; case and `-`/`_` do not count.
[[nodiscard]] std::string_view closest(std::string_view name,
                                       std::span<const std::string_view> candidates);

/// "did you mean 'x'?", or empty when nothing is near.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       std::span<const std::string_view> candidates);

/// Length in bytes of the UTF-8 character at the start of `text`: 1 to 4, or 0 when there is none
/// (ill-formed, overlong, a surrogate, beyond U+10FFFF, cut off).
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// True when the UTF-8 `text` holds a character that steers a terminal instead of showing.
[[nodiscard]] bool has_control_characters(std::string_view text);

/// A table of rows, each with a public `std::string_view name`. Rows live in static storage.
/// Parsing, did-you-mean, `list`, docs and the completeness test all read the rows.
template <class Row>
class Table {
public:
    constexpr explicit Table(std::span<const Row> rows) : rows_(rows) {}

    [[nodiscard]] constexpr const Row* find(std::string_view name) const {
        for (const Row& row : rows_)
            if (row.name == name) return &row;
        return nullptr;
    }
    [[nodiscard]] std::vector<std::string_view> names() const {
        std::vector<std::string_view> out;
        out.reserve(rows_.size());
        for (const Row& row : rows_) out.push_back(row.name);
        return out;
    }
    [[nodiscard]] std::string_view closest(std::string_view name) const {
        const auto all = names();
        return membudget::closest(name, all);
    }
    [[nodiscard]] constexpr std::span<const Row> rows() const { return rows_; }
    [[nodiscard]] constexpr auto begin() const { return rows_.begin(); }
    [[nodiscard]] constexpr auto end() const { return rows_.end(); }
    [[nodiscard]] constexpr std::size_t size() const { return rows_.size(); }

private:
    std::span<const Row> rows_;
};

/// True when no two rows share a name: for a `static_assert` beside each table.
template <class Row, std::size_t N>
constexpr bool names_are_unique(const Row (&rows)[N]) {
    for (std::size_t i = 0; i < N; ++i)
        for (std::size_t j = i + 1; j < N; ++j)
            if (rows[i].name == rows[j].name) return false;
    return true;
}

/// A few threads that wait for work, as many as the machine runs at once. To start one takes longer than the
/// work of many a job: a team is made before there is anything to do.
class Team {
public:
    Team();
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    /// Calls `work(i)` once for every i < count, begun in that order, here and on the team's threads. Of the
    /// exceptions that the calls throw, the one of the least i is thrown again after all have ended.
    void for_each_index(std::size_t count, const std::function<void(std::size_t)>& work);

private:
    struct Shared;
    std::shared_ptr<Shared> shared_;
};

}  // namespace membudget
