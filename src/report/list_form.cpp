#include <algorithm>

#include "report/forms.hpp"

namespace membudget::report {

/// The columns up to `doc`, which has room to wrap as the last one. What stands behind it, such as
/// the source, is for machine formats: on paper it would drown the names.
Report list_form(const ReportData& data) {
    const Listing& listing = *data.listing;
    const auto doc = std::find(listing.columns.begin(), listing.columns.end(), "doc");
    const auto shown = std::min<std::ptrdiff_t>(doc - listing.columns.begin() + 1,
                                                std::ssize(listing.columns));
    ReportTable table;
    for (auto column = listing.columns.begin(); column != listing.columns.begin() + shown; ++column)
        table.columns.push_back({*column == "doc" ? "what it is" : *column, Align::left});
    for (const auto& row : listing.rows)
        table.rows.emplace_back(row.begin(), row.begin() + shown);
    Report report;
    report.title = listing.kind;
    report.sections.push_back({std::move(table), std::nullopt});
    return report;
}

}  // namespace membudget::report
