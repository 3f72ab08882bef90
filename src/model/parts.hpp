#pragma once

/// Models of which only the parameters are known yet: a list of parts, each with a prefix and a count.

#include <cstdint>
#include <string>
#include <string_view>

#include "model/blocks.hpp"
#include "model/config.hpp"
#include "model/decoder.hpp"

namespace membudget {

/// Appends parts to a model in execution order.
class Parts {
public:
    Parts(Model& model, std::string_view architecture, std::int64_t labels, Problem problem)
        : architecture_(architecture), labels_(labels), problem_(problem), model_(model) {}

    /// `count` copies of a part whose parameters `weights` declares; `{}` in the prefix stands for
    /// the index of the copy, counted from `first`. Nothing when the count is 0.
    void add(std::string prefix, std::string name, const WeightsOnly& weights,
             std::int64_t count = 1, std::int64_t first = 0);
    /// `count` copies of a block whose ops are known; with one, the step is known of all.
    void add(std::string prefix, Block block, std::int64_t count = 1, std::int64_t first = 0);
    [[nodiscard]] bool has_step() const { return has_step_; }
    /// A whole decoder with its head; its step is modelled if its plan has a tower or it is `alone`, and no part is
    /// before.
    void add_decoder(const DecoderPlan& plan, bool alone = false);

    /// The class to build, and whether its name ends so.
    [[nodiscard]] std::string_view architecture() const { return architecture_; }
    [[nodiscard]] bool is(std::string_view suffix) const { return architecture_.ends_with(suffix); }
    /// Number of classes of a classifier.
    [[nodiscard]] std::int64_t labels() const { return labels_; }
    [[nodiscard]] Problem problem() const { return problem_; }
    [[nodiscard]] Model& model() { return model_; }

private:
    std::string_view architecture_;
    std::int64_t labels_;
    Problem problem_;
    Model& model_;
    bool has_step_ = false;
};

using ConfigureParts = void (*)(ConfigReader& config, Parts& parts);
[[nodiscard]] Result<Model> parts_family(const Family& family, const KeyTree& config,
                                         std::string_view architecture, ConfigureParts configure);
template <ConfigureParts Configure>
Result<Model> build_parts_family(const Family& family, const KeyTree& config,
                                 std::string_view architecture) {
    return parts_family(family, config, architecture, Configure);
}

/// Makes the parameter `name` of the block another name of `target`.
void tie(BlockBuilder& builder, std::string_view name, std::string_view target);

/// A convolution's parameters: weight [out, in, extents...] and bias [out].
void convolution(BlockBuilder& builder, std::string_view name, std::int64_t out, std::int64_t in,
                 std::initializer_list<std::int64_t> extents, bool bias,
                 Component component = Component::vision);

}  // namespace membudget
