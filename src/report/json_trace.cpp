#include "report/json_trace.hpp"

namespace membudget::report {
namespace {

using Json = nlohmann::ordered_json;

Json of(const std::optional<Bytes>& bytes) { return bytes ? Json(bytes->count()) : Json(nullptr); }
Json of(const std::optional<PrintedSize>& size) {
    return size ? Json(size->bytes.count()) : Json(nullptr);
}
Json of(const std::optional<std::int64_t>& number) {
    return number ? Json(*number) : Json(nullptr);
}
Json text_or_null(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }

Json of(const Finding& finding) {
    return {{"id", finding.kind->name},
            {"subject", text_or_null(finding.subject)},
            {"title", finding.kind->title},
            {"evidence", finding.evidence},
            {"does_not_prove", finding.kind->does_not_prove},
            {"measure_next", finding.kind->next},
            {"source", text_or_null(finding.kind->source)}};
}

Json of(const std::vector<Finding>& findings) {
    Json out = Json::array();
    for (const Finding& finding : findings) out.push_back(of(finding));
    return out;
}

Json of(const OomMessage& message) {
    Json processes = Json::array();
    for (const ProcessUse& process : message.processes)
        processes.push_back({{"pid", process.pid}, {"used_bytes", process.used.bytes.count()}});
    Json buffers = Json::array();
    for (const XlaBuffer& buffer : message.buffers)
        buffers.push_back({{"shape", buffer.shape}, {"bytes", buffer.size.bytes.count()}});
    const auto reserved = reserved_of(message);
    return {{"wording", message.wording},
            {"backend", text_or_null(message.backend)},
            {"device", of(message.device)},
            {"moment",
             message.moment == OomMoment::unknown ? Json(nullptr) : Json(name_of(message.moment))},
            {"requested_bytes", of(message.requested)},
            {"capacity_bytes", of(message.capacity)},
            {"free_bytes", of(message.free)},
            {"allocated_bytes", of(message.allocated)},
            {"active_bytes", of(message.active)},
            {"reserved_bytes", of(reserved)},
            {"unallocated_bytes", of(message.unallocated ? message.unallocated : message.cached)},
            {"private_pools_bytes", of(message.private_pools)},
            {"allowed_bytes", of(message.allowed)},
            {"this_process_bytes", of(message.this_process)},
            {"processes", std::move(processes)},
            {"other_allocations_bytes", of(message.other_allocations)},
            {"largest_free_block_bytes", of(message.largest_free)},
            {"peak_allocated_bytes", of(message.peak_allocated)},
            {"outside_bytes", of(outside_of(message))},
            {"retries", of(message.retries)},
            {"ooms", of(message.ooms)},
            {"buffers", std::move(buffers)},
            {"notes", message.notes}};
}

Json of(const std::vector<LiveShare>& shares) {
    Json out = Json::array();
    for (const LiveShare& share : shares)
        out.push_back(
            {{"name", share.name}, {"bytes", share.bytes.count()}, {"blocks", share.blocks}});
    return out;
}

Json of(const std::optional<TraceFreeMemory>& free) {
    if (!free) return nullptr;
    return {{"releasable_bytes", free->releasable},
            {"stuck_bytes", free->stuck},
            {"private_pools_bytes", free->private_pools},
            {"stuck_in_other_streams_bytes", free->other_streams}};
}

Json of(const SortedInstant& instant) {
    Json terms = Json::array(), unsorted = Json::array();
    for (const SortedTerm& term : instant.terms)
        terms.push_back({{"path", term.path},
                         {"bytes", term.bytes.count()},
                         {"certain_bytes", term.certain.count()},
                         {"blocks", term.blocks},
                         {"by", of(term.by)}});
    for (const UnsortedBlocks& blocks : instant.unsorted)
        unsorted.push_back({{"why", blocks.why},
                            {"block_bytes", blocks.size.count()},
                            {"blocks", blocks.blocks}});
    return {{"of", name_of(instant.of)},
            {"phase", text_or_null(instant.phase)},
            {"live_bytes", instant.live.count()},
            {"terms", std::move(terms)},
            {"unsorted_bytes", unsorted_bytes(instant).count()},
            {"unsorted", std::move(unsorted)}};
}

Json of(const TraceSubject& subject) {
    Json phases = Json::array(), steps = Json::array(), points = Json::array(),
         survivors = Json::array(), sorted = Json::array();
    for (const SortedInstant& instant : subject.sorted) sorted.push_back(of(instant));
    for (const MarkedPeak& phase : subject.phases)
        phases.push_back({{"phase", phase.name},
                          {"count", phase.count},
                          {"peak_bytes", phase.peak.count()},
                          {"end_bytes", phase.end.count()}});
    for (const StepLevel& step : subject.steps)
        steps.push_back({{"step", step.step},
                         {"live_bytes", of(step.live)},
                         {"peak_bytes", of(step.peak)},
                         {"reserved_bytes", of(step.reserved)},
                         {"device_bytes", of(step.device)}});
    for (const Survivor& survivor : subject.survivors)
        survivors.push_back({{"stack", survivor.stack},
                             {"bytes", survivor.bytes.count()},
                             {"blocks", survivor.blocks},
                             {"steps", survivor.steps}});
    for (const CurvePoint& point : subject.curve.points)
        points.push_back({{"at", point.at},
                          {"live_bytes", of(point.live)},
                          {"reserved_bytes", of(point.reserved)},
                          {"device_bytes", of(point.device)}});
    Json oom = nullptr;
    if (subject.oom)
        oom = {{"event", subject.oom->event},
               {"requested_bytes", subject.oom->size},
               {"device_free_bytes", subject.oom->device_free},
               {"live_bytes", subject.oom->live},
               {"reserved_bytes", subject.oom->reserved}};
    return {
        {"name", subject.name},
        {"device", subject.device},
        {"kind", subject.is_series ? "samples" : "events"},
        {"count", subject.events},
        {"complete", subject.complete},
        {"start",
         {{"live_bytes", of(subject.start_live)}, {"reserved_bytes", of(subject.start_reserved)}}},
        {"end",
         {{"live_bytes", of(subject.end_live)}, {"reserved_bytes", of(subject.end_reserved)}}},
        {"peak",
         {{"live_bytes", of(subject.live_peak)},
          {"at", subject.live_peak_at},
          {"axis", subject.curve.axis},
          {"reserved_bytes_then", of(subject.reserved_at_peak)},
          {"phase", text_or_null(subject.peak_phase)},
          {"free_then", of(subject.free_at_peak)},
          {"by_category", of(subject.categories)},
          {"by_stack", of(subject.stacks)}}},
        {"terms", std::move(sorted)},
        {"reserved_peak_bytes", of(subject.reserved_peak)},
        {"device_peak_bytes", of(subject.device_peak)},
        {"device_total_bytes", of(subject.device_total)},
        {"free_at_end", of(subject.free_at_end)},
        {"oom", std::move(oom)},
        {"phases", std::move(phases)},
        {"steps_by", text_or_null(subject.steps_by)},
        {"steps", std::move(steps)},
        {"survivors", std::move(survivors)},
        {"curve", std::move(points)}};
}

Json of(const ReconciledLine& line) {
    return {{"path", line.path},
            {"metric", line.metric},
            {"lower_bytes", line.lower.count()},
            {"estimate_bytes", line.estimate.count()},
            {"upper_bytes", of(line.upper)},
            {"measured_bytes", of(line.measured)},
            {"certain_bytes", of(line.certain)},
            {"residual_bytes", of(line.residual())},
            {"confirmed", line.confirmed()},
            {"measured_as", text_or_null(line.measured_as)}};
}

Json of(const std::vector<ReconciledLine>& lines) {
    Json out = Json::array();
    for (const ReconciledLine& line : lines) out.push_back(of(line));
    return out;
}

}  // namespace

void add_traces(Json& out, const ReportData& data) {
    out["traces"] = Json::array();
    for (const TraceReport& trace : data.traces) {
        Json subjects = Json::array(), messages = Json::array();
        for (const TraceSubject& subject : trace.summary.subjects) subjects.push_back(of(subject));
        for (const OomMessage& message : trace.summary.messages) messages.push_back(of(message));
        out["traces"].push_back({{"file", trace.summary.file},
                                 {"kind", trace.summary.kind},
                                 {"subjects", std::move(subjects)},
                                 {"messages", std::move(messages)},
                                 {"findings", of(trace.findings)},
                                 {"notes", trace.summary.notes}});
    }
}

void add_reconciliation(Json& out, const ReportData& data) {
    for (const char* key : {"name", "trace", "subject"}) out[key] = nullptr;
    for (const char* key : {"totals", "phases", "terms", "phase_terms", "findings", "notes"})
        out[key] = Json::array();
    if (!data.reconciliation) return;
    const Reconciliation& own = *data.reconciliation;
    out["name"] = own.name;
    out["trace"] = own.file;
    out["subject"] = own.subject;
    out["totals"] = of(own.totals);
    out["phases"] = of(own.phases);
    out["terms"] = of(own.terms);
    out["phase_terms"] = of(own.phase_terms);
    out["findings"] = of(own.findings);
    out["notes"] = own.notes;
}

void add_evidence(Json& out, const ReportData& data) {
    out["evidence"] = Json::array();
    if (!data.receipt) return;
    for (const ReceiptLine& line : data.receipt->lines)
        out["evidence"].push_back({{"trace", data.receipt->trace},
                                   {"path", line.path},
                                   {"metric", line.metric},
                                   {"estimate_bytes", line.estimate.count()},
                                   {"measured_bytes", line.measured.count()},
                                   {"confirmed", line.confirmed}});
}

}  // namespace membudget::report
