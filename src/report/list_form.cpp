#include <fmt/format.h>

#include <algorithm>

#include "report/forms.hpp"

namespace membudget::report {

/// What a row is and where that was read stand in one last column, which has room to wrap.
Report list_form(const ReportData& data) {
    const Listing& listing = *data.listing;
    const auto column = [&](const char* name) {
        const auto at = std::find(listing.columns.begin(), listing.columns.end(), name);
        return static_cast<std::size_t>(at - listing.columns.begin());
    };
    const std::size_t doc = column("doc"), source = column("source");
    ReportTable table;
    for (std::size_t i = 0; i < std::min(doc, source); ++i)
        table.columns.push_back({listing.columns[i], Align::left});
    table.columns.push_back({"what it is", Align::left});
    for (const auto& row : listing.rows) {
        std::vector<std::string> cells(row.begin(),
                                       row.begin() + static_cast<std::ptrdiff_t>(doc));
        cells.push_back(source < row.size() && !row[source].empty()
                            ? fmt::format("{} [{}]", row[doc], row[source])
                            : row[doc]);
        table.rows.push_back(std::move(cells));
    }
    Report report;
    report.title = listing.kind;
    report.sections.push_back({std::move(table), std::nullopt});
    return report;
}

}  // namespace membudget::report
