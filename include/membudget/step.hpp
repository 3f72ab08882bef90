#pragma once

/// Part `step`: the training step of one rank as alloc/free events, summarised by `Profile`.
///
///     step = repeat(micro-batches, forward . loss . backward) . optimizer step
///     forward = stem . repeat(n, block) . head         backward = the same, reversed
///
/// Blocks repeat, micro-batches repeat, so the sequence is never unrolled unless someone asks.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "membudget/autograd.hpp"
#include "membudget/job.hpp"
#include "membudget/quantity.hpp"

namespace membudget {

/// Bytes per term, by TermId; shorter vectors are padded with zeros.
using TermBytes = std::vector<std::int64_t>;

/// At which point of a sequence something happens: the leaf, the event in it, and the copy of each
/// enclosing repeat, outermost first. `leaf` -1: before the first event.
struct Where {
    std::int32_t leaf = -1;
    std::int32_t event = -1;
    std::vector<std::int64_t> copies;
    friend bool operator==(const Where&, const Where&) = default;
};

/// A stretch of a step, summarised; sums run over terms.
///     net      bytes per term, after minus before
///     peak     highest total above the start, start included: peak >= max(0, sum net)
///     at_peak  bytes per term at that instant, sum at_peak = peak
///     where    the instant; the earliest of equals
///     max      per term its own highest above the start, >= 0
///     group_max  the same per first path component
struct Profile {
    TermBytes net, at_peak, max, group_max, group_net;
    std::int64_t total = 0;  ///< sum of net
    std::int64_t peak = 0;
    Where where;
};

/// a, and then b. Associative; the empty profile is its identity.
[[nodiscard]] Profile then(const Profile& a, const Profile& b);
/// n copies of p, one after the other; equals n-fold `then`. Requires n >= 0.
[[nodiscard]] Profile repeat(const Profile& p, std::int64_t n);
/// The profile of a list of events, by definition one event after the other.
[[nodiscard]] Profile profile_of(std::span<const Event> events, const TermTable& terms);

/// A step as a tree: leaves are event lists, inner nodes are sequences that repeat.
struct StepNode {
    Phase phase = Phase::forward;
    std::int64_t repeat = 1;
    std::vector<StepNode> children;      ///< inner node when not empty
    std::vector<Event> events;           ///< leaf
    int block = -1;                      ///< index of the model's block; -1: none
    std::int64_t first_copy = 0;         ///< layer index of copy 0
    std::int64_t copy_step = 1;          ///< +1 forward, -1 backward, or the pattern's length
    const char* pass = "";               ///< "forward", "recompute", "backward", "step", ...
    bool micro_batch = false;            ///< a copy is a whole micro-batch
};

/// How sure a term's number is.
enum class Basis { exact, derived, calibrated, assumed, stated };
[[nodiscard]] std::string_view name_of(Basis basis);

/// Which total a term belongs to, innermost first.
enum class Total { allocated, reserved, device, host };
[[nodiscard]] std::string_view name_of(Total total);

/// What is said about a term beside its bytes.
struct TermNote {
    Basis basis = Basis::derived;
    Total total = Total::allocated;
    std::string formula;   ///< with the numbers put in
    std::string source;
};

/// What a step keeps in the memory of the host, at its highest. All of it is live at one instant, the end of
/// forward: checkpoints have come by then, and copies of model states stay.
struct HostTerm {
    std::string path;
    std::int64_t bytes = 0;
    TermNote note;
    std::string_view lifetime = "whole step";
};

/// Which end of the intervals a run takes.
enum class Bound { lower, point, upper };

/// How finely terms are told apart.
enum class Detail {
    bytes,    ///< ledger terms, without the notes that people read: for searches
    terms,    ///< ledger terms
    tensors,  ///< ledger term + "\n" + op + "\n" + tensor: for `explain`
};

/// One simulated step.
struct Step {
    TermTable terms;
    std::vector<TermNote> notes;   ///< by TermId; empty ones with Detail::bytes
    StepNode root;
    Profile profile;               ///< of the whole, from nothing: the start's state is allocated first
    std::int64_t phase_peaks[4] = {0, 0, 0, 0};  ///< by Phase
    std::vector<HostTerm> host;    ///< empty: nothing is offloaded
    std::int64_t additive_total = 0;  ///< sum over first components of their own maximum
    bool open_above = false;       ///< a term is neither stated nor derivable
    std::vector<std::string> unknown_terms;  ///< first components that are missing
};

[[nodiscard]] Step simulate_step(const Job& job, Bound bound = Bound::point,
                                 Detail detail = Detail::terms);

/// The bytes of `job`'s step, whose micro-batches are those of `step`: that of a job with tensors which differs from
/// this one in nothing but its optimizer. Neither states terms, nor updates in backward or on the host.
[[nodiscard]] Step with_other_optimizer(const Step& step, const Job& job);

/// Calls `visit(event, leaf, copies)` for every event of the step, unrolled, in order.
using EventVisitor =
    std::function<void(const Event&, const StepNode& leaf, std::span<const std::int64_t> copies)>;
void unroll(const StepNode& root, const EventVisitor& visit);

/// A `Where`, resolved: the leaf (null before the first event), the copy of the innermost repeat that
/// is no micro-batch, and the micro-batch.
struct Location {
    const StepNode* leaf = nullptr;
    std::int64_t copy = 0;
    std::int64_t micro_batch = 0;
};
[[nodiscard]] Location locate(const StepNode& root, const Where& where);

}  // namespace membudget
