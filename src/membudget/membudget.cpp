#include "membudget/estimating.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace membudget {
namespace {

/// `path` as written in `file`, relative to the folder of `file`.
std::string beside(const std::string& file, const std::string& path) {
    const std::size_t slash = file.rfind('/');
    if (path.starts_with('/') || slash == std::string::npos) return path;
    return file.substr(0, slash + 1) + path;
}

/// A file that the document refers to, once it is read.
struct Attached {
    std::shared_ptr<const KeyTree>& tree;
    std::string& file;
};

/// Reads the file that the string at `pointer` names, unless it is there already; lets go of it when
/// there is none.
Diagnostics attach(const Document& document, std::string_view pointer, Attached to) {
    const KeyTree* path = value_at(document.tree, pointer);
    if (path == nullptr || !path->is(KeyTree::Kind::string)) {
        to.tree.reset();
        to.file.clear();
        return {};
    }
    const std::string file = beside(document.file, path->text());
    if (to.tree != nullptr && to.file == file) return {};
    const auto text = read_text(file);
    if (!text) {
        Diagnostics out;
        for (const Diagnostic& why : text.errors().list())
            out.invalid(pointer, fmt::format("cannot read '{}': {}", file, why.message), why.hint);
        out.set_file(document.file);
        return out;
    }
    auto tree = parse_json(*text, file, DuplicateKeys::last_wins);
    if (!tree) return tree.errors();
    to.tree = std::make_shared<const KeyTree>(std::move(*tree));
    to.file = file;
    return {};
}

/// Reads the model config and the adapter config that the document names.
Diagnostics load_files(Document& document) {
    Diagnostics out = attach(document, "/model/config", {document.config, document.config_file});
    const KeyTree* lora = value_at(document.tree, "/training/lora");
    const bool is_path = lora != nullptr && lora->is(KeyTree::Kind::string);
    out.take(attach(document, is_path ? "/training/lora" : "/training/lora/adapter_config",
                    {document.adapter, document.adapter_file}));
    return out;
}

Result<Document> document_of_config(KeyTree config, const std::string& file) {
    Document out;
    out.file = file;
    const std::size_t slash = file.rfind('/');
    const std::string name = slash == std::string::npos ? file : file.substr(slash + 1);
    out.tree.at_or_add("membudget") = KeyTree(std::int64_t{1});
    out.tree.at_or_add("model").at_or_add("config") = KeyTree(name);
    out.config = std::make_shared<const KeyTree>(std::move(config));
    out.config_file = file;
    return out;
}

ResolveInputs inputs_of(const Document& document) {
    return {.config = document.config,
            .config_file = document.config_file,
            .model = document.model,
            .adapter = document.adapter,
            .adapter_file = document.adapter_file,
            .base_micro_batch_size = document.base_micro_batch_size,
            .base_sequence_length = document.base_sequence_length};
}

/// A document for a model of the catalogue. A name with a '/' or of an existing file is a path.
std::optional<Document> document_of_name(const std::string& name) {
    std::error_code ignored;
    if (catalogue().find(name) == nullptr || std::filesystem::exists(name, ignored))
        return std::nullopt;
    Document out;
    out.file = name;
    out.tree.at_or_add("membudget") = KeyTree(std::int64_t{1});
    out.tree.at_or_add("model").at_or_add("name") = KeyTree(name);
    return out;
}

/// A name that looks like none of a file gets the nearest one of the catalogue as its hint, or where
/// to find the names.
Diagnostics maybe_a_name(const Diagnostics& errors, const std::string& path) {
    std::error_code ignored;
    if (path == "-" || path.find('/') != std::string::npos || std::filesystem::exists(path, ignored))
        return errors;
    const std::string_view near = catalogue().closest(path);
    const bool without_suffix = std::filesystem::path(path).extension() != ".json";
    Diagnostics out;
    for (Diagnostic error : errors.list()) {
        if (error.hint.empty() && !near.empty())
            error.hint = fmt::format("did you mean the model '{}'?", near);
        else if (error.hint.empty() && without_suffix)
            error.hint = "membudget list models prints the names of known models";
        out.add(std::move(error));
    }
    return out;
}

/// Remembers the shape for which the file states its terms, before the first change of it.
void remember_base_shape(Document& document) {
    if (document.base_micro_batch_size || document.tree.find("terms") == nullptr) return;
    if (const auto job = resolve_document(document)) {
        document.base_micro_batch_size = job->extents.batch;
        document.base_sequence_length = job->extents.sequence;
    }
}

/// Mistakes that a scenario brought into the document, with the pointers of the scenario.
Diagnostics of_scenario(const Diagnostics& errors, const Document& document,
                        std::string_view scenario) {
    Diagnostics out;
    for (Diagnostic error : errors.list()) {
        if (error.file == document.file)
            error.pointer = pointer_child("/scenarios", scenario) + error.pointer;
        out.add(std::move(error));
    }
    return out;
}

/// The mistakes of a changed document that are not the file's own.
Diagnostics brought_by(const Diagnostics& changed, const Diagnostics& own) {
    Diagnostics out;
    for (const Diagnostic& error : changed.list())
        if (std::find(own.list().begin(), own.list().end(), error) == own.list().end()) out.add(error);
    return out;
}

/// Mistakes of shape that the scenarios of a spec would bring into it, each with its own pointer.
/// Those of the spec itself are told by others.
Diagnostics mistakes_of_scenarios(const Document& document, const Diagnostics& own) {
    Diagnostics out;
    const KeyTree* scenarios = document.tree.find("scenarios");
    if (scenarios == nullptr || !scenarios->is(KeyTree::Kind::object)) return out;
    KeyTree base = document.tree;
    base.remove("scenarios");
    for (const auto& [name, patch] : scenarios->members()) {
        if (!patch.is(KeyTree::Kind::object)) continue;
        const auto spec = read_spec(merge_patch(base, patch), document.file);
        if (spec) continue;
        out.take(of_scenario(brought_by(spec.errors(), own), document, name));
    }
    return out;
}

Diagnostic overflow(const Document& document, std::string message) {
    return {.trouble = Trouble::invalid,
            .file = document.file,
            .pointer = {},
            .message = std::move(message),
            .hint = "a count or a stated size is far too large"};
}

/// Says in the job what its weight files say about its model.
Diagnostics check_weights_of(const Document& document, Job& job) {
    const std::vector<std::string> files = weight_files(document);
    if (files.empty() || job.model == nullptr) return {};
    const auto reports = check_weight_files(*job.model, files);
    if (!reports) return reports.errors();
    for (const WeightReport& report : *reports) {
        std::string text = fmt::format("{}: {}", fmt::join(report.files, ", "), verdict_of(report));
        if (report.check.ok()) {
            job.assumptions.push_back({"model.weights", std::move(text), "headers of the files"});
            continue;
        }
        for (const WeightDifference& difference : report.check.differences) {
            if (!difference.reason.empty()) continue;
            text += fmt::format(": {} {}", difference.tensor, difference.what);
            break;  // `inspect` lists them all
        }
        job.warnings.push_back({"model.weights", std::move(text)});
    }
    return {};
}

/// Every number of a report stays exact in any JSON reader.
bool is_exact_in_json(const Ledger& ledger) {
    const auto within = [](Bytes bytes) { return bytes.count() <= kLargestBytes; };
    const auto range_within = [&](const std::optional<TotalRange>& total) {
        return !total || (within(total->point) && (!total->upper || within(*total->upper)));
    };
    return range_within(ledger.allocated) && range_within(ledger.reserved) &&
           range_within(ledger.device) && range_within(ledger.host) &&
           within(ledger.additive_total);
}

}  // namespace

Result<Job> resolve_document(const Document& document) {
    auto spec = read_spec(document.tree, document.file);
    if (!spec) return spec.errors();
    auto job = resolve(*spec, inputs_of(document));
    if (job) return job;
    Diagnostics errors = job.errors();
    errors.set_file(document.file);
    return errors;
}

Result<Model> resolve_document_model(const Document& document) {
    auto spec = read_spec(document.tree, document.file);
    if (!spec) return spec.errors();
    auto model = resolve_model(*spec, inputs_of(document));
    if (model) return model;
    Diagnostics errors = model.errors();
    errors.set_file(document.file);
    return errors;
}

std::vector<std::string> weight_files(const Document& document) {
    std::vector<std::string> out;
    const KeyTree* value = value_at(document.tree, "/model/weights");
    if (value == nullptr) return out;
    if (value->is(KeyTree::Kind::string)) out.push_back(beside(document.file, value->text()));
    for (const KeyTree& item : value->items()) out.push_back(beside(document.file, item.text()));
    return out;
}

namespace {

/// What to say of an object that is neither a spec nor a model config.
Diagnostic unrecognised(const KeyTree& tree, const std::string& file) {
    const KeyTree* architecture = tree.is(KeyTree::Kind::object) ? tree.find("architecture") : nullptr;
    const bool timm = architecture != nullptr && architecture->is(KeyTree::Kind::string) &&
                      (tree.find("num_classes") != nullptr || tree.find("pretrained_cfg") != nullptr);
    if (timm)
        return {.trouble = Trouble::unsupported,
                .file = file,
                .pointer = "/architecture",
                .message = fmt::format("a config of timm names an architecture ('{}') and holds no sizes",
                                       architecture->text()),
                .hint = "give the sizes in the keys of a family: vit, deit, swin, convnext, resnet, ..."};
    return {.trouble = Trouble::invalid,
            .file = file,
            .pointer = {},
            .message = fmt::format("expected a spec (with the key 'membudget') or a model config (with "
                                   "'model_type', 'architectures' or '_class_name'); got {}",
                                   tree.is(KeyTree::Kind::object) ? "an object with none of these keys"
                                                                  : tree.describe()),
            .hint = "a spec starts with {\"membudget\": 1, ...}"};
}

/// Mistakes of names and sizes in scenarios that nobody applies: a file is judged as a whole. What a scenario
/// asks for that is not supported, and files that it names, are looked at when it is applied.
Diagnostics unresolved_scenarios(const Document& document) {
    Diagnostics out;
    if (scenario_names(document).empty()) return out;
    Document base = document;
    base.tree.remove("scenarios");
    std::optional<Diagnostics> own;  // the file's own mistakes, once a scenario has any
    const KeyTree& scenarios = *document.tree.find("scenarios");
    for (const auto& [name, patch] : scenarios.members()) {
        const auto changed = with_patch(base, patch);
        if (!changed) continue;
        const auto job = resolve_document(*changed);
        if (job) continue;
        if (!own) {
            const auto unchanged = resolve_document(base);
            own = unchanged ? Diagnostics() : unchanged.errors();
        }
        const Diagnostics all = brought_by(job.errors(), *own);
        Diagnostics brought;
        for (const Diagnostic& error : all.list())
            if (error.trouble == Trouble::invalid && error.file == document.file) brought.add(error);
        out.take(of_scenario(brought, document, name));
    }
    return out;
}

}  // namespace

Result<Document> read_document_text(const std::string& text, const std::string& file) {
    // Configs of others may repeat a key, specs may not: look first, then read by the right rule.
    auto tree = parse_json(text, file, DuplicateKeys::last_wins);
    if (!tree) return tree.errors();
    switch (recognise(*tree)) {
        case InputKind::model_config: return document_of_config(std::move(*tree), file);
        case InputKind::spec: break;
        case InputKind::unknown: return unrecognised(*tree, file);
    }
    tree = parse_json(text, file, DuplicateKeys::keep);
    if (!tree) return tree.errors();
    Document out;
    out.file = file;
    out.tree = std::move(*tree);
    // A mistake in the spec hides the config behind it: the spec's mistakes are told first.
    Diagnostics errors;
    if (auto spec = read_spec(out.tree, file); !spec) errors = spec.errors();
    errors.take(mistakes_of_scenarios(out, errors));
    if (!errors.empty()) return errors;
    if (errors = load_files(out); !errors.empty()) return errors;
    if (errors = unresolved_scenarios(out); !errors.empty()) return errors;
    return out;
}

Result<Document> read_document(const std::string& path) {
    if (auto document = document_of_name(path)) return std::move(*document);
    const auto text = read_text(path);
    if (!text) return maybe_a_name(text.errors(), path);
    return read_document_text(*text, path);
}

Result<Document> with_patch(const Document& document, const KeyTree& patch) {
    Document out = document;
    remember_base_shape(out);
    out.tree = merge_patch(std::move(out.tree), patch);
    if (patch.find("model") != nullptr) out.model.reset();
    if (Diagnostics errors = load_files(out); !errors.empty()) return errors;
    return out;
}

std::vector<std::string> scenario_names(const Document& document) {
    std::vector<std::string> out;
    if (const KeyTree* scenarios = document.tree.find("scenarios"))
        for (const auto& [name, patch] : scenarios->members()) out.push_back(name);
    return out;
}

Result<Document> with_scenario(const Document& document, std::string_view name) {
    const auto job = resolve_document(document);
    if (!job) return job.errors();

    const auto unusable = [&](std::string message, std::string hint) {
        return Diagnostic{.trouble = Trouble::invalid,
                          .file = document.file,
                          .pointer = "/scenarios",
                          .message = std::move(message),
                          .hint = std::move(hint)};
    };
    KeyTree patch;
    const KeyTree* scenarios = document.tree.find("scenarios");
    if (const KeyTree* own = scenarios == nullptr ? nullptr : scenarios->find(name)) {
        patch = *own;
    } else if (const Technique* built_in = techniques().find(name)) {
        auto turned = built_in->patch == nullptr ? std::nullopt
                                                 : built_in->patch(document.tree, *job);
        if (!turned)
            return unusable(fmt::format("the built-in scenario '{}' does not apply to this job", name),
                            fmt::format("{} is turned already, or offers nothing that is modelled",
                                        built_in->pointer));
        patch = std::move(*turned);
    } else {
        std::vector<std::string> own_names = scenario_names(document);
        std::vector<std::string_view> names(own_names.begin(), own_names.end());
        for (const Technique& technique : techniques())
            if (technique.patch != nullptr) names.push_back(technique.name);
        std::string hint = did_you_mean(name, names);
        if (hint.empty()) hint = "see `membudget list scenarios`";
        return unusable(fmt::format("unknown scenario '{}'", name), std::move(hint));
    }

    Document base = document;
    base.tree.remove("scenarios");
    auto out = with_patch(base, patch);
    if (!out) return of_scenario(out.errors(), document, name);
    out->scenario = name;
    return out;
}

Result<Job> checked_job(const Document& document) {
    auto job = resolve_document(document);
    if (!job)
        return document.scenario.empty() ? job.errors()
                                         : of_scenario(job.errors(), document, document.scenario);
    if (Diagnostics errors = check_weights_of(document, *job); !errors.empty()) return errors;
    return job;
}

Result<Ledger> checked_ledger(const Document& document, const Job& job, const Step& point,
                              const std::optional<Bytes>& budget, BookOptions options) {
    std::optional<Budget> capacity;
    if (budget) capacity = Budget{.name = "budget", .capacity = *budget, .reserve = Bytes(0)};
    Ledger ledger = make_ledger(job, point, capacity, options);
    if (!is_exact_in_json(ledger)) return overflow(document, "the total is beyond 2^53 - 1 bytes");
    return ledger;
}

Diagnostic out_of_range(const Document& document, const OverflowError& error) {
    return overflow(document, fmt::format("the bytes leave the 64-bit range ({})", error.what()));
}

Result<Estimate> estimate(const Document& document, const std::optional<Bytes>& budget, BookOptions options) {
    try {
        auto job = checked_job(document);
        if (!job) return job.errors();
        auto ledger = checked_ledger(document, *job, simulate_step(*job), budget, options);
        if (!ledger) return ledger.errors();
        return Estimate{std::move(*job), std::move(*ledger)};
    } catch (const OverflowError& error) {
        return out_of_range(document, error);
    }
}

std::string_view version() { return "membudget " MEMBUDGET_VERSION; }

}  // namespace membudget
