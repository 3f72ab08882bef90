#include "membudget/support.hpp"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"

using namespace membudget;

TEST_CASE("every piece of work is done once", "[support]") {
    Team team;
    for (const std::size_t count : {0U, 1U, 2U, 3U, 17U, 1000U}) {
        std::vector<std::atomic<int>> done(count);
        team.for_each_index(count, [&](std::size_t i) { ++done[i]; });
        for (const auto& times : done) CHECK(times == 1);
    }
}

TEST_CASE("work goes on after an exception, and the one of the least index is thrown", "[support]") {
    Team team;
    for (int round = 0; round < 100; ++round) {
        std::atomic<int> done{0};
        std::string message;
        try {
            team.for_each_index(20, [&](std::size_t i) {
                ++done;
                if (i == 3 || i == 4 || i == 19) throw std::runtime_error(std::to_string(i));
            });
        } catch (const std::runtime_error& error) {
            message = error.what();
        }
        CHECK(done == 20);
        CHECK(message == "3");
    }
}

TEST_CASE("teams come and go, with work or without", "[support]") {
    std::atomic<int> done{0};
    for (int round = 0; round < 200; ++round) {
        Team team;
        if (round % 2 == 0) team.for_each_index(3, [&](std::size_t) { ++done; });
    }
    CHECK(done == 300);
}
