// The text of PYTORCH_ALLOC_CONF.

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>

#include <fmt/format.h>

#include "membudget/stack.hpp"

namespace membudget {

namespace {

constexpr std::int64_t kMiB = 1024 * 1024;
/// Half of int64 in MiB: products with kMiB cannot overflow.
constexpr std::int64_t kMostMiB = std::numeric_limits<std::int64_t>::max() / kMiB / 2;

Diagnostic refuse(std::string_view key, std::string_view expected, std::string_view got) {
    return {Trouble::invalid, "", "", fmt::format("{}: expected {}; got {}", key, expected, in_quotes(got)), ""};
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

std::optional<std::int64_t> whole(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return value;
}

std::optional<double> fraction(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return value;
}

/// Cuts "key:value" pairs at the commas outside of brackets.
std::vector<std::string_view> pairs_of(std::string_view text) {
    std::vector<std::string_view> out;
    std::size_t begin = 0;
    bool inside = false;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i < text.size() && text[i] == '[') inside = true;
        if (i < text.size() && text[i] == ']') inside = false;
        if (i < text.size() && (text[i] != ',' || inside)) continue;
        const std::string_view pair = trimmed(text.substr(begin, i - begin));
        if (!pair.empty()) out.push_back(pair);
        begin = i + 1;
    }
    return out;
}

using Set = std::optional<Diagnostic> (*)(AllocatorSettings&, std::string_view key, std::string_view value);

std::optional<Diagnostic> set_max_split(AllocatorSettings& out, std::string_view key, std::string_view value) {
    const auto n = whole(value);
    // Large segments must stay divisible [as PyTorch 2.13 checks it].
    const std::int64_t least = out.large_segment_size / kMiB;
    if (!n || *n < least) return refuse(key, fmt::format("a number of MiB of at least {}", least), value);
    out.max_split_size = std::min(*n, kMostMiB) * kMiB;
    return std::nullopt;
}

std::optional<Diagnostic> set_non_split_rounding(AllocatorSettings& out, std::string_view key,
                                                 std::string_view value) {
    const auto n = whole(value);
    if (!n || *n < 0) return refuse(key, "a number of MiB", value);
    out.max_non_split_rounding = std::min(*n, kMostMiB) * kMiB;
    return std::nullopt;
}

std::optional<Diagnostic> set_large_segment(AllocatorSettings& out, std::string_view key, std::string_view value) {
    const auto n = whole(value);
    // Every request below 10 MiB has to fit.
    if (!n || *n < 10 || *n > kMostMiB) return refuse(key, "a number of MiB of at least 10", value);
    out.large_segment_size = *n * kMiB;
    return std::nullopt;
}

std::optional<Diagnostic> set_threshold(AllocatorSettings& out, std::string_view key, std::string_view value) {
    const auto share = fraction(value);
    if (!share || !(*share > 0 && *share < 1)) return refuse(key, "a share between 0 and 1", value);
    out.garbage_collection_threshold = *share;
    return std::nullopt;
}

std::optional<Diagnostic> set_fraction(AllocatorSettings& out, std::string_view key, std::string_view value) {
    const auto share = fraction(value);
    if (!share || !(*share > 0 && *share <= 1)) return refuse(key, "a share above 0, at most 1", value);
    out.memory_fraction = *share;
    return std::nullopt;
}

std::optional<Diagnostic> set_expandable(AllocatorSettings& out, std::string_view key, std::string_view value) {
    if (value != "True" && value != "False") return refuse(key, "True or False", value);
    out.expandable_segments = value == "True";
    return std::nullopt;
}

bool is_power_of_two(std::int64_t n) { return n > 0 && std::has_single_bit(static_cast<std::uint64_t>(n)); }

/// One number for all sizes, or [256:1,512:2,1024:4,>:8] with sizes in MiB.
std::optional<Diagnostic> set_divisions(AllocatorSettings& out, std::string_view key, std::string_view value) {
    auto& divisions = out.roundup_power2_divisions;
    const auto expected = "a power of two, or a list such as [256:1,512:2,>:4]";
    if (!value.starts_with('[')) {
        const auto n = whole(value);
        if (!n || !is_power_of_two(*n)) return refuse(key, expected, value);
        divisions.fill(*n);
        return std::nullopt;
    }
    if (!value.ends_with(']')) return refuse(key, expected, value);
    std::size_t next = 0;  // the first interval that is not set yet
    bool first = true;
    for (const std::string_view pair : pairs_of(value.substr(1, value.size() - 2))) {
        const std::size_t colon = pair.find(':');
        if (colon == std::string_view::npos) return refuse(key, expected, pair);
        const std::string_view size = trimmed(pair.substr(0, colon));
        const auto n = whole(trimmed(pair.substr(colon + 1)));
        if (!n || (*n != 0 && !is_power_of_two(*n))) return refuse(key, expected, pair);
        if (size == ">") {
            std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(next), divisions.end(), *n);
            next = divisions.size();
            continue;
        }
        const auto mebibytes = whole(size);
        if (!mebibytes || !is_power_of_two(*mebibytes)) return refuse(key, expected, pair);
        const auto log2 = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(*mebibytes)) - 1);
        const std::size_t index = std::min(log2, divisions.size() - 1);
        // The first entry also holds for all sizes below it.
        if (first) std::fill_n(divisions.begin(), index, *n);
        first = false;
        divisions[index] = *n;
        next = index + 1;
    }
    return std::nullopt;
}

/// Of pinned host memory, locks and back ends: they decide no size on the device.
std::optional<Diagnostic> accept(AllocatorSettings&, std::string_view, std::string_view) { return std::nullopt; }

std::optional<Diagnostic> set_backend(AllocatorSettings&, std::string_view key, std::string_view value) {
    if (value == "native") return std::nullopt;
    Diagnostic out = refuse(key, "native", value);
    out.trouble = Trouble::unsupported;
    return out;
}

struct Setting {
    std::string_view name;
    Set set;
};
// c10/core/AllocatorConfig.h and c10/cuda/CUDAAllocatorConfig.h of PyTorch 2.13.
constexpr Setting kSettings[] = {
    {"max_split_size_mb", set_max_split},
    {"max_non_split_rounding_mb", set_non_split_rounding},
    {"large_segment_size_mb", set_large_segment},
    {"garbage_collection_threshold", set_threshold},
    {"per_process_memory_fraction", set_fraction},
    {"roundup_power2_divisions", set_divisions},
    {"expandable_segments", set_expandable},
    {"backend", set_backend},
    {"pinned_use_background_threads", accept},
    {"pinned_max_round_threshold_mb", accept},
    {"pinned_max_cached_size_mb", accept},
    {"release_lock_on_cudamalloc", accept},
    {"release_lock_on_hipmalloc", accept},
    {"pinned_use_cuda_host_register", accept},
    {"pinned_use_hip_host_register", accept},
    {"pinned_num_register_threads", accept},
    {"pinned_reserve_segment_size_mb", accept},
    {"pinned_free_catch_all", accept},
    {"graph_capture_record_stream_reuse", accept},
    {"throw_on_cudamalloc_oom", accept},
};
static_assert(names_are_unique(kSettings));

}  // namespace

Result<AllocatorSettings> parse_allocator_settings(std::string_view text) {
    AllocatorSettings out;
    const Table<Setting> known(kSettings);
    for (const std::string_view pair : pairs_of(text)) {
        const std::size_t colon = pair.find(':');
        const std::string_view key = trimmed(pair.substr(0, colon));
        const Setting* setting = known.find(key);
        if (setting == nullptr)
            return Diagnostic{Trouble::invalid, "", "",
                              fmt::format("unknown allocator setting {}", in_quotes(key)),
                              did_you_mean(key, known.names())};
        if (colon == std::string_view::npos) return refuse(key, "a value after ':'", pair);
        if (auto wrong = setting->set(out, key, trimmed(pair.substr(colon + 1)))) return *wrong;
    }
    return out;
}

}  // namespace membudget
