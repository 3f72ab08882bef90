#include "report/forms.hpp"

namespace membudget::report {

Report list_form(const ReportData& data) {
    const Listing& listing = *data.listing;
    ReportTable table;
    for (const std::string& column : listing.columns)
        table.columns.push_back({column, Align::left});
    table.rows = listing.rows;
    Report report;
    report.title = listing.kind;
    report.sections.push_back({std::move(table), std::nullopt});
    return report;
}

}  // namespace membudget::report
