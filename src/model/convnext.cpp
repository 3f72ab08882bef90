// ConvNeXt (arXiv:2201.03545): stages of layers that are a depthwise convolution, a norm and two linear modules;
// between stages a convolution halves the grid [transformers models/convnext/modeling_convnext.py].

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "model/image_models.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::int64_t kKernel = 7;

struct ConvNextPlan {
    std::vector<std::int64_t> widths, depths;
    std::int64_t channels = 3, patch = 1, image = 1;
    Act act = Act::gelu;
    double drop_path = 0;
    bool scaled = false;  ///< a learned factor per channel behind each layer

    /// Patches on a side of a stage's grid.
    [[nodiscard]] std::int64_t side(std::size_t stage) const { return (image / patch) >> stage; }
    [[nodiscard]] std::int64_t area(std::size_t stage) const { return side(stage) * side(stage); }
};

/// Widths and depths; none where they do not fit.
ConvNextPlan read_convnext(ConfigReader& config) {
    ConvNextPlan plan;
    plan.widths = config.sizes("hidden_sizes");
    plan.depths = config.sizes("depths");
    if (plan.widths.empty() || plan.widths.size() != plan.depths.size()) {
        if (config.diagnostics().empty())
            config.invalid("depths", "expected as many entries as hidden_sizes, at least 1");
        plan.widths.clear();
    }
    plan.channels = config.size("num_channels", kLargestCount);
    plan.patch = config.size("patch_size", kLargestCount);
    return plan;
}

int grid(BlockBuilder& b, std::string name, std::int64_t width, std::int64_t patches) {
    const int out = b.tensor(std::move(name), width, Rows::images);
    b.set_times(out, patches);
    return out;
}

/// A convolution over the grid of x.
int convolve(BlockBuilder& b, int x, const std::string& name, std::vector<std::int64_t> weight, std::int64_t patches,
             Place place) {
    const std::int64_t width = weight.front();
    const std::vector<int> parameters{b.parameter(join(name, "weight"), std::move(weight), kVision),
                                      b.parameter(join(name, "bias"), {width}, kVision)};
    const int out = grid(b, name, width, patches);
    b.op(OpKind::convolution, name, place, {x}, {out}, parameters);
    return out;
}

Block stem(const ConvNextPlan& plan) {
    BlockBuilder b("patch embedding");
    const std::string name = "embeddings.patch_embeddings";
    const std::int64_t width = plan.widths.front();
    const int weight = b.parameter(join(name, "weight"), {width, plan.channels, plan.patch, plan.patch}, kVision);
    const int bias = b.parameter(join(name, "bias"), {width}, kVision);
    const int pixels = b.tensor("pixel_values", plan.channels * plan.image * plan.image, Rows::images);
    int x = grid(b, name, width, plan.area(0));
    b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {x}, {weight, bias});
    b.norm_weights("embeddings.layernorm", width, norms::layer, kVision);
    x = b.norm(x, "embeddings.layernorm", norms::layer, place::embedding);
    return std::move(b).finish(b.hold_until_model_end(x));
}

/// [ConvNextStage: the downsampling layer]
Block downsampling(const ConvNextPlan& plan, std::size_t stage) {
    BlockBuilder b("downsampling");
    const std::int64_t from = plan.widths[stage - 1];
    int x = b.input(from, Rows::images);
    b.set_times(x, plan.area(stage - 1));
    b.norm_weights("downsampling_layer.0", from, norms::layer, kVision);
    x = b.norm(x, "downsampling_layer.0", norms::layer);
    x = convolve(b, x, "downsampling_layer.1", {plan.widths[stage], from, 2, 2}, plan.area(stage),
                 in_vision(place::embedding));
    b.last_op().attributes.strided = true;
    return std::move(b).finish(x);
}

/// [ConvNextLayer.forward]; the mean behind the `last` one makes its gradient channel by channel, which a linear module
/// wants patch by patch, as all that is elementwise in between does not.
Block layer(const ConvNextPlan& plan, std::size_t stage, bool drops, bool last = false) {
    BlockBuilder b(last ? "last vision layer" : "vision layer");
    const std::int64_t width = plan.widths[stage], patches = plan.area(stage);
    const Place place = in_vision(place::mlp);
    const int x = b.input(width, Rows::images);
    b.set_times(x, patches);
    int scale = -1;
    if (plan.scaled) scale = b.parameter("layer_scale_parameter", {width}, kVision);
    int y = convolve(b, x, "dwconv", {width, 1, kKernel, kKernel}, patches, in_vision(place::attention));
    y = b.norm(y, "layernorm", norms::layer);
    y = b.linear(y, "pwconv1", 4 * width, true, place);
    y = b.activation(y, "act", plan.act, place);
    y = b.linear(y, "pwconv2", width, true, place);
    if (plan.scaled) {
        const int scaled = grid(b, "layer_scale", width, patches);
        b.op(OpKind::multiply, "layer_scale", place, {y}, {scaled}, {scale});
        y = scaled;
    }
    if (last && !plan.scaled && !drops) {
        const int viewed = grid(b, "permuted", width, patches);
        OpAttributes& a = b.op(OpKind::split, "permuted", place, {y}, {viewed}).attributes;
        a.same = a.unbound = true;
        y = viewed;
    }
    if (drops) {
        const int kept = grid(b, "drop_path", width, patches);
        b.op(OpKind::drop_path, "drop_path", place, {y}, {kept});
        y = kept;
    }
    Block block = std::move(b).finish(b.add(x, y, "residual"));
    for (Parameter& parameter : block.parameters) parameter.component = kVision;
    return block;
}

Block head(const ConvNextPlan& plan, const Parts& parts, const std::string& base) {
    BlockBuilder b("head");
    const std::int64_t width = plan.widths.back();
    const int x = b.input(width, Rows::images);
    b.set_times(x, plan.area(plan.widths.size() - 1));
    const int mean = b.tensor("mean", width, Rows::images);
    b.op(OpKind::mean_patches, "mean", place::head, {x}, {mean});
    b.norm_weights(base + "layernorm", width, norms::layer, kVision);
    const int pooled = b.hold(b.norm(mean, base + "layernorm", norms::layer));
    return pooled_end(std::move(b), pooled, base.empty(), parts);
}

void describe(Parts& parts, const ConvNextPlan& plan) {
    Model& model = parts.model();
    model.image = {plan.channels, plan.image, plan.image, plan.area(0), plan.area(0)};
    model.inputs = {{"pixels", Rows::images, model.image.pixels(), nullptr}};
    if (!parts.is("Model")) model.inputs.push_back(class_labels(Rows::images, parts.labels(), parts.problem()));
    model.facts.hidden_size = plan.widths.back();
    for (const std::int64_t depth : plan.depths) model.facts.layers += depth;
    model.checkpointing_unsupported = "the class has none";
    if (plan.side(plan.widths.size() - 1) < 1) model.step_unsupported = "the images are too small for so many stages";
}

}  // namespace

void configure_convnext(ConfigReader& config, Parts& parts) {
    ConvNextPlan plan = read_convnext(config);
    plan.image = config.size("image_size", kLargestCount);
    plan.act = config.activation("hidden_act");
    plan.drop_path = config.probability("drop_path_rate");
    plan.scaled = config.number("layer_scale_init_value") > 0;
    if (plan.widths.empty()) return;
    const std::string base = parts.is("Model") ? "" : "convnext.";
    parts.add(base, stem(plan));
    std::int64_t before = 0;
    for (std::size_t stage = 0; stage < plan.widths.size(); ++stage) {
        const std::string path = fmt::format("{}encoder.stages.{}.", base, stage);
        if (stage > 0) parts.add(path, downsampling(plan, stage));
        // Rates rise from 0: the very first layer drops nothing.
        const std::int64_t whole = plan.drop_path > 0 && before == 0 ? std::min<std::int64_t>(1, plan.depths[stage]) : 0;
        parts.add(path + "layers.{}.", layer(plan, stage, false), whole);
        const std::int64_t last = stage + 1 == plan.widths.size() && plan.depths[stage] > whole ? 1 : 0;
        const std::int64_t rest = plan.depths[stage] - whole - last;
        parts.add(path + "layers.{}.", layer(plan, stage, plan.drop_path > 0), rest, whole);
        parts.add(path + "layers.{}.", layer(plan, stage, plan.drop_path > 0, true), last, whole + rest);
        before += plan.depths[stage];
    }
    parts.add("", head(plan, parts, base));
    describe(parts, plan);
}

/// Parameters alone: a normalisation over the responses of all channels takes the place of the learned factors
/// (arXiv:2301.00808).
void configure_convnextv2(ConfigReader& config, Parts& parts) {
    const ConvNextPlan plan = read_convnext(config);
    if (plan.widths.empty()) return;
    const bool bare = parts.is("Model");
    const std::string base = bare ? "" : "convnextv2.";
    const std::vector<std::int64_t>& widths = plan.widths;
    parts.add(base, "patch embedding", [&](BlockBuilder& b) {
        convolution(b, "embeddings.patch_embeddings", widths[0], plan.channels, {plan.patch, plan.patch}, true);
        b.norm_weights("embeddings.layernorm", widths[0], norms::layer, kVision);
    });
    for (std::size_t stage = 0; stage < widths.size(); ++stage) {
        const std::int64_t width = widths[stage];
        const std::string path = fmt::format("{}encoder.stages.{}.", base, stage);
        if (stage > 0)
            parts.add(path, "downsampling", [&](BlockBuilder& b) {
                b.norm_weights("downsampling_layer.0", widths[stage - 1], norms::layer, kVision);
                convolution(b, "downsampling_layer.1", width, widths[stage - 1], {2, 2}, true);
            });
        parts.add(path + "layers.{}.", "vision layer", [&](BlockBuilder& b) {
            convolution(b, "dwconv", width, 1, {kKernel, kKernel}, true);
            b.norm_weights("layernorm", width, norms::layer, kVision);
            b.linear_weights("pwconv1", width, 4 * width, true, kVision);
            for (const std::string_view name : {"grn.weight", "grn.bias"})
                b.parameter(std::string(name), {1, 1, 1, 4 * width}, kVision);
            b.linear_weights("pwconv2", 4 * width, width, true, kVision);
        }, plan.depths[stage]);
    }
    parts.add(base, "vision norm", [&](BlockBuilder& b) {
        b.norm_weights("layernorm", widths.back(), norms::layer, kVision);
    });
    if (!bare)
        parts.add("", "head", [&](BlockBuilder& b) {
            b.linear_weights("classifier", widths.back(), parts.labels(), true, Component::head);
        });
}

}  // namespace membudget
