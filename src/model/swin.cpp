// Swin (arXiv:2103.14030): stages of layers that attend within windows of a grid, which every second layer shifts;
// between stages four neighbours are merged.

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "model/image_models.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;
constexpr std::size_t kMostStages = 8;

struct SwinPlan {
    bool second = false;  ///< version 2: cosines, computed biases, norms behind the branches
    std::int64_t embedding = 1, window = 1, channels = 3, patch = 1, image = 1;
    std::vector<std::int64_t> depths, heads;
    double ratio = 4, dropout = 0, attention_dropout = 0, drop_path = 0;
    bool bias = true;
    Act act = Act::gelu;

    [[nodiscard]] std::int64_t layers() const {
        std::int64_t sum = 0;
        for (const std::int64_t depth : depths) sum += depth;
        return sum;
    }
    [[nodiscard]] std::int64_t features() const { return embedding << (depths.size() - 1); }
    /// Patches on a side of the grid.
    [[nodiscard]] std::int64_t side() const { return (image + patch - 1) / patch; }
};

SwinPlan read_swin(ConfigReader& config) {
    SwinPlan plan;
    plan.embedding = config.size("embed_dim", kLargestCount);
    plan.depths = config.sizes("depths");
    plan.heads = config.sizes("num_heads");
    if (plan.depths.empty() || plan.depths.size() > kMostStages || plan.heads.size() != plan.depths.size()) {
        if (config.diagnostics().empty())
            config.invalid("depths", "expected as many entries as num_heads, from 1 to 8");
        plan.depths = plan.heads = {1};
    }
    plan.window = config.size("window_size", kLargestCount);
    plan.ratio = config.number("mlp_ratio");
    plan.channels = config.size("num_channels", kLargestCount);
    plan.patch = config.size("patch_size", kLargestCount);
    plan.bias = config.flag("qkv_bias");
    if (config.flag("use_absolute_embeddings"))
        config.unsupported("use_absolute_embeddings", "expected false; got true");
    if (!(plan.ratio > 0 && plan.ratio < 64)) {
        config.invalid("mlp_ratio", "expected a ratio above 0 and below 64");
        plan.ratio = 4;
    }
    return plan;
}

/// A stage: its grid, cut into windows once it is padded to a multiple of their side.
struct Stage {
    std::int64_t width = 1, inner = 1, heads = 1, side = 1, window = 1;

    [[nodiscard]] std::int64_t across() const { return (side + window - 1) / window; }
    [[nodiscard]] std::int64_t windows() const { return across() * across(); }
    [[nodiscard]] std::int64_t patches() const { return side * side; }
    [[nodiscard]] std::int64_t padded() const { return across() * window * across() * window; }
    [[nodiscard]] std::int64_t area() const { return window * window; }
};

Stage stage_of(const SwinPlan& plan, std::size_t index) {
    Stage stage;
    stage.width = plan.embedding << index;
    stage.inner = static_cast<std::int64_t>(static_cast<double>(stage.width) * plan.ratio);
    stage.heads = plan.heads[index];
    stage.window = plan.window;
    stage.side = plan.side();
    for (std::size_t i = 0; i < index; ++i) stage.side = (stage.side + 1) / 2;
    return stage;
}

/// The second version cuts windows to the grid, whose side it halves without the padding.
Stage second_stage_of(const SwinPlan& plan, std::size_t index) {
    Stage stage = stage_of(plan, index);
    stage.window = std::max<std::int64_t>(1, std::min(plan.window, plan.side() >> index));
    return stage;
}

/// A tensor of `patches` rows of each image.
int grid(BlockBuilder& b, std::string name, std::int64_t width, std::int64_t patches) {
    const int out = b.tensor(std::move(name), width, Rows::images);
    b.set_times(out, patches);
    return out;
}

/// One op that moves patches of x.
int moved(BlockBuilder& b, OpKind kind, std::string_view name, int x, std::int64_t patches) {
    const int out = grid(b, std::string(name), b.width(x), patches);
    b.op(kind, std::string(name), in_vision(place::attention), {x}, {out});
    return out;
}

/// A copy in another order; of one column of windows the order is the same, and nothing is copied.
int reordered(BlockBuilder& b, const Stage& stage, std::string_view name, int x) {
    const bool copies = stage.across() > 1;
    const int out = moved(b, copies ? OpKind::transpose_heads : OpKind::split, name, x, stage.padded());
    if (copies)
        b.last_op().attributes.heads = 2;
    else
        b.last_op().attributes.same = true;
    return out;
}

Block stem(const SwinPlan& plan) {
    BlockBuilder b("patch embedding");
    const std::string name = "embeddings.patch_embeddings.projection";
    const int weight = b.parameter(join(name, "weight"), {plan.embedding, plan.channels, plan.patch, plan.patch}, kVision);
    const int bias = b.parameter(join(name, "bias"), {plan.embedding}, kVision);
    b.norm_weights("embeddings.norm", plan.embedding, norms::layer, kVision);
    const int pixels = b.tensor("pixel_values", plan.channels * plan.image * plan.image, Rows::images);
    int x = grid(b, name, plan.embedding, plan.side() * plan.side());
    b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {x}, {weight, bias});
    x = b.norm(x, "embeddings.norm", norms::layer, place::embedding);
    x = b.dropout(x, "embeddings.dropout", plan.dropout, place::embedding);
    return std::move(b).finish(b.hold_until_model_end(x));
}

/// Attention within windows [models/swin/modeling_swin.py SwinAttention.forward].
int attention(BlockBuilder& b, const SwinPlan& plan, const Stage& stage, int x, int mask) {
    const auto function = b.scope();
    const Place place = in_vision(place::attention);
    const auto project = [&](std::string_view name) {
        return b.hold(b.linear(x, join("attention", name), stage.width, plan.bias, place));
    };
    const int q = project("q_proj"), k = project("k_proj"), v = project("v_proj");
    const std::string name = "attention.relative_position_bias";
    const int table = b.parameter(join(name, "relative_position_bias_table"),
                                  {(2 * stage.window - 1) * (2 * stage.window - 1), stage.heads}, kVision);
    const int bias = b.hold(b.tensor(name, stage.area() * stage.area(), mask < 0 ? Rows::one : Rows::images));
    b.set_times(bias, mask < 0 ? stage.heads : stage.heads * stage.windows());
    b.op(OpKind::window_bias, name, place, mask < 0 ? std::vector<int>{} : std::vector<int>{mask}, {bias}, {table})
        .attributes.heads = stage.heads;
    const int context = grid(b, "attention", stage.width, stage.padded());
    OpAttributes& a = b.op(OpKind::attention, "attention", place, {q, k, v, bias}, {context}).attributes;
    a.heads = a.kv_heads = stage.heads;
    a.head_dim = a.value_dim = stage.width / stage.heads;
    a.causal = false;
    a.windows = stage.windows();
    a.dropout = plan.attention_dropout;
    return b.linear(context, "attention.o_proj", stage.width, true, place);
}

int mlp(BlockBuilder& b, const SwinPlan& plan, const Stage& stage, int x) {
    const auto function = b.scope();
    const Place place = in_vision(place::mlp);
    int y = b.linear(x, "mlp.fc1", stage.inner, true, place);
    y = b.activation(y, "mlp.activation_fn", plan.act, place);
    return b.linear(y, "mlp.fc2", stage.width, true, place);
}

/// What comes back from the windows, in the places that its patches had.
int returned(BlockBuilder& b, const Stage& stage, bool shifted, int x) {
    x = reordered(b, stage, "attention.window_reverse", x);
    if (shifted) x = moved(b, OpKind::roll, "attention.shift_back", x, stage.padded());
    if (stage.padded() == stage.patches()) return x;
    // Columns, then rows are cut, and the rest is copied.
    for (const auto& [name, patches] : {std::pair{"attention.cut_rows", stage.side * stage.across() * stage.window},
                                        std::pair{"attention.cut_columns", stage.patches()}}) {
        x = moved(b, OpKind::split, name, x, patches);
        b.last_op().attributes.sliced = true;
    }
    x = moved(b, OpKind::transpose_heads, "attention.cut", x, stage.patches());
    b.last_op().attributes.heads = 1;
    return x;
}

/// Which patches of the windows of a shifted grid belong together.
int window_mask(BlockBuilder& b, const Stage& stage, int padded) {
    const int mask = b.hold(b.tensor("attention.mask", stage.area() * stage.area(), Rows::one));
    b.set_times(mask, stage.windows());
    b.op(OpKind::window_mask, "attention.mask", in_vision(place::attention), {padded}, {mask});
    return mask;
}

/// [models/swin/modeling_swin.py SwinLayer.forward]
Block layer(const SwinPlan& plan, const Stage& stage, bool shifted, bool drops) {
    BlockBuilder b(shifted ? "shifted vision layer" : "vision layer");
    const int x = b.input(stage.width, Rows::images);
    b.set_times(x, stage.patches());
    int y = b.norm(x, "layernorm_before", norms::layer);
    const int padded = moved(b, OpKind::pad, "attention.pad", y, stage.padded());
    y = shifted ? moved(b, OpKind::roll, "attention.shift", padded, stage.padded()) : padded;
    y = b.hold(reordered(b, stage, "attention.window_partition", y));
    const int mask = shifted ? window_mask(b, stage, padded) : -1;
    y = attention(b, plan, stage, y, mask);
    y = b.hold(b.dropout(y, "attention.dropout", plan.dropout, in_vision(place::attention)));
    y = b.hold(returned(b, stage, shifted, y));
    if (drops) y = moved(b, OpKind::drop_path, "attention.drop_path", y, stage.patches());
    const int residual = b.hold(b.add(x, y, "attention.residual"));
    b.last_op().inputs.push_back(padded);  // its name takes the sum
    {
        const auto name = b.scope();
        y = mlp(b, plan, stage, b.hold(b.norm(residual, "layernorm_after", norms::layer)));
    }
    y = b.dropout(y, "dropout", plan.dropout, in_vision(place::mlp));
    Block block = std::move(b).finish(b.add(y, residual, "mlp.residual"));
    for (Parameter& parameter : block.parameters) parameter.component = kVision;
    return block;
}

/// Cosines of queries and keys, scaled, and a bias that a network makes of relative positions
/// [models/swinv2/modeling_swinv2.py Swinv2Attention.forward].
int cosine_attention(BlockBuilder& b, const SwinPlan& plan, const Stage& stage, int x, int mask) {
    constexpr std::int64_t kInner = 512;
    const auto both = b.scope();
    const std::string path = "attention.self";
    const Place place = in_vision(place::attention);
    const int context = b.hold(grid(b, path, stage.width, stage.padded()));
    {
        const auto function = b.scope();
        const auto project = [&](std::string_view name, bool bias) {
            return b.hold(b.linear(x, join(path, name), stage.width, bias, place));
        };
        std::vector<int> inputs{project("query", plan.bias)};
        inputs.push_back(project("key", false));
        inputs.push_back(project("value", plan.bias));
        if (mask >= 0) inputs.push_back(mask);
        std::vector<int> weights{b.parameter(join(path, "logit_scale"), {stage.heads, 1, 1}, kVision)};
        const std::string network = join(path, "continuous_position_bias_mlp");
        for (const int index : b.linear_weights(join(network, "0"), 2, kInner, true, kVision)) weights.push_back(index);
        for (const int index : b.linear_weights(join(network, "2"), kInner, stage.heads, false, kVision))
            weights.push_back(index);
        OpAttributes& a = b.op(OpKind::attention, path, place, std::move(inputs), {context}, std::move(weights)).attributes;
        a.form = AttentionForm::cosine;
        a.heads = a.kv_heads = stage.heads;
        a.head_dim = a.value_dim = stage.width / stage.heads;
        a.causal = false;
        a.windows = stage.windows();
        a.window = (2 * stage.window - 1) * (2 * stage.window - 1);
        a.dropout = plan.attention_dropout;
    }
    const int y = b.linear(context, "attention.output.dense", stage.width, true, place);
    return b.dropout(y, "attention.output.dropout", plan.attention_dropout, place);
}

/// Of `Model::shared`: what a stage had before its patches were merged or, in version 1, laid out anew; and what the
/// stage under way began with.
enum Named { ended, begun };

/// x under a name of the loop over the stages, which binds it anew.
void name(BlockBuilder& b, const std::vector<Tensor>& shared, Named which, int x) {
    const int out = grid(b, shared[which].name, b.width(x), b.times(x));
    b.op(OpKind::split, shared[which].name, place::residual, {x}, {out}).attributes.same = true;
    Tensor as = shared[which];
    as.width = b.width(x);
    as.times = b.times(x);
    b.share(out, which, as);
}

/// [models/swinv2/modeling_swinv2.py Swinv2Layer.forward]; `first` of a stage behind another.
Block second_layer(const SwinPlan& plan, const Stage& stage, const std::vector<Tensor>& shared, bool shifted,
                   bool drops, bool first) {
    BlockBuilder b(first ? "first vision layer" : shifted ? "shifted vision layer" : "vision layer");
    const int x = b.input(stage.width, Rows::images);
    b.set_times(x, stage.patches());
    if (first) name(b, shared, begun, x);
    const int padded = moved(b, OpKind::pad, "attention.pad", x, stage.padded());
    int y = b.hold(shifted ? moved(b, OpKind::roll, "attention.shift", padded, stage.padded()) : padded);
    y = b.hold(reordered(b, stage, "attention.window_partition", y));
    const int mask = shifted ? window_mask(b, stage, padded) : -1;
    y = b.hold(cosine_attention(b, plan, stage, y, mask));
    y = b.hold(returned(b, stage, shifted, y));
    y = b.norm(y, "layernorm_before", norms::layer);
    if (shifted) b.last_op().inputs.push_back(padded);  // the norm's result takes its name
    const int normed = y;
    if (drops) y = moved(b, OpKind::drop_path, "attention.drop_path", y, stage.patches());
    const int residual = b.hold(b.add(x, y, "attention.residual"));
    b.last_op().inputs.push_back(normed);  // its name takes the sum
    y = b.linear(residual, "intermediate.dense", stage.inner, true, in_vision(place::mlp));
    y = b.activation(y, "intermediate.intermediate_act_fn", plan.act, in_vision(place::mlp));
    y = b.linear(y, "output.dense", stage.width, true, in_vision(place::mlp));
    y = b.hold(b.dropout(y, "output.dropout", plan.dropout, in_vision(place::mlp)));
    y = b.norm(y, "layernorm_after", norms::layer);
    if (drops) y = moved(b, OpKind::drop_path, "drop_path", y, stage.patches());
    Block block = std::move(b).finish(b.add(residual, y, "mlp.residual"));
    for (Parameter& parameter : block.parameters) parameter.component = kVision;
    return block;
}

/// A stage returns its result in another layout too, which the loop over the stages names until the next one has
/// returned [SwinStage.get_reshaped_hidden_states, SwinEncoder.forward].
void reshape(BlockBuilder& b, const std::vector<Tensor>& shared, int x) {
    name(b, shared, ended, x);
    b.last_op().kind = OpKind::transpose_heads;
    b.last_op().attributes.heads = 1;
}

/// Version 2: what a stage had before its patches are merged keeps a name as long, and what it began with none
/// [models/swinv2/modeling_swinv2.py Swinv2Encoder.forward].
void end_stage(BlockBuilder& b, const std::vector<Tensor>& shared, int x) {
    name(b, shared, ended, x);
    name(b, shared, begun, x);
}

/// [SwinPatchMerging.forward, Swinv2PatchMerging.forward]
Block merging(const Stage& stage, bool second, const std::vector<Tensor>& shared) {
    BlockBuilder b("merging");
    const Place place = in_vision(place::embedding);
    int x = b.input(stage.width, Rows::images);
    b.set_times(x, stage.patches());
    const int before = x;
    const std::int64_t side = (stage.side + 1) / 2;
    if (stage.side % 2 == 1) x = moved(b, OpKind::pad, "downsample.pad", x, 4 * side * side);
    const int merged = grid(b, "downsample.merged", 4 * stage.width, side * side);
    b.op(OpKind::merge_patches, "downsample.merged", place, {x}, {merged});
    b.norm_weights("downsample.norm", (second ? 2 : 4) * stage.width, norms::layer, kVision);
    if (second) {
        b.linear_weights("downsample.reduction", 4 * stage.width, 2 * stage.width, false, kVision);
        x = b.linear(merged, "downsample.reduction", 2 * stage.width, false, place);
        x = b.norm(x, "downsample.norm", norms::layer, place);
        end_stage(b, shared, before);
    } else {
        x = b.norm(merged, "downsample.norm", norms::layer, place);
        b.linear_weights("downsample.reduction", 4 * stage.width, 2 * stage.width, false, kVision);
        x = b.linear(x, "downsample.reduction", 2 * stage.width, false, place);
        reshape(b, shared, x);
    }
    return std::move(b).finish(x);
}

Block head(const SwinPlan& plan, const Stage& last, const Parts& parts, const std::string& base,
           const std::vector<Tensor>& shared) {
    BlockBuilder b("head");
    int x = b.input(last.width, Rows::images);
    b.set_times(x, last.patches());
    if (plan.second)
        end_stage(b, shared, x);
    else
        reshape(b, shared, x);
    b.norm_weights(base + "layernorm", plan.features(), norms::layer, kVision);
    x = b.hold(b.norm(x, base + "layernorm", norms::layer));
    const int pooled = b.hold(b.tensor("pooler", last.width, Rows::images));
    b.op(OpKind::mean_patches, "pooler", place::head, {x}, {pooled});
    return pooled_end(std::move(b), pooled, base.empty(), parts);
}

/// Which of a stage's layers are alike: those that shift their windows, those that drop branches.
void add_layers(Parts& parts, const SwinPlan& plan, const Stage& stage, std::int64_t first, std::int64_t depth,
                const std::string& prefix) {
    Model& model = parts.model();
    std::vector<int> kinds, known(8, -1);
    for (std::int64_t i = 0; i < depth; ++i) {
        const bool shifted = i % 2 == 1 && stage.side > stage.window && stage.window > 1;
        const bool drops = plan.drop_path > 0 && first + i > 0;
        const bool begins = plan.second && i == 0 && first > 0;
        int& index = known[static_cast<std::size_t>(4 * begins + 2 * shifted + drops)];
        if (index < 0) {
            index = static_cast<int>(model.blocks.size());
            model.blocks.push_back(plan.second ? second_layer(plan, stage, model.shared, shifted, drops, begins)
                                               : layer(plan, stage, shifted, drops));
        }
        kinds.push_back(index);
    }
    for (Section& section : sections_of(kinds, prefix)) model.sections.push_back(std::move(section));
}

void describe(Parts& parts, const SwinPlan& plan) {
    Model& model = parts.model();
    const std::int64_t patches = plan.side() * plan.side();
    model.image = {plan.channels, plan.image, plan.image, patches, patches};
    model.inputs = {{"pixels", Rows::images, model.image.pixels(), nullptr}};
    if (!parts.is("Model")) model.inputs.push_back(class_labels(Rows::images, parts.labels(), parts.problem()));
    model.facts.hidden_size = plan.features();
    model.facts.layers = plan.layers();
    model.facts.heads = model.facts.kv_heads = plan.heads.back();
    model.facts.head_dim = plan.features() / plan.heads.back();
    // [SwinStage, SwinLayer; Swinv2Stage: GradientCheckpointingLayer]
    model.checkpointing_unsupported = plan.second ? "its checkpoints are whole stages"
                                                  : "checkpoints within checkpoints are not modelled";
    for (std::size_t i = 0; i < plan.depths.size(); ++i) {
        const std::int64_t side = stage_of(plan, i).side;
        if (!plan.second && side < plan.window)
            model.step_unsupported = "the class knows no windows that are larger than the grid";
        if (plan.second && side != plan.side() >> i)
            model.step_unsupported = "grids of an odd side between stages are not modelled";
    }
    if (plan.image % plan.patch != 0) model.step_unsupported = "images that patches do not divide are not modelled";
}

}  // namespace

namespace {

void configure(ConfigReader& config, Parts& parts, bool second) {
    SwinPlan plan = read_swin(config);
    plan.second = second;
    plan.image = config.size("image_size", kLargestCount);
    plan.act = config.activation("hidden_act");
    plan.dropout = config.probability("hidden_dropout_prob");
    plan.attention_dropout = config.probability("attention_probs_dropout_prob");
    plan.drop_path = config.probability("drop_path_rate");
    for (std::size_t i = 0; i < plan.depths.size(); ++i)
        if (plan.heads[i] < 1 || (plan.embedding << i) % plan.heads[i] != 0) {
            if (config.diagnostics().empty())
                config.invalid("num_heads", fmt::format("expected divisors of the widths of the stages, {} for stage {}; got {}",
                                                        plan.embedding << i, i, plan.heads[i]));
            return;
        }
    const std::string base = parts.is("Model") ? "" : second ? "swinv2." : "swin.";
    const auto stage_at = [&](std::size_t i) { return second ? second_stage_of(plan, i) : stage_of(plan, i); };
    std::vector<Tensor>& shared = parts.model().shared;
    for (const std::string_view name : {"states that ended a stage", "states that began a stage"})
        if (shared.empty() || second) declare_tensor(shared, std::string(name), 0, Rows::images);
    parts.add(base, stem(plan));
    std::int64_t first = 0;
    for (std::size_t i = 0; i < plan.depths.size(); ++i) {
        const std::string path = fmt::format("{}encoder.layers.{}.", base, i);
        add_layers(parts, plan, stage_at(i), first, plan.depths[i], path + "blocks.{}.");
        if (i + 1 < plan.depths.size()) parts.add(path, merging(stage_at(i), second, shared));
        first += plan.depths[i];
    }
    parts.add("", head(plan, stage_at(plan.depths.size() - 1), parts, base, shared));
    describe(parts, plan);
}

}  // namespace

void configure_swin(ConfigReader& config, Parts& parts) { configure(config, parts, false); }
void configure_swinv2(ConfigReader& config, Parts& parts) { configure(config, parts, true); }

}  // namespace membudget
