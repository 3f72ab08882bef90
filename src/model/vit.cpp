#include "model/vit.hpp"

#include <algorithm>

#include "model/decoder.hpp"
#include "model/parts.hpp"

namespace membudget {
namespace {

constexpr Component kVision = Component::vision;

/// Of `Model::shared`, where queries and keys rotate: a row for each patch of an image.
constexpr int kCosine = 0, kSine = 1;

int rotary_table(BlockBuilder& b, const std::vector<Tensor>& shared, int index) {
    return b.shared(index, shared);
}

/// Patches behind all learned tokens, and the tables of their rotation
/// [models/dinov3_vit/modeling_dinov3_vit.py DINOv3ViTModel.forward].
Block rotating_stem(const VitPlan& plan, const std::vector<Tensor>& shared) {
    BlockBuilder b("patch embedding");
    const int pixels = b.tensor("pixel_values", plan.channels * plan.image * plan.image, Rows::images);
    std::vector<int> tokens{b.parameter("embeddings.cls_token", {1, 1, plan.hidden}, kVision)};
    b.parameter("embeddings.mask_token", {1, 1, plan.hidden}, kVision);
    tokens.push_back(b.parameter("embeddings.register_tokens", {1, *plan.registers, plan.hidden}, kVision));
    const std::string name(plan.convolution);
    const int weight = b.parameter(join(name, "weight"), {plan.hidden, plan.channels, plan.patch, plan.patch}, kVision);
    const int bias = b.parameter(join(name, "bias"), {plan.hidden}, kVision);
    // Before the patches, whatever type autocast gives them: the tables have that of the parameters.
    b.op(OpKind::rotary_tables, "rope_embeddings", place::attention, {},
         {rotary_table(b, shared, kCosine), rotary_table(b, shared, kSine)})
        .attributes.rotation = Rotation::of_patches;
    const int patches = b.tensor(name, detail::checked_mul(plan.patches(), plan.hidden), Rows::images);
    b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {patches}, {weight, bias});
    const int x = b.hold_until_model_end(b.tensor("embeddings", plan.hidden, Rows::patches));
    b.op(OpKind::concat, "embeddings", place::embedding, {patches}, {x}, tokens);
    return std::move(b).finish(x);
}

Block build_stem(const VitPlan& plan) {
    BlockBuilder b("patch embedding");
    const int pixels = b.tensor("pixel_values", plan.channels * plan.image * plan.image, Rows::images);
    std::vector<int> tokens{b.parameter("embeddings.cls_token", {1, 1, plan.hidden}, kVision)};
    if (plan.distilled)
        tokens.push_back(b.parameter("embeddings.distillation_token", {1, 1, plan.hidden}, kVision));
    if (plan.mask_token) b.parameter("embeddings.mask_token", {1, plan.hidden}, kVision);
    int registers = -1;
    if (plan.registers)
        registers = b.parameter("embeddings.register_tokens", {1, *plan.registers, plan.hidden}, kVision);
    const int positions = b.parameter("embeddings.position_embeddings",
                                      {1, plan.patches() + plan.tokens(), plan.hidden}, kVision);
    const std::string name(plan.convolution);
    const int weight = b.parameter(join(name, "weight"),
                                   {plan.hidden, plan.channels, plan.patch, plan.patch}, kVision);
    const int bias = b.parameter(join(name, "bias"), {plan.hidden}, kVision);

    const int patches = b.tensor(name, detail::checked_mul(plan.patches(), plan.hidden), Rows::images);
    b.op(OpKind::conv_patches, name, place::embedding, {pixels}, {patches}, {weight, bias});
    const std::int64_t width = detail::checked_mul(plan.patches() + plan.tokens(), plan.hidden);
    const int joined = b.tensor("embeddings.tokens", width, Rows::images);
    b.op(OpKind::concat, "embeddings.tokens", place::embedding, {patches}, {joined}, tokens);
    int x = b.tensor("embeddings.sum", width, Rows::images);
    b.op(OpKind::add, "embeddings.sum", place::embedding, {joined}, {x}, {positions});
    std::vector<int> pieces{x};
    if (plan.registers) {  // between the class token and the patches
        const int first = b.tensor("embeddings.class_token", plan.hidden, Rows::images);
        const int rest = b.tensor("embeddings.patches", width - plan.hidden, Rows::images);
        b.op(OpKind::split, "embeddings.pieces", place::embedding, {x}, {first, rest}).attributes.sliced = true;
        pieces = {first, rest};
    }
    x = b.tensor("embeddings", plan.hidden, Rows::patches);
    if (plan.registers)
        b.op(OpKind::concat, "embeddings.registers", place::embedding, std::move(pieces), {x}, {registers});
    else
        b.op(OpKind::split, "embeddings", place::embedding, std::move(pieces), {x}).attributes.same = true;
    x = b.dropout(x, "embeddings.dropout", plan.dropout, place::embedding);
    b.hold_until_model_end(x);
    return std::move(b).finish(x);
}

/// Builds a layer: attention and MLP, each after a norm, each added to what came in.
class VitLayerBuilder {
public:
    VitLayerBuilder(const VitPlan& plan, const std::vector<Tensor>& shared)
        : plan_(plan), shared_(shared), builder_("vision layer") {}

    Block build();

private:
    int attention(int x);
    int mlp(int x);
    int gated_mlp(int x);
    int scaled(int x, std::string_view name, Place place);
    template <class Function>
    int after_norm(int x, std::string_view name, Function&& function) {
        const auto scope = builder_.scope();  // the result of the norm keeps a name until f returns
        const int normed = builder_.hold(builder_.norm(x, name, norms::layer));
        return function(normed);
    }

    void rotate(int& q, int& k);

    const VitPlan& plan_;
    const std::vector<Tensor>& shared_;
    BlockBuilder builder_;
};

void VitLayerBuilder::rotate(int& q, int& k) {
    BlockBuilder& b = builder_;
    b.release(q);  // the rotated ones take their names
    b.release(k);
    const int rotated_q = b.hold(b.tensor("attention.query", plan_.hidden, Rows::patches));
    const int rotated_k = b.hold(b.tensor("attention.key", plan_.hidden, Rows::patches));
    OpAttributes& a = b.op(OpKind::rotary, "attention.rotary", in_vision(place::attention),
                           {q, k, rotary_table(b, shared_, kCosine), rotary_table(b, shared_, kSine)},
                           {rotated_q, rotated_k}).attributes;
    a.heads = a.kv_heads = plan_.heads;
    a.head_dim = plan_.hidden / plan_.heads;
    a.rotation = Rotation::of_patches;
    q = rotated_q;
    k = rotated_k;
}

int VitLayerBuilder::attention(int x) {
    BlockBuilder& b = builder_;
    const auto function = b.scope();
    const Place place = in_vision(place::attention);
    const auto projection = [&](std::string_view name, bool bias) {
        return b.hold(b.linear(x, join("attention", name), plan_.hidden, bias, place));
    };
    int q = projection("q_proj", plan_.q_bias);
    int k = projection("k_proj", plan_.k_bias);
    const int v = projection("v_proj", plan_.v_bias);
    if (plan_.rotates) rotate(q, k);
    const int context = b.tensor("attention", plan_.hidden, Rows::patches);
    OpAttributes& attributes =
        b.op(OpKind::attention, "attention", place, {q, k, v}, {context}).attributes;
    attributes.heads = plan_.heads;
    attributes.kv_heads = plan_.heads;
    attributes.head_dim = plan_.hidden / plan_.heads;
    attributes.value_dim = attributes.head_dim;
    attributes.causal = false;
    attributes.softmax_in_dtype = plan_.softmax_in_dtype;
    attributes.dropout = plan_.attention_dropout;
    attributes.rotates = attributes.head_major = plan_.rotates;  // concatenated, they lie head by head
    return b.linear(context, "attention.o_proj", plan_.hidden, plan_.o_bias, place);
}

int VitLayerBuilder::mlp(int x) {
    const auto function = builder_.scope();
    const Place place = in_vision(place::mlp);
    if (plan_.gated) return gated_mlp(x);
    const int up = builder_.linear(x, join("mlp", plan_.up), plan_.width, plan_.mlp_bias, place);
    const int active = builder_.activation(up, "mlp.activation_fn", plan_.act, place);
    return builder_.linear(active, join("mlp", plan_.down), plan_.hidden, plan_.mlp_bias, place);
}

int VitLayerBuilder::gated_mlp(int x) {
    const Place place = in_vision(place::mlp);
    const int gate = builder_.linear(x, "mlp.gate_proj", plan_.width, plan_.mlp_bias, place);
    const int up = builder_.linear(x, "mlp.up_proj", plan_.width, plan_.mlp_bias, place);
    const int active = builder_.gated_activation(gate, up, "mlp.act_fn", plan_.gated_act, place);
    return builder_.linear(active, "mlp.down_proj", plan_.hidden, plan_.mlp_bias, place);
}

/// What the layer does with a sublayer's result before it adds it.
int VitLayerBuilder::scaled(int x, std::string_view name, Place place) {
    if (!plan_.layer_scale) return builder_.dropout(x, "dropout", plan_.dropout, place);
    const int lambda = builder_.parameter(join(name, "lambda1"), {plan_.hidden}, kVision);
    const int out = builder_.tensor(std::string(name), plan_.hidden, Rows::patches);
    builder_.op(OpKind::multiply, std::string(name), place, {x}, {out}, {lambda});
    if (plan_.drop_path <= 0) return out;
    const int kept = builder_.tensor("drop_path", plan_.hidden, Rows::patches);
    builder_.op(OpKind::drop_path, "drop_path", place, {out}, {kept});
    return kept;
}

Block VitLayerBuilder::build() {
    BlockBuilder& b = builder_;
    const int x = b.input(plan_.hidden, Rows::patches);
    int y = after_norm(x, plan_.first_norm, [this](int n) { return attention(n); });
    y = scaled(y, "layer_scale1", place::attention);
    const int residual = b.hold(b.add(y, x, "attention.residual"));
    y = after_norm(residual, plan_.second_norm, [this](int n) { return mlp(n); });
    y = scaled(y, "layer_scale2", place::mlp);
    y = b.add(y, residual, "mlp.residual");
    b.set_checkpointable();
    Block block = std::move(b).finish(y);
    for (Parameter& parameter : block.parameters) parameter.component = kVision;
    return block;
}

Block build_head(const VitPlan& plan, bool bare, bool teacher, std::int64_t labels, Problem problem) {
    BlockBuilder b("head");
    int x = b.input(plan.hidden, Rows::patches);
    const auto in_base = [&](std::string_view name) {
        return bare ? std::string(name) : join(plan.base, name);
    };
    x = b.hold(b.norm(x, in_base(plan.final_norm), norms::layer));
    for (const std::string_view name : {"weight", "bias"})
        b.parameter_named(join(in_base(plan.final_norm), name)).component = kVision;
    const auto first_token = [&] {
        const int first = b.tensor("first_token", plan.hidden, Rows::images);
        b.op(OpKind::split, "first_token", place::head, {x}, {first});
        return first;
    };
    if (bare) {
        int pooled = plan.rotates ? b.hold(first_token()) : x;
        if (plan.pooler) {
            pooled = b.linear(first_token(), "pooler.dense", plan.pooled, true, in_vision(place::head));
            pooled = b.hold(b.activation(pooled, "pooler.activation", plan.pooler_act, place::head));
        }
        b.end_base_model();
        b.op(OpKind::pooler_loss, "loss", place::loss, {pooled}, {b.tensor("loss", 1, Rows::one)});
        return std::move(b).finish(-1);
    }
    b.end_base_model();
    if (teacher) {  // two classifiers without a loss
        b.linear_weights("cls_classifier", plan.hidden, labels, true, Component::head);
        b.linear_weights("distillation_classifier", plan.hidden, labels, true, Component::head);
        return std::move(b).finish(-1);
    }
    int features = b.hold(first_token());
    if (plan.joins_mean) {
        const int patches = b.hold(b.tensor("patch_tokens", detail::checked_mul(plan.patches(), plan.hidden), Rows::images));
        b.op(OpKind::split, "patch_tokens", place::head, {x}, {patches}).attributes.sliced = true;
        const int mean = b.tensor("mean", plan.hidden, Rows::images);
        b.op(OpKind::mean_patches, "mean", place::head, {patches}, {mean});
        const int both = b.hold(b.tensor("linear_input", 2 * plan.hidden, Rows::images));
        b.op(OpKind::concat, "linear_input", place::head, {features, mean}, {both});
        features = both;
    }
    classification_loss(b, b.hold(b.linear(features, "classifier", labels, true, place::head)), problem);
    return std::move(b).finish(-1);
}

/// What all of these configs say.
void read_vit(ConfigReader& config, VitPlan& plan) {
    plan.hidden = config.size("hidden_size");
    plan.layer_count = config.size("num_hidden_layers", kLargestCount);
    plan.heads = config.size("num_attention_heads", kLargestCount);
    plan.channels = config.size("num_channels", kLargestCount);
    plan.patch = config.size("patch_size", kLargestCount);
    plan.image = config.size("image_size", kLargestCount);
    plan.q_bias = plan.k_bias = plan.v_bias = config.flag("qkv_bias");
    plan.act = config.activation("hidden_act");
    plan.dropout = config.probability("hidden_dropout_prob");
    plan.attention_dropout = config.probability("attention_probs_dropout_prob");
    config.divides("hidden_size", plan.hidden, "num_attention_heads", plan.heads);
}

}  // namespace

Result<Model> vit_family(const Family& family, const KeyTree& config, std::string_view architecture,
                         ConfigureVit configure) {
    Diagnostics diagnostics;
    const std::string chosen = choose_architecture(family, config, architecture, diagnostics);
    ConfigReader reader(config, "", family.name, family.keys, diagnostics);
    VitPlan plan;
    configure(reader, plan);
    const std::int64_t labels = label_count(config);
    const Problem problem = problem_of(config, labels, diagnostics);
    if (!diagnostics.empty()) return diagnostics;

    const bool bare = chosen.ends_with("Model");
    const bool teacher = chosen.ends_with("WithTeacher");
    const std::string base = bare ? std::string() : std::string(plan.base) + ".";
    Model model;
    if (plan.rotates)
        for (const std::string_view table : {"cos", "sin"}) {
            declare_tensor(model.shared, std::string(table), plan.hidden / plan.heads, Rows::one);
            model.shared.back().times = plan.patches();
        }
    model.blocks.push_back(plan.rotates ? rotating_stem(plan, model.shared) : build_stem(plan));
    model.blocks.push_back(VitLayerBuilder(plan, model.shared).build());
    model.blocks.push_back(build_head(plan, bare, teacher, labels, problem));
    model.sections.push_back({base, 0, {0}, 1});
    model.sections.push_back({base + std::string(plan.layers) + ".{}.", 0, {1}, plan.layer_count});
    model.sections.push_back({"", 0, {2}, 1});

    model.image = {plan.channels, plan.image, plan.image, plan.rows(), plan.patches()};
    model.inputs = {{"pixels", Rows::images, model.image.pixels(), nullptr}};
    if (!bare) model.inputs.push_back(class_labels(Rows::images, labels, problem));
    note_origin(model, family, chosen, reader);
    model.step_unsupported = teacher ? "the class computes no loss" : "";
    model.facts.hidden_size = plan.hidden;
    model.facts.layers = plan.layer_count;
    model.facts.heads = plan.heads;
    model.facts.kv_heads = plan.heads;
    model.facts.head_dim = plan.hidden / plan.heads;
    model.facts.intermediate_size = plan.width;
    return model;
}

void configure_vit(ConfigReader& config, VitPlan& plan) {
    read_vit(config, plan);
    plan.width = config.size("intermediate_size");
    plan.pooler = true;
    plan.pooled = config.size_or("pooler_output_size", plan.hidden);
    plan.pooler_act = config.activation("pooler_act");
}

void configure_deit(ConfigReader& config, VitPlan& plan) {
    configure_vit(config, plan);
    plan.base = "deit";
    plan.distilled = true;
}

namespace {

/// What both classes share; they differ in their tokens.
void read_dinov2(ConfigReader& config, VitPlan& plan) {
    read_vit(config, plan);
    plan.layers = "encoder.layer";
    plan.first_norm = "norm1";
    plan.second_norm = "norm2";
    plan.layer_scale = true;
    plan.softmax_in_dtype = true;
    plan.joins_mean = true;
    const std::int64_t ratio = config.size("mlp_ratio", 64);
    plan.gated = config.flag("use_swiglu_ffn");
    // Two thirds of the plain width, rounded up to a multiple of 8.
    plan.width = plan.gated ? (plan.hidden * ratio * 2 / 3 + 7) / 8 * 8 : ratio * plan.hidden;
    plan.drop_path = config.probability("drop_path_rate");
}

}  // namespace

void configure_dinov2(ConfigReader& config, VitPlan& plan) {
    read_dinov2(config, plan);
    plan.base = "dinov2";
    plan.mask_token = config.flag("use_mask_token");
}

/// The class has no `use_mask_token`: the token is always there.
void configure_dinov2_with_registers(ConfigReader& config, VitPlan& plan) {
    read_dinov2(config, plan);
    plan.base = "dinov2_with_registers";
    plan.mask_token = true;
    plan.registers = config.count_or("num_register_tokens", 0);
}

void configure_dinov3_vit(ConfigReader& config, VitPlan& plan) {
    plan.hidden = config.size("hidden_size");
    plan.layer_count = config.size("num_hidden_layers", kLargestCount);
    plan.heads = config.size("num_attention_heads", kLargestCount);
    config.divides("hidden_size", plan.hidden, "num_attention_heads", plan.heads);
    plan.width = config.size("intermediate_size");
    plan.channels = config.size("num_channels", kLargestCount);
    plan.patch = config.size("patch_size", kLargestCount);
    plan.image = config.size("image_size", kLargestCount);
    plan.act = plan.gated_act = config.activation("hidden_act");
    plan.attention_dropout = config.probability("attention_dropout");
    plan.drop_path = config.probability("drop_path_rate");
    plan.q_bias = config.flag("query_bias");
    plan.k_bias = config.flag("key_bias");
    plan.v_bias = config.flag("value_bias");
    plan.o_bias = config.flag("proj_bias");
    plan.mlp_bias = config.flag("mlp_bias");
    plan.gated = config.flag("use_gated_mlp");
    plan.registers = config.count_or("num_register_tokens", 0);
    plan.convolution = "embeddings.patch_embeddings";
    plan.layers = "model.layer";
    plan.first_norm = "norm1";
    plan.second_norm = "norm2";
    plan.final_norm = "norm";
    plan.up = "up_proj";
    plan.down = "down_proj";
    plan.layer_scale = plan.softmax_in_dtype = plan.rotates = true;
}

}  // namespace membudget
