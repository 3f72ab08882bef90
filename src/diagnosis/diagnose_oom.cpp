#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "diagnosis/finding.hpp"

/// The numbers of one message against each other. PyTorch's: capacity T, free F, allocated A, reserved
/// R = A + U. What is neither free nor reserved, T - F - R, is outside this allocator.

namespace membudget {
namespace diagnosis {

Finding finding(std::string_view name, std::vector<std::string> evidence, std::string subject) {
    const FindingKind* kind = finding_kinds().find(name);
    MEMBUDGET_ENSURE(kind != nullptr, "every finding has a row");
    return {kind, std::move(subject), std::move(evidence)};
}

std::string size_text(Bytes bytes) {
    return fmt::format("{} ({})", format_bytes(bytes, Units::decimal), format_bytes(bytes, Units::binary));
}

}  // namespace diagnosis

namespace {

using namespace diagnosis;

/// A process that owns less than this beyond its tensors is ordinary: a CUDA context with the
/// kernels of the libraries takes a few hundred MiB, one communicator as much again.
constexpr Bytes kOrdinaryOutside = Bytes(std::int64_t{2} << 30);
constexpr int kNotable = 10;       ///< hundredths of the capacity that are worth a finding
constexpr int kMuchCached = 25;    ///< hundredths of reserved in no tensor: more than slack
constexpr int kHalf = 50;

std::string binary(Bytes bytes) { return format_bytes(bytes, Units::binary); }

class OomDiagnosis {
public:
    OomDiagnosis(const OomMessage& message, const Dimensions& dimensions)
        : message_(message), dimensions_(dimensions) {}

    std::vector<Finding> run() {
        if (message_.wording == "mps") metal();
        else if (message_.wording == "xla-tpu") tpu();
        else if (message_.wording == "xla-bfc") bfc();
        else if (message_.wording == "pytorch-summary") summary();
        else totals();
        moment();
        if (out_.empty()) undecidable();
        candidates();
        return std::move(out_);
    }

private:
    void add(std::string_view name, std::vector<std::string> evidence) {
        out_.push_back(finding(name, std::move(evidence)));
    }

    [[nodiscard]] std::string asked() const {
        return message_.requested ? fmt::format("asked: {}", binary(message_.requested->bytes))
                                  : "the size that was asked for is not in the message";
    }

    void totals() {
        if (!message_.capacity || !message_.free || !message_.allocated) return;
        const Bytes capacity = message_.capacity->bytes, free = message_.free->bytes;
        const Bytes allocated = message_.allocated->bytes;
        const Bytes reserved = reserved_of(message_).value_or(allocated);
        const Bytes unallocated = reserved - allocated;
        const Bytes request = message_.requested ? message_.requested->bytes : Bytes(0);
        const std::string state = fmt::format("capacity {}, free {}, allocated {}, cached {}",
                                              binary(capacity), binary(free), binary(allocated),
                                              binary(unallocated));
        if (limited(reserved, request)) return;
        if (allocated > capacity || reserved > capacity) {
            add("oom.spill", {state, fmt::format("reserved {} of a capacity of {}",
                                                 binary(reserved), binary(capacity))});
            return;
        }
        if (request > capacity ||
            (request > capacity - allocated && at_least(request, kHalf, capacity))) {
            add("oom.request_too_large",
                {asked(), state,
                 fmt::format("with all but the live tensors gone, {} would be free",
                             binary(capacity - allocated))});
            return;
        }
        if (request > Bytes(0) && free > request + message_.free->step) {
            add("oom.free_exceeds_request", {asked(), state});
            return;
        }
        outside(capacity, free, reserved);
        const bool covers = request > Bytes(0) && free + unallocated >= request;
        const std::string pieces = fmt::format(
            "free and cached together: {}, {} the request; cached is {:.0f} % of reserved",
            binary(free + unallocated), covers ? "not less than" : "less than",
            100 * ratio(unallocated, reserved));
        const std::string stuck = "whole cached segments are freed before the message is written: "
                                  "what is cached now lies beside live tensors";
        if (covers && at_least(unallocated, kMuchCached, reserved))
            return add("oom.fragmentation", {asked(), state, pieces, stuck});
        if (out_.empty() || allocated > capacity - allocated)
            add("oom.capacity", {asked(), state, pieces});
        if (covers && unallocated >= request)
            add("oom.some_fragmentation", {pieces, stuck});
    }

    bool limited(Bytes reserved, Bytes request) {
        if (!message_.allowed) return false;
        const Bytes allowed = message_.allowed->bytes;
        if (message_.capacity && allowed >= message_.capacity->bytes) return false;
        if (reserved + request + message_.allowed->step <= allowed) return false;
        add("oom.limit",
            {fmt::format("allowed: {}, reserved: {}", binary(allowed), binary(reserved)), asked()});
        return true;
    }

    /// Memory of others, then of this process outside the allocator.
    void outside(Bytes capacity, Bytes free, Bytes reserved) {
        Bytes others(0);
        std::optional<Bytes> own;
        if (message_.this_process) own = message_.this_process->bytes;
        for (const ProcessUse& process : message_.processes) {
            // In a container the message calls this process by the number it has outside.
            if (!own && process.used.bytes + process.used.step >= reserved)
                own = process.used.bytes;
            else
                others += process.used.bytes;
        }
        if (at_least(others, kNotable, capacity))
            add("oom.other_processes",
                {fmt::format("{} of {} are held by {} other process{}", binary(others),
                             binary(capacity), message_.processes.size(),
                             message_.processes.size() == 1 ? "" : "es")});
        const Bytes outside = own ? *own - reserved : capacity - free - reserved - others;
        if (outside < kOrdinaryOutside || !at_least(outside, kNotable, capacity)) return;
        add("oom.outside_allocator",
            {own ? fmt::format(
                       "this process holds {}, its allocator {}: {} are neither tensors nor "
                       "cache",
                       binary(*own), binary(reserved), binary(outside))
                 : fmt::format(
                       "capacity {} - free {} - reserved {} = {} outside this allocator, in "
                       "this process or in others",
                       binary(capacity), binary(free), binary(reserved), binary(outside))});
    }

    void metal() {
        if (!message_.allocated || !message_.allowed || !message_.other_allocations) return;
        const Bytes own = message_.allocated->bytes, other = message_.other_allocations->bytes;
        const std::string state = fmt::format("allocated {}, other allocations {}, allowed {}",
                                              binary(own), binary(other),
                                              binary(message_.allowed->bytes));
        add(other > own ? "oom.watermark" : "oom.capacity", {asked(), state});
    }

    void tpu() {
        if (!message_.allocated || !message_.capacity) return;
        const std::string state = fmt::format("the program needs {} of {}",
                                              binary(message_.allocated->bytes),
                                              binary(message_.capacity->bytes));
        if (!message_.buffers.empty()) {
            const XlaBuffer& largest = message_.buffers.front();
            const auto& extents = largest.extents;
            if (extents.size() >= 3 && extents.back() == extents[extents.size() - 2])
                add("oom.attention_scores",
                    {state, fmt::format("largest buffer: {}, {}", largest.shape,
                                        binary(largest.size.bytes))});
        }
        add("oom.capacity", {state});
    }

    void bfc() {
        if (!message_.capacity || !message_.free || !message_.allocated || !message_.requested)
            return;
        const std::string state = fmt::format(
            "limit {}, in use {}, so {} are in no buffer", binary(message_.capacity->bytes),
            binary(message_.allocated->bytes), binary(message_.free->bytes));
        if (message_.free->bytes >= message_.requested->bytes && message_.largest_free &&
            message_.largest_free->bytes < message_.requested->bytes)
            add("oom.fragmentation", {asked(), state,
                                      fmt::format("largest free block: {}",
                                                  binary(message_.largest_free->bytes))});
        else if (message_.requested->bytes > message_.capacity->bytes)
            add("oom.request_too_large", {asked(), state});
        else
            add("oom.capacity", {asked(), state});
    }

    /// The summary table holds no capacity, but tells whether everything releasable was released.
    void summary() {
        if (!message_.allocated || !message_.reserved) return;
        const Bytes allocated = message_.allocated->bytes, reserved = message_.reserved->bytes;
        if (message_.retries.value_or(0) < 1 || allocated > reserved ||
            !at_least(reserved - allocated, kMuchCached, reserved))
            return;
        add("oom.fragmentation",
            {fmt::format("allocated {} of {} reserved, after {} retr{}", binary(allocated),
                         binary(reserved), *message_.retries, *message_.retries == 1 ? "y" : "ies"),
             "a retry frees every whole cached segment: what is still cached lies beside live "
             "tensors"});
    }

    void moment() {
        const auto say = [&](std::string_view name) {
            add(name, {fmt::format("the text places it: {}", name_of(message_.moment))});
        };
        switch (message_.moment) {
            case OomMoment::optimizer_states: return say("oom.optimizer_states");
            case OomMoment::optimizer_temporaries: return say("oom.optimizer_temporaries");
            case OomMoment::optimizer_step: return say("oom.optimizer_step");
            case OomMoment::evaluation: return say("oom.evaluation");
            case OomMoment::serving: return say("oom.serving_budget");
            default: return;
        }
    }

    void undecidable() {
        std::string missing;
        const auto lacks = [&](bool present, std::string_view name) {
            if (!present) missing += (missing.empty() ? "" : ", ") + std::string(name);
        };
        lacks(message_.capacity.has_value(), "capacity");
        lacks(message_.free.has_value(), "free");
        lacks(message_.allocated.has_value(), "allocated");
        add("oom.undecidable", {fmt::format("not in the message: {}", missing)});
    }

    void candidates() {
        if (!message_.requested) return;
        std::vector<std::string> evidence;
        for (const Candidate& candidate : candidates_for(*message_.requested, dimensions_))
            evidence.push_back(fmt::format("{} = {}", candidate.text, binary(candidate.bytes)));
        if (evidence.empty()) return;
        evidence.insert(evidence.begin(), asked());
        add("request.candidates", std::move(evidence));
    }

    const OomMessage& message_;
    const Dimensions& dimensions_;
    std::vector<Finding> out_;
};

}  // namespace

std::vector<Finding> diagnose(const OomMessage& message, const Dimensions& dimensions) {
    return OomDiagnosis(message, dimensions).run();
}

}  // namespace membudget
