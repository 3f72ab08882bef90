#include "model/latent.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/llama_like.hpp"
#include "model/moe.hpp"

namespace membudget {
namespace {

constexpr std::string_view kNoIndexer = "the indexer of sparse attention is not modelled yet";

/// Latent attention op by op [models/deepseek_v3/modeling_deepseek_v3.py DeepseekV3Attention].
int latent_attention(BlockBuilder& b, int x, int cos, int sin, int mask, const Latent& l) {
    constexpr Place here = place::attention;
    const auto function = b.scope();
    const std::int64_t head = l.plain + l.rotated;
    int q = -1;
    if (l.query_rank == 0) {
        q = b.linear(x, "self_attn.q_proj", l.heads * head, false, here);
    } else {
        q = b.linear(x, "self_attn.q_a_proj", l.query_rank, l.bias, here);
        q = b.norm(q, "self_attn.q_a_layernorm", norms::rms);
        q = b.linear(q, "self_attn.q_b_proj", l.heads * head, false, here);
    }
    b.hold(q);
    const int compressed =
        b.hold(b.linear(x, "self_attn.kv_a_proj_with_mqa", l.rank + l.rotated, l.bias, here));
    const auto parts = b.split(compressed, "self_attn.split", {l.rank, l.rotated}, here);
    const int latent = b.hold(b.norm(parts[0], "self_attn.kv_a_layernorm", norms::rms));

    OpAttributes attributes;
    attributes.heads = l.heads;
    attributes.kv_heads = l.heads;
    attributes.head_dim = head;
    attributes.value_dim = l.value;
    attributes.rotary_dim = l.rotated;
    attributes.rotation = l.rotation;
    attributes.head_major = true;
    attributes.dropout = l.dropout;
    const int query = b.hold(b.tensor("self_attn.query", l.heads * head));
    const int rotated = b.hold(b.tensor("self_attn.rotated_key", l.rotated));
    b.op(OpKind::rotary, "self_attn.rotary", here, {q, parts[1], cos, sin}, {query, rotated})
        .attributes = attributes;
    // The last name of `expand_kv` is rebound to the projection.
    const int both =
        b.linear(latent, "self_attn.kv_b_proj", l.heads * (l.plain + l.value), false, here);
    const int key = b.hold(b.tensor("self_attn.key", l.heads * head));
    const int value = b.hold(b.tensor("self_attn.value", l.heads * l.value));
    b.op(OpKind::latent_expand, "self_attn.expand_kv", here, {both, rotated}, {key, value})
        .attributes = attributes;
    const int context = b.tensor("self_attn.attention", l.heads * l.value);
    b.op(OpKind::attention, "self_attn.attention", here, {query, key, value, mask}, {context})
        .attributes = attributes;
    return b.linear(context, "self_attn.o_proj", l.hidden, l.bias, here);
}

/// The indexer of sparse attention, of which only the parameters are known.
void indexer_weights(BlockBuilder& b, const Latent& l) {
    constexpr Component kind = Component::attention;
    b.linear_weights("self_attn.indexer.wq_b", l.query_rank, l.index_heads * l.index_dim, false,
                     kind);
    b.linear_weights("self_attn.indexer.wk", l.hidden, l.index_dim, false, kind);
    b.norm_weights("self_attn.indexer.k_norm", l.index_dim, norms::layer);
    b.linear_weights("self_attn.indexer.weights_proj", l.hidden, l.index_heads, false, kind);
}

}  // namespace

Latent read_latent(ConfigReader& config, std::int64_t hidden) {
    Latent latent;
    latent.hidden = hidden;
    latent.heads = config.size("num_attention_heads", kLargestCount);
    latent.query_rank = config.size_or("q_lora_rank", 0);
    latent.rank = config.size("kv_lora_rank");
    latent.rotated = config.size("qk_rope_head_dim");
    latent.plain = config.size("qk_nope_head_dim");
    // Only MiniCPM3's class derives it.
    latent.value = config.size_or("v_head_dim", std::max<std::int64_t>(1, hidden / latent.heads));
    latent.bias = config.flag("attention_bias");
    latent.dropout = config.knows("attention_dropout") ? config.probability("attention_dropout") : 0;
    return latent;
}

void use_latent(AttentionPlan& attention, const Latent& latent) {
    attention.heads = latent.heads;
    attention.kv_heads = latent.heads;
    attention.head_dim = latent.plain + latent.rotated;
    attention.rotary_dim = latent.rotated;
    attention.rotation = latent.rotation;
    attention.build = [latent](BlockBuilder& b, int x, int cos, int sin, int mask) {
        const int out = latent_attention(b, x, cos, sin, mask, latent);
        if (latent.index_heads > 0) indexer_weights(b, latent);
        return out;
    };
}

void configure_deepseek(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    Latent latent = read_latent(config, plan.hidden);
    const bool third = config.knows("norm_topk_prob");  // DeepSeek-V3; the class of V2 ignores it
    if (!third) latent.rotation = Rotation::latent_complex;
    use_latent(plan.layer().attention, latent);
    read_deepseek_experts(config, plan);
    for (LayerPlan& layer : plan.kinds) {
        layer.mlp.experts.form = third ? RouterForm::deepseek_v3 : RouterForm::deepseek_v2;
        layer.mlp.experts.normalised = third && config.flag("norm_topk_prob");
    }
}

void configure_glm_moe_dsa(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    Latent latent = read_latent(config, plan.hidden);
    latent.index_heads = config.size("index_n_heads", kLargestCount);
    latent.index_dim = config.size("index_head_dim");
    // Published with a class that had an indexer in every layer; it later left out those of the layers
    // that use an earlier one's choice.
    const std::vector<std::string> types = config.texts("indexer_types");
    const auto shared = std::count(types.begin(), types.end(), "shared");
    const Elements each = Elements(latent.query_rank) * latent.index_heads * latent.index_dim +
                          Elements(plan.hidden) * (latent.index_dim + latent.index_heads) +
                          Elements(2 * latent.index_dim);
    if (shared > 0)
        config.note(fmt::format("indexer_types: {} layers share an indexer; counted with one in every "
                                "layer. Classes that leave out the shared ones have {} parameters fewer",
                                shared, group_digits((each * shared).count())));
    use_latent(plan.layer().attention, latent);
    read_deepseek_experts(config, plan);
    plan.step_unsupported = kNoIndexer;
}

void configure_glm4_moe_lite(ConfigReader& config, DecoderPlan& plan) {
    configure_deepseek(config, plan);
    plan.step_unsupported = kCountedOnly;
}

void configure_minicpm3(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    LayerPlan& layer = plan.layer();
    config.divides("hidden_size", plan.hidden, "num_attention_heads",
                   config.size("num_attention_heads", kLargestCount));
    use_latent(layer.attention, read_latent(config, plan.hidden));
    layer.mlp.width = config.size("intermediate_size");
    layer.mlp.bias = config.flag("mlp_bias");
    layer.mlp.act = config.activation("hidden_act");
    plan.step_unsupported = kCountedOnly;
}

}  // namespace membudget
