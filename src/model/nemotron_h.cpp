#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "model/hybrid.hpp"
#include "model/hybrid_parts.hpp"

namespace membudget {
namespace {

/// What a layer mixes with; each is one norm and one mixer.
enum Mixer { scan, attention, mlp, experts };

struct MixerName {
    char letter;                 ///< in `hybrid_override_pattern`
    std::string_view names[2];   ///< in `layers_block_type`, as published and as the class has it
};
constexpr MixerName kMixers[] = {
    {'M', {"mamba", "linear_attention"}}, {'*', {"attention", "full_attention"}},
    {'-', {"mlp", "mlp"}}, {'E', {"moe", "moe"}}};

/// The kind of each layer: `layers_block_type`, else the older pattern of letters.
std::vector<int> read_mixers(ConfigReader& config) {
    std::vector<int> kinds;
    const auto add = [&](std::string_view key, std::string_view found, auto&& means) {
        const auto row = std::find_if(std::begin(kMixers), std::end(kMixers), means);
        if (row == std::end(kMixers))
            config.unsupported(key, fmt::format("expected mixers of mamba, attention, mlp and moe; got '{}'", found));
        else
            kinds.push_back(static_cast<int>(row - std::begin(kMixers)));
    };
    const std::vector<std::string> types = config.texts("layers_block_type");
    for (const std::string& type : types)
        add("layers_block_type", type,
            [&](const MixerName& row) { return type == row.names[0] || type == row.names[1]; });
    if (!types.empty()) return kinds;
    for (const char letter : config.text("hybrid_override_pattern", "ME*-"))
        add("hybrid_override_pattern", std::string_view(&letter, 1),
            [&](const MixerName& row) { return letter == row.letter; });
    return kinds;
}

void plain_mlp_weights(BlockBuilder& b, std::string_view module, std::int64_t hidden, std::int64_t width, bool bias) {
    b.linear_weights(join(module, "up_proj"), hidden, width, bias, Component::mlp);
    b.linear_weights(join(module, "down_proj"), width, hidden, bias, Component::mlp);
}

/// Experts without gates, which may work in a narrower space of their own.
WeightsOnly expert_weights(ConfigReader& config, std::int64_t hidden, bool bias) {
    const std::int64_t count = config.size("n_routed_experts", kLargestCount);
    const std::int64_t per_token = config.size("num_experts_per_tok", kLargestCount);
    const std::int64_t width = config.size("moe_intermediate_size");
    const std::int64_t shared = config.size("moe_shared_expert_intermediate_size");
    const std::int64_t latent = config.size_or("moe_latent_size", 0);
    return [=](BlockBuilder& b) {
        const std::int64_t inner = latent > 0 ? latent : hidden;
        std::vector<int> parameters{
            b.parameter("mixer.experts.up_proj", {count, width, inner}, Component::experts),
            b.parameter("mixer.experts.down_proj", {count, inner, width}, Component::experts)};
        const std::vector<int> router =
            b.linear_weights("mixer.gate", hidden, count, false, Component::router);
        parameters.insert(parameters.end(), router.begin(), router.end());
        plain_mlp_weights(b, "mixer.shared_experts", hidden, shared, bias);
        if (latent > 0) {
            b.linear_weights("mixer.fc1_latent_proj", hidden, latent, bias, Component::mlp);
            b.linear_weights("mixer.fc2_latent_proj", latent, hidden, bias, Component::mlp);
        }
        OpAttributes& attributes =
            b.op(OpKind::moe, "mixer", place::mlp, {}, {}, std::move(parameters)).attributes;
        attributes.experts = count;
        attributes.experts_per_token = per_token;
        attributes.expert_width = width;
    };
}

WeightsOnly attention_weights(ConfigReader& config, std::int64_t hidden) {
    const std::int64_t head = config.size("head_dim");
    const std::int64_t queries = config.size("num_attention_heads", kLargestCount) * head;
    const std::int64_t keys = config.size("num_key_value_heads", kLargestCount) * head;
    return [=](BlockBuilder& b) {
        b.linear_weights("mixer.q_proj", hidden, queries, false, Component::attention);
        b.linear_weights("mixer.k_proj", hidden, keys, false, Component::attention);
        b.linear_weights("mixer.v_proj", hidden, keys, false, Component::attention);
        b.linear_weights("mixer.o_proj", queries, hidden, false, Component::attention);
    };
}

Mamba2 read_scan(ConfigReader& config, std::int64_t hidden) {
    Mamba2 mamba;
    mamba.hidden = hidden;
    mamba.heads = config.size("mamba_num_heads", kLargestCount);
    mamba.inner = mamba.heads * config.size("mamba_head_dim");
    mamba.groups = config.size("mamba_n_groups", kLargestCount);
    mamba.state = config.size("ssm_state_size");
    mamba.kernel = config.size("mamba_d_conv");
    mamba.input_bias = mamba.output_bias = config.flag("use_bias");
    mamba.convolution_bias = config.flag("mamba_conv_bias");
    return mamba;
}

}  // namespace

void configure_nemotron_h(ConfigReader& config, DecoderPlan& plan) {
    plan.hidden = config.size("hidden_size");
    plan.vocabulary = config.size("vocab_size", kLargestVocabulary);
    plan.embedding = "embeddings";
    plan.final_norm = "norm_f";
    std::vector<int> kinds = read_mixers(config);
    if (kinds.empty()) kinds = {scan};  // reported above
    LayerPlan& base = plan.layer();
    base.arrangement = Arrangement::mixer_only;
    base.norms[0] = "norm";
    base.attention.rotary = -1;
    plan.kinds.assign(std::size(kMixers), base);
    const std::int64_t hidden = plan.hidden;
    const bool bias = config.flag("mlp_bias");
    plan.kinds[scan].attention.weights = [mamba = read_scan(config, hidden)](BlockBuilder& b) {
        mamba2_weights(b, "mixer", mamba);
    };
    plan.kinds[attention].attention.weights = attention_weights(config, hidden);
    plan.kinds[mlp].attention.weights = [=, width = config.size("intermediate_size")](BlockBuilder& b) {
        plain_mlp_weights(b, "mixer", hidden, width, bias);
    };
    if (std::find(kinds.begin(), kinds.end(), experts) != kinds.end())
        plan.kinds[experts].attention.weights = expert_weights(config, hidden, bias);
    plan.layer_count = static_cast<std::int64_t>(kinds.size());
    assign_kinds(plan, std::move(kinds));
    plan.step_unsupported = "the scan of a state-space model is not modelled yet";
}

}  // namespace membudget
