#include "report/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace membudget::report {
namespace {

constexpr Scale kScales[] = {
    {"GB", "GiB", kGB, kGiB},
    {"MB", "MiB", 1'000'000, 1'048'576},
    {"kB", "KiB", 1'000, 1'024},
    {"B", "B", 1, 1},
};

}  // namespace

const Scale& scale_for(Bytes largest) {
    const auto* at = std::find_if(std::begin(kScales), std::end(kScales), [&](const Scale& scale) {
        return largest.count() >= scale.decimal_unit;
    });
    return at == std::end(kScales) ? *std::prev(at) : *at;
}

std::string both_units(Bytes bytes) {
    return fmt::format("{} ({})", format_bytes(bytes, Units::decimal),
                       format_bytes(bytes, Units::binary));
}

std::string share(Bytes part, Bytes whole) {
    if (whole == Bytes(0)) return "";
    return fmt::format("{:.1f} %", 100 * ratio(part, whole));
}

std::string bounds(const TotalRange& range, const Scale& scale) {
    return fmt::format("{} .. {}", scale.in_decimal(range.lower),
                       range.upper ? scale.in_decimal(*range.upper) : "open");
}

Judged judged_total(const Ledger& ledger) {
    if (ledger.device) return {Total::device, *ledger.device};
    if (ledger.reserved) return {Total::reserved, *ledger.reserved};
    return {Total::allocated, ledger.allocated};
}

std::string_view word_for(Verdict verdict) {
    switch (verdict) {
        case Verdict::fits: return "FITS";
        case Verdict::over: return "OVER";
        case Verdict::uncertain: return "UNCERTAIN";
        case Verdict::none: break;
    }
    return "NO BUDGET";
}

std::string verdict_sentence(const Ledger& ledger) {
    const auto [total, range] = judged_total(ledger);
    const std::string_view name = name_of(total);
    if (!ledger.budget)
        return fmt::format("{} {} at the peak", both_units(range.point), name);

    const Bytes usable = ledger.budget->capacity - ledger.budget->reserve;
    const Bytes left = usable - range.point;
    // Where two decimals would hide on which side of the limit the job is, every byte is shown.
    const bool tied = range.point != usable && format_bytes(range.point, Units::decimal) ==
                                                   format_bytes(usable, Units::decimal);
    const auto size = [&](Bytes bytes) {
        return format_bytes(bytes, tied ? Units::exact : Units::decimal);
    };
    const std::string need = tied ? size(range.point) : both_units(range.point);
    switch (ledger.verdict) {
        case Verdict::fits:
            return fmt::format("{} {} of {}: {} to spare", need, name, size(usable), size(left));
        case Verdict::over:
            return fmt::format("{} {}, {} usable: {} too much", need, name, size(usable),
                               size(-left));
        case Verdict::uncertain:
        case Verdict::none: break;
    }
    return fmt::format("{} {} of {}; between {} and {}", need, name, size(usable),
                       size(range.lower), range.upper ? size(*range.upper) : "an unknown amount");
}

std::string phase_in_prose(Phase phase) { return in_words(name_of(phase)); }

std::string place_in_prose(const PeakPlace& peak) {
    std::string out = phase_in_prose(peak.phase);
    if (peak.op.empty()) return out;  // stated terms are live for whole phases
    out += fmt::format(", at {}", peak.op);
    if (peak.pass != name_of(peak.phase)) out += fmt::format(" ({})", peak.pass);
    return out;
}

}  // namespace membudget::report
