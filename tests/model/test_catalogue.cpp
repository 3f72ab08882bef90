/// The built-in catalogue: each row builds, and to the parameter.

#include "build.hpp"

using namespace membudget;

TEST_CASE("every model of the catalogue has exactly its parameters") {
    CHECK(catalogue().size() >= 80);
    for (const CatalogueModel& row : catalogue()) {
        INFO(row.name);
        const auto model = build_model(row.config());
        INFO((model.ok() ? std::string() : errors_of(model.errors())));
        REQUIRE(model.ok());
        CHECK(count_parameters(*model).total.count() == row.parameters);
        CHECK(model->family == row.family);
        CHECK(model->architecture == row.architecture);
    }
}

TEST_CASE("a row of the catalogue says where it is from, and what it is besides its keys") {
    for (const CatalogueModel& row : catalogue()) {
        INFO(row.name);
        CHECK_FALSE(row.doc.empty());
        CHECK_FALSE(row.source.empty());
        CHECK(row.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") ==
              std::string_view::npos);
        const Family* family = families().find(row.family);
        REQUIRE(family != nullptr);
        const KeyTree keys = tree_of(row.keys);
        CHECK(keys.find("model_type") == nullptr);
        CHECK(keys.find("architectures") == nullptr);
    }
}
