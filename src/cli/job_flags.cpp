#include "cli/job_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "cli/sizes.hpp"

namespace membudget::cli {
namespace {

/// A flag and the place of the spec that it sets. Its value is checked where the spec's is.
struct Flag {
    std::string_view name;
    std::string_view pointer;
    const char* value;
    const char* doc;
    bool is_path = false;  ///< the value is relative to the working folder, not to the spec's
};

constexpr Flag kFlags[] = {
    {"--batch", "/training/micro_batch_size", "N", "micro-batch size: sequences in one forward"},
    {"--seq", "/training/sequence_length", "N", "tokens per sequence"},
    {"--target-length", "/training/target_length", "N", "target tokens (encoder-decoder)"},
    {"--grad-accum", "/training/gradient_accumulation_steps", "N",
     "micro-batches per optimizer step"},
    {"--optimizer", "/training/optimizer", "NAME", "see `membudget list optimizers`"},
    {"--precision", "/training/precision", "NAME", "see `membudget list precisions`"},
    {"--sharding", "/parallelism/sharding", "NAME", "see `membudget list shardings`"},
    {"--data-parallel", "/parallelism/data", "N", "data-parallel ranks"},
    {"--checkpointing", "/training/activation_checkpointing", "NAME", "none or full"},
    {"--attention", "/training/attention", "NAME", "attention kernel"},
    {"--loss", "/training/loss", "NAME", "loss kernel"},
    {"--lora", "/training/lora", "FILE", "an adapter_config.json: only its adapters are trained", true},
    {"--quantization", "/training/quantization", "NAME", "see `membudget list quantizations`"},
    {"--architecture", "/model/architecture", "NAME", "class to build instead of the config's"},
    {"--step", "/training/step", "NAME", "steady (default) or first: states do not exist yet"},
    {"--device", "/device", "NAME", "see `membudget list devices`"},
};
static_assert(names_are_unique(kFlags));

/// Text of a flag as a JSON value: an integer when it reads as one, else a string, so that the
/// spec's own reader says what is wrong with it.
KeyTree value_of(const std::string& text) {
    std::int64_t number = 0;
    const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (trouble == std::errc{} && end == text.data() + text.size()) return KeyTree(number);
    return KeyTree(text);
}

/// A path as the shell meant it, wherever the spec lies.
KeyTree path_of(const std::string& text) {
    std::error_code ignored;
    const auto whole = std::filesystem::absolute(text, ignored);
    return KeyTree(ignored ? text : whole.string());
}

/// Whether something stands at `pointer`, one of the flags' (no escapes, objects only).
bool holds(const KeyTree& tree, std::string_view pointer) {
    const KeyTree* at = &tree;
    while (at != nullptr && !pointer.empty()) {
        pointer.remove_prefix(1);
        const auto end = std::min(pointer.find('/'), pointer.size());
        at = at->find(pointer.substr(0, end));
        pointer.remove_prefix(end);
    }
    return at != nullptr;
}

}  // namespace

void JobFlags::add_to(CLI::App& app) {
    values_.resize(std::size(kFlags));
    for (std::size_t i = 0; i < std::size(kFlags); ++i)
        app.add_option_function<std::string>(
               std::string(kFlags[i].name),
               [this, i](const std::string& text) { values_[i] = text; }, kFlags[i].doc)
            ->type_name(kFlags[i].value)
            ->group("The job (instead of what the file says)");
    app.add_option("-s,--set", sets_, "set any value of the spec, e.g. /training/keep_logits=false")
        ->type_name("POINTER=VALUE")
        ->expected(1)
        ->take_all()
        ->group("The job (instead of what the file says)");
}

Result<std::vector<std::pair<JobFlags::Change, KeyTree>>> JobFlags::changes() const {
    std::vector<std::pair<Change, KeyTree>> out;
    for (std::size_t i = 0; i < values_.size(); ++i)
        if (values_[i])
            out.push_back({{std::string(kFlags[i].name), std::string(kFlags[i].pointer), *values_[i]},
                           kFlags[i].is_path ? path_of(*values_[i]) : value_of(*values_[i])});
    for (const std::string& set : sets_) {
        const std::size_t equals = set.find('=');
        if (!set.starts_with('/') || equals == std::string::npos)
            return Diagnostic{.trouble = Trouble::invalid,
                              .file = "--set",
                              .pointer = {},
                              .message = fmt::format("expected POINTER=VALUE with a JSON pointer; "
                                                     "got '{}'", set),
                              .hint = "for example --set /training/keep_logits=false"};
        Change change{"--set", set.substr(0, equals), set.substr(equals + 1)};
        auto json = parse_json(change.value, "--set");
        KeyTree value = json ? std::move(*json) : KeyTree(change.value);
        out.push_back({std::move(change), std::move(value)});
    }
    return out;
}

Result<Document> JobFlags::apply(const Document& document) const {
    auto all = changes();
    if (!all) return all.errors();
    if (all->empty()) return document;
    KeyTree patch = KeyTree::object();
    for (auto& [change, value] : *all)
        patch = merge_patch(std::move(patch), patch_at(change.pointer, std::move(value)));
    auto out = with_patch(document, patch);
    if (!out) return blame(out.errors(), document);
    // What is wrong with a flag is found now, while the document is known to be right.
    if (auto spec = read_spec(out->tree, out->file); !spec) return blame(spec.errors(), document);
    return out;
}

Result<Document> JobFlags::read(const std::string& path) const {
    auto document = read_document(path);
    if (!document) return document;
    return apply(*document);
}

Result<Estimate> JobFlags::estimate(const Document& document) const {
    auto out = membudget::estimate(document);
    if (!out) return blame(out.errors(), document);
    return out;
}

Result<AdvisedEstimate> JobFlags::advised_estimate(const Document& document, Team& team,
                                                   const std::optional<Bytes>& capacity, BookOptions options) const {
    auto out = membudget::advised_estimate(document, team, capacity, options);
    if (!out) return blame(out.errors(), document);
    return out;
}

Diagnostics JobFlags::blame(const Diagnostics& errors, const Document& document) const {
    const auto all = changes();
    Diagnostics out;
    for (Diagnostic error : errors.list()) {
        const bool ours = error.file.empty() || error.file == document.file;
        bool blamed = false;
        if (ours && all)
            for (const auto& [change, value] : *all)
                if (!blamed && is_at_or_below(error.pointer, change.pointer)) {
                    blamed = true;
                    error.file = change.flag;
                    // --set names any place, the other flags have one that goes without saying.
                    if (change.flag != "--set") error.pointer.erase(0, change.pointer.size());
                }
        if (ours && !blamed && error.hint.empty())
            for (const Flag& flag : kFlags)
                if (error.pointer == flag.pointer && !holds(document.tree, flag.pointer))
                    error.hint = fmt::format("give it in the spec or with {} {}", flag.name,
                                             flag.value);
        out.add(std::move(error));
    }
    return out;
}

void JudgeFlags::add_to(CLI::App& app) {
    app.add_option_function<std::string>(
           "--budget", [this](const std::string& text) { budget = text; },
           "the most that the job may need, e.g. 80GB or 74.5GiB")
        ->type_name("SIZE")
        ->group("Judgement");
    app.add_flag("--strict", strict, "an uncertain verdict fails")->group("Judgement");
}

Result<std::optional<Bytes>> JudgeFlags::capacity() const {
    if (!budget) return std::optional<Bytes>{};
    const auto bytes = parse_size(*budget, "--budget");
    if (!bytes) return bytes.errors();
    return std::optional<Bytes>(*bytes);
}

std::string display_name(const Document& document) {
    const KeyTree* name = document.tree.find("name");
    if (name != nullptr && name->is(KeyTree::Kind::string)) return name->text();
    return document.file == "-" ? "standard input" : document.file;
}

}  // namespace membudget::cli
