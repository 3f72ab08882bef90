// A step's events as requests and frees; see allocator.hpp.

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "membudget/allocator.hpp"
#include "membudget/step.hpp"

namespace membudget {

namespace {

/// Which request a free answers. A step knows its tensors by size and role only: of equal ones in
/// the same block the latest goes, else the latest of the same size and term.
struct TensorKey {
    int block = -1;
    std::int32_t storage = -1;
    std::uint32_t term = 0;
    std::int64_t bytes = 0;
    friend bool operator==(const TensorKey&, const TensorKey&) = default;
};

struct TensorKeyHash {
    std::size_t operator()(const TensorKey& key) const {
        auto hash = static_cast<std::size_t>(key.bytes);
        for (const std::size_t part : {static_cast<std::size_t>(key.block), static_cast<std::size_t>(key.storage),
                                       static_cast<std::size_t>(key.term)})
            hash = (hash ^ part) * 0x9E3779B97F4A7C15ULL + (hash >> 29U);
        return hash;
    }
};

/// An event, its tensor's place in the tables found.
struct Action {
    const Event* event = nullptr;
    std::int64_t bytes = 0;      ///< requested, per tensor; negative: freed
    std::int64_t counted = 0;    ///< with the ledger's rounding
    std::int32_t count = 1;
    std::uint32_t exact = 0, loose = 0;
};

struct HeldTensor {
    CachingAllocator::Handle handle = 0;
    bool freed = false;
};

using Index = std::unordered_map<TensorKey, std::uint32_t, TensorKeyHash>;
using Stacks = std::vector<std::vector<std::uint32_t>>;

std::uint32_t index_of(Index& index, Stacks& stacks, const TensorKey& key) {
    const auto [at, added] = index.try_emplace(key, static_cast<std::uint32_t>(stacks.size()));
    if (added) stacks.emplace_back();
    return at->second;
}

/// Steps after the first that are replayed at most; they settle in the second or third.
constexpr int kMostSteps = 6;

std::int64_t start_level(const Step& step) {
    std::int64_t sum = 0;
    if (!step.root.children.empty())
        for (const Event& event : step.root.children.front().events)
            sum += (event.bytes + event.rounding) * event.count;
    return sum;
}

}  // namespace

struct StepReplay::State {
    explicit State(const AllocatorSettings& s, AllocatorHooks h)
        : settings(s), hooks(std::move(h)), allocator(settings, hooks) {}

    void run(const StepNode& node, const TermTable& terms);
    const std::vector<Action>& actions_of(const StepNode& node, const TermTable& terms);
    void perform(const Action& action, const StepNode& node);
    void free(const Action& action, const StepNode& node);

    AllocatorSettings settings;
    AllocatorHooks hooks;
    CachingAllocator allocator;
    StepReplay::Visitor allocated, freed;
    std::unordered_map<const StepNode*, std::vector<Action>> leaves;   ///< of the step that runs
    std::unordered_map<std::string, std::uint32_t> term_numbers;
    Index exact_index, loose_index;
    Stacks exact, loose;             ///< live tensors by key, the latest last
    std::vector<HeldTensor> tensors;
    std::int64_t level = 0;
    int steps = 0;
    bool matched = true;
    std::optional<FailedRequest> failed;
};

const std::vector<Action>& StepReplay::State::actions_of(const StepNode& node, const TermTable& terms) {
    const auto [at, added] = leaves.try_emplace(&node);
    if (!added) return at->second;
    std::vector<Action>& out = at->second;
    out.reserve(node.events.size());
    for (const Event& event : node.events) {
        if (event.bytes == 0 || event.count == 0) continue;
        const std::int64_t counted = event.bytes + event.rounding;
        // A shard and its padding are one tensor.
        if (event.label.what == std::string_view("padding") && !out.empty() && out.back().count == event.count &&
            (out.back().bytes > 0) == (event.bytes > 0)) {
            out.back().bytes += event.bytes;
            out.back().counted += counted;
            continue;
        }
        // Tables of different steps number terms differently: paths are what they share.
        const std::uint32_t term =
            term_numbers.try_emplace(terms.path(event.term), static_cast<std::uint32_t>(term_numbers.size()))
                .first->second;
        const TensorKey key{node.block, event.storage, term, std::abs(event.bytes)};
        const TensorKey any{-1, -1, key.term, key.bytes};
        out.push_back({&event, event.bytes, counted, event.count, index_of(exact_index, exact, key),
                       index_of(loose_index, loose, any)});
    }
    return out;
}

void StepReplay::State::run(const StepNode& node, const TermTable& terms) {
    const std::vector<Action>* actions = node.events.empty() ? nullptr : &actions_of(node, terms);
    for (std::int64_t copy = 0; copy < node.repeat && !failed; ++copy) {
        const bool may_settle = node.micro_batch && node.repeat > 2;
        const std::uint64_t before = may_settle ? allocator.layout() : 0;
        for (const StepNode& child : node.children) run(child, terms);
        if (actions != nullptr)
            for (const Action& action : *actions) {
                perform(action, node);
                if (failed) return;
            }
        // A micro-batch that leaves the memory as it found it does so again.
        if (may_settle && allocator.layout() == before) return;
    }
}

void StepReplay::State::perform(const Action& action, const StepNode& node) {
    for (std::int32_t i = 0; i < action.count; ++i) {
        level += action.counted;
        if (action.bytes < 0) {
            free(action, node);
            continue;
        }
        const auto handle = allocator.allocate(action.bytes);
        if (!handle) {
            const std::int64_t rounded = rounded_request(action.bytes, settings);
            const std::int64_t page = settings.large_segment_size;
            const std::int64_t more = settings.expandable_segments ? detail::ceil_div(rounded, page) * page
                                                                   : segment_size(rounded, settings);
            failed = {.bytes = action.bytes,
                      .live = level - action.counted,
                      .held = allocator.totals().reserved,
                      .needed = allocator.totals().reserved + more,
                      .phase = node.phase};
            return;
        }
        const auto number = static_cast<std::uint32_t>(tensors.size());
        tensors.push_back({*handle, false});
        exact[action.exact].push_back(number);
        loose[action.loose].push_back(number);
        if (allocated) allocated(*handle, *action.event, node);
    }
}

void StepReplay::State::free(const Action& action, const StepNode& node) {
    for (std::vector<std::uint32_t>* candidates : {&exact[action.exact], &loose[action.loose]}) {
        while (!candidates->empty()) {
            HeldTensor& tensor = tensors[candidates->back()];
            candidates->pop_back();
            if (tensor.freed) continue;
            tensor.freed = true;
            if (freed) freed(tensor.handle, *action.event, node);
            allocator.free(tensor.handle);
            return;
        }
    }
    matched = false;
}

StepReplay::StepReplay(const AllocatorSettings& settings, AllocatorHooks hooks)
    : state_(std::make_unique<State>(settings, std::move(hooks))) {}
StepReplay::~StepReplay() = default;

void StepReplay::on_allocate(Visitor visit) { state_->allocated = std::move(visit); }
void StepReplay::on_free(Visitor visit) { state_->freed = std::move(visit); }

void StepReplay::run(const Step& step) {
    state_->leaves.clear();
    state_->run(step.root, step.terms);
    ++state_->steps;
}

void StepReplay::run_again(const Step& step) {
    state_->leaves.clear();
    for (std::size_t i = 1; i < step.root.children.size(); ++i) state_->run(step.root.children[i], step.terms);
    ++state_->steps;
}

void StepReplay::clear() {
    auto fresh = std::make_unique<State>(state_->settings, state_->hooks);
    fresh->allocated = std::move(state_->allocated);
    fresh->freed = std::move(state_->freed);
    state_ = std::move(fresh);
}

const CachingAllocator& StepReplay::allocator() const { return state_->allocator; }
std::int64_t StepReplay::level() const { return state_->level; }
int StepReplay::steps() const { return state_->steps; }
bool StepReplay::matched() const { return state_->matched; }
const std::optional<FailedRequest>& StepReplay::failed() const { return state_->failed; }

void settle(StepReplay& replay, const Step& first, const Step& step) {
    replay.run(first);
    if (replay.failed()) return;
    if (!replay.matched() || replay.level() != start_level(step)) {
        replay.clear();
        replay.run(step);
    }
    for (int i = 0; i < kMostSteps; ++i) {
        const std::uint64_t before = replay.allocator().layout();
        replay.run_again(step);
        if (replay.failed() || replay.allocator().layout() == before) return;
    }
}

}  // namespace membudget
