#include "model/latent.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/llama_like.hpp"
#include "model/module_weights.hpp"
#include "model/moe.hpp"

namespace membudget {
namespace {

std::vector<int> indexer_weights(BlockBuilder& b, const Latent& l) {
    constexpr Component kind = Component::attention;
    std::vector<int> parameters =
        b.linear_weights("self_attn.indexer.wq_b", l.query_rank, l.index_heads * l.index_dim, false, kind);
    const auto add = [&](const std::vector<int>& made) { parameters.insert(parameters.end(), made.begin(), made.end()); };
    add(b.linear_weights("self_attn.indexer.wk", l.hidden, l.index_dim, false, kind));
    add(b.norm_weights("self_attn.indexer.k_norm", l.index_dim, norms::layer));
    add(b.linear_weights("self_attn.indexer.weights_proj", l.hidden, l.index_heads, false, kind));
    return parameters;
}

/// The mask of the keys that an indexer chooses [models/deepseek_v32/modeling_deepseek_v32.py DeepseekV32Indexer].
/// No gradient reaches it.
int sparse_mask(BlockBuilder& b, int x, int latent_query, int cos, int sin, int mask, const Latent& l) {
    std::vector<int> parameters = l.index_shared ? std::vector<int>{} : indexer_weights(b, l);
    const int own = b.hold(b.tensor("self_attn.mask", 0));
    Op& op = b.op(OpKind::sparse_mask, "self_attn.indexer", place::attention, {x, latent_query, cos, sin, mask}, {own},
                  std::move(parameters));
    op.reader = Reader::nobody;
    op.attributes.heads = l.index_heads;
    op.attributes.head_dim = l.index_dim;
    op.attributes.rotary_dim = l.rotated;
    op.attributes.chosen = l.index_top;
    op.attributes.interleaved = l.index_interleaved;
    op.attributes.passed_on = l.index_passed_on;
    op.attributes.chosen_before = l.index_shared;
    return own;
}

/// Latent attention op by op [models/deepseek_v3/modeling_deepseek_v3.py DeepseekV3Attention].
int latent_attention(BlockBuilder& b, int x, int cos, int sin, int mask, const Latent& l) {
    constexpr Place here = place::attention;
    const auto function = b.scope();
    const std::int64_t head = l.plain + l.rotated;
    int q = -1;
    int latent_query = -1;
    if (l.query_rank == 0) {
        q = b.linear(x, "self_attn.q_proj", l.heads * head, false, here);
    } else {
        q = b.linear(x, "self_attn.q_a_proj", l.query_rank, l.bias, here);
        q = b.norm(q, "self_attn.q_a_layernorm", norms::rms);
        if (l.index_heads > 0) latent_query = b.hold(q);
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
    if (l.index_heads > 0) {
        mask = sparse_mask(b, x, latent_query, cos, sin, mask, l);
        attributes.form = AttentionForm::indexed;
    }
    const int context = b.tensor("self_attn.attention", l.heads * l.value);
    b.op(OpKind::attention, "self_attn.attention", here, {query, key, value, mask}, {context})
        .attributes = attributes;
    return b.linear(context, "self_attn.o_proj", l.hidden, l.bias, here);
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
    if (latent.index_heads > 0) attention.form = AttentionForm::indexed;
    attention.build = [latent](BlockBuilder& b, int x, int cos, int sin, int mask) {
        return latent_attention(b, x, cos, sin, mask, latent);
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
        if (third)
            route_as_deepseek(config, layer.mlp.experts);
        else
            layer.mlp.experts.form = RouterForm::deepseek_v2;
        layer.mlp.experts.router_last = true;
    }
}

namespace {

/// Latent attention with an indexer, and experts as DeepSeek-V3 has them.
Latent configure_indexed(ConfigReader& config, DecoderPlan& plan, bool neighbours, bool passed_on) {
    read_decoder_sizes(config, plan);
    Latent latent = read_latent(config, plan.hidden);
    latent.index_heads = config.size("index_n_heads", kLargestCount);
    latent.index_dim = config.size("index_head_dim");
    latent.index_top = config.size("index_topk");
    latent.index_interleaved = neighbours;
    latent.index_passed_on = passed_on;
    if (latent.query_rank == 0) config.unsupported("q_lora_rank", "expected latent queries, which the indexer reads");
    use_latent(plan.layer().attention, latent);
    read_deepseek_experts(config, plan);
    for (LayerPlan& layer : plan.kinds) route_as_deepseek(config, layer.mlp.experts);
    return latent;
}

/// Which layers use an earlier one's choice: a list of words, a pattern of letters, or a period
/// [models/glm_moe_dsa/configuration_glm_moe_dsa.py GlmMoeDsaConfig.__post_init__].
std::vector<bool> shared_indexers(ConfigReader& config, std::int64_t layers) {
    std::vector<bool> shared;
    std::vector<std::string> types = config.texts("indexer_types");
    const KeyTree* const pattern = config.raw("index_topk_pattern");
    const bool lettered = pattern != nullptr && pattern->is(KeyTree::Kind::string);
    if (types.empty() && pattern != nullptr && !lettered) types = config.texts("index_topk_pattern");
    for (const std::string& type : types) shared.push_back(type == "shared");
    if (types.empty() && lettered)
        for (const char letter : config.text("index_topk_pattern")) shared.push_back(letter == 'S');
    if (!shared.empty()) return shared;
    const std::int64_t period = std::max<std::int64_t>(1, config.count_or("index_topk_freq", 1));
    const std::int64_t offset = config.count_or("index_skip_topk_offset", 2);
    for (std::int64_t i = 0; i < layers; ++i)
        shared.push_back(std::max<std::int64_t>(i - offset + 1, 0) % period != 0);
    return shared;
}

}  // namespace

void configure_glm_moe_dsa(ConfigReader& config, DecoderPlan& plan) {
    const Latent latent = configure_indexed(config, plan, true, true);
    std::vector<bool> shared = shared_indexers(config, plan.layer_count);
    if (static_cast<std::int64_t>(shared.size()) != plan.layer_count || shared.front()) {
        if (config.diagnostics().empty())
            config.invalid(config.raw("indexer_types") != nullptr ? "indexer_types" : "index_topk_pattern",
                           "expected one entry per layer (" + std::to_string(plan.layer_count) +
                               "), the first of which has an indexer");
        return;
    }
    if (std::count(shared.begin(), shared.end(), true) == 0) return;
    std::vector<std::pair<int, bool>> keys;
    for (std::size_t i = 0; i < shared.size(); ++i) keys.emplace_back(plan.order.empty() ? 0 : plan.order[i], shared[i]);
    const std::vector<LayerPlan> kinds = plan.kinds;
    plan_layers(plan, keys, [&](const std::pair<int, bool>& key) {
        LayerPlan layer = kinds[static_cast<std::size_t>(key.first)];
        Latent own = latent;
        own.index_shared = key.second;
        use_latent(layer.attention, own);
        return layer;
    });
}

void configure_glm4_moe_lite(ConfigReader& config, DecoderPlan& plan) { configure_deepseek(config, plan); }

void configure_minicpm3(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    LayerPlan& layer = plan.layer();
    config.divides("hidden_size", plan.hidden, "num_attention_heads",
                   config.size("num_attention_heads", kLargestCount));
    Latent latent = read_latent(config, plan.hidden);
    latent.rotation = Rotation::latent_halves;
    use_latent(layer.attention, latent);
    layer.mlp.width = config.size("intermediate_size");
    layer.mlp.bias = config.flag("mlp_bias");
    layer.mlp.act = config.activation("hidden_act");
    plan.embedding_scale = plan.head_input_scale = layer.scales_results = true;
}

void configure_youtu(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    LayerPlan& layer = plan.layer();
    use_latent(layer.attention, read_latent(config, plan.hidden));
    layer.mlp.width = config.size("intermediate_size");
    layer.mlp.act = config.activation("hidden_act");
}

void configure_deepseek_v32(ConfigReader& config, DecoderPlan& plan) {
    static_cast<void>(configure_indexed(config, plan, false, false));
}

namespace {

/// A layer of LongCat-Flash has two of everything but the mixture, whose experts may be none at all
/// [transformers models/longcat_flash/modeling_longcat_flash.py LongcatFlashDecoderLayer].
void longcat_weights(BlockBuilder& b, const Latent& l, std::int64_t width, const MlpPlan::Experts& e, std::int64_t zero) {
    constexpr Component attention = Component::attention;
    const std::int64_t head = l.plain + l.rotated;
    std::vector<int> parameters{
        b.parameter("mlp.experts.gate_up_proj", {e.count + zero, 2 * e.width, l.hidden}, Component::experts),
        b.parameter("mlp.experts.down_proj", {e.count, l.hidden, e.width}, Component::experts)};
    for (const int index : b.linear_weights("mlp.router.classifier", l.hidden, e.count + zero, e.router_bias,
                                            Component::router))
        parameters.push_back(index);
    experts_op(b, {"mlp", e.count, e.per_token, e.width}, std::move(parameters));
    for (const std::string_view half : {"0", "1"}) {
        const std::string module = join("self_attn", half);
        const auto linear = [&](std::string_view name, std::int64_t in, std::int64_t out, bool bias) {
            b.linear_weights(join(module, name), in, out, bias, attention);
        };
        if (l.query_rank == 0) {
            linear("q_proj", l.hidden, l.heads * head, false);
        } else {
            linear("q_a_proj", l.hidden, l.query_rank, l.bias);
            b.norm_weights(join(module, "q_a_layernorm"), l.query_rank, norms::rms);
            linear("q_b_proj", l.query_rank, l.heads * head, false);
        }
        linear("kv_a_proj_with_mqa", l.hidden, l.rank + l.rotated, l.bias);
        b.norm_weights(join(module, "kv_a_layernorm"), l.rank, norms::rms);
        linear("kv_b_proj", l.rank, l.heads * (l.plain + l.value), false);
        linear("o_proj", l.heads * l.value, l.hidden, l.bias);
        gated_mlp_weights(b, join("mlps", half), l.hidden, width, false, Component::mlp);
        b.norm_weights(join("input_layernorm", half), l.hidden, norms::rms);
        b.norm_weights(join("post_attention_layernorm", half), l.hidden, norms::rms);
    }
}

}  // namespace

void configure_longcat_flash(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    const Latent latent = read_latent(config, plan.hidden);
    LayerPlan& layer = plan.layer();
    MlpPlan mlp;
    read_experts(config, mlp, "n_routed_experts", "moe_intermediate_size");
    mlp.experts.router_bias = config.flag("router_bias");
    layer.attention.heads = layer.attention.kv_heads = latent.heads;
    layer.attention.head_dim = latent.plain + latent.rotated;
    layer.attention.rotary = -1;
    layer.mlp.width = config.size("intermediate_size");
    layer.arrangement = Arrangement::mixer_only;
    layer.norms[0] = "input_layernorm.0";
    layer.attention.weights = [latent, width = layer.mlp.width, experts = mlp.experts,
                               zero = config.count_or("zero_expert_num", 0)](BlockBuilder& b) {
        longcat_weights(b, latent, width, experts, zero);
    };
    plan.step_unsupported = kCountedOnly;
}

}  // namespace membudget
