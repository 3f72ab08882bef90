#include "diagnosis/lives.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace membudget::diagnosis {
namespace {

/// What outlives a pass is counted at its end; a file of more passes than this shows nothing new.
constexpr int kMostPasses = 64;

class Follow {
public:
    Follow(const TraceDevice& device, StackWords& words, std::span<const std::size_t> events,
           Lives& into)
        : device_(device), words_(words), out_(into) {
        out_.at.resize(events.size());
        for (std::size_t i = 0; i < events.size(); ++i) wanted_.emplace(events[i], i);
        // What lived before the first event is live after it, or freed by it.
        for (const LiveBlock& block : before_first()) {
            Life life{.size = block.requested, .stack = block.stack, .before = true};
            life.made_in = words_.phase_of(block.stack);
            live_[block.address] = {life, {}};
        }
    }

    void run() {
        // What passes before the trace left behind, as far as their stacks are known.
        count_left(out_.left_by_backward, StackPhase::backward);
        count_left(out_.left_by_optimizer, StackPhase::optimizer_step);
        for (std::size_t i = 0; i < device_.events.size(); ++i) {
            step_over(device_.events[i]);
            const auto [first, last] = wanted_.equal_range(i);
            for (auto it = first; it != last; ++it) keep(it->second);
        }
        if (now_.phase == StackPhase::optimizer_step) count_left(out_.left_by_optimizer, now_.phase);
        out_.last = now_;
    }

private:
    /// Where a life was kept: instant and index.
    using Places = std::vector<std::pair<std::size_t, std::size_t>>;
    struct Followed {
        Life life;
        Places places;
    };

    [[nodiscard]] std::vector<LiveBlock> before_first() const {
        std::vector<LiveBlock> out;
        constexpr auto kBefore = std::numeric_limits<std::size_t>::max();
        if (device_.events.empty()) return live_after(device_, 0);
        for (const LiveBlock& block : live_after(device_, 0))
            if (block.event == kBefore) out.push_back(block);
        const TraceEvent first = device_.events[0];
        if (first.action == TraceAction::free_completed)
            out.push_back({.address = first.address, .requested = first.size, .stack = 0});
        return out;
    }

    void step_over(const TraceEvent& event) {
        if (event.action == TraceAction::alloc) {
            const StackPhase phase = words_.phase_after(now_.phase, event.stack);
            if (phase >= StackPhase::forward) enter(phase);
            live_[event.address] = {{.size = event.size,
                                     .stack = event.stack,
                                     .category = event.category,
                                     .born = now_,
                                     .made_in = phase},
                                    {}};
        } else if (event.action == TraceAction::free_completed) {
            const auto found = live_.find(event.address);
            if (found == live_.end()) return;
            for (const auto& [instant, index] : found->second.places) {
                Life& life = out_.at[instant][index];
                life.ended = true;
                life.died = now_;
                life.by_zero_grad = words_.in_zero_grad(event.stack);
            }
            live_.erase(found);
        }
    }

    void enter(StackPhase phase) {
        if (phase == StackPhase::loss) phase = StackPhase::forward;
        if (phase == now_.phase) return;
        if (now_.phase == StackPhase::backward) count_left(out_.left_by_backward, now_.phase);
        if (now_.phase == StackPhase::optimizer_step)
            count_left(out_.left_by_optimizer, now_.phase);
        ++now_.number;
        now_.phase = phase;
        if (phase == StackPhase::forward) ++now_.forwards;
    }

    void count_left(Sizes& most, StackPhase made_in) {
        if (++counted_[made_in] > kMostPasses) return;
        Sizes sizes;
        std::int64_t sum = 0, most_sum = 0;
        for (const auto& [address, followed] : live_)
            if (followed.life.made_in == made_in) {
                ++sizes[followed.life.size];
                sum = detail::checked_add(sum, followed.life.size);
            }
        for (const auto& [size, count] : most) most_sum += size * count;
        if (sum > most_sum) most = std::move(sizes);
    }

    void keep(std::size_t instant) {
        std::vector<Life>& lives = out_.at[instant];
        lives.reserve(live_.size());
        for (auto& [address, followed] : live_) {
            followed.places.emplace_back(instant, lives.size());
            lives.push_back(followed.life);
        }
    }

    const TraceDevice& device_;
    StackWords& words_;
    Lives& out_;
    std::multimap<std::size_t, std::size_t> wanted_;
    std::unordered_map<std::uint64_t, Followed> live_;
    PhaseRun now_;
    std::map<StackPhase, int> counted_;
};

}  // namespace

Lives lives_at(const TraceDevice& device, StackWords& words, std::span<const std::size_t> events) {
    Lives out;
    Follow(device, words, events, out).run();
    return out;
}

}  // namespace membudget::diagnosis
