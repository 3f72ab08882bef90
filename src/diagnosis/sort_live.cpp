#include "diagnosis/sort_live.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "diagnosis/lives.hpp"

namespace membudget::diagnosis {
namespace {

/// Lines of unsorted blocks that an instant keeps; the rest stands in one.
constexpr std::size_t kMostUnsorted = 512;

/// Of what the number of blocks of a size decides. Parameters that are trained have as many gradients.
enum class Waits : std::uint8_t {
    no,
    lasting,   ///< never freed: a parameter, or a state beside it
    replaced,  ///< freed in an optimizer step, which may make another in its stead
    renewed,   ///< made in an optimizer step, outlives it
};

/// Where a life belongs.
struct Place {
    std::string_view term;     ///< empty: nowhere
    std::string_view rule;     ///< or why it cannot be sorted
    bool certain = false;
    std::string_view may_be = {};
    Waits waits = Waits::no;   ///< otherwise the place is where it belongs if no number tells more
};

constexpr std::string_view kNowhere;

Place by_category(TraceCategory category) {
    constexpr std::string_view kRule = "the file's own category";
    switch (category) {
        case TraceCategory::parameter: return {"parameters", kRule, true};
        case TraceCategory::optimizer_state: return {"optimizer_states", kRule, true};
        case TraceCategory::gradient: return {"gradients", kRule, true};
        case TraceCategory::input:
        case TraceCategory::activation: return {"activations", kRule, true};
        case TraceCategory::temporary: return {"temporaries", kRule, true};
        case TraceCategory::autograd_detail: return {kNowhere, "autograd_detail of the profiler"};
        case TraceCategory::unknown: break;
    }
    return {kNowhere, "of no category"};
}

Place lasting(std::string_view why) {
    return {.term = kNowhere, .rule = why, .may_be = "parameters", .waits = Waits::lasting};
}

Place of_forward(const Life& life, const PhaseRun& end) {
    const std::uint32_t later = end.forwards - std::min(life.born.forwards, end.forwards);
    if (later >= 2) return {kNowhere, "made in forward, kept over steps"};
    if (life.ended && life.died.phase == StackPhase::backward)
        return {"activations", "made in forward, freed by backward", true};
    return {"activations", "made in forward"};
}

Place of_backward(const Life& life, const PhaseRun& last) {
    if (life.ended && life.died.number == life.born.number)
        return {"temporaries", "made and freed in one backward"};
    if (!life.ended && last.number == life.born.number)
        return {.term = kNowhere,
                .rule = "made in the backward in which the trace ends",
                .may_be = "gradients"};
    return {"gradients", "made in backward, outlives it"};
}

Place of_optimizer(const Life& life) {
    if (life.ended && life.died.number == life.born.number)
        return {"temporaries", "made and freed in one optimizer step", true};
    return {.term = "optimizer_states",
            .rule = "made in the optimizer's step, outlives it",
            .waits = Waits::renewed};
}

/// Made during the trace at a stack without a word of a phase: the user's own lines.
Place of_elsewhere(const Life& life, const PhaseRun& end) {
    if (life.born.forwards == 0 && life.born.phase == StackPhase::none) {
        if (!life.ended) return lasting("made before the first forward, never freed");
        if (life.died.forwards == 0) return {kNowhere, "freed before the first forward"};
        if (life.died.phase == StackPhase::optimizer_step)
            return {.term = "activations",
                    .rule = "made outside the phases, gone within a step: inputs",
                    .waits = Waits::replaced};
    }
    if (end.forwards - std::min(life.born.forwards, end.forwards) >= 2)
        return {kNowhere, "made outside the phases, kept over steps"};
    if (life.born.phase == StackPhase::forward && life.ended && life.died.phase == StackPhase::backward)
        return {"activations", "made between forward and backward, freed by backward"};
    return {"activations", "made outside the phases, gone within a step: inputs"};
}

/// From before the trace: there is no stack, or that of a ring whose beginning is lost.
Place of_before(const Life& life) {
    if (life.by_zero_grad) return {"gradients", "from before the trace, freed by zero_grad", true};
    if (life.made_in == StackPhase::optimizer_step)
        return {.term = "optimizer_states",
                .rule = "from before the trace, made in the optimizer's step",
                .waits = Waits::renewed};
    if (life.made_in == StackPhase::backward && life.died.phase != StackPhase::backward)
        return {"gradients", "from before the trace, made in backward"};
    if (!life.ended && life.made_in <= StackPhase::other)
        return lasting("from before the trace, never freed");
    if (life.ended && life.died.phase == StackPhase::optimizer_step)
        return {.term = kNowhere,
                .rule = "from before the trace, freed in the optimizer's step",
                .waits = Waits::replaced};
    if (!life.ended) return {kNowhere, "from before the trace, made in forward, never freed"};
    if (life.died.phase == StackPhase::none) return {kNowhere, "freed before the first forward"};
    return {"activations", "from before the trace, freed in forward or backward"};
}

Place place_of(const Life& life, StackWords& words, const PhaseRun& last) {
    if (life.category != TraceCategory::unknown) return by_category(life.category);
    if (const TellingFrame* frame = words.told_by(life.stack))
        return {frame->term, frame->rule, true};
    if (life.before) return of_before(life);
    const PhaseRun& end = life.ended ? life.died : last;
    switch (life.made_in) {
        case StackPhase::none: return {kNowhere, "allocated without a stack"};
        case StackPhase::other: return of_elsewhere(life, end);
        case StackPhase::forward:
        case StackPhase::loss: return of_forward(life, end);
        case StackPhase::backward: return of_backward(life, last);
        case StackPhase::optimizer_step: return of_optimizer(life);
    }
    return {kNowhere, "allocated without a stack"};
}

/// The books of one instant.
class Books {
public:
    Books(const Lives& lives, StackWords& words, SortedInstant& into)
        : lives_(lives), words_(words), out_(into) {}

    void add(const std::vector<Life>& at) {
        std::map<std::int64_t, OfSize> sizes;
        for (const Life& life : at) {
            const Place place = place_of(life, words_, lives_.last);
            OfSize& of_size = sizes[life.size];
            if (place.waits != Waits::no) {
                Waiting& waiting = of_size.waiting[{place.waits, place.rule}];
                waiting.place = place;
                ++waiting.count;
                continue;
            }
            if (place.term == "parameters") ++of_size.parameters;
            if (place.term == "optimizer_states") ++of_size.states;
            book(place, life.size, 1);
        }
        for (auto& [size, of_size] : sizes) by_number(size, of_size);
    }

    void close(Bytes live) {
        Bytes seen(0);
        for (const auto& [path, term] : terms_) seen += term.bytes;
        for (const auto& [key, blocks] : unsorted_) seen += Bytes(std::get<0>(key)) * blocks;
        if (live > seen) unsorted_[{(live - seen).count(), "not in the events", {}}] += 1;
        out_.live = std::max(live, seen);
        for (auto& [path, term] : terms_) {
            term.path = path;
            for (auto& [rule, share] : rules_[path]) {
                share.name = rule;
                term.by.push_back(share);
            }
            std::ranges::stable_sort(term.by, std::greater{}, &LiveShare::bytes);
            out_.terms.push_back(std::move(term));
        }
        std::ranges::stable_sort(out_.terms, std::greater{}, &SortedTerm::bytes);
        close_unsorted();
    }

private:
    /// Blocks of one size that wait for the number of others of it.
    struct Waiting {
        Place place;
        std::int64_t count = 0;
    };
    struct OfSize {
        std::map<std::pair<Waits, std::string_view>, Waiting> waiting;
        std::int64_t parameters = 0, states = 0;  ///< sorted already
    };

    void book(const Place& place, std::int64_t size, std::int64_t count) {
        if (count == 0) return;
        if (place.term.empty()) {
            unsorted_[{size, place.rule, place.may_be}] += count;
            return;
        }
        const Bytes bytes = Bytes(size) * count;
        SortedTerm& term = terms_[std::string(place.term)];
        term.bytes += bytes;
        if (place.certain) term.certain += bytes;
        term.blocks += count;
        LiveShare& share = rules_[std::string(place.term)][std::string(place.rule)];
        share.bytes += bytes;
        share.blocks += count;
    }

    /// A parameter that is trained has a gradient of its size; what lasts beside it in whole multiples
    /// of that number are its states. What an optimizer step makes are states, and take the place of
    /// old ones; where no parameter lasts, it makes the parameters anew as well.
    void by_number(std::int64_t size, OfSize& of_size) {
        const auto count_in = [size](const Sizes& sizes) {
            const auto found = sizes.find(size);
            return found == sizes.end() ? std::int64_t{0} : found->second;
        };
        const std::int64_t gradients = count_in(lives_.left_by_backward);
        std::int64_t wanted = std::max<std::int64_t>(0, gradients - of_size.parameters);
        std::int64_t renewed = count_in(lives_.left_by_optimizer), lasting = 0;
        const auto take = [&](Waiting& waiting, std::int64_t& from, const Place& place) {
            const std::int64_t taken = std::min(waiting.count, from);
            book(place, size, taken);
            waiting.count -= taken;
            from -= taken;
            return taken;
        };
        for (auto& [key, waiting] : of_size.waiting) {  // in the order of `Waits`
            switch (key.first) {
                case Waits::no: break;
                case Waits::lasting:
                    take(waiting, wanted,
                         {"parameters", "lives throughout, as many of its size as gradients"});
                    lasting += waiting.count;
                    break;
                case Waits::replaced: {
                    Waiting made_anew{waiting.place, std::min(waiting.count, renewed)};
                    waiting.count -= made_anew.count;
                    renewed -= made_anew.count;
                    take(made_anew, wanted,
                         {"parameters", "made anew by the optimizer's step, as many of its size as gradients"});
                    of_size.states += made_anew.count;
                    book({"optimizer_states", "from before the trace, made anew by the optimizer's step"},
                         size, made_anew.count);
                    break;
                }
                case Waits::renewed:
                    take(waiting, wanted,
                         {"parameters", "made anew by the optimizer's step, as many of its size as gradients"});
                    of_size.states += waiting.count;
                    break;
            }
        }
        const bool are_states = gradients > 0 && of_size.states == 0 && lasting % gradients == 0;
        for (const auto& [key, waiting] : of_size.waiting)
            book(are_states && key.first == Waits::lasting
                     ? Place{"optimizer_states",
                             "lives throughout, whole multiples of the gradients of its size"}
                     : waiting.place,
                 size, waiting.count);
    }

    void close_unsorted() {
        for (const auto& [key, count] : unsorted_)
            out_.unsorted.push_back(
                {std::get<1>(key), std::get<2>(key), Bytes(std::get<0>(key)), count});
        std::ranges::stable_sort(out_.unsorted, std::greater{}, [](const UnsortedBlocks& blocks) {
            return blocks.size * blocks.blocks;
        });
        if (out_.unsorted.size() <= kMostUnsorted) return;
        Bytes rest(0);
        for (std::size_t i = kMostUnsorted - 1; i < out_.unsorted.size(); ++i)
            rest += out_.unsorted[i].size * out_.unsorted[i].blocks;
        out_.unsorted.resize(kMostUnsorted - 1);
        out_.unsorted.push_back({"of many sizes", {}, rest, 1});
    }

    const Lives& lives_;
    StackWords& words_;
    SortedInstant& out_;
    std::map<std::string, SortedTerm> terms_;
    std::map<std::string, std::map<std::string, LiveShare>> rules_;
    std::map<std::tuple<std::int64_t, std::string_view, std::string_view>, std::int64_t> unsorted_;
};

}  // namespace

std::vector<SortedInstant> sort_live(const TraceDevice& device, StackWords& words,
                                     std::span<const WantedInstant> wanted) {
    std::vector<std::size_t> events;
    for (const WantedInstant& instant : wanted) events.push_back(instant.event);
    const Lives lives = lives_at(device, words, events);
    std::vector<SortedInstant> out;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        SortedInstant instant{wanted[i].of, wanted[i].phase, {}, {}, {}};
        Books books(lives, words, instant);
        books.add(lives.at[i]);
        books.close(Bytes(wanted[i].live));
        out.push_back(std::move(instant));
    }
    return out;
}

}  // namespace membudget::diagnosis

namespace membudget {

std::string_view name_of(InstantOf instant) {
    constexpr std::string_view kNames[] = {"peak", "highest", "end"};
    return kNames[static_cast<std::size_t>(instant)];
}

Bytes unsorted_bytes(const SortedInstant& instant) {
    Bytes sum(0);
    for (const UnsortedBlocks& blocks : instant.unsorted) sum += blocks.size * blocks.blocks;
    return sum;
}

}  // namespace membudget
