// The algebra of profiles; see step.hpp.

#include <algorithm>
#include <limits>

#include "membudget/step.hpp"
#include "step/fold.hpp"

namespace membudget {

namespace {

using detail::checked_add;
using detail::checked_mul;

/// Of a stretch that allocates nothing.
constexpr std::int64_t kNoLevel = std::numeric_limits<std::int64_t>::min();

void grow(TermBytes& bytes, std::size_t size) {
    if (bytes.size() < size) bytes.resize(size, 0);
}

/// Room for every term and group of `like`.
void grow(Profile& profile, std::size_t terms, std::size_t groups) {
    for (TermBytes* bytes : {&profile.net, &profile.at_peak, &profile.max}) grow(*bytes, terms);
    for (TermBytes* bytes : {&profile.group_net, &profile.group_max}) grow(*bytes, groups);
}

/// max and net of one kind of row (terms, groups), n copies of `part` after `sum`.
void append_rows(TermBytes& max, TermBytes& net, const TermBytes& part_max, const TermBytes& part_net,
                 std::int64_t n) {
    for (std::size_t i = 0; i < part_net.size(); ++i) {
        // Its maximum lies in the last copy if it grows from one to the next, else in the first.
        const std::int64_t before =
            checked_add(net[i], checked_mul(n - 1, std::max<std::int64_t>(0, part_net[i])));
        max[i] = std::max(max[i], checked_add(before, part_max[i]));
        net[i] = checked_add(net[i], checked_mul(n, part_net[i]));
    }
}

}  // namespace

void append(Profile& sum, const Profile& part, std::int64_t n) {
    MEMBUDGET_ENSURE(n >= 0, "a negative number of copies");
    if (n == 0) return;
    grow(sum, part.net.size(), part.group_net.size());
    const std::int64_t copy = part.total > 0 ? n - 1 : 0;
    const std::int64_t before = checked_add(sum.total, checked_mul(copy, part.total));
    if (const std::int64_t peak = checked_add(before, part.peak); peak > sum.peak) {
        sum.peak = peak;
        sum.at_peak = sum.net;
        for (std::size_t i = 0; i < part.net.size(); ++i)
            sum.at_peak[i] = checked_add(
                sum.at_peak[i],
                checked_add(i < part.at_peak.size() ? part.at_peak[i] : 0, checked_mul(copy, part.net[i])));
        sum.where = part.where;
        if (n != 1 && sum.where.leaf >= 0)
            sum.where.copies.insert(sum.where.copies.begin(), copy);
    }
    append_rows(sum.max, sum.net, part.max, part.net, n);
    append_rows(sum.group_max, sum.group_net, part.group_max, part.group_net, n);
    sum.total = checked_add(sum.total, checked_mul(n, part.total));
}

void append(Profile& sum, std::span<const Event> events, const TermTable& terms, std::int32_t leaf,
            std::int64_t& highest) {
    grow(sum, terms.size(), terms.groups());
    highest = kNoLevel;
    std::int64_t total = sum.total, peak = sum.peak;  // the loop's own: nothing else can change them
    const auto book = [&](TermId term, std::int64_t bytes) {
        const auto group = static_cast<std::size_t>(terms.group(term));
        const std::int64_t net = sum.net[term] = checked_add(sum.net[term], bytes);
        const std::int64_t group_net = sum.group_net[group] = checked_add(sum.group_net[group], bytes);
        total = checked_add(total, bytes);
        if (bytes <= 0) return;  // no maximum falls
        sum.max[term] = std::max(sum.max[term], net);
        sum.group_max[group] = std::max(sum.group_max[group], group_net);
    };
    bool rising = false;  // the last events reached a new peak that is not copied yet
    for (std::size_t i = 0; i < events.size(); ++i) {
        const Event& event = events[i];
        if (rising && event.bytes < 0) {
            sum.at_peak = sum.net;
            rising = false;
        }
        // An op's output and what the allocator adds to it appear at one instant.
        book(event.term, checked_mul(event.bytes, event.count));
        if (event.rounding != 0) book(kRounding, checked_mul(event.rounding, event.count));
        if (event.bytes <= 0) continue;
        highest = std::max(highest, total);
        if (total > peak) {
            peak = total;
            sum.where = {leaf, static_cast<std::int32_t>(i), {}};
            rising = true;
        }
    }
    if (rising) sum.at_peak = sum.net;
    sum.total = total;
    sum.peak = peak;
}

Profile then(const Profile& a, const Profile& b) {
    Profile out = a;
    append(out, b, 1);
    return out;
}

Profile repeat(const Profile& p, std::int64_t n) {
    Profile out;
    append(out, p, n);
    if (n == 1 && out.where.leaf >= 0) out.where.copies.insert(out.where.copies.begin(), 0);
    return out;
}

Profile profile_of(std::span<const Event> events, const TermTable& terms) {
    Profile out;
    std::int64_t highest = 0;
    append(out, events, terms, 0, highest);
    return out;
}

namespace {

class Folder {
public:
    explicit Folder(const TermTable& terms) : terms_(terms) {}

    /// Appends one copy of `node` to `sum`.
    void add(const StepNode& node, Fold& sum) {
        if (node.children.empty()) {
            std::int64_t highest = 0;
            const std::int64_t before = sum.profile.total;
            append(sum.profile, node.events, terms_, next_leaf_++, highest);
            // A phase begins at the level it finds. Only while the functions around the loss return is that
            // the loss's level, and forward has long begun.
            returns_ = node.phase == Phase::forward && (returns_ || previous_ == Phase::loss);
            if (const std::int64_t level = returns_ ? highest : std::max(before, highest); level > kNoLevel)
                raise(sum, node.phase, level);
            previous_ = node.phase;
        }
        for (const StepNode& child : node.children) {
            if (child.repeat == 1)
                add(child, sum);
            else
                add_copies(child, sum);
        }
    }

    /// Appends all copies of `node`, of which one is folded.
    void add_copies(const StepNode& node, Fold& sum) {
        Fold one;
        add(node, one);
        const std::int64_t copy = one.profile.total > 0 ? node.repeat - 1 : 0;
        const std::int64_t before =
            checked_add(sum.profile.total, checked_mul(copy, one.profile.total));
        for (const Phase phase : kPhases)
            if (const auto& peak = one.phases[static_cast<std::size_t>(phase)]; peak && node.repeat > 0)
                raise(sum, phase, checked_add(before, *peak));
        append(sum.profile, one.profile, node.repeat);
    }

private:
    static void raise(Fold& sum, Phase phase, std::int64_t level) {
        auto& peak = sum.phases[static_cast<std::size_t>(phase)];
        if (!peak || level > *peak) peak = level;
    }

    const TermTable& terms_;
    std::int32_t next_leaf_ = 0;
    std::optional<Phase> previous_;  ///< of the leaf before
    bool returns_ = false;           ///< forward goes on after the loss
};

}  // namespace

Fold fold(const StepNode& root, const TermTable& terms) {
    Fold out;
    Folder folder(terms);
    if (root.repeat == 1)
        folder.add(root, out);
    else
        folder.add_copies(root, out);
    return out;
}

}  // namespace membudget
