// The algebra of profiles against brute force: whatever `then` and `repeat` say about a program of
// nested repeats must be what one finds by running all of its events one by one.

#include "catch.hpp"

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "membudget/step.hpp"

using namespace membudget;

namespace {

/// A random program: a leaf of events, or a sequence that repeats.
struct Program {
    std::vector<Event> events;
    std::vector<Program> parts;
    std::int64_t repeat = 1;
};

Profile summarise(const Program& program, const TermTable& terms) {
    Profile sum = profile_of(program.events, terms);
    for (const Program& part : program.parts) sum = then(sum, summarise(part, terms));
    return repeat(sum, program.repeat);
}

void run(const Program& program, std::vector<Event>& out) {
    for (std::int64_t i = 0; i < program.repeat; ++i) {
        out.insert(out.end(), program.events.begin(), program.events.end());
        for (const Program& part : program.parts) run(part, out);
    }
}

/// What the definition says, event by event.
struct Truth {
    std::vector<std::int64_t> net, at_peak, max, group_max;
    std::int64_t peak = 0;
};

Truth brute_force(const std::vector<Event>& events, const TermTable& terms) {
    Truth truth;
    truth.net.assign(terms.size(), 0);
    truth.at_peak = truth.max = truth.net;
    truth.group_max.assign(terms.groups(), 0);
    for (const Event& event : events) {
        truth.net[event.term] += event.bytes * event.count;
        truth.net[kRounding] += event.rounding * event.count;
        std::int64_t total = 0;
        std::vector<std::int64_t> groups(terms.groups(), 0);
        for (std::size_t t = 0; t < terms.size(); ++t) {
            total += truth.net[t];
            groups[static_cast<std::size_t>(terms.group(static_cast<TermId>(t)))] += truth.net[t];
            truth.max[t] = std::max(truth.max[t], truth.net[t]);
        }
        for (std::size_t g = 0; g < groups.size(); ++g)
            truth.group_max[g] = std::max(truth.group_max[g], groups[g]);
        if (total > truth.peak) {
            truth.peak = total;
            truth.at_peak = truth.net;
        }
    }
    return truth;
}

std::vector<std::int64_t> padded(std::vector<std::int64_t> bytes, std::size_t size) {
    bytes.resize(size, 0);
    return bytes;
}

class Generator {
public:
    explicit Generator(std::uint32_t seed) : random_(seed) {
        for (const char* path : {"a/x", "a/y", "b", "c/z"}) terms.intern(path);
    }

    Program program(int depth) {
        Program made;
        made.repeat = pick(0, 3);
        if (depth == 0 || pick(0, 2) == 0) {
            for (std::int64_t i = pick(0, 4); i > 0; --i) made.events.push_back(event());
            return made;
        }
        for (std::int64_t i = pick(1, 3); i > 0; --i) made.parts.push_back(program(depth - 1));
        return made;
    }

    TermTable terms;

private:
    std::int64_t pick(std::int64_t low, std::int64_t high) {
        return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
    }
    Event event() {
        Event made;
        made.bytes = pick(0, 1) == 0 ? pick(1, 9) : -pick(1, 9);
        // Rounding has the sign of its tensor; often there is none.
        const std::int64_t added = pick(0, 1) == 0 ? 0 : (made.bytes > 0 ? pick(0, 3) : -pick(0, 3));
        made.rounding = static_cast<std::int32_t>(added);
        made.count = static_cast<std::int32_t>(pick(1, 2));
        made.term = static_cast<TermId>(pick(1, 4));
        return made;
    }
    std::mt19937 random_;
};

}  // namespace

TEST_CASE("profiles of random programs agree with brute force", "[step]") {
    constexpr int kCases = 100'000;
    for (int seed = 0; seed < kCases; ++seed) {
        Generator generator(static_cast<std::uint32_t>(seed));
        const Program program = generator.program(3);
        const Profile profile = summarise(program, generator.terms);
        std::vector<Event> events;
        run(program, events);
        const Truth truth = brute_force(events, generator.terms);
        const std::size_t size = generator.terms.size();
        const bool agrees = profile.peak == truth.peak && padded(profile.net, size) == truth.net &&
                            padded(profile.at_peak, size) == truth.at_peak &&
                            padded(profile.max, size) == truth.max &&
                            padded(profile.group_max, generator.terms.groups()) == truth.group_max;
        if (!agrees) FAIL("seed " << seed << ": " << profile.peak << " against " << truth.peak);
    }
    SUCCEED();
}

TEST_CASE("then is associative and the empty profile is its identity", "[step]") {
    for (std::uint32_t seed = 0; seed < 2000; ++seed) {
        Generator generator(seed);
        const Profile a = summarise(generator.program(2), generator.terms);
        const Profile b = summarise(generator.program(2), generator.terms);
        const Profile c = summarise(generator.program(2), generator.terms);
        const Profile left = then(then(a, b), c);
        const Profile right = then(a, then(b, c));
        const std::size_t size = generator.terms.size();
        REQUIRE(left.peak == right.peak);
        REQUIRE(left.total == right.total);
        REQUIRE(padded(left.at_peak, size) == padded(right.at_peak, size));
        REQUIRE(padded(left.max, size) == padded(right.max, size));
        REQUIRE(left.where == right.where);
        REQUIRE(then({}, a).peak == a.peak);
        REQUIRE(padded(then(a, {}).at_peak, size) == padded(a.at_peak, size));
    }
}

TEST_CASE("repeat equals n-fold then", "[step]") {
    for (std::uint32_t seed = 0; seed < 2000; ++seed) {
        Generator generator(seed);
        const Profile p = summarise(generator.program(2), generator.terms);
        Profile chained;
        const std::size_t size = generator.terms.size();
        for (std::int64_t n = 0; n < 5; ++n) {
            const Profile repeated = repeat(p, n);
            REQUIRE(repeated.peak == chained.peak);
            REQUIRE(repeated.total == chained.total);
            REQUIRE(padded(repeated.net, size) == padded(chained.net, size));
            REQUIRE(padded(repeated.at_peak, size) == padded(chained.at_peak, size));
            REQUIRE(padded(repeated.max, size) == padded(chained.max, size));
            chained = then(chained, p);
        }
    }
    CHECK_THROWS_AS(repeat({}, -1), InternalError);
}

TEST_CASE("of equal peaks the earliest counts, and copies say which one", "[step]") {
    TermTable terms;
    const TermId t = terms.intern("a");
    const auto event = [&](std::int64_t bytes) {
        Event made;
        made.bytes = bytes;
        made.term = t;
        return made;
    };
    const std::vector<Event> up_down{event(4), event(-4)};
    const Profile flat = repeat(profile_of(up_down, terms), 3);
    CHECK(flat.where.event == 0);
    CHECK(flat.where.copies == std::vector<std::int64_t>{0});
    const std::vector<Event> rising{event(4), event(-1)};
    const Profile last = repeat(profile_of(rising, terms), 3);
    CHECK(last.peak == 10);
    CHECK(last.where.copies == std::vector<std::int64_t>{2});
    const std::vector<Event> falling{event(-4)};
    CHECK(profile_of(falling, terms).peak == 0);
    CHECK(profile_of(falling, terms).where.leaf == -1);
}
