#pragma once

#include <cstddef>
#include <string_view>

namespace membudget {

/// Length in bytes of the UTF-8 character at the start of `text`: 1 to 4, or 0 when there is none
/// (ill-formed, overlong, a surrogate, beyond U+10FFFF, cut off).
[[nodiscard]] std::size_t utf8_length(std::string_view text);

/// True when the UTF-8 `text` holds a character that steers a terminal instead of showing.
[[nodiscard]] bool has_control_characters(std::string_view text);

}  // namespace membudget
