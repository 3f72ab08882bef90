#include <set>

#include "catch.hpp"
#include "membudget/job.hpp"

using namespace membudget;

TEST_CASE("every device row is complete") {
    std::set<std::string_view> names;
    CHECK(devices().size() >= 40);
    for (const Device& row : devices()) {
        INFO(row.name);
        CHECK(names.insert(row.name).second);
        CHECK_FALSE(row.doc.empty());
        CHECK_FALSE(row.source.empty());
        CHECK(row.capacity_bytes > 4 * kGiB);
        CHECK(row.capacity_bytes < 512 * kGiB);
        // A row without a report says so where people look.
        const bool nominal = row.source.find("nominal") != std::string_view::npos;
        CHECK(nominal == (row.doc.find("nominal") != std::string_view::npos));
        if (nominal) CHECK(row.capacity_bytes % kGB == 0);
    }
}

TEST_CASE("usable bytes are those that PyTorch reports, not those on the box") {
    CHECK(devices().find("h100-80gb")->capacity_bytes == 84'932'978'278);  // 79.10 GiB
    CHECK(devices().find("t4")->capacity_bytes == 15'633'680'957);         // 14.56 GiB, sold as 16 GB
    CHECK(devices().find("h200")->capacity_bytes < 141 * kGiB);
    CHECK(devices().closest("h100-80g") == "h100-80gb");
}
