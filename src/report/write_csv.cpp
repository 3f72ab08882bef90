#include <string>

#include "report/events.hpp"
#include "report/figures.hpp"
#include "report/inspection.hpp"
#include "report/writers.hpp"

namespace membudget::report {
namespace {

/// One field of RFC 4180: quoted only where it must be.
void append_field(std::string& out, std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
        out += text;
        return;
    }
    out += '"';
    for (const char c : text) {
        if (c == '"') out += '"';
        out += c;
    }
    out += '"';
}

void append_record(std::string& out, const std::vector<std::string>& fields) {
    const char* separator = "";
    for (const std::string& field : fields) {
        out += std::exchange(separator, ",");
        append_field(out, field);
    }
    out += '\n';
}

std::string text_of(const std::optional<Bytes>& bytes) {
    return bytes ? std::to_string(bytes->count()) : "";
}

void append_terms(std::string& out, const ReportData& data) {
    append_record(out, {"job", "path", "total", "at_peak_bytes", "max_bytes", "lower_bytes",
                        "upper_bytes", "basis", "formula", "source"});
    for (const EstimateReport& report : data.reports)
        for (const Term& term : report.estimate->ledger.terms) {
            if (data.explanation && !is_at_or_below(term.path, data.explanation->path)) continue;
            append_record(out, {report.name, term.path, std::string(name_of(term.total)),
                                text_of(term.at_peak), text_of(term.max), text_of(term.lower),
                                text_of(term.upper), std::string(name_of(term.basis)),
                                term.formula, term.source});
        }
}

void append_events(std::string& out, const Timeline& timeline) {
    append_record(out, {"index", "phase", "pass", "micro_batch", "op", "term", "made_by", "tensor",
                        "bytes", "rounding_bytes", "copies", "live_bytes"});
    for_each_event(timeline, [&](const EventRecord& event) {
        append_record(out, {std::to_string(event.index), std::string(name_of(event.phase)),
                            std::string(event.pass), event.micro_batch < 0 ? "" : std::to_string(event.micro_batch), event.op,
                            std::string(event.term), event.made_by, std::string(event.tensor),
                            std::to_string(event.bytes), std::to_string(event.rounding),
                            std::to_string(event.copies), std::to_string(event.live)});
    });
}

void append_tensors(std::string& out, const Model& model) {
    append_record(out, {"name", "checkpoint_name", "component", "shape", "elements", "trainable",
                        "tied_to"});
    for_each_tensor(model, [&](const std::string& name, const std::string& tied_to,
                               const std::string& checkpoint_name, const Parameter& parameter) {
        append_record(out, {name, checkpoint_name, std::string(name_of(parameter.component)),
                            shape_text(parameter.shape), std::to_string(parameter.elements().count()),
                            parameter.trainable ? "true" : "false", tied_to});
    });
}

/// What a trace comes to, as one long table: the points of the curve, the steps, what was live.
void append_traces(std::string& out, const ReportData& data) {
    append_record(out, {"file", "subject", "what", "name", "at", "live_bytes", "reserved_bytes", "device_bytes"});
    for (const TraceReport& trace : data.traces)
        for (const TraceSubject& subject : trace.summary.subjects) {
            const auto add = [&](std::string what, std::string name, std::string at, const std::optional<Bytes>& live,
                                 const std::optional<Bytes>& reserved, const std::optional<Bytes>& device) {
                append_record(out, {trace.summary.file, subject.name, std::move(what), std::move(name), std::move(at),
                                    text_of(live), text_of(reserved), text_of(device)});
            };
            for (const CurvePoint& point : subject.curve.points)
                add("curve", std::string(subject.curve.axis), std::to_string(point.at), point.live, point.reserved,
                    point.device);
            for (const StepLevel& step : subject.steps)
                add("step", subject.steps_by, std::to_string(step.step), step.live, step.reserved, step.device);
            for (const MarkedPeak& phase : subject.phases) add("phase", phase.name, "", phase.peak, {}, {});
            for (const LiveShare& share : subject.categories) add("category", share.name, "", share.bytes, {}, {});
            for (const SortedInstant& instant : subject.sorted) {
                const std::string at = instant.of == InstantOf::peak
                                           ? "peak"
                                           : instant.phase + ' ' + std::string(name_of(instant.of));
                for (const SortedTerm& term : instant.terms) add("term", term.path, at, term.bytes, {}, {});
                add("term", "unsorted", at, unsorted_bytes(instant), {}, {});
            }
            for (const LiveShare& share : subject.stacks) add("stack", share.name, "", share.bytes, {}, {});
        }
}

void append_reconciliation(std::string& out, const Reconciliation& reconciliation) {
    append_record(out, {"path", "metric", "lower_bytes", "estimate_bytes", "upper_bytes", "measured_bytes",
                        "residual_bytes", "confirmed", "measured_as", "certain_bytes"});
    for (const auto* lines : {&reconciliation.totals, &reconciliation.phases, &reconciliation.terms,
                              &reconciliation.phase_terms})
        for (const ReconciledLine& line : *lines)
            append_record(out, {line.path, line.metric, text_of(line.lower), text_of(line.estimate),
                                text_of(line.upper), text_of(line.measured), text_of(line.residual()),
                                line.confirmed() ? "true" : "false", line.measured_as,
                                text_of(line.certain)});
}

}  // namespace

std::string write_csv(const ReportData& data, const WriteOptions&) {
    std::string out;
    if (data.listing) {
        append_record(out, data.listing->columns);
        for (const auto& row : data.listing->rows) append_record(out, row);
        return out;
    }
    if (data.command == "trace")
        append_traces(out, data);
    else if (data.reconciliation)
        append_reconciliation(out, *data.reconciliation);
    else if (data.timeline)
        append_events(out, *data.timeline->timeline);
    else if (data.inspection)
        append_tensors(out, *data.inspection->model);
    else
        append_terms(out, data);
    return out;
}

}  // namespace membudget::report
