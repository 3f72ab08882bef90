// Recorded training steps of PyTorch beside the simulated ones: the same model class, sizes, types,
// optimizer and loop. Writes the errors as docs/accuracy.md (--update), or checks that the page is
// what the program does now and that the errors keep within the bounds below.
//
//     differential [--update | --verbose [NAME] | --events NAME]

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "membudget/ledger.hpp"

#include "measured/measured.hpp"

using namespace membudget;

namespace {

// Bounds on |error| of the peak, in parts per million of the measurement; they only tighten.
constexpr double kMedianBound = 20;
constexpr double kWorstBound = 10'000;
constexpr double kWorstPhaseBound = 20'000;
/// Of what is alive after backward, and after the optimizer's step.
constexpr double kWorstRestBound = 1'000;
constexpr std::size_t kFewestSimulated = 719;
/// How many records may have a phase, or a term at the peak, outside its bound; each is named on the
/// page, and the number only falls.
constexpr std::size_t kMostPhasesOutside = 0;
constexpr std::size_t kMostTermsOutside = 0;

const std::string kSource = MEMBUDGET_SOURCE_DIR;

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

const KeyTree& at(const KeyTree& tree, std::string_view key) {
    const KeyTree* found = tree.find(key);
    MEMBUDGET_ENSURE(found != nullptr, "a record lacks a key");
    return *found;
}

/// torch's class and options -> row; null: no row does the same.
std::optional<std::string> optimizer_row(const std::string& name, const KeyTree& options) {
    const auto has = [&](std::string_view key) {
        const KeyTree* value = options.find(key);
        return value != nullptr && !value->is_null() && !(value->is(KeyTree::Kind::boolean) && !value->boolean());
    };
    if (name == "AdamW") return has("amsgrad") ? "adamw-amsgrad" : "adamw";
    if (name == "Adam") return has("amsgrad") ? "adam-amsgrad" : "adam";
    if (name == "SGD")
        return has("momentum") ? "sgd-momentum" : has("weight_decay") ? "sgd-weight-decay" : "sgd";
    static const std::map<std::string, std::string> kRows{
        {"Adafactor", "adafactor"}, {"Adagrad", "adagrad"}, {"RMSprop", "rmsprop"}, {"NAdam", "nadam"},
        {"RAdam", "radam"},         {"Adamax", "adamax"},   {"Adadelta", "adadelta"}, {"Muon", "muon"}};
    const auto found = kRows.find(name);
    return found == kRows.end() ? std::nullopt : std::optional(found->second);
}

struct Outcome {
    std::string name;
    std::string model;
    std::int64_t measured = 0;
    std::optional<std::int64_t> estimate;
    std::string measured_phase, phase, op;
    std::vector<std::pair<std::string, double>> phases;  ///< relative error of each phase's peak
    std::vector<std::pair<std::string, double>> rests;   ///< the same of what is alive after a phase
    /// First-level terms at the peak that are off by more than 2 % of themselves and 0.2 % of the peak.
    std::vector<std::string> terms_outside;
    std::string reason;                                  ///< why there is no estimate

    [[nodiscard]] std::vector<std::string> phases_outside() const {
        std::vector<std::string> out;
        for (const auto& [name_of_phase, error] : phases)
            if (std::abs(error) * 1e6 > kWorstPhaseBound)
                out.push_back(fmt::format("{} {:+.1f} %", name_of_phase, 100 * error));
        for (const auto& [after, error] : rests)
            if (std::abs(error) * 1e6 > kWorstRestBound) out.push_back(fmt::format("{} {:+.2f} %", after, 100 * error));
        return out;
    }
    [[nodiscard]] double error() const {
        return static_cast<double>(*estimate - measured) / static_cast<double>(measured);
    }
};

/// The spec of a recorded case, or the reason why it cannot be said.
struct Case {
    Spec spec;
    ResolveInputs inputs;
    std::string reason;
};

/// Parameters whose name holds one of these texts; a pattern that matches none would be a mistake.
void freeze(const KeyTree& texts, Case& out) {
    if (texts.items().empty()) return;
    const Result<Model> model = resolve_model(out.spec, out.inputs);
    if (!model) return;
    for (const KeyTree& text : texts.items()) {
        bool found = false;
        model->for_each_parameter([&](const std::string& name, const Parameter&, std::int64_t) {
            found = found || name.find(text.text()) != std::string::npos;
        });
        if (found) out.spec.training.freeze.push_back({"*" + text.text() + "*", ""});
    }
}

Case spec_of(const KeyTree& record) {
    Case out;
    const KeyTree& what = at(record, "case");
    const KeyTree& training = at(what, "training");
    Spec& spec = out.spec;
    spec.file = "record";
    KeyTree config = at(what, "config");
    config.at_or_add("architectures") = KeyTree::array({KeyTree(at(what, "model").text())});
    // The class made of a config ties always, and scales by what the config says of it.
    if (const KeyTree* tied = config.find("tie_word_embeddings");
        at(what, "model").text().starts_with("T5") && tied != nullptr && !tied->boolean()) {
        config.at_or_add("scale_decoder_outputs") = KeyTree(false);
        config.at_or_add("tie_word_embeddings") = KeyTree(true);
    }
    out.inputs.config = std::make_shared<const KeyTree>(config);
    out.inputs.config_file = at(what, "name").text();
    spec.model.config = "config.json";

    const auto name = [](std::string text) { return NamedAt{std::move(text), ""}; };
    const auto flag = [&](std::string_view key) { return at(training, key).boolean(); };
    TrainingSpec& t = spec.training;
    t.framework = name("transformers-cpu");
    const bool narrow = at(training, "param_dtype").text() == "bfloat16";
    const bool autocast = !at(training, "autocast").is_null();
    t.precision.scheme = name(narrow ? "bf16" : autocast ? "bf16-autocast" : "fp32");
    if (narrow && autocast) t.precision.compute = name("bf16");
    t.attention = name(at(training, "attn_implementation").text());
    t.micro_batch_size = at(training, "batch").integer();
    const KeyTree* given = what.find("inputs");
    const auto input = [&](std::string_view key) {
        return given == nullptr || given->is_null() ? nullptr : given->find(key);
    };
    if (const KeyTree* ids = input("input_ids"))
        t.sequence_length = at(*ids, "shape").items().at(1).integer();
    else if (input("input_features") != nullptr)  // of one length; the target's is the job's
        t.sequence_length = at(*input("labels"), "shape").items().at(1).integer();
    else if (input("pixel_values") == nullptr)
        t.sequence_length = at(training, "seq").integer();
    // Sizes in pixels, or (frames, rows, columns) of patches.
    const KeyTree* sizes = input("image_sizes");
    const bool patches = sizes == nullptr;
    if (patches) sizes = input("image_grid_thw");
    if (sizes != nullptr) {
        const std::int64_t unit = patches ? at(at(config, "vision_config"), "patch_size").integer() : 1;
        const std::vector<KeyTree>& images = at(*sizes, "values").items();
        const std::vector<KeyTree>& one = images.front().items();
        t.images = static_cast<std::int64_t>(images.size()) / *t.micro_batch_size;
        t.image_size = {one.at(one.size() - 2).integer() * unit, one.back().integer() * unit};
    } else if (input("input_ids") != nullptr && input("pixel_values") != nullptr)
        t.images = at(*input("pixel_values"), "shape").items().at(0).integer() / *t.micro_batch_size;
    t.gradient_accumulation_steps = at(training, "accumulation").integer();
    const std::string checkpointing = at(training, "checkpointing").text();
    t.activation_checkpointing.mode = name(checkpointing == "none" ? "none" : "full");
    t.activation_checkpointing.reentrant = checkpointing == "reentrant";
    if (const KeyTree* offload = training.find("offload")) t.activation_checkpointing.offload = offload->boolean();
    t.keep_logits = flag("keep_outputs");
    t.padding_mask = flag("padding_mask");
    t.step = name(at(training, "step").text());
    t.zero_grad = name(flag("set_to_none") ? "set_to_none" : "zero");
    const KeyTree& optimizer = at(training, "optimizer");
    const auto row = optimizer_row(at(optimizer, "name").text(), at(optimizer, "options"));
    if (!row) out.reason = "optimizer " + at(optimizer, "name").text();
    t.optimizer.row = name(row.value_or("adamw"));
    // torch.optim.Muon knows no foreach; recorded as asked for, it ran tensor by tensor.
    t.optimizer.implementation =
        name(row == "muon" ? "for-loop" : at(optimizer, "implementation").text());
    t.optimizer.clip = !at(training, "clip").is_null();
    const KeyTree& lora = at(training, "lora");
    if (!lora.is_null()) {
        // `get_peft_model` over the arguments of a LoraConfig, as an adapter_config.json holds them.
        KeyTree adapter = lora;
        adapter.at_or_add("peft_type") = KeyTree("LORA");
        out.inputs.adapter = std::make_shared<const KeyTree>(std::move(adapter));
        t.lora.emplace().adapter_config = "adapter_config.json";
        t.lora->input_gradients = checkpointing != "none";
    }
    freeze(at(training, "frozen"), out);
    if (const KeyTree* base = training.find("quantization"); base != nullptr) {
        t.quantization.row = name(at(*base, "type").text());
        t.quantization.double_quant = at(*base, "double_quant").boolean();
        t.quantization.prepare = at(*base, "prepare").boolean();
    }
    // A mean of what is pooled is what a class without a loss of its own has here too.
    if (const KeyTree* loss = training.find("loss"); loss != nullptr && at(*loss, "name").text() != "pooled-mean")
        t.loss.row = name(at(*loss, "name").text());
    t.carry_outputs = flag("carry_outputs");
    t.use_cache = flag("use_cache");
    return out;
}

/// First components of our terms against the recorder's categories.
void compare_terms(const Step& step, const KeyTree& categories, std::int64_t micro_steps, Outcome& out) {
    std::map<std::string, std::int64_t> ours, theirs;
    for (std::size_t i = 0; i < step.profile.at_peak.size(); ++i)
        ours[step.terms.group_name(step.terms.group(static_cast<TermId>(i)))] += step.profile.at_peak[i];
    for (const auto& [name, bytes] : categories.members()) {
        if (name == "buffers") continue;
        const bool inputs = name == "inputs";  // of one micro-step: see `left_out`
        theirs[inputs || name == "other" ? "activations" : name] += inputs ? bytes.integer() / micro_steps
                                                                          : bytes.integer();
    }
    for (const auto& [name, bytes] : theirs) ours.try_emplace(name, 0);
    for (const auto& [name, bytes] : ours) {
        const auto difference = static_cast<double>(std::abs(bytes - theirs[name]));
        const double allowed = std::max(0.02 * static_cast<double>(theirs[name]),
                                        0.002 * static_cast<double>(out.measured));
        if (difference > allowed)
            out.terms_outside.push_back(fmt::format("{} {} for {}", name, bytes, theirs[name]));
    }
}

/// What lies on the host has no rounding on the CPU: it agrees to the byte.
void compare_host(const Step& step, const KeyTree& counts, Outcome& out) {
    std::int64_t ours = 0;
    for (const HostTerm& term : step.host) ours += term.bytes;
    const KeyTree* theirs = counts.find("host_bytes");
    const std::int64_t measured = theirs == nullptr ? 0 : theirs->integer();
    if (ours != measured) out.terms_outside.push_back(fmt::format("host {} for {}", ours, measured));
}

/// What is measured and no term of ours: buffers (rotation frequencies, causal masks and the like), and the
/// batches of the other micro-steps, which the recording loop holds all at once.
std::int64_t left_out(const KeyTree& categories, std::int64_t micro_steps) {
    const auto bytes = [&](std::string_view category) {
        const KeyTree* found = categories.find(category);
        return found == nullptr ? 0 : found->integer();
    };
    return bytes("buffers") + bytes("inputs") / micro_steps * (micro_steps - 1);
}

/// What is alive after the last backward, and after the optimizer's step: tensors that the books lose or free
/// twice are missing here, whatever the peaks say.
void compare_rests(const Step& step, const KeyTree& boundaries, std::int64_t micro_steps, Outcome& out) {
    std::int64_t live = 0, after_backward = 0, after_step = 0;
    unroll(step.root, [&](const Event& event, const StepNode& leaf, std::span<const std::int64_t>) {
        live += event.bytes * event.count;
        if (leaf.phase == Phase::backward) after_backward = after_step = live;
        if (leaf.phase == Phase::optimizer_step && std::string_view(leaf.pass) == "step") after_step = live;
    });
    const auto compare = [&](std::string_view boundary, std::int64_t ours) {
        const KeyTree& categories = at(boundaries, boundary);
        std::int64_t measured = -left_out(categories, micro_steps);
        for (const auto& [category, bytes] : categories.members()) measured += bytes.integer();
        out.rests.emplace_back(boundary, static_cast<double>(ours - measured) / static_cast<double>(measured));
    };
    compare("backward_end", after_backward);
    compare("step_end", after_step);
}

Outcome run(const KeyTree& record) {
    Outcome out;
    const KeyTree& what = at(record, "case");
    out.name = at(what, "name").text();
    out.model = at(what, "model").text();
    const KeyTree& peak = at(record, "peak");
    const std::int64_t micro_steps = at(at(what, "training"), "accumulation").integer();
    out.measured = at(peak, "bytes").integer() - left_out(at(peak, "categories"), micro_steps);
    out.measured_phase = at(at(peak, "where"), "phase").text();
    Case job_case = spec_of(record);
    out.reason = job_case.reason;
    if (!out.reason.empty()) return out;
    const Result<Job> job = resolve(job_case.spec, job_case.inputs);
    if (!job) {
        out.reason = job.errors().list().front().message;
        return out;
    }
    const Step step = simulate_step(*job);
    out.estimate = step.profile.peak;
    const Location place = locate(step.root, step.profile.where);
    out.phase = place.leaf == nullptr ? "" : name_of(place.leaf->phase);
    compare_terms(step, at(peak, "categories"), micro_steps, out);
    compare_host(step, at(record, "counts"), out);
    compare_rests(step, at(record, "boundaries"), micro_steps, out);
    for (const Phase phase : kPhases) {
        const KeyTree* measured = at(record, "phases").find(name_of(phase));
        if (measured == nullptr) continue;
        const double truth = static_cast<double>(at(*measured, "bytes").integer() -
                                                 left_out(at(*measured, "categories"), micro_steps));
        out.phases.emplace_back(
            name_of(phase),
            (static_cast<double>(step.phase_peaks[static_cast<std::size_t>(phase)]) - truth) / truth);
    }
    return out;
}

/// How many records have a phase, and a term at the peak, outside its bound.
std::pair<std::size_t, std::size_t> outside(const std::vector<Outcome>& outcomes) {
    const auto count = [&](auto&& is) {
        return static_cast<std::size_t>(std::count_if(outcomes.begin(), outcomes.end(), is));
    };
    return {count([](const Outcome& one) { return !one.phases_outside().empty(); }),
            count([](const Outcome& one) { return !one.terms_outside.empty(); })};
}

double percentile(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

std::string percent(double ratio) { return fmt::format("{:+.4f} %", 100 * ratio); }

/// How far the peak of one phase is off, over all records.
std::string phase_row(const std::vector<Outcome>& outcomes, std::string_view phase) {
    std::vector<double> errors;
    double worst = 0;
    std::string_view in;
    for (const Outcome& one : outcomes)
        for (const auto& [name, error] : one.phases) {
            if (name != phase) continue;
            errors.push_back(std::abs(error));
            if (std::abs(error) <= std::abs(worst)) continue;
            worst = error;
            in = one.name;
        }
    return fmt::format("| {} | {:.4f} % | {:.4f} % | {} | {} |\n", phase, 100 * percentile(errors, 0.5),
                       100 * percentile(errors, 0.9), percent(worst), in);
}

/// The same for what is alive after backward and after the optimizer's step, together.
std::string rest_row(const std::vector<Outcome>& outcomes) {
    std::vector<double> errors;
    for (const Outcome& one : outcomes)
        for (const auto& rest : one.rests) errors.push_back(std::abs(rest.second));
    return fmt::format("| alive after backward, after the step | {:.4f} % | {:.4f} % | {:.4f} % | |\n",
                       100 * percentile(errors, 0.5), 100 * percentile(errors, 0.9), 100 * percentile(errors, 1));
}

std::string page(const KeyTree& file, const std::vector<Outcome>& outcomes) {
    std::string text =
        "<!-- Generated: cmake --build build --target update_accuracy -->\n\n"
        "# Accuracy\n\n"
        "Estimates beside measurements, with the sign of estimate - measurement. Nothing here was fitted: a record\n"
        "that disagrees stays as it is.\n\n"
        "## Steps of PyTorch on the CPU\n\n"
        "Real training steps of the framework's own model classes, recorded tensor by tensor (tests/differential:\n"
        "how, and how to record them anew). Small but complete models; every case of a seeded draw is listed. Buffers\n"
        "of the modules (rotation frequencies, causal masks), which are no term yet, are left out of the measurement, and\n"
        "so are the batches of the other micro-steps, which the recording loop holds all at once.\n\n";
    text += "Versions:";
    for (const auto& [name, version] : at(file, "versions").members())
        text += fmt::format(" {} {},", name, version.text());
    text.back() = '.';
    std::vector<double> errors;
    std::map<std::string, std::pair<std::size_t, std::vector<std::string>>> reasons;
    for (const Outcome& one : outcomes) {
        if (one.estimate)
            errors.push_back(std::abs(one.error()));
        else
            ++reasons[one.reason].first;
    }
    text += fmt::format(
        "\n\n{} records; {} simulated, {} not. Peak of the simulated ones: median |error| {:.4f} %, 90th percentile "
        "{:.4f} %, worst {:.4f} %.\n\n",
        outcomes.size(), errors.size(), outcomes.size() - errors.size(), 100 * percentile(errors, 0.5),
        100 * percentile(errors, 0.9), 100 * percentile(errors, 1));
    text += "| record | model | measured peak (B) | estimate (B) | error | phase |\n|---|---|--:|--:|--:|---|\n";
    for (const Outcome& one : outcomes)
        if (one.estimate)
            text += fmt::format("| {} | {} | {} | {} | {} | {}{} |\n", one.name, one.model,
                                group_digits(one.measured), group_digits(*one.estimate), percent(one.error()),
                                one.measured_phase,
                                one.phase == one.measured_phase ? "" : ", estimated in " + one.phase);
    const auto [phases, terms] = outside(outcomes);
    text += "\nPeaks of the phases:\n\n| phase | median of abs(error) | 90th percentile | worst | in |\n|---|--:|--:|--:|---|\n";
    for (const Phase phase : kPhases) text += phase_row(outcomes, name_of(phase));
    text += rest_row(outcomes);
    text += fmt::format("\n{} records have a phase whose peak is off by more than {:.0f} %, or what is alive after it by more "
                        "than {:.1f} %; {} a first-level term at the peak that is off by more than 2 % of itself and 0.2 % of the peak{}\n",
                        phases, kWorstPhaseBound / 1e4, kWorstRestBound / 1e4, terms,
                        phases + terms > 0 ? ":\n\n| record | outside |\n|---|---|" : ".");
    for (const Outcome& one : outcomes) {
        std::vector<std::string> all = one.phases_outside();
        all.insert(all.end(), one.terms_outside.begin(), one.terms_outside.end());
        if (!all.empty()) text += fmt::format("| {} | {} |\n", one.name, fmt::join(all, "; "));
    }
    if (!reasons.empty()) text += "\nNot simulated, by reason:\n\n| records | reason |\n|--:|---|\n";
    for (const auto& [reason, count] : reasons) text += fmt::format("| {} | {} |\n", count.first, reason);
    text += measured_section(kSource + "/tests/measured");
    return text;
}

int verbose(const std::vector<Outcome>& outcomes, const std::string& only) {
    for (const Outcome& one : outcomes) {
        if (!only.empty() && one.name.find(only) == std::string::npos) continue;
        if (!one.estimate) {
            fmt::print("{:<24} -- {}\n", one.name, one.reason);
            continue;
        }
        fmt::print("{:<24} {:>12} {:>12} {}  {}/{}", one.name, one.measured, *one.estimate, percent(one.error()),
                   one.measured_phase, one.phase);
        for (const auto& [phase, error] : one.phases) fmt::print("  {} {:+.3f}%", phase, 100 * error);
        for (const std::string& term : one.terms_outside) fmt::print("  [{}]", term);
        fmt::print("\n");
    }
    return 0;
}

/// Prints every allocation and free of the simulated step of one record, to hold beside the table that
/// `run_case.py --table` writes: bytes, live bytes, phase, block, op, role.
int events(const KeyTree& file, const std::string& name) {
    for (const KeyTree& record : at(file, "records").items()) {
        if (at(at(record, "case"), "name").text() != name) continue;
        const Case job_case = spec_of(record);
        const Result<Job> job = resolve(job_case.spec, job_case.inputs);
        if (!job) return 1;
        const Step step = simulate_step(*job);
        std::int64_t live = 0;
        unroll(step.root, [&](const Event& event, const StepNode& leaf, std::span<const std::int64_t>) {
            live += event.bytes * event.count;
            const Block* block =
                leaf.block < 0 ? nullptr : &job->model->blocks[static_cast<std::size_t>(leaf.block)];
            const bool has_op = block != nullptr && event.label.op < block->ops.size();
            fmt::print("{:>+14} {:>14} {} {} | {} {} | {} | {}\n", event.bytes * event.count, live,
                       name_of(leaf.phase), leaf.pass, block == nullptr ? "" : block->name,
                       has_op ? block->ops[event.label.op].name : "", event.label.what,
                       step.terms.path(event.term));
        });
        return 0;
    }
    return 1;
}

int check(const std::vector<Outcome>& outcomes, const std::string& now, const std::string& path) {
    std::vector<double> errors;
    int failures = 0;
    for (const Outcome& one : outcomes) {
        if (!one.estimate) continue;
        errors.push_back(std::abs(one.error()));
        if (errors.back() * 1e6 <= kWorstBound) continue;
        fmt::print("{}: error {} beyond {:.2f} %\n", one.name, percent(one.error()), kWorstBound / 1e4);
        ++failures;
    }
    if (percentile(errors, 0.5) * 1e6 > kMedianBound) {
        fmt::print("median |error| {:.4f} % beyond {:.4f} %\n", 100 * percentile(errors, 0.5), kMedianBound / 1e4);
        ++failures;
    }
    const auto [phases, terms] = outside(outcomes);
    if (phases > kMostPhasesOutside || terms > kMostTermsOutside) {
        fmt::print("{} records with a phase outside its bound, {} with a term; at most {} and {} expected\n", phases,
                   terms, kMostPhasesOutside, kMostTermsOutside);
        ++failures;
    }
    if (errors.size() < kFewestSimulated) {
        fmt::print("{} records simulated, at least {} expected\n", errors.size(), kFewestSimulated);
        ++failures;
    }
    if (read_file(path) != now) {
        fmt::print("docs/accuracy.md is not what the program does now: rebuild target update_accuracy and "
                   "review the diff\n");
        ++failures;
    }
    return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string path = kSource + "/docs/accuracy.md";
    // Records of another seed, made with `record.py --seed N --output FILE`: differential --records FILE --verbose.
    std::string records = kSource + "/tests/differential/records.json";
    if (argc > 2 && std::string_view(argv[1]) == "--records") {
        records = argv[2];
        argc -= 2;
        argv += 2;
    }
    const auto file = parse_json(read_file(records), "records.json");
    if (!file) {
        for (const Diagnostic& d : file.errors().list()) fmt::print("{}\n", d.message);
        return 1;
    }
    const std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "--events") return events(*file, argc > 2 ? argv[2] : "");
    std::vector<Outcome> outcomes;
    for (const KeyTree& record : at(*file, "records").items()) outcomes.push_back(run(record));
    std::stable_sort(outcomes.begin(), outcomes.end(),
                     [](const Outcome& a, const Outcome& b) { return a.name < b.name; });
    if (mode == "--verbose") return verbose(outcomes, argc > 2 ? argv[2] : "");
    const std::string now = page(*file, outcomes);
    if (mode == "--update") {
        std::ofstream(path, std::ios::binary) << now;
        return 0;
    }
    return check(outcomes, now, path);
}
