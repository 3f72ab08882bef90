#include "model/hybrid.hpp"

#include <algorithm>

#include "model/hybrid_parts.hpp"
#include "model/llama_like.hpp"
#include "model/moe.hpp"

namespace membudget {
namespace {

constexpr Component kMixer = Component::attention;
constexpr std::string_view kNoScan = "the scan of a state-space model is not modelled yet";

/// A depthwise convolution over time: weight [channels, 1, kernel].
void convolution_weights(BlockBuilder& b, std::string_view name, std::int64_t channels,
                         std::int64_t kernel, bool bias) {
    b.parameter(join(name, "weight"), {channels, 1, kernel}, kMixer);
    if (bias) b.parameter(join(name, "bias"), {channels}, kMixer);
}

/// Mamba 1 (arXiv:2312.00752).
struct Mamba {
    std::int64_t hidden = 1, inner = 1, state = 1, kernel = 1, rank = 1;
    bool bias = false, convolution_bias = true;
    bool norms = false;  ///< Jamba normalises dt, B and C
};

void mamba_weights(BlockBuilder& b, std::string_view module, const Mamba& m) {
    const auto name = [&](std::string_view part) { return join(module, part); };
    b.parameter(name("A_log"), {m.inner, m.state}, kMixer);
    b.parameter(name("D"), {m.inner}, kMixer);
    convolution_weights(b, name("conv1d"), m.inner, m.kernel, m.convolution_bias);
    b.linear_weights(name("in_proj"), m.hidden, 2 * m.inner, m.bias, kMixer);
    b.linear_weights(name("x_proj"), m.inner, m.rank + 2 * m.state, false, kMixer);
    b.linear_weights(name("dt_proj"), m.rank, m.inner, true, kMixer);
    b.linear_weights(name("out_proj"), m.inner, m.hidden, m.bias, kMixer);
    if (m.norms) {
        b.norm_weights(name("dt_layernorm"), m.rank, norms::rms);
        b.norm_weights(name("b_layernorm"), m.state, norms::rms);
        b.norm_weights(name("c_layernorm"), m.state, norms::rms);
    }
}

/// Gated DeltaNet (arXiv:2412.06464) as Qwen3-Next has it.
struct DeltaNet {
    std::int64_t hidden = 1, key_heads = 1, key_dim = 1, value_heads = 1, value_dim = 1, kernel = 1;
    bool fused = true;  ///< q, k, v and z in one projection, b and a in another
};

void delta_net_weights(BlockBuilder& b, const DeltaNet& d) {
    const std::int64_t keys = d.key_heads * d.key_dim;
    const std::int64_t values = d.value_heads * d.value_dim;
    const auto linear = [&](std::string_view part, std::int64_t out) {
        b.linear_weights(join("linear_attn", part), d.hidden, out, false, kMixer);
    };
    b.parameter("linear_attn.dt_bias", {d.value_heads}, kMixer);
    b.parameter("linear_attn.A_log", {d.value_heads}, kMixer);
    convolution_weights(b, "linear_attn.conv1d", 2 * keys + values, d.kernel, false);
    if (d.fused) {
        linear("in_proj_qkvz", 2 * keys + 2 * values);
        linear("in_proj_ba", 2 * d.value_heads);
    } else {
        linear("in_proj_qkv", 2 * keys + values);
        linear("in_proj_z", values);
        linear("in_proj_b", d.value_heads);
        linear("in_proj_a", d.value_heads);
    }
    b.norm_weights("linear_attn.norm", d.value_dim, norms::rms);
    b.linear_weights("linear_attn.out_proj", values, d.hidden, false, kMixer);
}

/// `time_step_rank`: a number, or "auto" for a sixteenth of the hidden size, rounded up.
std::int64_t read_rank(ConfigReader& config, std::string_view key, std::int64_t hidden) {
    const KeyTree* value = config.raw(key);
    if (value == nullptr || (value->is(KeyTree::Kind::string) && value->text() == "auto"))
        return (hidden + 15) / 16;
    return config.size(key);
}

/// A layer that is one norm and one mixer, without a feed-forward network.
void keep_only_mixer(LayerPlan& layer, std::string_view norm) {
    layer.arrangement = Arrangement::mixer_only;
    layer.norms[0] = norm;
}

/// Whether layer i has full attention: `layer_types`, else every `interval`-th one.
std::vector<bool> full_attention_layers(ConfigReader& config, std::int64_t layers,
                                        std::int64_t interval) {
    std::vector<bool> out = layers_of_type(config, layers, "full_attention", "linear_attention");
    if (!out.empty()) return out;
    for (std::int64_t i = 0; i < layers; ++i) out.push_back((i + 1) % interval == 0);
    return out;
}

/// Attention with a gate in some layers, Gated DeltaNet in the others; `sparse` layers have experts.
void read_qwen3_next(ConfigReader& config, DecoderPlan& plan, bool fused, bool mixture) {
    read_decoder_sizes(config, plan);
    plan.norm = norms::rms_one_plus;
    LayerPlan base;
    read_heads(config, plan.hidden, base.attention);
    base.attention.bias = config.flag("attention_bias");
    base.attention.output_bias = base.attention.bias;
    base.attention.gated = true;
    base.attention.qk_norm = QkNorm::per_head;
    base.attention.qk_norm_kind = norms::rms_one_plus;
    base.attention.rotary_dim = read_rotary_dim(config, base.attention.head_dim, 0.25);
    base.mlp.act = config.activation("hidden_act");

    DeltaNet delta;
    delta.hidden = plan.hidden;
    delta.key_heads = config.size("linear_num_key_heads", kLargestCount);
    delta.key_dim = config.size("linear_key_head_dim");
    delta.value_heads = config.size("linear_num_value_heads", kLargestCount);
    delta.value_dim = config.size("linear_value_head_dim");
    delta.kernel = config.size("linear_conv_kernel_dim");
    delta.fused = fused;

    std::vector<bool> sparse(static_cast<std::size_t>(plan.layer_count), mixture);
    MlpPlan experts = base.mlp;
    if (mixture) {
        experts.experts.count = config.size("num_experts", kLargestCount);
        experts.experts.per_token = config.size("num_experts_per_tok", kLargestCount);
        experts.experts.width = config.size("moe_intermediate_size");
        experts.experts.shared_width = config.size("shared_expert_intermediate_size");
        experts.experts.shared_gate = true;
        experts.experts.sharing = SharedExpert::first;
        if (config.knows("decoder_sparse_step"))
            sparse = qwen_sparse_layers(config, plan.layer_count, experts.experts.count);
    }
    if (config.knows("intermediate_size")) base.mlp.width = config.size("intermediate_size");

    // Kinds: bit 0 for full attention, bit 1 for experts.
    plan.kinds.assign(4, base);
    for (const std::size_t kind : {std::size_t{0}, std::size_t{2}})
        plan.kinds[kind].attention.weights = [delta](BlockBuilder& b) {
            delta_net_weights(b, delta);
        };
    for (const std::size_t kind : {std::size_t{2}, std::size_t{3}}) plan.kinds[kind].mlp = experts;
    const std::vector<bool> full = full_attention_layers(
        config, plan.layer_count, config.size("full_attention_interval", kLargestCount));
    std::vector<int> kinds;
    for (std::size_t i = 0; i < std::min(full.size(), sparse.size()); ++i)
        kinds.push_back((full[i] ? 1 : 0) + (sparse[i] ? 2 : 0));
    assign_kinds(plan, std::move(kinds));
    plan.step_unsupported = "gated attention and Gated DeltaNet are not modelled yet";
}

}  // namespace

void mamba2_weights(BlockBuilder& b, std::string_view module, const Mamba2& m) {
    const auto name = [&](std::string_view part) { return join(module, part); };
    const std::int64_t channels = m.inner + 2 * m.groups * m.state;
    b.parameter(name("dt_bias"), {m.heads}, kMixer);
    b.parameter(name("A_log"), {m.heads}, kMixer);
    b.parameter(name("D"), {m.heads}, kMixer);
    convolution_weights(b, name("conv1d"), channels, m.kernel, m.convolution_bias);
    b.linear_weights(name("in_proj"), m.hidden, m.inner + channels + m.heads, m.input_bias, kMixer);
    if (m.norm) b.norm_weights(name("norm"), m.inner, norms::rms);
    b.linear_weights(name("out_proj"), m.inner, m.hidden, m.output_bias, kMixer);
}

void configure_mamba(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.base = "backbone";
    plan.embedding = "embeddings";
    plan.final_norm = "norm_f";
    Mamba mamba;
    mamba.hidden = plan.hidden;
    mamba.inner = config.size_or("intermediate_size", config.size("expand", 64) * plan.hidden);
    mamba.state = config.size("state_size");
    mamba.kernel = config.size("conv_kernel");
    mamba.rank = read_rank(config, "time_step_rank", plan.hidden);
    mamba.bias = config.flag("use_bias");
    mamba.convolution_bias = config.flag("use_conv_bias");
    LayerPlan& layer = plan.layer();
    keep_only_mixer(layer, "norm");
    layer.attention.rotary = -1;
    layer.attention.weights = [mamba](BlockBuilder& b) { mamba_weights(b, "mixer", mamba); };
    plan.step_unsupported = kNoScan;
}

void configure_mamba2(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.base = "backbone";
    plan.embedding = "embeddings";
    plan.final_norm = "norm_f";
    Mamba2 mamba;
    mamba.hidden = plan.hidden;
    mamba.inner = config.size("expand", 64) * plan.hidden;
    mamba.heads = config.size("num_heads", kLargestCount);
    mamba.groups = config.size("n_groups", kLargestCount);
    mamba.state = config.size("state_size");
    mamba.kernel = config.size("conv_kernel");
    mamba.input_bias = config.flag("use_bias");
    mamba.output_bias = mamba.input_bias;
    mamba.convolution_bias = config.flag("use_conv_bias");
    LayerPlan& layer = plan.layer();
    keep_only_mixer(layer, "norm");
    layer.attention.rotary = -1;
    layer.attention.weights = [mamba](BlockBuilder& b) { mamba2_weights(b, "mixer", mamba); };
    plan.step_unsupported = kNoScan;
}

void configure_jamba(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.final_norm = "final_layernorm";
    LayerPlan base;
    base.norms[1] = "pre_ff_layernorm";
    read_heads(config, plan.hidden, base.attention);
    base.attention.rotary = -1;
    base.mlp.module = "feed_forward";
    base.mlp.width = config.size("intermediate_size");
    base.mlp.act = config.activation("hidden_act");
    MlpPlan experts = base.mlp;
    experts.experts.count = config.size("num_experts", kLargestCount);
    experts.experts.per_token = config.size("num_experts_per_tok", kLargestCount);
    experts.experts.width = base.mlp.width;
    experts.experts.router = "router";
    Mamba mamba;
    mamba.hidden = plan.hidden;
    mamba.inner = config.size("mamba_expand", 64) * plan.hidden;
    mamba.state = config.size("mamba_d_state");
    mamba.kernel = config.size("mamba_d_conv");
    mamba.rank = read_rank(config, "mamba_dt_rank", plan.hidden);
    mamba.bias = config.flag("mamba_proj_bias");
    mamba.convolution_bias = config.flag("mamba_conv_bias");
    mamba.norms = true;

    // Kinds: bit 0 for attention, bit 1 for experts.
    plan.kinds.assign(4, base);
    for (const std::size_t kind : {std::size_t{0}, std::size_t{2}})
        plan.kinds[kind].attention.weights = [mamba](BlockBuilder& b) {
            mamba_weights(b, "mamba", mamba);
        };
    for (const std::size_t kind : {std::size_t{2}, std::size_t{3}}) plan.kinds[kind].mlp = experts;
    const std::int64_t attention_period = config.size("attn_layer_period", kLargestCount);
    const std::int64_t attention_offset = config.count_or("attn_layer_offset", 0);
    const std::int64_t expert_period = config.size("expert_layer_period", kLargestCount);
    const std::int64_t expert_offset = config.count_or("expert_layer_offset", 0);
    std::vector<int> kinds;
    for (std::int64_t i = 0; i < plan.layer_count; ++i) {
        const bool attends = i % attention_period == attention_offset;
        const bool mixes = experts.experts.count > 1 && i % expert_period == expert_offset;
        kinds.push_back((attends ? 1 : 0) + (mixes ? 2 : 0));
    }
    assign_kinds(plan, std::move(kinds));
    plan.step_unsupported = kNoScan;
}

void configure_falcon_h1(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.final_norm = "final_layernorm";
    LayerPlan& layer = plan.layer();
    layer.norms[1] = "pre_ff_layernorm";
    layer.mlp.module = "feed_forward";
    Mamba2 mamba;
    mamba.hidden = plan.hidden;
    mamba.inner = config.size_or("mamba_d_ssm", config.size("mamba_expand", 64) * plan.hidden);
    mamba.heads = config.size("mamba_n_heads", kLargestCount);
    mamba.groups = config.size("mamba_n_groups", kLargestCount);
    mamba.state = config.size("mamba_d_state");
    mamba.kernel = config.size("mamba_d_conv");
    mamba.input_bias = config.flag("mamba_proj_bias");
    mamba.output_bias = config.flag("projectors_bias");
    mamba.convolution_bias = config.flag("mamba_conv_bias");
    mamba.norm = config.flag("mamba_rms_norm");
    layer.attention.weights = [mamba, a = layer.attention, hidden = plan.hidden](BlockBuilder& b) {
        mamba2_weights(b, "mamba", mamba);
        const std::int64_t keys = a.kv_heads * a.head_dim;
        b.linear_weights("self_attn.q_proj", hidden, a.heads * a.head_dim, a.bias, kMixer);
        b.linear_weights("self_attn.k_proj", hidden, keys, a.bias, kMixer);
        b.linear_weights("self_attn.v_proj", hidden, keys, a.bias, kMixer);
        b.linear_weights("self_attn.o_proj", a.heads * a.head_dim, hidden, a.output_bias, kMixer);
    };
    plan.step_unsupported = kNoScan;
}

void configure_qwen3_next(ConfigReader& config, DecoderPlan& plan) {
    read_qwen3_next(config, plan, true, true);
}
void configure_qwen3_5(ConfigReader& config, DecoderPlan& plan) {
    read_qwen3_next(config, plan, false, false);
}
void configure_qwen3_5_moe(ConfigReader& config, DecoderPlan& plan) {
    read_qwen3_next(config, plan, false, true);
}

void configure_rwkv(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.base = "rwkv";
    plan.embedding = "embeddings";
    plan.layers = "blocks";
    plan.final_norm = "ln_out";
    plan.head = "head";
    plan.norm = norms::layer;
    const std::int64_t hidden = plan.hidden;
    const std::int64_t attention = config.size_or("attention_hidden_size", hidden);
    const std::int64_t width = config.size_or("intermediate_size", 4 * hidden);
    LayerPlan& layer = plan.layer();
    layer.norms[0] = "ln1";
    layer.norms[1] = "ln2";
    layer.attention.rotary = -1;
    layer.mlp.width = width;
    layer.attention.weights = [=](BlockBuilder& b) {
        for (const std::string_view name : {"time_decay", "time_first"})
            b.parameter(join("attention", name), {attention}, kMixer);
        for (const std::string_view name : {"time_mix_key", "time_mix_value", "time_mix_receptance"})
            b.parameter(join("attention", name), {1, 1, hidden}, kMixer);
        for (const std::string_view name : {"key", "value", "receptance"})
            b.linear_weights(join("attention", name), hidden, attention, false, kMixer);
        b.linear_weights("attention.output", attention, hidden, false, kMixer);
    };
    layer.mlp.weights = [=](BlockBuilder& b) {
        for (const std::string_view name : {"time_mix_key", "time_mix_receptance"})
            b.parameter(join("feed_forward", name), {1, 1, hidden}, Component::mlp);
        b.linear_weights("feed_forward.key", hidden, width, false, Component::mlp);
        b.linear_weights("feed_forward.receptance", hidden, hidden, false, Component::mlp);
        b.linear_weights("feed_forward.value", width, hidden, false, Component::mlp);
    };
    // The first layer normalises the embeddings.
    plan.kinds.push_back(layer);
    plan.kinds[0].attention.weights = [=, mixer = plan.kinds[0].attention.weights](BlockBuilder& b) {
        b.norm_weights("pre_ln", hidden, norms::layer);
        mixer(b);
    };
    std::vector<int> kinds(static_cast<std::size_t>(plan.layer_count), 1);
    kinds.front() = 0;
    assign_kinds(plan, std::move(kinds));
    plan.step_unsupported = "the recurrence of RWKV is not modelled yet";
}

}  // namespace membudget
