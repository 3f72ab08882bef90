#pragma once

#include <cstddef>
#include <string_view>

#include "membudget/support.hpp"

namespace membudget {

/// Where a JSON parser stood when it gave up.
struct ParserState {
    enum class Container { none, array, object };
    std::size_t consumed = 0;  ///< bytes read, the offending one included
    Container container = Container::none;
    bool after_key = false;    ///< the key of a member was read, its value was not
};

/// "line 3, column 5", both from 1; a column is a character.
[[nodiscard]] std::string place_in_text(std::string_view text, std::size_t offset);

/// Why `text`, well-formed UTF-8 without zero bytes, is not one JSON document.
[[nodiscard]] Diagnostic explain_syntax(std::string_view text, const ParserState& state);

}  // namespace membudget
