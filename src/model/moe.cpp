#include "model/moe.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/llama_like.hpp"

namespace membudget {
namespace {

constexpr std::string_view kNoKernel = "the experts of this mixture are not modelled yet";
constexpr std::string_view kNoIndexer = "the indexer of sparse attention is not modelled yet";

}  // namespace

void read_experts(ConfigReader& config, MlpPlan& mlp, std::string_view count,
                  std::string_view width) {
    mlp.experts.count = config.size(count, kLargestCount);
    mlp.experts.per_token = config.size("num_experts_per_tok", kLargestCount);
    mlp.experts.width = config.size(width);
    if (mlp.experts.per_token > mlp.experts.count && config.diagnostics().empty())
        config.invalid("num_experts_per_tok",
                       "expected at most " + std::string(count) + " (" +
                           std::to_string(mlp.experts.count) + "); got " +
                           std::to_string(mlp.experts.per_token));
}

void mix_experts(DecoderPlan& plan, const MlpPlan& experts, const std::vector<bool>& sparse) {
    plan.kinds.push_back(plan.layer());
    plan.kinds[1].mlp = experts;
    std::vector<int> kinds;
    for (const bool has_experts : sparse) kinds.push_back(has_experts ? 1 : 0);
    assign_kinds(plan, std::move(kinds));
}

std::vector<bool> qwen_sparse_layers(ConfigReader& config, std::int64_t layers,
                                     std::int64_t experts) {
    const std::int64_t step = config.size("decoder_sparse_step", kLargestCount);
    const std::vector<std::int64_t> dense = config.sizes("mlp_only_layers");
    std::vector<bool> sparse;
    for (std::int64_t layer = 0; layer < layers; ++layer)
        sparse.push_back(experts > 0 && (layer + 1) % step == 0 &&
                         std::find(dense.begin(), dense.end(), layer) == dense.end());
    return sparse;
}

void configure_mixtral(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.window = config.size_or("sliding_window", 0);
    read_experts(config, plan.layer().mlp, "num_local_experts", "intermediate_size");
}

void configure_qwen2_moe(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.bias = config.flag("qkv_bias");
    MlpPlan experts = plan.layer().mlp;
    read_experts(config, experts, "num_experts", "moe_intermediate_size");
    experts.experts.shared_width = config.size("shared_expert_intermediate_size");
    experts.experts.shared_gate = true;
    experts.experts.form = RouterForm::qwen;
    experts.experts.normalised = config.flag("norm_topk_prob");
    mix_experts(plan, experts, qwen_sparse_layers(config, plan.layer_count, experts.experts.count));
}

void configure_qwen3_moe(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.qk_norm = QkNorm::per_head;
    MlpPlan experts = plan.layer().mlp;
    read_experts(config, experts, "num_experts", "moe_intermediate_size");
    experts.experts.form = RouterForm::qwen;
    // Qwen3-VL's router has no such key and always divides by the sum of the chosen
    // [transformers models/qwen3_vl_moe Qwen3VLMoeTextTopKRouter.forward].
    experts.experts.normalised = !config.knows("norm_topk_prob") || config.flag("norm_topk_prob");
    mix_experts(plan, experts, qwen_sparse_layers(config, plan.layer_count, experts.experts.count));
}

void configure_olmoe(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.qk_norm = QkNorm::full;
    read_experts(config, plan.layer().mlp, "num_experts", "intermediate_size");
    plan.layer().mlp.experts.form = RouterForm::qwen;
    plan.layer().mlp.experts.normalised = config.flag("norm_topk_prob");
    if (config.raw("clip_qkv") != nullptr)
        plan.step_unsupported = "the clipping of queries, keys and values is not modelled yet";
}

void configure_phimoe(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm = norms::layer;
    plan.head_bias = config.flag("lm_head_bias");
    plan.layer().attention.window = config.size_or("sliding_window", 0);
    read_experts(config, plan.layer().mlp, "num_local_experts", "intermediate_size");
    plan.layer().mlp.experts.router = "router";
    plan.step_unsupported = kNoKernel;
}

void configure_granitemoe(ConfigReader& config, DecoderPlan& plan) {
    configure_granite(config, plan);
    MlpPlan& mlp = plan.layer().mlp;
    read_experts(config, mlp, "num_local_experts", "intermediate_size");
    mlp.module = "block_sparse_moe";
    mlp.experts.router = "router";
    mlp.experts.form = RouterForm::granite;
}

void configure_gpt_oss(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.attention.bias = config.flag("attention_bias");
    layer.attention.output_bias = layer.attention.bias;
    layer.attention.sinks = true;
    read_experts(config, layer.mlp, "num_local_experts", "intermediate_size");
    layer.mlp.experts.router = "router";
    layer.mlp.experts.router_bias = true;
    layer.mlp.experts.biased = true;
    layer.mlp.experts.transposed = true;
    layer.mlp.experts.form = RouterForm::gpt_oss;
    layer.attention.form = AttentionForm::gpt_oss;
    layer.attention.rotation = Rotation::chunks;
    plan.norm = norms::rms_wide_product;
    const std::int64_t window = config.size_or("sliding_window", 0);
    const auto windowed = windowed_layers(
        config, plan.layer_count,
        [](std::int64_t index, std::int64_t period) { return (index + 1) % period != 0; }, 2);
    if (window > 0) alternate_windows(plan, windowed, window);
}

void configure_dbrx(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.base = "transformer";
    plan.embedding = "wte";
    plan.layers = "blocks";
    plan.final_norm = "norm_f";
    plan.norm = norms::layer_no_bias;
    ConfigReader attention_config =
        config.nested("attn_config", "dbrx attn_config", "kv_n_heads=1 attn_pdrop=0.0");
    ConfigReader experts_config =
        config.nested("ffn_config", "dbrx ffn_config",
                      "ffn_hidden_size=3584 moe_num_experts=4 moe_top_k=1");
    LayerPlan& layer = plan.layer();
    layer.norms[0] = "norm_attn_norm.norm_1";
    layer.norms[1] = "norm_attn_norm.norm_2";
    AttentionPlan& attention = layer.attention;
    attention.module = "norm_attn_norm.attn";
    attention.qkv = "Wqkv";
    attention.o = "out_proj";
    attention.heads = config.size("num_attention_heads", kLargestCount);
    attention.kv_heads = attention_config.size("kv_n_heads", kLargestCount);
    config.divides("hidden_size", plan.hidden, "num_attention_heads", attention.heads);
    config.divides("num_attention_heads", attention.heads, "kv_n_heads", attention.kv_heads);
    attention.head_dim = std::max<std::int64_t>(1, plan.hidden / attention.heads);
    // All experts lie in one matrix each: [experts * width, hidden].
    const std::int64_t count = experts_config.size("moe_num_experts", kLargestCount);
    const std::int64_t width = experts_config.size("ffn_hidden_size");
    const std::int64_t per_token = experts_config.size("moe_top_k", kLargestCount);
    const std::int64_t hidden = plan.hidden;
    layer.mlp.experts.width = width;
    layer.mlp.weights = [=](BlockBuilder& b) {
        std::vector<int> parameters =
            b.linear_weights("ffn.router.layer", hidden, count, false, Component::router);
        for (const std::string_view name : {"w1", "v1", "w2"})
            parameters.push_back(b.parameter(join("ffn.experts.mlp", name), {count * width, hidden},
                                             Component::experts));
        OpAttributes& attributes =
            b.op(OpKind::moe, "ffn", place::mlp, {}, {}, std::move(parameters)).attributes;
        attributes.experts = count;
        attributes.experts_per_token = per_token;
        attributes.expert_width = width;
    };
    plan.step_unsupported = kNoKernel;
}

namespace {

/// Sizes of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1).
struct Latent {
    std::int64_t hidden = 1, heads = 1;
    std::int64_t query_rank = 0;  ///< 0: queries are projected directly
    std::int64_t rank = 1, rotated = 1, plain = 1, value = 1;
    bool bias = false;
    double dropout = 0;
    Rotation rotation = Rotation::latent;
    /// The indexer of sparse attention; 0 heads: none.
    std::int64_t index_heads = 0, index_dim = 0;
};

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

Latent read_latent(ConfigReader& config, std::int64_t hidden) {
    Latent latent;
    latent.hidden = hidden;
    latent.heads = config.size("num_attention_heads", kLargestCount);
    latent.query_rank = config.size_or("q_lora_rank", 0);
    latent.rank = config.size("kv_lora_rank");
    latent.rotated = config.size("qk_rope_head_dim");
    latent.plain = config.size("qk_nope_head_dim");
    latent.value = config.size("v_head_dim");
    latent.bias = config.flag("attention_bias");
    latent.dropout = config.knows("attention_dropout") ? config.probability("attention_dropout") : 0;
    return latent;
}

}  // namespace

void read_deepseek_experts(ConfigReader& config, DecoderPlan& plan) {
    LayerPlan& layer = plan.layer();
    layer.mlp.width = config.size("intermediate_size");
    layer.mlp.act = config.activation("hidden_act");
    MlpPlan experts = layer.mlp;
    read_experts(config, experts, "n_routed_experts", "moe_intermediate_size");
    experts.experts.shared = "shared_experts";
    experts.experts.shared_width =
        config.count_or("n_shared_experts", 0) * experts.experts.width;
    const std::int64_t dense = config.count_or("first_k_dense_replace", 0);
    std::vector<bool> sparse;
    const std::vector<std::string> types =
        config.knows("mlp_layer_types") ? config.texts("mlp_layer_types") : std::vector<std::string>{};
    if (static_cast<std::int64_t>(types.size()) == plan.layer_count)
        for (const std::string& type : types) sparse.push_back(type == "sparse");
    else
        for (std::int64_t i = 0; i < plan.layer_count; ++i) sparse.push_back(i >= dense);
    mix_experts(plan, experts, sparse);
}

/// Attention of a plan, and what follows from it for masks and tables.
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

void configure_glm4_moe(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    read_heads(config, plan.hidden, attention, Remainder::dropped);
    attention.bias = config.flag("attention_bias");
    attention.dropout = config.probability("attention_dropout");
    attention.rotary_dim = read_rotary_dim(config, attention.head_dim, 0.5);
    if (config.knows("use_qk_norm") && config.flag("use_qk_norm")) attention.qk_norm = QkNorm::per_head;
    read_deepseek_experts(config, plan);
    plan.step_unsupported = kNoKernel;
}

void configure_minimax_m2(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    attention.qk_norm = QkNorm::full;
    attention.rotary_dim = config.size_or("rotary_dim", 0);
    read_experts(config, plan.layer().mlp, "num_local_experts", "intermediate_size");
    plan.step_unsupported = kNoKernel;
}

void configure_llama4(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.mlp.module = "feed_forward";
    MlpPlan experts = layer.mlp;
    read_experts(config, experts, "num_local_experts", "intermediate_size");
    experts.experts.router = "router";
    experts.experts.transposed = true;
    experts.experts.shared_width = experts.experts.width;
    // Dense layers have a width of their own.
    layer.mlp.width = config.size("intermediate_size_mlp");
    const std::vector<std::int64_t> listed = config.sizes("moe_layers");
    const std::int64_t step = config.size("interleave_moe_layer_step", kLargestCount);
    std::vector<bool> sparse;
    for (std::int64_t i = 0; i < plan.layer_count; ++i)
        sparse.push_back(config.raw("moe_layers") != nullptr
                             ? std::find(listed.begin(), listed.end(), i) != listed.end()
                             : (i + 1) % step == 0);
    mix_experts(plan, experts, sparse);
    plan.step_unsupported = "chunked attention and the experts of a mixture are not modelled yet";
}

}  // namespace membudget
