#include "catch.hpp"

#include <chrono>
#include <sstream>
#include <string>

#include "cli/progress.hpp"

using namespace membudget;
using namespace std::chrono_literals;

namespace {

/// A terminal that remembers, and a clock that stands still until it is moved.
struct Terminal {
    std::ostringstream out, err;
    std::string said;
    std::chrono::steady_clock::time_point now{};
    Streams streams{.out = out, .err = err};
    Terminal() {
        streams.talk = [this](std::string_view text) { said += text; };
    }
    cli::ProgressBar::Clock clock() {
        return [this] { return now; };
    }
    /// What the last line shows.
    [[nodiscard]] std::string line() const { return said.substr(said.rfind("\x1b[K") + 3); }
};

}  // namespace

TEST_CASE("a short wait shows nothing", "[cli]") {
    Terminal terminal;
    {
        cli::ProgressBar bar(terminal.streams, "a.pickle", terminal.clock());
        const TraceProgress progress = bar.callback();
        terminal.now += 999ms;
        progress(50, 100);
    }
    CHECK(terminal.said.empty());
}

TEST_CASE("a long wait shows how far it is, and is wiped", "[cli]") {
    Terminal terminal;
    {
        cli::ProgressBar bar(terminal.streams, "a.pickle", terminal.clock());
        const TraceProgress progress = bar.callback();
        terminal.now += 1s;
        progress(500'000'000, 2'000'000'000);
        CHECK(terminal.line() == "a.pickle [######..................]  25 % of 2.00 GB");
        terminal.now += 99ms;
        progress(900'000'000, 2'000'000'000);  // too soon to write again
        CHECK(terminal.line() == "a.pickle [######..................]  25 % of 2.00 GB");
        terminal.now += 1ms;
        progress(2'000'000'000, 2'000'000'000);
        CHECK(terminal.line() == "a.pickle [########################] 100 % of 2.00 GB");
        terminal.now += 1s;
        progress(3'000'000'000, 0);  // standard input has no end yet
        CHECK(terminal.line() == "a.pickle 3.00 GB read");
    }
    CHECK(terminal.line().empty());
    CHECK(terminal.out.str().empty());
    CHECK(terminal.err.str().empty());
}

TEST_CASE("a progress line fits its terminal and steers nothing", "[cli]") {
    Terminal terminal;
    terminal.streams.width = 60;
    const std::string name = "runs/\x1b[2J/" + std::string(300, 'x') + "/tail.pickle";
    cli::ProgressBar bar(terminal.streams, name, terminal.clock());
    const TraceProgress progress = bar.callback();
    terminal.now += 2s;
    progress(1, 999'999'999'999);
    CHECK(terminal.line().size() < 60);
    CHECK(terminal.line().find('\x1b') == std::string::npos);
    CHECK(terminal.line().find("tail.pickle") != std::string::npos);
}

TEST_CASE("without a terminal there is no progress", "[cli]") {
    Terminal terminal;
    terminal.streams.talk = {};
    cli::ProgressBar bar(terminal.streams, "a.pickle", terminal.clock());
    CHECK_FALSE(bar.callback());
}
