#include "cli/sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace membudget::cli {
namespace {

constexpr std::int64_t kThousandthsOfPercent = 1000;

/// "5", "2.5" or "0.125" in thousandths of a percent; absent when it is none of these.
std::optional<std::int64_t> parse_percent(std::string_view text) {
    std::int64_t out = 0;
    int decimals = -1;  // -1: before the point
    bool any = false;
    for (const char c : text) {
        if (c == '.' && decimals < 0) {
            decimals = 0;
            continue;
        }
        if (c < '0' || c > '9' || out > 1'000'000) return std::nullopt;
        if (decimals >= 0 && ++decimals > 3) return std::nullopt;
        out = out * 10 + (c - '0');
        any = true;
    }
    if (!any || decimals == 0) return std::nullopt;
    for (int i = decimals < 0 ? 0 : decimals; i < 3; ++i) out *= 10;
    return out;
}

}  // namespace

Result<Bytes> growth_limit(Bytes baseline, const std::string& text) {
    const auto mistake = [&](std::string message) {
        return Diagnostic{.trouble = Trouble::invalid,
                          .file = "--max-increase",
                          .pointer = {},
                          .message = std::move(message),
                          .hint = {}};
    };
    if (text.ends_with('%')) {
        const auto percent = parse_percent(std::string_view(text).substr(0, text.size() - 1));
        if (!percent || *percent > 1000 * kThousandthsOfPercent)
            return mistake(fmt::format("expected a percentage from 0% to 1000% with at most three "
                                       "decimals, such as 5%; got '{}'", text));
        // Exact without overflow: the whole is split at the divisor.
        constexpr std::int64_t divisor = 100 * kThousandthsOfPercent;
        const std::int64_t whole = baseline.count();
        return baseline +
               Bytes(whole / divisor * *percent + whole % divisor * *percent / divisor);
    }
    const auto bytes = parse_size(text, "--max-increase");
    if (!bytes) return bytes.errors();
    return baseline + *bytes;
}

Result<Bytes> parse_size(const std::string& text, const char* flag) {
    const bool plain = !text.empty() && std::all_of(text.begin(), text.end(),
                                                    [](char c) { return c >= '0' && c <= '9'; });
    auto bytes = parse_bytes(plain ? text + "B" : text);
    if (bytes) return bytes;
    Diagnostics errors = bytes.errors();
    errors.set_file(flag);
    return errors;
}

}  // namespace membudget::cli
