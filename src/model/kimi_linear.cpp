// Kimi Linear (arXiv:2510.26692), of which the parameters are known: latent attention in some layers, Kimi Delta
// Attention in the others.

#include <algorithm>
#include <utility>

#include "model/hybrid.hpp"
#include "model/latent.hpp"
#include "model/llama_like.hpp"
#include "model/moe.hpp"

namespace membudget {
namespace {

constexpr Component kMixer = Component::attention;

struct DeltaAttention {
    std::int64_t hidden = 1, heads = 1, head_dim = 1, kernel = 1;
};

void delta_attention_weights(BlockBuilder& b, const DeltaAttention& d) {
    const std::int64_t width = d.heads * d.head_dim;
    const auto linear = [&](std::string_view name, std::int64_t in, std::int64_t out) {
        b.linear_weights(join("self_attn", name), in, out, false, kMixer);
    };
    for (const std::string_view name : {"q_proj", "k_proj", "v_proj"}) linear(name, d.hidden, width);
    b.parameter("self_attn.conv1d.weight", {3 * width, 1, d.kernel}, kMixer);
    b.parameter("self_attn.forget_gate.dt_bias", {width}, kMixer);
    b.parameter("self_attn.forget_gate.A_log", {1, 1, d.heads, 1}, kMixer);
    linear("forget_gate.f_a_proj", d.hidden, d.head_dim);
    linear("forget_gate.f_b_proj", d.head_dim, width);
    linear("b_proj", d.hidden, d.heads);
    linear("g_a_proj", d.hidden, d.head_dim);
    linear("g_b_proj", d.head_dim, width);
    b.norm_weights("self_attn.o_norm", d.head_dim, norms::rms);
    linear("o_proj", width, d.hidden);
}

}  // namespace

void configure_kimi_linear(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.tied = false;  // whatever the file says, the class ties nothing
    LayerPlan base;
    base.mlp.width = config.size("intermediate_size");
    base.mlp.act = config.activation("hidden_act");
    MlpPlan experts = base.mlp;
    read_experts(config, experts, "num_experts", "moe_intermediate_size");
    experts.experts.shared = "shared_experts";
    experts.experts.shared_width = detail::checked_mul(config.count_or("n_shared_experts", 0), experts.experts.width);
    LayerPlan full = base;
    use_latent(full.attention, read_latent(config, plan.hidden));

    // Published files describe the mixers in an object of their own, and count layers from 1.
    ConfigReader mixers = config.nested("linear_attn_config", "linear attention",
                                        "head_dim num_heads short_conv_kernel_size full_attn_layers kda_layers");
    DeltaAttention delta;
    delta.hidden = plan.hidden;
    delta.heads = mixers.size_or("num_heads", config.size("linear_num_heads", kLargestCount), kLargestCount);
    delta.head_dim = mixers.size_or("head_dim", config.size("linear_head_dim"));
    delta.kernel = mixers.size_or("short_conv_kernel_size", config.size("linear_conv_kernel_dim", kLargestCount), kLargestCount);
    base.attention.heads = delta.heads;
    base.attention.head_dim = delta.head_dim;
    base.attention.weights = [delta](BlockBuilder& b) { delta_attention_weights(b, delta); };

    std::vector<bool> attends = layers_of_type(config, plan.layer_count, "full_attention", "linear_attention");
    const bool numbered = mixers.raw("full_attn_layers") != nullptr && mixers.raw("kda_layers") != nullptr;
    const std::vector<std::int64_t> numbers = numbered ? mixers.sizes("full_attn_layers") : std::vector<std::int64_t>{};
    if (attends.empty())
        for (std::int64_t i = 0; i < plan.layer_count; ++i)
            attends.push_back(numbered ? std::find(numbers.begin(), numbers.end(), i + 1) != numbers.end()
                                       : i > 0 && i % 4 == 0);
    const std::vector<std::string> words = layer_words(config, "mlp_layer_types", plan.layer_count);
    const std::int64_t dense = config.count_or("first_k_dense_replace", 0);
    std::vector<std::pair<bool, bool>> layers;
    for (std::size_t i = 0; i < attends.size(); ++i)
        layers.emplace_back(attends[i], words.empty() ? static_cast<std::int64_t>(i) >= dense : words[i] == "sparse");
    plan_layers(plan, layers, [&](const auto& key) {
        LayerPlan layer = key.first ? full : base;
        if (key.second) layer.mlp = experts;
        return layer;
    });
    plan.step_unsupported = kCountedOnly;
}

}  // namespace membudget
