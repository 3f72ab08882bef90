#pragma once

/// The curve of a step: what is live over its events, cut into the columns of a chart.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "membudget/ledger.hpp"

namespace membudget::report {

/// How a group of terms looks in charts.
struct GroupStyle {
    std::string_view name;  ///< first component of the terms' paths
    char letter;
    int terminal;           ///< foreground colour of SGR
    std::string_view rgb;
};
/// The style of `group`; what has no row of its own is drawn as the last one.
[[nodiscard]] const GroupStyle& style_of(std::string_view group);
/// Rank of `group` from the bottom of a stack upwards.
[[nodiscard]] std::size_t rank_of(std::string_view group);
/// The style of that rank; `rank_of("")` is the last.
[[nodiscard]] const GroupStyle& style_at(std::size_t rank);

/// A phase of a micro-batch, drawn as one stretch of columns.
struct CurveSegment {
    Phase phase = Phase::forward;
    bool start = false;            ///< what lives before the step begins
    std::int64_t micro_batch = kNoMicroBatch;
    std::int64_t alike = 1;        ///< micro-batches that it stands for
    std::int64_t events = 0;
    std::size_t first = 0, columns = 0;
};

/// A stacked curve: at each column the highest instant of its events.
struct Curve {
    struct Column {
        Bytes live;
        std::vector<Bytes> series;
    };
    std::vector<CurveSegment> segments;
    std::vector<Column> columns;
    std::size_t peak_column = 0;
};

/// Draws `timeline` in about `width` columns (each phase has at least `least` of them, the start
/// one). `series_of` maps each term to one of `series` bands.
[[nodiscard]] Curve make_curve(const Timeline& timeline, std::size_t width, std::size_t least,
                               const std::vector<std::size_t>& series_of, std::size_t series);

}  // namespace membudget::report
