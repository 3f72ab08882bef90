#pragma once

/// Text of logs and tables: lines, numbers, cells.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace membudget::trace {

inline constexpr std::int64_t kMiB = 1'048'576;
inline constexpr std::int64_t kGiB = 1'073'741'824;

/// `text` as UTF-8: UTF-16 with a byte order mark (PowerShell's `>`) is converted, a UTF-8 mark dropped.
[[nodiscard]] std::string to_utf8(std::string text);

/// The line at the start of `text`, without its end, which is taken off `text`.
[[nodiscard]] std::string_view take_line(std::string_view& text);

/// The number at the start of `text` after blanks, and the rest of it.
struct FoundNumber {
    double value = 0;
    std::string_view rest;
};
[[nodiscard]] std::optional<FoundNumber> number_at(std::string_view text);
/// The number that follows `anchor` and blanks.
[[nodiscard]] std::optional<FoundNumber> number_after(std::string_view text,
                                                      std::string_view anchor);
/// The whole number that follows the last `anchor` of `text`.
[[nodiscard]] std::optional<std::int64_t> last_whole_after(std::string_view text,
                                                           std::string_view anchor);

/// `value` units of `unit` bytes, to the nearest byte; absent when that is negative or not below 2^53.
[[nodiscard]] std::optional<std::int64_t> bytes_of(double value, std::int64_t unit);

/// `text` without blanks at its ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);
[[nodiscard]] std::string lowered(std::string_view text);

/// What separates the cells of a table that begins with `text`: the one of ',', ';' and the tab of which its
/// first line has most outside of quotes. Programs write ';' where the comma is a decimal point.
[[nodiscard]] char separator_of(std::string_view text);

/// The next record of a table (RFC 4180: quoted cells may hold separators and line ends), cells trimmed; it is
/// taken off `text`.
[[nodiscard]] std::vector<std::string> take_record(std::string_view& text, char separator);

}  // namespace membudget::trace
