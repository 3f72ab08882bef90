#include "diagnosis/sorted_terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace membudget::diagnosis {
namespace {

constexpr std::string_view kBySpec = "has the size of a tensor of the spec";
constexpr std::size_t kMostRules = 3;

SortedTerm& term_of(SortedInstant& instant, std::string_view path) {
    const auto found = std::ranges::find(instant.terms, path, &SortedTerm::path);
    if (found != instant.terms.end()) return *found;
    instant.terms.push_back({std::string(path), {}, {}, 0, {}});
    return instant.terms.back();
}

void add_by_spec(SortedInstant& instant, std::string_view path, Bytes size, std::int64_t count) {
    SortedTerm& term = term_of(instant, path);
    auto rule = std::ranges::find(term.by, kBySpec, &LiveShare::name);
    if (rule == term.by.end()) {
        term.by.push_back({std::string(kBySpec), {}, 0});
        rule = std::prev(term.by.end());
    }
    term.bytes += size * count;
    term.blocks += count;
    rule->bytes += size * count;
    rule->blocks += count;
}

std::string listed(std::vector<LiveShare> shares) {
    std::ranges::stable_sort(shares, std::greater{}, &LiveShare::bytes);
    if (shares.size() == 1) return shares.front().name;
    std::string out;
    Bytes rest(0);
    for (std::size_t i = 0; i < shares.size(); ++i) {
        if (i >= kMostRules) {
            rest += shares[i].bytes;
            continue;
        }
        out += fmt::format("{}{} {}", out.empty() ? "" : "; ",
                           format_bytes(shares[i].bytes, Units::decimal), shares[i].name);
    }
    if (rest != Bytes(0))
        out += fmt::format("; {} otherwise", format_bytes(rest, Units::decimal));
    return out;
}

}  // namespace

SortedInstant by_size_of_spec(SortedInstant instant, const ExpectedTerms& expected) {
    // Tensors that the spec has and the trace has not shown yet; of what is sorted already only the sum
    // counts, since its sizes are not kept.
    struct Missing {
        std::map<Bytes, std::int64_t> sizes;
        Bytes room;
    };
    std::map<std::string_view, Missing> missing;
    for (const auto& [group, of_group] : expected.lasting) {
        Missing& of = missing[group];
        for (const auto& [size, count] : of_group) {
            of.sizes[size] += count;
            of.room += size * count;
        }
        of.room -= term_of(instant, group).bytes;
    }
    for (UnsortedBlocks& blocks : instant.unsorted) {
        if (blocks.may_be.empty()) continue;
        // Gradients have the sizes of parameters.
        const bool gradients = blocks.may_be == "gradients";
        for (const std::string_view group : {"parameters", "optimizer_states"}) {
            if (gradients && group != "parameters") break;
            Missing& of = missing[group];
            const auto of_size = of.sizes.find(blocks.size);
            if (of_size == of.sizes.end() || blocks.size <= Bytes(0)) continue;
            std::int64_t taken = std::min(blocks.blocks, of_size->second);
            if (!gradients)
                taken = std::clamp<std::int64_t>(of.room.count() / blocks.size.count(), 0, taken);
            if (taken == 0) continue;
            add_by_spec(instant, gradients ? "gradients" : group, blocks.size, taken);
            if (!gradients) {
                of_size->second -= taken;
                of.room -= blocks.size * taken;
            }
            blocks.blocks -= taken;
        }
    }
    std::erase_if(instant.unsorted, [](const UnsortedBlocks& blocks) { return blocks.blocks == 0; });
    std::erase_if(instant.terms, [](const SortedTerm& term) { return term.blocks == 0; });
    std::ranges::stable_sort(instant.terms, std::greater{}, &SortedTerm::bytes);
    return instant;
}

std::string rules_of(std::span<const LiveShare> rules) {
    return listed({rules.begin(), rules.end()});
}

std::string reasons_of(std::span<const UnsortedBlocks> blocks) {
    std::vector<LiveShare> reasons;
    for (const UnsortedBlocks& one : blocks) {
        auto reason = std::ranges::find(reasons, one.why, &LiveShare::name);
        if (reason == reasons.end()) {
            reasons.push_back({std::string(one.why), {}, 0});
            reason = std::prev(reasons.end());
        }
        reason->bytes += one.size * one.blocks;
        reason->blocks += one.blocks;
    }
    return listed(std::move(reasons));
}

}  // namespace membudget::diagnosis
