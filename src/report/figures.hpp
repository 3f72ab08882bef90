#pragma once

/// How numbers look in reports for people.

#include <optional>
#include <string>
#include <string_view>

#include "membudget/ledger.hpp"
#include "membudget/quantity.hpp"

namespace membudget::report {

/// The pair of units in which a column of sizes is shown, so that its numbers compare.
struct Scale {
    std::string_view decimal, binary;      ///< "GB", "GiB"
    std::int64_t decimal_unit, binary_unit;

    [[nodiscard]] std::string in_decimal(Bytes bytes) const {
        return format_in_unit(bytes, decimal_unit);
    }
    [[nodiscard]] std::string in_binary(Bytes bytes) const {
        return format_in_unit(bytes, binary_unit);
    }
};

/// The largest units in which `largest` is at least one.
[[nodiscard]] const Scale& scale_for(Bytes largest);

/// "8.60 GB (8.01 GiB)".
[[nodiscard]] std::string both_units(Bytes bytes);
/// "69.8 %"; empty when there is no whole.
[[nodiscard]] std::string share(Bytes part, Bytes whole);
/// "8.60 .. 9.10", or "8.60 .. open".
[[nodiscard]] std::string bounds(const TotalRange& range, const Scale& scale);

/// The outermost total that is known, on which the verdict is judged.
struct Judged {
    Total total = Total::allocated;
    TotalRange range;
};
[[nodiscard]] Judged judged_total(const Ledger& ledger);

/// "FITS", "OVER", "UNCERTAIN", "NO BUDGET".
[[nodiscard]] std::string_view word_for(Verdict verdict);
/// The verdict in a sentence: what is needed, what is there, what is left.
[[nodiscard]] std::string verdict_sentence(const Ledger& ledger);
/// "optimizer step" for the phase `optimizer_step`, as prose.
[[nodiscard]] std::string phase_in_prose(Phase phase);
/// "backward, at layers.31.mlp.down_proj".
[[nodiscard]] std::string place_in_prose(const PeakPlace& peak);

}  // namespace membudget::report
