// The books: stated scenarios whose every figure is known, verdicts, bounds, differences.

#include "catch.hpp"

#include <map>
#include <optional>
#include <string>

#include "job_of.hpp"
#include "membudget/ledger.hpp"

using namespace membudget;

namespace {

/// A spec of stated numbers.
std::string stated(std::string_view model, std::string_view terms, std::string_view training = "{}",
                   std::string_view rest = "") {
    return "{\"membudget\": 1, " + (model.empty() ? "" : "\"model\": " + std::string(model) + ", ") +
           "\"training\": " + std::string(training) + ", \"terms\": " + std::string(terms) +
           std::string(rest) + "}";
}

Ledger ledger_of(const std::string& text, std::optional<Budget> budget = std::nullopt) {
    const Job job = job_of_text(text);
    check_books(job);
    return make_ledger(job, budget);
}

constexpr std::int64_t kMB = 1'000'000;

}  // namespace

TEST_CASE("a hundred million parameters with Adam in fp32", "[ledger]") {
    const Ledger ledger = ledger_of(
        stated(R"({"parameters": 100000000})", R"({"activations": "6GB", "temporaries": "1GB"})",
               R"({"precision": "fp32", "optimizer": "adam", "micro_batch_size": 2})"));
    CHECK(at_peak(ledger, "parameters") == Bytes(400 * kMB));
    CHECK(at_peak(ledger, "gradients") == Bytes(400 * kMB));
    CHECK(at_peak(ledger, "optimizer_states/exp_avg") == Bytes(400 * kMB));
    CHECK(at_peak(ledger, "optimizer_states/exp_avg_sq") == Bytes(400 * kMB));
    CHECK(ledger.additive_total == Bytes(8600 * kMB));
    CHECK(ledger.allocated.point == Bytes(8600 * kMB));
    CHECK(ledger.peak.phase == Phase::backward);
    CHECK(ledger.dominant == "activations");
}

TEST_CASE("activations follow the micro-batch, states do not", "[ledger]") {
    const auto at_batch = [](const char* batch) {
        return ledger_of(
            stated(R"({"parameters": 100000000})",
                   R"({"activations": {"bytes": "6GB", "at": {"micro_batch_size": 2}}, "temporaries": "1GB"})",
                   std::string(R"({"optimizer": "adam", "micro_batch_size": )") + batch + "}"));
    };
    const Ledger full = at_batch("2");
    const Ledger half = at_batch("1");
    CHECK(at_peak(half, "activations") == Bytes(3000 * kMB));
    CHECK(half.allocated.point == Bytes(5600 * kMB));
    for (const char* term : {"parameters", "gradients", "optimizer_states"})
        CHECK(at_peak(half, term) == at_peak(full, term));
    // A batch of which the stated one is no multiple rounds up.
    CHECK(at_peak(ledger_of(stated("", R"({"activations": {"bytes": 10, "at": {"micro_batch_size": 3}}})",
                                   R"({"micro_batch_size": 1})")),
                  "activations") == Bytes(4));
}

TEST_CASE("optimizer states over four workers", "[ledger]") {
    const char* terms =
        R"({"parameters": "1GB", "gradients": "1GB", "optimizer_states": "4GB", "activations": "2GB",
            "temporaries": "1GB"})";
    CHECK(ledger_of(stated("", terms)).allocated.point == Bytes(9000 * kMB));
    const Ledger sharded =
        ledger_of(stated("", terms, "{}", R"(, "parallelism": {"data": 4, "sharding": "zero1"})"));
    CHECK(at_peak(sharded, "optimizer_states") == Bytes(1000 * kMB));
    CHECK(sharded.allocated.point == Bytes(6000 * kMB));
    CHECK(at_peak(sharded, "gradients") == Bytes(1000 * kMB));
}

TEST_CASE("a peak in the optimizer step", "[ledger]") {
    const Ledger ledger = ledger_of(
        stated("", R"({"parameters": "2GB", "gradients": "2GB", "optimizer_states": "4GB",
                       "activations": "1GB", "temporaries/backward": "1GB",
                       "temporaries/optimizer_step": "4GB"})"));
    CHECK(ledger.peak.phase == Phase::optimizer_step);
    CHECK(ledger.allocated.point == Bytes(12'000 * kMB));
    CHECK(ledger.phases[static_cast<std::size_t>(Phase::forward)].peak == Bytes(7000 * kMB));
    CHECK(ledger.phases[static_cast<std::size_t>(Phase::backward)].peak == Bytes(10'000 * kMB));
    CHECK(ledger.additive_total == Bytes(13'000 * kMB));
}

TEST_CASE("with accumulation gradients stay while the next micro-batch runs", "[ledger]") {
    const char* terms = R"({"gradients": "3GB", "activations": "2GB", "temporaries": "1GB", "parameters": "1GB",
                            "optimizer_states": "1GB"})";
    const Ledger one = ledger_of(stated("", terms, R"({"gradient_accumulation_steps": 1})"));
    const Ledger many = ledger_of(stated("", terms, R"({"gradient_accumulation_steps": 8})"));
    const auto forward = static_cast<std::size_t>(Phase::forward);
    CHECK(one.phases[forward].peak == Bytes(4000 * kMB));
    CHECK(many.phases[forward].peak == Bytes(7000 * kMB));
    CHECK(one.allocated.point == many.allocated.point);
}

TEST_CASE("bounds come from running the timeline with each end", "[ledger]") {
    const Ledger ledger = ledger_of(
        stated("", R"({"parameters": "1GB", "gradients": "1GB", "optimizer_states": "2GB",
                       "activations": {"bytes": "4GB", "lower": "3GB", "upper": "6GB"}, "temporaries": "1GB"})"));
    CHECK(ledger.allocated.lower == Bytes(8000 * kMB));
    CHECK(ledger.allocated.point == Bytes(9000 * kMB));
    CHECK(ledger.allocated.upper == Bytes(11'000 * kMB));
}

TEST_CASE("verdicts", "[ledger]") {
    const std::string text = stated(
        "", R"({"parameters": "1GB", "gradients": "1GB", "optimizer_states": "2GB",
                "activations": {"bytes": "4GB", "lower": "3GB", "upper": "6GB"}, "temporaries": "1GB"})");
    const auto verdict = [&](std::int64_t capacity, std::int64_t reserve = 0) {
        return ledger_of(text, Budget{"budget", Bytes(capacity * kMB), Bytes(reserve * kMB)}).verdict;
    };
    CHECK(verdict(11'000) == Verdict::fits);
    CHECK(verdict(10'999) == Verdict::uncertain);
    CHECK(verdict(8000) == Verdict::uncertain);
    CHECK(verdict(7999) == Verdict::over);
    CHECK(verdict(12'000, 1001) == Verdict::uncertain);
    CHECK(ledger_of(text).verdict == Verdict::none);
    CHECK(*ledger_of(text, Budget{"budget", Bytes(10'000 * kMB), Bytes(500 * kMB)}).headroom ==
          Bytes(500 * kMB));
}

TEST_CASE("what is neither stated nor derivable leaves the bound open", "[ledger]") {
    const Ledger ledger = ledger_of(stated(R"({"parameters": 1000})", R"({"temporaries": "1GB"})"),
                                    Budget{"budget", Bytes(1'000'000 * kMB), Bytes(0)});
    CHECK_FALSE(ledger.allocated.upper.has_value());
    CHECK(ledger.verdict == Verdict::uncertain);
    bool warned = false;
    for (const Warning& warning : ledger.warnings)
        warned = warned || (warning.id == "terms.unknown" && warning.text.starts_with("activations"));
    CHECK(warned);
}

TEST_CASE("a stated path replaces what was derived below it", "[ledger]") {
    const Ledger derived = make_ledger(job_of(tiny_llama(2), {}), std::nullopt);
    std::string text = spec_text(tiny_llama(2), {{"micro_batch_size", "2"}, {"sequence_length", "32"}});
    text.pop_back();
    const Ledger ledger = ledger_of(text + R"(, "terms": {"activations": 1000}})");
    CHECK(at_peak(derived, "activations") > Bytes(1000));
    for (const Term& term : ledger.terms)
        if (term.path.starts_with("activations")) {
            CHECK(term.path == "activations");
            CHECK(term.basis == Basis::stated);
        }
    CHECK(at_peak(ledger, "parameters") == at_peak(derived, "parameters"));
}

TEST_CASE("differences mirror each other", "[ledger]") {
    const Ledger a = make_ledger(job_of(tiny_llama(2), {}), std::nullopt);
    const Ledger b = make_ledger(job_of(tiny_llama(3), {{"precision", "bf16"}}), std::nullopt);
    const auto forward = diff(a, b);
    const auto backward = diff(b, a);
    REQUIRE(forward.size() == backward.size());
    for (std::size_t i = 0; i < forward.size(); ++i) {
        CHECK(forward[i].path == backward[i].path);
        CHECK(forward[i].from == backward[i].to);
        CHECK(forward[i].to == backward[i].from);
    }
    for (const TermDelta& same : diff(a, a)) CHECK(same.from == same.to);
}

TEST_CASE("shards over all ranks restore the whole", "[ledger]") {
    const Ledger whole = make_ledger(job_of(tiny_llama(3), {}), std::nullopt);
    for (const char* sharding : {"zero1", "zero2", "zero3", "fsdp1", "fsdp2", "megatron-distributed-optimizer"})
        for (const int degree : {2, 3, 8}) {
            INFO(sharding << " over " << degree);
            const Job job = job_of(tiny_llama(3), {},
                                   "{\"data\": " + std::to_string(degree) + ", \"sharding\": \"" + sharding + "\"}");
            check_books(job);
            const Ledger part = make_ledger(job, std::nullopt);
            for (const char* path : {"optimizer_states/exp_avg"}) {
                const Bytes sum = at_peak(part, path) * degree;
                CHECK(sum >= at_peak(whole, path));
                // At most one row of the widest tensor a rank and tensor is padding.
                CHECK(sum - at_peak(whole, path) < at_peak(whole, path));
            }
        }
}

TEST_CASE("what is live at the peak, tensor by tensor", "[ledger]") {
    const Job job = job_of(tiny_llama(2), {{"micro_batch_size", "4"}, {"sequence_length", "256"}});
    const Ledger ledger = make_ledger(job, std::nullopt);
    std::map<std::string, Bytes> by_term;
    const Timeline timeline = make_timeline(job);
    for (const LiveTensor& tensor : live_at(timeline, *find_instant(timeline, "peak"))) {
        by_term[tensor.term] += tensor.bytes;
        by_term["allocator/rounding"] += tensor.rounding;
    }
    for (const Term& term : ledger.terms)
        if (term.total == Total::allocated && term.at_peak > Bytes(0)) CHECK(by_term[term.path] == term.at_peak);
}

TEST_CASE("reserved memory: what the allocator holds beyond live tensors", "[ledger]") {
    const Settings settings = {{"micro_batch_size", "8"}, {"sequence_length", "512"}, {"optimizer", "adamw"}};
    Job job = job_of(tiny_llama(4), settings);
    check_books(job);
    const Ledger ordinary = make_ledger(job, std::nullopt);
    REQUIRE(ordinary.reserved);
    CHECK(ordinary.reserved->point > ordinary.allocated.point);
    // Segments are whole multiples of 2 MiB.
    CHECK(ordinary.reserved->point.count() % (2 << 20) == 0);
    job.allocator.expandable_segments = true;
    const Ledger expandable = make_ledger(job, std::nullopt);
    CHECK(expandable.allocated.point == ordinary.allocated.point);
    CHECK(expandable.reserved->point.count() % (2 << 20) == 0);
    // A job of stated numbers has no tensors, hence no cache that could be simulated.
    CHECK_FALSE(ledger_of(R"({"membudget": 1, "terms": {"parameters": "1GB"}})").reserved);
}

TEST_CASE("whole free segments are given back before a request fails", "[ledger]") {
    // At the loss, where the peak is, what a block's recomputation needs is free.
    const Job job = job_of(tiny_llama(8), {{"sequence_length", "8192"},
                                            {"precision", "bf16"},
                                            {"optimizer", "adamw"},
                                            {"activation_checkpointing", "full"}});
    const Ledger free = make_ledger(job, std::nullopt);
    const Bytes cache = at_peak(free, "allocator/cached/releasable");
    REQUIRE(cache > Bytes(8 << 20));
    // Without a device nobody knows whether memory is short.
    CHECK(free.reserved->lower == free.reserved->point - cache);
    const auto on = [&](Bytes capacity) { return make_ledger(job, Budget{"budget", capacity, Bytes(0)}); };
    const Ledger ample = on(*free.device->upper + cache);
    CHECK(ample.verdict == Verdict::fits);
    CHECK(at_peak(ample, "allocator/cached/releasable") == cache);
    CHECK(ample.reserved->lower == ample.reserved->point);
    CHECK(ample.warnings.size() == free.warnings.size());

    // Over by the cache alone, at the worst end: a retry makes room, and the job fits.
    const Bytes outside = *free.device->upper - *free.reserved->upper;
    const Ledger tight = on(*free.device->upper - Bytes(cache.count() / 2));
    CHECK(tight.verdict == Verdict::fits);
    CHECK(*tight.device->upper <= tight.budget->capacity);
    CHECK(tight.headroom >= Bytes(0));
    // Less than what is live cannot do.
    const Ledger least = on(free.allocated.point + outside);
    CHECK(least.verdict != Verdict::fits);
    CHECK(*least.device->upper > least.budget->capacity);
    const Ledger none = on(free.allocated.point);
    CHECK(none.verdict == Verdict::over);
    CHECK(none.device->lower > none.budget->capacity);
    CHECK(none.headroom < Bytes(0));

    // Between fits and over there is one stretch of uncertainty: what lies outside the allocator.
    std::vector<Verdict> verdicts;
    for (Bytes capacity = free.allocated.point; capacity < *free.device->upper + cache; capacity += Bytes(16 << 20)) {
        const Ledger ledger = on(capacity);
        Bytes sum;
        for (const Term& term : ledger.terms) sum += term.at_peak;
        CHECK(sum == ledger.device->point);
        CHECK(ledger.device->lower <= ledger.device->point);
        CHECK(ledger.device->point <= *ledger.device->upper);
        if (verdicts.empty() || verdicts.back() != ledger.verdict) verdicts.push_back(ledger.verdict);
    }
    CHECK(verdicts == std::vector{Verdict::over, Verdict::uncertain, Verdict::fits});
}

TEST_CASE("the device total adds what lies outside the allocator", "[ledger]") {
    const Ledger one = make_ledger(job_of(tiny_llama(2), {}), std::nullopt);
    REQUIRE(one.device);
    CHECK(at_peak(one, "outside/context") > Bytes(0));
    CHECK(at_peak(one, "outside/nccl") == Bytes(0));
    CHECK(*one.device->upper - *one.reserved->upper > one.device->point - one.reserved->point);
    const Ledger many = make_ledger(job_of(tiny_llama(2), {}, R"({"data": 4})"), std::nullopt);
    CHECK(at_peak(many, "outside/nccl") > Bytes(0));
    // The verdict is judged on it.
    const Budget budget{"budget", one.device->lower - Bytes(1), Bytes(0)};
    CHECK(make_ledger(job_of(tiny_llama(2), {}), budget).verdict == Verdict::over);
}
