#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "membudget/spec.hpp"

namespace membudget {

KeyTree KeyTree::number(double value, std::string text) {
    KeyTree out;
    out.kind_ = Kind::number;
    out.number_ = value;
    out.text_ = std::move(text);
    return out;
}

KeyTree KeyTree::array(std::vector<KeyTree> items) {
    KeyTree out;
    out.kind_ = Kind::array;
    out.items_ = std::move(items);
    return out;
}

KeyTree KeyTree::object(std::vector<Member> members) {
    KeyTree out;
    out.kind_ = Kind::object;
    out.members_ = std::move(members);
    return out;
}

const KeyTree* KeyTree::find(std::string_view key) const {
    for (const Member& member : members_)
        if (member.first == key) return &member.second;
    return nullptr;
}

KeyTree* KeyTree::find(std::string_view key) {
    return const_cast<KeyTree*>(std::as_const(*this).find(key));
}

KeyTree& KeyTree::at_or_add(std::string_view key) {
    if (kind_ == Kind::null) kind_ = Kind::object;
    MEMBUDGET_ENSURE(kind_ == Kind::object, "only an object has members");
    if (KeyTree* found = find(key)) return *found;
    return members_.emplace_back(std::string(key), KeyTree()).second;
}

void KeyTree::remove(std::string_view key) {
    std::erase_if(members_, [key](const Member& member) { return member.first == key; });
}

std::string KeyTree::describe() const {
    constexpr std::size_t kLongestNumber = 40;
    switch (kind_) {
        case Kind::null: return "null";
        case Kind::boolean: return boolean() ? "true" : "false";
        case Kind::integer:
            if (integer_ == 0) return "zero";
            return fmt::format("{} ({})", integer_ < 0 ? "a negative integer" : "an integer",
                               integer_);
        case Kind::number: {
            const bool whole = std::nearbyint(number_) == number_;
            const std::string shown = text_.size() > kLongestNumber
                                          ? text_.substr(0, kLongestNumber) + "..."
                                          : text_;
            return fmt::format("a {}{} ({})", number_ < 0 ? "negative " : "",
                               whole ? "number" : "fraction", shown);
        }
        case Kind::string:
            return text_.empty() ? "an empty string" : fmt::format("a string ({})", in_quotes(text_));
        case Kind::array: return items_.empty() ? "an empty array" : "an array";
        case Kind::object: return members_.empty() ? "an empty object" : "an object";
    }
    MEMBUDGET_ENSURE(false, "every kind is described");
    return {};
}

}  // namespace membudget
