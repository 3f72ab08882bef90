#include "model/parts.hpp"

namespace membudget {

void Parts::add(std::string prefix, std::string name, const WeightsOnly& weights,
                std::int64_t count, std::int64_t first) {
    if (count <= 0) return;
    BlockBuilder builder(std::move(name));
    weights(builder);
    model_.sections.push_back(
        {std::move(prefix), first, {static_cast<int>(model_.blocks.size())}, count});
    model_.blocks.push_back(std::move(builder).finish(-1));
}

void Parts::add(std::string prefix, Block block, std::int64_t count, std::int64_t first) {
    if (count <= 0) return;
    has_step_ = true;
    model_.sections.push_back(
        {std::move(prefix), first, {static_cast<int>(model_.blocks.size())}, count});
    model_.blocks.push_back(std::move(block));
}

void Parts::add_decoder(const DecoderPlan& plan, bool alone) {
    Model decoder = build_decoder(plan, Task::causal_lm, labels_);
    const int offset = static_cast<int>(model_.blocks.size());
    for (Block& block : decoder.blocks) model_.blocks.push_back(std::move(block));
    for (Section& section : decoder.sections) {
        for (int& index : section.pattern) index += offset;
        model_.sections.push_back(std::move(section));
    }
    model_.shared = std::move(decoder.shared);
    model_.facts = decoder.facts;
    if (!plan.tower && !alone) return;
    has_step_ = true;
    model_.inputs = std::move(decoder.inputs);
    model_.image = decoder.image;
    model_.step_unsupported = plan.step_unsupported;
}

Result<Model> parts_family(const Family& family, const KeyTree& config,
                           std::string_view architecture, ConfigureParts configure) {
    Diagnostics diagnostics;
    const std::string chosen = choose_architecture(family, config, architecture, diagnostics);
    ConfigReader reader(config, "", family.name, family.keys, diagnostics);
    Model model;
    const std::int64_t labels = label_count(config);
    const Problem problem = problem_of(config, labels, diagnostics);
    Parts parts(model, chosen, labels, problem);
    configure(reader, parts);
    if (!diagnostics.empty()) return diagnostics;
    note_origin(model, family, chosen, reader);
    if (model.step_unsupported.empty() && !parts.has_step())
        model.step_unsupported = kCountedOnly;
    return model;
}

void tie(BlockBuilder& builder, std::string_view name, std::string_view target) {
    builder.parameter_named(name).tied_to = target;
}

void convolution(BlockBuilder& builder, std::string_view name, std::int64_t out, std::int64_t in,
                 std::initializer_list<std::int64_t> extents, bool bias, Component component) {
    std::vector<std::int64_t> shape{out, in};
    shape.insert(shape.end(), extents);
    builder.parameter(join(name, "weight"), std::move(shape), component);
    if (bias) builder.parameter(join(name, "bias"), {out}, component);
}

}  // namespace membudget
