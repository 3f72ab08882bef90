// The decoder of Gemma 3n, of which the parameters are known: Gemma's layers with several streams (AltUp,
// arXiv:2301.13310), a low-rank path beside attention (LAuReL, arXiv:2411.07501), embeddings of each layer,
// and last layers that use the keys and values of earlier ones.

#include <algorithm>
#include <utility>

#include "model/llama_like.hpp"
#include "model/multimodal.hpp"

namespace membudget {
namespace {

constexpr Component kAttention = Component::attention;

/// Sizes that every layer shares.
struct Gemma3n {
    std::int64_t hidden = 1, inputs = 1, layer_input = 1, rank = 1;
    AttentionPlan attention;

    [[nodiscard]] std::int64_t width(std::int64_t heads) const { return heads * attention.head_dim; }
};

/// A layer's parameters but those of its feed-forward network and the norms around the sublayers.
void layer_weights(BlockBuilder& b, const Gemma3n& g, bool own_keys) {
    const AttentionPlan& a = g.attention;
    const auto project = [&](std::string_view name, std::int64_t in, std::int64_t out) {
        b.linear_weights(join("self_attn", name), in, out, a.bias, kAttention);
    };
    project("q_proj", g.hidden, g.width(a.heads));
    b.norm_weights("self_attn.q_norm", a.head_dim, norms::rms);
    if (own_keys) {
        project("k_proj", g.hidden, g.width(a.kv_heads));
        project("v_proj", g.hidden, g.width(a.kv_heads));
        b.norm_weights("self_attn.k_norm", a.head_dim, norms::rms);
    }
    project("o_proj", g.width(a.heads), g.hidden);
    const auto linear = [&](std::string_view name, std::int64_t in, std::int64_t out) {
        b.linear_weights(name, in, out, false, Component::other);
    };
    b.parameter("altup.correct_output_scale", {g.hidden}, Component::other);
    linear("altup.correction_coefs", g.inputs, g.inputs);
    linear("altup.prediction_coefs", g.inputs, g.inputs * g.inputs);
    linear("altup.modality_router", g.hidden, g.inputs);
    b.norm_weights("altup.router_norm", g.hidden, norms::rms);
    linear("laurel.linear_left", g.hidden, g.rank);
    linear("laurel.linear_right", g.rank, g.hidden);
    b.norm_weights("laurel.post_laurel_norm", g.hidden, norms::rms);
    linear("per_layer_input_gate", g.hidden, g.layer_input);
    linear("per_layer_projection", g.layer_input, g.hidden);
    b.norm_weights("post_per_layer_input_norm", g.hidden, norms::rms);
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

}  // namespace

void configure_gemma3n_text(ConfigReader& config, Parts& parts) {
    DecoderPlan plan;
    read_decoder_sizes(config, plan);
    Gemma3n g;
    g.hidden = plan.hidden;
    read_heads(config, plan.hidden, g.attention, Remainder::dropped);
    g.attention.bias = config.flag("attention_bias");
    g.inputs = config.size("altup_num_inputs", 64);
    g.layer_input = config.size("hidden_size_per_layer_input");
    g.rank = config.size("laurel_rank");
    const std::int64_t layers = plan.layer_count;
    const std::int64_t shared = config.count_or("num_kv_shared_layers", 0);
    const std::vector<std::int64_t> widths = read_widths(config, layers);

    LayerPlan layer;
    layer.arrangement = Arrangement::sandwich;
    constexpr std::string_view kNorms[] = {"input_layernorm", "post_attention_layernorm",
                                           "pre_feedforward_layernorm", "post_feedforward_layernorm"};
    std::copy(std::begin(kNorms), std::end(kNorms), layer.norms);
    layer.attention.rotary = -1;
    layer.mlp.act = config.activation("hidden_activation");
    std::vector<std::pair<bool, std::int64_t>> kinds;  // of each layer: own keys and values; width
    for (std::int64_t i = 0; i < layers; ++i)
        kinds.emplace_back(i < layers - shared, widths[static_cast<std::size_t>(i)]);
    plan_layers(plan, kinds, [&](const auto& kind) {
        LayerPlan made = layer;
        made.mlp.width = kind.second;
        made.attention.weights = [g, own = kind.first](BlockBuilder& b) { layer_weights(b, g, own); };
        return made;
    });

    parts.add("model.", "per-layer embeddings", [&](BlockBuilder& b) {
        const std::int64_t all = layers * g.layer_input;
        b.parameter("embed_tokens_per_layer.weight",
                    {config.size("vocab_size_per_layer_input", kLargestVocabulary), all}, Component::embedding);
        b.linear_weights("per_layer_model_projection", plan.hidden, all, false, Component::other);
        b.norm_weights("per_layer_projection_norm", g.layer_input, norms::rms);
    });
    for (const std::string_view name : {"altup_projections", "altup_unembed_projections"})
        parts.add("model." + std::string(name) + ".{}.", "stream", [&](BlockBuilder& b) {
            b.linear_weights("", plan.hidden, plan.hidden, false, Component::other);
        }, g.inputs - 1);
    parts.add_decoder(plan);
}

}  // namespace membudget
