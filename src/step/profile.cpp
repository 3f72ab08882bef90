// The algebra of profiles; see step.hpp.

#include <algorithm>

#include "membudget/step.hpp"

namespace membudget {

namespace {

using detail::checked_add;
using detail::checked_mul;

void grow(TermBytes& bytes, std::size_t size) {
    if (bytes.size() < size) bytes.resize(size, 0);
}

std::int64_t value(const TermBytes& bytes, std::size_t i) { return i < bytes.size() ? bytes[i] : 0; }

/// a + n * b, term by term.
TermBytes plus(const TermBytes& a, std::int64_t n, const TermBytes& b) {
    TermBytes out(std::max(a.size(), b.size()), 0);
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = checked_add(value(a, i), checked_mul(n, value(b, i)));
    return out;
}

/// max(a, net + b), term by term: the higher of a's own maximum and b's, which starts after a.
TermBytes highest(const TermBytes& a, const TermBytes& net, const TermBytes& b) {
    TermBytes out(std::max({a.size(), net.size(), b.size()}), 0);
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = std::max(value(a, i), checked_add(value(net, i), value(b, i)));
    return out;
}

TermBytes highest_repeated(const TermBytes& max, const TermBytes& net, std::int64_t n) {
    TermBytes out = max;
    grow(out, net.size());
    for (std::size_t i = 0; i < net.size(); ++i)
        out[i] = checked_add(out[i], checked_mul(n - 1, std::max<std::int64_t>(0, net[i])));
    return out;
}

}  // namespace

Profile then(const Profile& a, const Profile& b) {
    Profile out;
    out.net = plus(a.net, 1, b.net);
    out.group_net = plus(a.group_net, 1, b.group_net);
    out.total = checked_add(a.total, b.total);
    out.max = highest(a.max, a.net, b.max);
    out.group_max = highest(a.group_max, a.group_net, b.group_max);
    const std::int64_t later = checked_add(a.total, b.peak);
    if (a.peak >= later) {
        out.peak = a.peak;
        out.at_peak = a.at_peak;
        out.where = a.where;
    } else {
        out.peak = later;
        out.at_peak = plus(a.net, 1, b.at_peak);
        out.where = b.where;
    }
    return out;
}

Profile repeat(const Profile& p, std::int64_t n) {
    MEMBUDGET_ENSURE(n >= 0, "a negative number of copies");
    if (n == 0) return {};
    Profile out = p;
    const std::int64_t copy = p.total > 0 ? n - 1 : 0;
    for (std::int64_t& bytes : out.net) bytes = checked_mul(bytes, n);
    for (std::int64_t& bytes : out.group_net) bytes = checked_mul(bytes, n);
    out.total = checked_mul(p.total, n);
    out.peak = checked_add(p.peak, checked_mul(copy, p.total));
    if (copy > 0) out.at_peak = plus(p.at_peak, copy, p.net);
    if (out.where.leaf >= 0) out.where.copies.insert(out.where.copies.begin(), copy);
    out.max = highest_repeated(p.max, p.net, n);
    out.group_max = highest_repeated(p.group_max, p.group_net, n);
    return out;
}

Profile profile_of(std::span<const Event> events, const TermTable& terms) {
    Profile out;
    out.net.assign(terms.size(), 0);
    out.max.assign(terms.size(), 0);
    out.group_net.assign(terms.groups(), 0);
    out.group_max.assign(terms.groups(), 0);
    const auto book = [&](TermId term, std::int64_t bytes) {
        const auto group = static_cast<std::size_t>(terms.group(term));
        out.net[term] = checked_add(out.net[term], bytes);
        out.group_net[group] = checked_add(out.group_net[group], bytes);
        out.total = checked_add(out.total, bytes);
        out.max[term] = std::max(out.max[term], out.net[term]);
        out.group_max[group] = std::max(out.group_max[group], out.group_net[group]);
    };
    bool rising = false;  // the last events reached a new peak that is not copied yet
    for (std::size_t i = 0; i < events.size(); ++i) {
        const Event& event = events[i];
        if (rising && event.bytes < 0) {
            out.at_peak = out.net;
            rising = false;
        }
        // An op's output and what the allocator adds to it appear at one instant.
        book(event.term, checked_mul(event.bytes, event.count));
        if (event.rounding != 0) book(kRounding, checked_mul(event.rounding, event.count));
        if (out.total > out.peak) {
            out.peak = out.total;
            out.where.leaf = 0;
            out.where.event = static_cast<std::int32_t>(i);
            rising = true;
        }
    }
    if (rising) out.at_peak = out.net;
    return out;
}

}  // namespace membudget
