#include "ledger/outside.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace membudget {

namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// One thing that takes memory outside the allocator.
struct Outside {
    std::string_view path;
    /// How many of it a rank has.
    std::int64_t (*instances)(const Job& job);
    std::int64_t lower, point, upper;   ///< bytes of each
    std::string_view what;              ///< for the formula
    std::string_view source;
};

std::int64_t one(const Job&) { return 1; }

/// A communicator per group of data-parallel ranks that speaks.
std::int64_t data_communicators(const Job& job) { return (job.data.shard > 1) + (job.data.replicate > 1); }

// NCCL 2.30.7 src/init.cc, src/transport/p2p.cc: a channel pays 10 MiB per inbound and 2 MiB per
// outbound connection of a ring, and as much again for a tree.
constexpr std::int64_t kChannel = 12 * kMiB;

constexpr Outside kOutside[] = {
    {"outside/context", one, 300 * kMiB, 550 * kMiB, 1000 * kMiB,
     "CUDA context with the kernels that were loaded",
     "reports of 287 MB (pytorch#86509) to 616 MiB (LMCache#4019) after the first tensor with lazy loading; over "
     "1000 MB without (pytorch#107667); modules that load later come on top"},
    {"outside/nccl", data_communicators, 2 * kChannel, 24 * 2 * kChannel, 1'600'000'000,
     "NCCL communicator: channels x 12 MiB for ring and for tree; 2 to 24 channels",
     "NCCL 2.30.7 src/init.cc, src/transport/p2p.cc; reports of 544 to 688 MB on 4 GPUs (nccl#964) and "
     "1.6 GB (nccl#864)"},
};

}  // namespace

std::vector<Term> outside_terms(const Job& job) {
    std::vector<Term> out;
    for (const Outside& row : kOutside) {
        const std::int64_t n = row.instances(job);
        const bool stated = std::any_of(job.stated.begin(), job.stated.end(), [&](const ResolvedTerm& term) {
            return is_at_or_below(row.path, term.path);
        });
        if (n == 0 || stated) continue;
        Term term;
        term.path = row.path;
        term.total = Total::device;
        term.at_peak = term.max = Bytes(row.point) * n;
        term.lower = Bytes(row.lower) * n;
        term.upper = Bytes(row.upper) * n;
        term.basis = Basis::assumed;
        term.lifetime = "whole step";
        term.formula = n == 1 ? std::string(row.what) : fmt::format("{} x {}", n, row.what);
        term.source = row.source;
        out.push_back(std::move(term));
    }
    return out;
}

}  // namespace membudget
