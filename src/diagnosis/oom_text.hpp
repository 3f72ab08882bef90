#pragma once

/// Finding sizes and numbers in prose, without regular expressions: an anchor, and what stands
/// before or after it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "membudget/diagnosis.hpp"

namespace membudget::diagnosis {

/// The size at the start of `text` ("23.69 GiB", "0 bytes", "30.75G", "1,024 MB"), units as powers
/// of 1024, and how many bytes of text it took. Absent as well when it is 2^53 or more: 2^64 means "unknown".
struct FoundSize {
    PrintedSize size;
    std::size_t length = 0;
};
[[nodiscard]] std::optional<FoundSize> size_at(std::string_view text);

/// The size that follows `anchor`, after spaces, ':', '=' and '|'.
[[nodiscard]] std::optional<PrintedSize> size_after(std::string_view text, std::string_view anchor);
/// The size that ends right before `anchor`.
[[nodiscard]] std::optional<PrintedSize> size_before(std::string_view text,
                                                     std::string_view anchor);
/// The whole number that follows `anchor`, after spaces and ':'.
[[nodiscard]] std::optional<std::int64_t> number_after(std::string_view text,
                                                       std::string_view anchor);

/// Position of `what` in `text`, ASCII case ignored, from `from` on; npos: none.
[[nodiscard]] std::size_t find_ignoring_case(std::string_view text, std::string_view what,
                                             std::size_t from = 0);

/// `text` as one line: prefixes that launchers and loggers put before each line are dropped, and
/// line ends and runs of blanks become one blank.
[[nodiscard]] std::string as_one_line(std::string_view text);

}  // namespace membudget::diagnosis
