// Stated terms, the device, and what this version does not model.

#include <algorithm>

#include "job/resolver.hpp"

namespace membudget {

namespace {

/// Default phases of a stated term (design: Stated terms).
std::array<bool, 4> default_phases(std::string_view path) {
    const std::string_view group = first_component(path);
    if (path == "temporaries/optimizer_step") return {false, false, false, true};
    if (path == "temporaries/loss") return {false, true, false, false};
    if (group == "gradients") return {false, false, true, true};
    if (group == "activations") return {true, true, true, false};
    if (group == "temporaries") return {false, false, true, false};
    return {true, true, true, true};
}

/// bytes x now / then, rounded up.
Bytes scale(Bytes bytes, std::int64_t now, std::int64_t then) {
    return ceil_div(bytes * now, then);
}

}  // namespace

void Resolver::stated_terms() {
    for (const StatedTerm& stated : spec_.terms) stated_term(stated);
    if (!spec_.terms.empty() && job_.model == nullptr)
        assume("terms.first_order",
               "a first-order scenario: the declared numbers are added up phase by phase; it is not a "
               "measured peak",
               "the spec");
}

void Resolver::stated_term(const StatedTerm& stated) {
    ResolvedTerm out;
    out.path = stated.path;
    out.point = stated.bytes;
    out.lower = stated.lower.value_or(stated.bytes);
    out.upper = stated.upper.value_or(stated.bytes);
    out.formula = fmt::format("stated: {}", format_bytes(stated.bytes, Units::exact));
    out.phases = default_phases(stated.path);
    if (!stated.phases.empty()) {
        out.phases = {};
        std::vector<std::string_view> names;
        for (const Phase phase : kPhases) names.push_back(membudget::name_of(phase));
        for (const NamedAt& given : stated.phases) {
            const auto found = std::find(names.begin(), names.end(), given.name);
            if (found == names.end())
                problems_.invalid(given.pointer,
                                  fmt::format("expected a phase ({}); got '{}'", fmt::join(names, ", "),
                                              given.name),
                                  did_you_mean(given.name, names));
            else
                out.phases[static_cast<std::size_t>(found - names.begin())] = true;
        }
    }
    const std::string_view group = first_component(stated.path);
    if (group == "activations") {
        // Activations are linear in the micro-batch and, to first order, in the sequence.
        const std::int64_t now = job_.extents.batch;
        const std::int64_t then = stated.at_micro_batch_size.value_or(
            inputs_.base_micro_batch_size.value_or(now));
        const std::int64_t length = job_.extents.sequence;
        const std::int64_t was = stated.at_sequence_length.value_or(
            inputs_.base_sequence_length.value_or(length));
        for (Bytes* bytes : {&out.lower, &out.point, &out.upper})
            *bytes = scale(scale(*bytes, now, then), length, was);
        if (now != then || length != was) {
            if (now != then) out.formula += fmt::format(" x {} / {} (micro-batch)", now, then);
            if (length != was) out.formula += fmt::format(" x {} / {} (sequence)", length, was);
        }
        assume("terms.activations.linear",
               fmt::format("{}: stated at micro-batch {}{}; taken as linear in the micro-batch and the "
                           "sequence length, rounded up",
                           stated.path, then,
                           spec_.training.sequence_length ? fmt::format(" and {} tokens", was) : ""),
               "first-order model");
    }
    const Sharding& sharding = *job_.data.sharding;
    const Partition partition = group == "parameters"         ? sharding.parameters
                                : group == "gradients"        ? sharding.gradients
                                : group == "optimizer_states" ? sharding.states
                                                              : Partition::whole;
    if (partition != Partition::whole && job_.data.shard > 1) {
        out.sharded = true;
        out.degree = job_.data.shard;
        for (Bytes* bytes : {&out.lower, &out.point, &out.upper}) *bytes = ceil_div(*bytes, out.degree);
        out.formula += fmt::format(" / {} ranks ({})", out.degree, sharding.name);
        assume("terms.sharded",
               fmt::format("{}: stated whole, divided over {} ranks by {}; gathered copies and buffers are "
                           "not in it",
                           stated.path, out.degree, sharding.name),
               sharding.source);
    }
    job_.stated.push_back(std::move(out));
}

void Resolver::device() {
    const DeviceSpec& spec = spec_.device;
    if (!spec.name && !spec.memory) {
        if (spec.reserve)
            problems_.invalid("/device", "expected 'memory' or a name beside 'reserve'");
        return;
    }
    JobDevice out;
    out.reserve = spec.reserve.value_or(Bytes(0));
    if (spec.memory) {
        out.name = spec.name ? spec.name->name : "device";
        out.capacity = *spec.memory;
    } else {
        const Device* row = find_row(devices(), spec.name->name, spec.name->pointer, "a device", "devices");
        if (row == nullptr) return;
        out.name = row->name;
        out.capacity = Bytes(row->capacity_bytes);
        out.blas_workspace = Bytes(row->blas_workspace_bytes);
        if (row->nominal) {
            // Reported totals of known devices lie between 0.97 and 1.075 of what they are sold with.
            out.capacity_lower = Bytes(row->capacity_bytes / 100 * 97);
            out.capacity_upper = Bytes(row->capacity_bytes / 1000 * 1075);
            assume("device.nominal",
                   fmt::format("{}: {} as sold; a process may find {} to {}", row->name,
                               format_bytes(out.capacity, Units::decimal),
                               format_bytes(*out.capacity_lower, Units::decimal),
                               format_bytes(*out.capacity_upper, Units::decimal)),
                   row->source);
        }
    }
    if (out.reserve > out.capacity)
        problems_.invalid("/device/reserve",
                          fmt::format("expected at most the device's memory ({}); got {}",
                                      format_bytes(out.capacity, Units::exact),
                                      format_bytes(out.reserve, Units::exact)));
    job_.device = std::move(out);
}

void Resolver::unsupported() {
    const auto refuse = [&](bool asked, std::string_view pointer, std::string_view what) {
        if (asked)
            problems_.unsupported(pointer, fmt::format("{} not modelled yet", what));
    };
    const ParallelismSpec& p = spec_.parallelism;
    refuse(p.tensor.value_or(1) > 1, "/parallelism/tensor", "tensor parallelism is");
    refuse(p.pipeline.value_or(1) > 1, "/parallelism/pipeline", "pipeline parallelism is");
    refuse(p.context.value_or(1) > 1, "/parallelism/context", "context parallelism is");
    refuse(p.expert.value_or(1) > 1, "/parallelism/expert", "expert parallelism is");
    refuse(p.sequence_parallel.value_or(false), "/parallelism/sequence_parallel", "sequence parallelism is");
    refuse(p.schedule.has_value(), "/parallelism/schedule", "pipeline schedules are");
    if (job_.model == nullptr) return;
    bool windows = false;      // of tokens, which become one key
    std::int64_t longest = 0;  // of those that keys must come of
    bool blocks = false;       // of keys, which an indexer chooses
    for (const Block& block : job_.model->blocks)
        for (const Op& op : block.ops) {
            windows = windows || op.kind == OpKind::compress;
            if (op.kind == OpKind::compress && op.reader != Reader::dropped)
                longest = std::max(longest, op.attributes.rate);
            blocks = blocks || op.attributes.key_block > 0;
        }
    refuse(blocks && job_.use_cache, "/training/use_cache", "a cache of an indexer's keys is");
    refuse(windows && job_.use_cache, "/training/use_cache", "a cache of the keys of windows is");
    refuse(job_.extents.sequence < longest, "/training/sequence_length",
           fmt::format("a sequence shorter than a window of {} tokens, whose weights get no gradient then, is", longest));
}

}  // namespace membudget
