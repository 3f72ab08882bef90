// The decoder of Gemma 3n: Gemma's layers with several streams (AltUp, arXiv:2301.13310), a low-rank path beside
// attention (LAuReL, arXiv:2411.07501), activations that are mostly zero, embeddings of each layer, and last layers that
// use the keys and values of earlier ones [transformers models/gemma3n/modeling_gemma3n.py].

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "model/gemma4.hpp"
#include "model/llama_like.hpp"
#include "model/multimodal.hpp"

namespace membudget {
namespace {

constexpr Norm kNorm = kGemma4Norm;  // the classes are the same

/// Sizes that every layer shares.
struct Gemma3n {
    std::int64_t hidden = 1, streams = 1, rank = 1;
    LayerInputs inputs;
    Act act = Act::gelu_tanh;
    bool clips = true, scales = true;  ///< coefficients are clipped; the corrected stream is scaled
    std::vector<Tensor> carried;
};

/// What tells the layers apart.
struct Gemma3nKind {
    Gemma4Kind keys;
    std::int64_t width = 1;
    bool sparse = false;
    bool operator==(const Gemma3nKind&) const = default;
};

/// How much each stream counts for a token [Gemma3nTextAltUp.compute_router_modalities]: tokens x streams.
int modalities(BlockBuilder& b, const Gemma3n& g, int x) {
    constexpr Place here = place::other;
    const auto function = b.scope();
    const int scaled = b.hold(b.scale(b.norm(x, "altup.router_norm", kNorm), "altup.router_input_scale", here));
    const int routed = b.hold(b.linear(scaled, "altup.modality_router", g.streams, false, here));
    const int out = b.tensor("altup.modalities", g.streams);
    OpAttributes& tanh = b.op(OpKind::activation, "altup.modalities", here, {routed, x}, {out}).attributes;
    tanh.act = Act::tanh;
    tanh.widened = true;
    return out;
}

/// The active one of the streams, a view.
int active(BlockBuilder& b, const Gemma3n& g, int streams, const char* name) {
    const int out = b.tensor(name, g.hidden);
    b.op(OpKind::split, name, place::residual, {streams}, {out}).attributes.sliced = true;
    return out;
}

Op& altup(BlockBuilder& b, Altup what, const char* name, std::vector<int> inputs, std::vector<int> outputs) {
    Op& op = b.op(OpKind::altup, name, place::residual, std::move(inputs), std::move(outputs));
    op.attributes.altup = what;
    return op;
}

int predict(BlockBuilder& b, const Gemma3n& g, int streams) {
    const auto function = b.scope();
    const int weights = b.hold(modalities(b, g, active(b, g, streams, "altup.active")));
    const int coefficients =
        b.hold(b.linear(weights, "altup.prediction_coefs", g.streams * g.streams, false, place::other));
    const int out = b.tensor("altup.predict", b.width(streams));
    altup(b, Altup::predict, "altup.predict", {streams, coefficients}, {out});
    return out;
}

int correct(BlockBuilder& b, const Gemma3n& g, int predictions, int activated) {
    const auto function = b.scope();
    const int weights = b.hold(modalities(b, g, activated));
    const int weight = b.parameter("altup.correction_coefs.weight", {g.streams, g.streams}, Component::other);
    const int out = b.tensor("altup.correct", b.width(predictions));
    Op& op = altup(b, Altup::correct, "altup.correct", {predictions, activated, weights}, {out});
    op.parameters = {weight};
    op.attributes.softcap = g.clips ? 1 : 0;
    return out;
}

int mlp(BlockBuilder& b, const Gemma3n& g, const Gemma3nKind& kind, int x) {
    const auto function = b.scope();
    int gate = b.linear(x, "mlp.gate_proj", kind.width, false, place::mlp);
    if (kind.sparse) {
        const int sparse = b.tensor("mlp.gaussian_topk", kind.width);
        b.op(OpKind::sparsify, "mlp.gaussian_topk", place::mlp, {gate}, {sparse});
        gate = sparse;
    }
    const int act = b.hold(b.activation(b.hold(gate), "mlp.act_fn", g.act, place::mlp));
    const int up = b.hold(b.linear(x, "mlp.up_proj", kind.width, false, place::mlp));
    const int product = b.tensor("mlp.product", kind.width);
    b.op(OpKind::multiply, "mlp.product", place::mlp, {act, up}, {product});
    return b.linear(product, "mlp.down_proj", g.hidden, false, place::mlp);
}

int laurel(BlockBuilder& b, const Gemma3n& g, int x) {
    constexpr Place here = place::other;
    const auto function = b.scope();
    const int left = b.linear(x, "laurel.linear_left", g.rank, false, here);
    const int right = b.hold(b.linear(left, "laurel.linear_right", g.hidden, false, here));
    const int normed = b.hold(b.norm(right, "laurel.post_laurel_norm", kNorm));
    return b.add(x, normed, "laurel.residual");
}

/// [Gemma3nTextDecoderLayer.forward]
int layer(BlockBuilder& b, const Gemma3n& g, const Gemma3nKind& kind, const Gemma4Attention& attention, const LayerInput& input,
          int streams, const int (&tables)[3]) {
    const int own = input.take(b);
    const int predictions = b.hold(predict(b, g, streams));
    const int residual = b.hold(active(b, g, predictions, "active_prediction"));
    const int normed = b.hold(b.norm(residual, "input_layernorm", kNorm));
    const int beside = b.hold(laurel(b, g, normed));
    int y = gemma4_attention(b, attention, g.carried, normed, tables[0], tables[1], tables[2]);
    y = b.hold(b.norm(y, "post_attention_layernorm", kNorm));
    const int gated = b.hold(b.add(residual, y, "attention_residual"));
    const int sum = b.add(gated, beside, "laurel_sum");
    const int both = b.hold(b.scale(sum, "laurel_scale", place::residual));
    y = b.hold(mlp(b, g, kind, b.hold(b.norm(both, "pre_feedforward_layernorm", kNorm))));
    y = b.hold(b.norm(y, "post_feedforward_layernorm", kNorm));
    const int activated = b.hold(b.add(both, y, "mlp_residual"));
    const int corrected = b.hold(correct(b, g, predictions, activated));
    int first = b.tensor("first_prediction", g.hidden);
    b.op(OpKind::transpose_heads, "first_prediction", place::residual, {active(b, g, corrected, "altup.corrected")}, {first})
        .attributes.heads = 1;
    if (g.scales) {
        const int scale = b.parameter("altup.correct_output_scale", {g.hidden}, Component::other);
        const int scaled = b.tensor("altup.scaled", g.hidden);
        b.op(OpKind::multiply, "altup.scaled", place::residual, {first}, {scaled}, {scale});
        first = scaled;
    } else {
        b.parameter("altup.correct_output_scale", {g.hidden}, Component::other);
    }
    first = b.hold(gated_layer_input(b, g.inputs, first, own));
    const int out = b.tensor("streams", b.width(streams));
    altup(b, Altup::add, "altup.add", {corrected, first}, {out});
    return out;
}

std::vector<int> projections(BlockBuilder& b, const Gemma3n& g, const std::string& module) {
    std::vector<int> out;
    for (std::int64_t i = 0; i + 1 < g.streams; ++i) {
        const std::string name = fmt::format("{}.{}.weight", module, i);
        out.push_back(b.parameter(name, {g.hidden, g.hidden}, Component::other));
        b.parameter_named(name).registered_last = true;
    }
    return out;
}

/// The words, and a projection of them for each further stream; all of these, and the last projection, keep names of the
/// function that runs the layers [Gemma3nTextModel.forward].
int spread(BlockBuilder& b, const Gemma3n& g, int x) {
    std::vector<int> made{b.tensor("streams", g.hidden * g.streams)};
    for (std::int64_t i = 1; i <= g.streams; ++i)
        made.push_back(b.hold_until_model_end(b.tensor(fmt::format("altup_projections.{}", i - 1), g.hidden)));
    if (g.streams == 1) made.resize(1);
    std::vector<int> weights = projections(b, g, "altup_projections");
    altup(b, Altup::spread, "altup_projections", {x}, made).parameters = std::move(weights);
    return made.front();
}

int collapse(BlockBuilder& b, const Gemma3n& g, const std::string& base, int x) {
    const int out = b.tensor("altup_unembed_projections", g.hidden);
    std::vector<int> weights = projections(b, g, join(base, "altup_unembed_projections"));
    altup(b, Altup::collapse, "altup_unembed_projections", {x}, {out}).parameters = std::move(weights);
    return out;
}

/// Width of each layer's feed-forward network: one for all, or a list.
std::vector<std::int64_t> read_widths(ConfigReader& config, std::int64_t layers) {
    const KeyTree* given = config.raw("intermediate_size");
    if (given == nullptr || !given->is(KeyTree::Kind::array))
        return std::vector<std::int64_t>(static_cast<std::size_t>(layers), config.size("intermediate_size"));
    std::vector<std::int64_t> widths = config.sizes("intermediate_size");
    const bool whole = static_cast<std::int64_t>(widths.size()) == layers;
    if (!whole || std::count(widths.begin(), widths.end(), 0) > 0) {
        config.invalid("intermediate_size", "expected a positive width for each layer");
        widths.assign(static_cast<std::size_t>(layers), 1);
    }
    return widths;
}

/// Which layers keep only what is far above the mean: a list of shares, else the first ten of more than ten.
std::vector<bool> read_sparse(ConfigReader& config, std::int64_t layers) {
    std::vector<bool> out;
    const KeyTree* given = config.raw("activation_sparsity_pattern");
    const auto is_number = [](const KeyTree& one) {
        return one.is(KeyTree::Kind::integer) || one.is(KeyTree::Kind::number);
    };
    if (given != nullptr && given->is(KeyTree::Kind::array))
        for (const KeyTree& one : given->items()) out.push_back(is_number(one) && one.number() > 0);
    const bool absent = given == nullptr || given->is_null();
    if (!absent && static_cast<std::int64_t>(out.size()) != layers)
        config.invalid("activation_sparsity_pattern", fmt::format("expected a number for each layer ({})", layers));
    for (auto i = static_cast<std::int64_t>(out.size()); i < layers; ++i) out.push_back(absent && layers > 10 && i < 10);
    out.resize(static_cast<std::size_t>(layers));
    return out;
}

}  // namespace

void configure_gemma3n_text(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_decoder_sizes(config, plan);
    plan.norm = kNorm;
    plan.embedding_scale = true;
    plan.head_softcap = config.number("final_logit_softcapping");
    LayerPlan base;
    read_heads(config, plan.hidden, base.attention, Remainder::dropped);
    base.mlp.act = config.activation("hidden_activation");
    Gemma3n g;
    g.hidden = plan.hidden;
    g.act = base.mlp.act;
    g.streams = config.size("altup_num_inputs", 64);
    g.rank = config.size("laurel_rank");
    const KeyTree* clip = config.raw("altup_coef_clip");
    g.clips = clip == nullptr || !clip->is_null();
    g.scales = config.flag("altup_correct_scale");
    g.inputs = read_layer_inputs(config, plan, base, true);
    if (g.inputs.width == 0) config.invalid("hidden_size_per_layer_input", "expected a positive width");
    Gemma4Attention attention;
    attention.sizes.hidden = plan.hidden;
    attention.sizes.heads = base.attention.heads;
    attention.sizes.kv_heads = base.attention.kv_heads;
    attention.sizes.head_dim = base.attention.head_dim;
    attention.sizes.bias = config.flag("attention_bias");
    attention.dropout = config.probability("attention_dropout");
    attention.keys_first = true;

    const std::vector<std::int64_t> widths = read_widths(config, plan.layer_count);
    const std::vector<bool> sparse = read_sparse(config, plan.layer_count);
    const std::vector<Gemma4Kind> keys = read_gemma4_kinds(config, plan.layer_count, true);
    const std::optional<SharedKeys> of_windows = share_gemma4_keys(plan, keys, false, attention.sizes);
    const std::optional<SharedKeys> of_all = share_gemma4_keys(plan, keys, true, attention.sizes);
    g.carried = plan.carried;
    std::vector<Gemma3nKind> kinds;
    for (std::size_t i = 0; i < keys.size(); ++i) kinds.push_back({keys[i], widths[i], sparse[i]});
    const std::int64_t window = config.size("sliding_window");
    plan_layers(plan, kinds, [&](const Gemma3nKind& kind) {
        LayerPlan made = base;
        Gemma4Attention own = attention;
        own.own_keys = kind.keys.own_keys;
        own.stores = kind.keys.stores;
        if (!own.own_keys || own.stores) own.shared = kind.keys.full ? of_all : of_windows;
        made.attention.rotary = kind.keys.full == keys.front().full ? 0 : 1;
        made.attention.window = kind.keys.full ? 0 : window;
        made.mlp.width = kind.width;
        made.build = [g, kind, own, input = base.input](BlockBuilder& b, int x, int cos, int sin, int mask) {
            return layer(b, g, kind, own, input, x, {cos, sin, mask});
        };
        return made;
    });
    plan.streams = g.streams;
    plan.spread = [g](BlockBuilder& b, int x) { return spread(b, g, x); };
    plan.collapse = [g](BlockBuilder& b, const std::string& in, int x) { return collapse(b, g, in, x); };
    parts.add_decoder(plan, true);
}

}  // namespace membudget
