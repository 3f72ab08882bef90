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

}  // namespace

std::string write_csv(const ReportData& data, const WriteOptions&) {
    std::string out;
    if (data.listing) {
        append_record(out, data.listing->columns);
        for (const auto& row : data.listing->rows) append_record(out, row);
        return out;
    }
    if (data.timeline)
        append_events(out, *data.timeline->timeline);
    else if (data.inspection)
        append_tensors(out, *data.inspection->model);
    else
        append_terms(out, data);
    return out;
}

}  // namespace membudget::report
