#include "membudget/support.hpp"

#include <fmt/format.h>

namespace membudget {

void fail_ensure(const char* condition, const char* text, const char* file, int line) {
    throw InternalError(fmt::format("{} (violated: {} at {}:{})", text, condition, file, line));
}

void Diagnostics::invalid(std::string_view pointer, std::string message, std::string hint) {
    add({.trouble = Trouble::invalid,
         .file = {},
         .pointer = std::string(pointer),
         .message = std::move(message),
         .hint = std::move(hint)});
}

void Diagnostics::unsupported(std::string_view pointer, std::string message, std::string hint) {
    add({.trouble = Trouble::unsupported,
         .file = {},
         .pointer = std::string(pointer),
         .message = std::move(message),
         .hint = std::move(hint)});
}

void Diagnostics::take(Diagnostics other) {
    list_.insert(list_.end(), std::make_move_iterator(other.list_.begin()),
                 std::make_move_iterator(other.list_.end()));
}

void Diagnostics::set_file(std::string_view file) {
    for (Diagnostic& diagnostic : list_)
        if (diagnostic.file.empty()) diagnostic.file = file;
}

void Diagnostics::prefix_pointers(std::string_view prefix) {
    for (Diagnostic& diagnostic : list_) diagnostic.pointer.insert(0, prefix);
}

bool Diagnostics::any_invalid() const {
    return std::any_of(list_.begin(), list_.end(), [](const Diagnostic& diagnostic) {
        return diagnostic.trouble == Trouble::invalid;
    });
}

std::string pointer_child(std::string_view pointer, std::string_view token) {
    std::string out;
    out.reserve(pointer.size() + token.size() + 1);
    out += pointer;
    out += '/';
    for (const char c : token) {
        if (c == '~')
            out += "~0";
        else if (c == '/')
            out += "~1";
        else
            out += c;
    }
    return out;
}

std::string pointer_child(std::string_view pointer, std::size_t index) {
    return fmt::format("{}/{}", pointer, index);
}

bool is_at_or_below(std::string_view path, std::string_view ancestor) {
    return path.starts_with(ancestor) &&
           (path.size() == ancestor.size() || path[ancestor.size()] == '/');
}

}  // namespace membudget
