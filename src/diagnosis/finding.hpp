#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "membudget/diagnosis.hpp"

namespace membudget::diagnosis {

/// A finding of the kind `name`, which exists.
[[nodiscard]] Finding finding(std::string_view name, std::vector<std::string> evidence,
                              std::string subject = {});

/// "1.49 GB (1.39 GiB)".
[[nodiscard]] std::string size_text(Bytes bytes);

/// `part` of `whole` or more, in hundredths; sizes up to 2^53.
[[nodiscard]] constexpr bool at_least(Bytes part, int hundredths, Bytes whole) {
    return part.count() >= whole.count() / 100 * hundredths;
}

}  // namespace membudget::diagnosis
