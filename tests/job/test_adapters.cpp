/// Adapters on small models of every recorded architecture, beside what PEFT makes of them: counts, and
/// the names, shapes and trainability of all tensors (tests/differential/adapters.py).

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "catch.hpp"
#include "membudget/job.hpp"

using namespace membudget;

namespace {

/// A line for each parameter with storage of its own, as adapters.py writes it.
std::vector<std::string> lines_of(const Model& model) {
    std::vector<std::string> lines;
    for (const Section& section : model.sections) {
        std::int64_t index = section.first_index;
        for (std::int64_t copy = 0; copy < section.count; ++copy)
            for (const int block : section.pattern) {
                for (const Parameter& parameter : model.blocks[static_cast<std::size_t>(block)].parameters) {
                    if (!parameter.tied_to.empty()) continue;
                    std::string name = section.prefix + parameter.name;
                    if (const auto at = name.find("{}"); at != std::string::npos)
                        name.replace(at, 2, std::to_string(index));
                    lines.push_back(fmt::format("{} [{}] {}", name, fmt::join(parameter.shape, ", "),
                                                parameter.trainable ? "trained" : "frozen"));
                }
                ++index;
            }
    }
    std::sort(lines.begin(), lines.end());
    return lines;
}

/// FNV-1a of 64 bits.
std::string digest(const std::vector<std::string>& lines) {
    std::uint64_t value = 0xCBF29CE484222325;
    for (const std::string& line : lines)
        for (const char c : line + "\n")
            value = (value ^ static_cast<unsigned char>(c)) * std::uint64_t{0x100000001B3};
    return fmt::format("{:016x}", value);
}

KeyTree recorded() {
    const auto text = read_text("tests/differential/adapters.json");
    REQUIRE(text.ok());
    auto file = parse_json(*text, "adapters.json");
    REQUIRE(file.ok());
    return std::move(file).value();
}

Result<Model> adapted(const KeyTree& model, KeyTree settings) {
    Spec spec;
    spec.file = "record";
    spec.model.config = "config.json";
    spec.training.lora.emplace().adapter_config = "adapter_config.json";
    ResolveInputs inputs;
    KeyTree config = *model.find("config");
    config.at_or_add("architectures") = KeyTree::array({*model.find("model")});
    inputs.config = std::make_shared<const KeyTree>(std::move(config));
    settings.at_or_add("peft_type") = KeyTree("LORA");
    inputs.adapter = std::make_shared<const KeyTree>(std::move(settings));
    return resolve_model(spec, inputs);
}

/// What is known to differ, and why.
bool is_known_difference(std::string_view architecture, std::string_view setting) {
    // PEFT rewrites Mixtral's targets before it fills in the default, and then finds none.
    if (architecture == "mixtral" && setting == "default") return true;
    // This version of the class ties the head whatever the config says; published weights hold both.
    if (architecture == "t5-gated") return true;
    // Encoder and decoder each hold a module around the one table, which is one parameter here.
    return architecture == "t5" && (setting == "embedding" || setting == "saved");
}

}  // namespace

TEST_CASE("adapters are PEFT's, tensor by tensor", "[job][adapters]") {
    const KeyTree file = recorded();
    int compared = 0, unsupported = 0;
    for (const auto& [architecture, model] : file.find("models")->members())
        for (const KeyTree& record : model.find("records")->items()) {
            const std::string& setting = record.find("setting")->text();
            INFO(architecture << ", " << setting);
            const auto made = adapted(model, *file.find("settings")->find(setting));
            if (!made && !made.errors().any_invalid()) {
                ++unsupported;
                continue;
            }
            if (is_known_difference(architecture, setting)) continue;
            if (record.find("error") != nullptr) {
                CHECK_FALSE(made.ok());
                continue;
            }
            if (!made) {
                for (const Diagnostic& why : made.errors().list()) UNSCOPED_INFO(why.pointer << ": " << why.message);
                CHECK(made.ok());
                continue;
            }
            const ParameterCounts counts = count_parameters(*made);
            const std::vector<std::string> lines = lines_of(*made);
            CHECK(counts.trainable.count() == record.find("trainable")->integer());
            CHECK(counts.total.count() == record.find("total")->integer());
            CHECK(static_cast<std::int64_t>(lines.size()) == record.find("tensors")->integer());
            CHECK(digest(lines) == record.find("digest")->text());
            ++compared;
        }
    CHECK(compared >= 500);
    CHECK(unsupported == 0);
}

TEST_CASE("layers that no name tells apart fare as if each were asked about", "[job][adapters]") {
    const KeyTree file = recorded();
    int compared = 0;
    for (const auto& [architecture, model] : file.find("models")->members())
        for (const auto& [setting, settings] : file.find("settings")->members()) {
            if (settings.find("exclude_modules") != nullptr) continue;
            INFO(architecture << ", " << setting);
            // An excluded name with a digit, which no module has, makes each layer count for itself.
            KeyTree apart = settings;
            apart.at_or_add("exclude_modules") = KeyTree::array({KeyTree("no_module_9")});
            const auto alike = adapted(model, settings);
            const auto each = adapted(model, apart);
            REQUIRE(alike.ok() == each.ok());
            if (!alike) continue;
            CHECK(lines_of(*alike) == lines_of(*each));
            ++compared;
        }
    CHECK(compared >= 300);
}
