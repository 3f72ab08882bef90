#include <nlohmann/json.hpp>

#include <utility>

#include "report/events.hpp"
#include "report/figures.hpp"
#include "report/inspection.hpp"
#include "report/json_trace.hpp"
#include "report/writers.hpp"

/// The contract with scripts: every key is always there, in this order; what is unknown is null,
/// a list without entries is empty. Sizes are integers of bytes below 2^53.

namespace membudget::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchemaVersion = "1.0";

Json bytes_or_null(const std::optional<Bytes>& bytes) {
    return bytes ? Json(bytes->count()) : Json(nullptr);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json of(const std::optional<TotalRange>& total) {
    if (!total) return nullptr;
    return {{"lower_bytes", total->lower.count()},
            {"point_bytes", total->point.count()},
            {"upper_bytes", bytes_or_null(total->upper)}};
}

Json totals_of(const Ledger& ledger) {
    return {{"allocated", of(ledger.allocated)},
            {"reserved", of(ledger.reserved)},
            {"device", of(ledger.device)},
            {"host", of(ledger.host)},
            {"additive_total_bytes", ledger.additive_total.count()}};
}

/// Position of the rank whose books these are; the ranks of a group of equal ones share them.
Json worst_rank() { return {{"pp", 0}, {"tp", 0}, {"cp", 0}, {"ep", 0}, {"dp", 0}}; }

Json peak_of(const Ledger& ledger) {
    return {{"phase", name_of(ledger.peak.phase)},
            {"where",
             {{"op", text_or_null(ledger.peak.op)},
              {"pass", text_or_null(ledger.peak.pass)},
              {"micro_batch", ledger.peak.micro_batch}}},
            {"rank", worst_rank()}};
}

/// The shape for which the peak holds.
Json shape_of(const Job& job) {
    const bool has_sequence = job.model != nullptr ? reads_tokens(*job.model) : job.extents.sequence > 1;
    const bool has_images = job.extents.images > 0;
    const std::int64_t parameters = job.model != nullptr
                                        ? count_parameters(*job.model).total.count()
                                        : job.anonymous_parameters;
    return {{"parameters", parameters > 0 ? Json(parameters) : Json(nullptr)},
            {"micro_batch_size", job.extents.batch},
            {"gradient_accumulation_steps", job.micro_batches},
            {"global_batch_size", job.global_batch},
            {"sequence_length", has_sequence ? Json(job.extents.sequence) : Json(nullptr)},
            {"target_length", job.extents.target_sequence > 1 && has_sequence
                                  ? Json(job.extents.target_sequence)
                                  : Json(nullptr)},
            {"images", has_images ? Json(job.extents.images / job.extents.tiles) : Json(nullptr)},
            {"image_height", has_images ? Json(job.model->image.height) : Json(nullptr)},
            {"image_width", has_images ? Json(job.model->image.width) : Json(nullptr)},
            {"data_parallel", job.data.ranks()}};
}

Json terms_of(const Ledger& ledger) {
    Json out = Json::array();
    for (const Term& term : ledger.terms)
        out.push_back({{"path", term.path},
                       {"total", name_of(term.total)},
                       {"at_peak_bytes", term.at_peak.count()},
                       {"max_bytes", term.max.count()},
                       {"lower_bytes", term.lower.count()},
                       {"upper_bytes", bytes_or_null(term.upper)},
                       {"basis", name_of(term.basis)},
                       {"formula", text_or_null(term.formula)},
                       {"source", text_or_null(term.source)}});
    return out;
}

/// Advice for this peak: a technique that does not reach it is not listed.
Json techniques_of(const std::vector<TechniqueSaving>& techniques) {
    Json out = Json::array();
    for (const TechniqueSaving& saving : techniques) {
        if (!saving.helps_at_peak) continue;
        out.push_back({{"name", saving.technique->name},
                       {"term", saving.term},
                       {"term_bytes", saving.term_bytes.count()},
                       {"term_saves_bytes", bytes_or_null(saving.term_saves)},
                       {"peak_saves_bytes", bytes_or_null(saving.peak_saves)},
                       {"cost", saving.technique->cost},
                       {"limits", saving.technique->limits}});
    }
    return out;
}

Json device_of(const Ledger& ledger) {
    if (!ledger.budget) return nullptr;
    return {{"name", ledger.budget->name},
            {"capacity_bytes", ledger.budget->capacity.count()},
            {"reserve_bytes", ledger.budget->reserve.count()},
            {"headroom_bytes", bytes_or_null(ledger.headroom)}};
}

/// Puts the body of one estimate into `out`; without one, the same keys without values.
void add_body(Json& out, const EstimateReport* report) {
    if (report == nullptr) {
        for (const char* key : {"name", "verdict", "shape", "totals", "peak"}) out[key] = nullptr;
        for (const char* key : {"phases", "terms"}) out[key] = Json::array();
        out["dominant"] = nullptr;
        for (const char* key : {"techniques", "ranks"}) out[key] = Json::array();
        out["device"] = nullptr;
        for (const char* key : {"assumptions", "warnings", "measure_next"})
            out[key] = Json::array();
        return;
    }
    const auto& [job, ledger] = *report->estimate;
    out["name"] = report->name;
    out["verdict"] = name_of(ledger.verdict);
    out["shape"] = shape_of(job);
    out["totals"] = totals_of(ledger);
    out["peak"] = peak_of(ledger);
    out["phases"] = Json::array();
    for (const PhasePeak& phase : ledger.phases)
        out["phases"].push_back(
            {{"phase", name_of(phase.phase)}, {"peak_bytes", phase.peak.count()}});
    out["terms"] = terms_of(ledger);
    out["dominant"] = {{"path", ledger.dominant}, {"at_peak_bytes", ledger.dominant_bytes.count()}};
    out["techniques"] = techniques_of(report->techniques);
    out["ranks"] = Json::array({{{"rank", worst_rank()},
                                 {"count", job.data.ranks()},
                                 {"totals", totals_of(ledger)},
                                 {"peak", peak_of(ledger)}}});
    out["device"] = device_of(ledger);
    out["assumptions"] = Json::array();
    for (const Assumption& assumption : ledger.assumptions)
        out["assumptions"].push_back({{"id", assumption.id},
                                      {"text", assumption.text},
                                      {"source", text_or_null(assumption.source)}});
    out["warnings"] = Json::array();
    for (const Warning& warning : ledger.warnings)
        out["warnings"].push_back({{"id", warning.id}, {"text", warning.text}});
    out["measure_next"] = ledger.measure_next;
}

/// JSON text as a value; an absent one is null, and a number too large for a double its text.
Json value_of(const std::string& text) {
    if (text == "absent") return nullptr;
    Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    return value.is_discarded() ? Json(text) : value;
}

Json of(const Delta& delta, const EstimateReport& report) {
    Json terms = Json::array();
    for (const TermDelta& term : delta.terms)
        terms.push_back({{"path", term.path},
                         {"from_bytes", bytes_or_null(term.from)},
                         {"to_bytes", bytes_or_null(term.to)}});
    Json knobs = Json::array();
    for (const KnobChange& knob : delta.knobs) {
        const Technique* technique = knob.technique;
        knobs.push_back({{"pointer", knob.pointer},
                         {"from", value_of(knob.from)},
                         {"to", value_of(knob.to)},
                         {"technique", technique ? Json(technique->name) : Json(nullptr)},
                         {"cost", technique ? Json(technique->cost) : Json(nullptr)},
                         {"limits", technique ? Json(technique->limits) : Json(nullptr)}});
    }
    return {{"name", report.name},
            {"verdict", name_of(report.estimate->ledger.verdict)},
            {"totals", totals_of(report.estimate->ledger)},
            {"terms", std::move(terms)},
            {"knobs", std::move(knobs)},
            {"measure_next", delta.measure_next}};
}

void add_comparison(Json& out, const ReportData& data) {
    out["reports"] = Json::array();
    for (const EstimateReport& report : data.reports) {
        Json body = Json::object();
        add_body(body, &report);
        out["reports"].push_back(std::move(body));
    }
    out["deltas"] = Json::array();
    for (const Delta& delta : data.deltas)
        out["deltas"].push_back(of(delta, data.reports[delta.report]));
    out["baseline"] = nullptr;
    if (data.baseline)
        out["baseline"] = {{"file", data.baseline->file},
                           {"name", text_or_null(data.baseline->name)},
                           {"allocated_point_bytes", data.baseline->allocated.count()},
                           {"limit_bytes", bytes_or_null(data.baseline->limit)}};
}

Json micro_batch_or_null(std::int64_t index) {
    return index == kNoMicroBatch ? Json(nullptr) : Json(index);
}

Json instant_of(const std::optional<Instant>& at) {
    if (!at) return nullptr;
    return {{"phase", name_of(at->stretch.leaf->phase)},
            {"op", text_or_null(at->op)},
            {"pass", text_or_null(at->stretch.leaf->pass)},
            {"micro_batch", micro_batch_or_null(at->stretch.micro_batch)},
            {"live_bytes", at->live.count()}};
}

void add_explanation(Json& out, const ReportData& data) {
    out["explained"] = nullptr;
    if (!data.explanation) return;
    Json tensors = Json::array();
    for (const LiveTensor& tensor : data.explanation->tensors)
        tensors.push_back({{"term", tensor.term},
                           {"op", tensor.op},
                           {"tensor", tensor.what},
                           {"bytes", tensor.bytes.count()},
                           {"rounding_bytes", tensor.rounding.count()},
                           {"copies", tensor.copies},
                           {"made_in", text_or_null(tensor.made_in)},
                           {"freed_by", text_or_null(tensor.freed_by)}});
    const Ledger& ledger = data.reports.front().estimate->ledger;
    out["explained"] = {{"path", text_or_null(data.explanation->path)},
                        {"at", instant_of(data.explanation->at)},
                        {"at_peak_bytes", at_peak(ledger, data.explanation->path).count()},
                        {"tensors", std::move(tensors)}};
}

/// One event a line: they are many, and are never all in memory as values.
void put_events(std::string& text, const Timeline& timeline) {
    std::string lines;
    for_each_event(timeline, [&](const EventRecord& event) {
        const Json record = {{"phase", name_of(event.phase)},
                             {"pass", text_or_null(std::string(event.pass))},
                             {"micro_batch", micro_batch_or_null(event.micro_batch)},
                             {"op", text_or_null(event.op)},
                             {"term", event.term},
                             {"made_by", text_or_null(event.made_by)},
                             {"tensor", text_or_null(std::string(event.tensor))},
                             {"bytes", event.bytes},
                             {"rounding_bytes", event.rounding},
                             {"copies", event.copies},
                             {"live_bytes", event.live}};
        lines += (lines.empty() ? "\n    " : ",\n    ") + record.dump();
    });
    constexpr std::string_view kEmpty = "\n  \"events\": []";  // only the envelope is indented by two
    const std::size_t place = text.find(kEmpty);
    MEMBUDGET_ENSURE(place != std::string::npos, "an envelope has a place for the events");
    text.insert(place + kEmpty.size() - 1, lines + "\n  ");
}

Json weights_json(const WeightReport& report) {
    Json differences = Json::array();
    for (const WeightDifference& difference : report.check.differences)
        differences.push_back({{"tensor", text_or_null(difference.tensor)},
                               {"what", difference.what},
                               {"reason", text_or_null(difference.reason)}});
    return {{"files", report.files},
            {"format", name_of(report.format)},
            {"agrees", report.check.ok()},
            {"tensors", report.tensors},
            {"matched", report.check.matched},
            {"total_bytes",
             report.total_bytes ? Json(report.total_bytes->count()) : Json(nullptr)},
            {"differences", std::move(differences)}};
}

void add_inspection(Json& out, const ReportData& data) {
    for (const char* key : {"name", "family", "architecture", "source", "dtype", "parameters"})
        out[key] = nullptr;
    for (const char* key : {"held", "components", "tensors", "weights", "notes"}) out[key] = Json::array();
    out["step_unsupported"] = nullptr;
    if (!data.inspection) return;
    const Model& model = *data.inspection->model;
    const Dtype* own = dtype_of(model);
    const ParameterCounts counts = count_parameters(model);
    out["name"] = data.inspection->name;
    out["family"] = model.family;
    out["architecture"] = model.architecture;
    out["source"] = text_or_null(model.source);
    if (own != nullptr) out["dtype"] = own->name;
    out["parameters"] = {{"total", counts.total.count()},
                         {"untied_total", counts.untied.count()},
                         {"active", counts.active.count()},
                         {"trainable", counts.trainable.count()}};
    for (const HeldBytes& held : held_bytes(model))
        out["held"].push_back(
            {{"dtype", held.dtype->name}, {"tensors", held.tensors}, {"bytes", held.bytes.count()}});
    for (const ComponentCounts& component : components_of(model))
        out["components"].push_back(
            {{"component", name_of(component.component)},
             {"tensors", component.tensors},
             {"total", component.total.count()},
             {"untied_total", component.untied.count()},
             {"trainable", component.trainable.count()},
             {"bytes", own == nullptr ? Json(nullptr) : Json(bytes_of(component.total, *own).count())},
             {"fp32_bytes", bytes_of(component.total, dtype::fp32).count()}});
    for_each_tensor(model, [&](const std::string& name, const std::string& tied_to,
                               const std::string& checkpoint_name, const Parameter& parameter) {
        Json stored = Json::array();
        for (const StoredTensor& tensor : parameter.stored)
            stored.push_back({{"name", tensor.name}, {"dtype", tensor.dtype->name}, {"shape", tensor.shape}});
        out["tensors"].push_back({{"name", name},
                                  {"checkpoint_name", text_or_null(checkpoint_name)},
                                  {"component", name_of(parameter.component)},
                                  {"shape", parameter.shape},
                                  {"trainable", parameter.trainable},
                                  {"dtype", parameter.dtype == nullptr || !parameter.stored.empty()
                                                ? Json(nullptr)
                                                : Json(parameter.dtype->name)},
                                  {"stored", std::move(stored)},
                                  {"tied_to", text_or_null(tied_to)}});
    });
    for (const WeightReport& report : data.inspection->weights)
        out["weights"].push_back(weights_json(report));
    out["notes"] = model.notes;
    out["step_unsupported"] = text_or_null(model.step_unsupported);
}

void add_listing(Json& out, const ReportData& data) {
    out["kind"] = nullptr;
    out["rows"] = Json::array();
    if (!data.listing) return;
    out["kind"] = data.listing->kind;
    for (const auto& row : data.listing->rows) {
        Json object = Json::object();
        for (std::size_t i = 0; i < row.size(); ++i) object[data.listing->columns[i]] = row[i];
        out["rows"].push_back(std::move(object));
    }
}

}  // namespace

std::string write_json(const ReportData& data, const WriteOptions&) {
    Json out = Json::object();
    out["schema_version"] = kSchemaVersion;
    const std::string_view tool = version();
    const std::size_t space = tool.find(' ');
    out["tool"] = {{"name", tool.substr(0, space)}, {"version", tool.substr(space + 1)}};
    out["command"] = text_or_null(data.command);
    if (data.command == "list")
        add_listing(out, data);
    else if (data.command == "inspect")
        add_inspection(out, data);
    else if (data.command == "trace")
        add_traces(out, data);
    else if (data.command == "reconcile")
        add_reconciliation(out, data);
    else
        add_body(out, data.reports.empty() ? nullptr : &data.reports.front());
    if (data.command == "compare") add_comparison(out, data);
    if (data.command == "explain") add_explanation(out, data);
    if (data.command == "estimate") add_evidence(out, data);
    if (data.command == "timeline") out["events"] = Json::array();
    out["errors"] = Json::array();
    for (const Diagnostic& error : data.errors.list())
        out["errors"].push_back({{"file", text_or_null(error.file)},
                                 {"pointer", error.pointer},
                                 {"message", error.message},
                                 {"hint", text_or_null(error.hint)}});
    // File names need not be UTF-8: what is not is replaced, never a reason to fail.
    std::string text = out.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
    if (data.timeline) put_events(text, *data.timeline->timeline);
    return text;
}

}  // namespace membudget::report
