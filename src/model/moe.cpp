#include "model/moe.hpp"

#include <algorithm>
#include <utility>

#include "model/llama_like.hpp"

namespace membudget {

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

void mix_experts(DecoderPlan& plan, const MlpPlan& experts, const std::vector<bool>& sparse,
                 const std::vector<bool>& windowed, std::int64_t window) {
    std::vector<std::pair<bool, bool>> layers;
    for (std::size_t i = 0; i < std::min(sparse.size(), windowed.size()); ++i) layers.emplace_back(sparse[i], windowed[i]);
    plan_layers(plan, layers, [&, dense = plan.layer()](const auto& key) {
        LayerPlan layer = dense;
        if (key.first) layer.mlp = experts;
        if (key.second) layer.attention.window = window;
        return layer;
    });
}

void route_as_deepseek(ConfigReader& config, MlpPlan::Experts& experts) {
    experts.form = RouterForm::deepseek_v3;
    experts.router_last = true;
    experts.wide_router = true;
    experts.normalised = !config.knows("norm_topk_prob") || config.flag("norm_topk_prob");
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

std::vector<bool> listed_sparse_layers(ConfigReader& config, std::int64_t layers, std::int64_t trailing) {
    std::vector<bool> out;
    for (const std::string& word : layer_words(config, "mlp_layer_types", layers, trailing))
        out.push_back(word == "sparse");
    if (!out.empty() || !config.knows("moe_layer_freq") || config.raw("moe_layer_freq") == nullptr) return out;
    const std::vector<std::int64_t> frequencies = config.sizes("moe_layer_freq");
    if (static_cast<std::int64_t>(frequencies.size()) != layers) {
        config.invalid("moe_layer_freq", "expected one entry per layer (" + std::to_string(layers) + ")");
        return std::vector<bool>(static_cast<std::size_t>(layers));
    }
    for (const std::int64_t frequency : frequencies) out.push_back(frequency != 0);
    return out;
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
    experts.experts.sharing = SharedExpert::first;
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
    experts.experts.router_last = true;
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
    plan.layer().attention.clips = config.raw("clip_qkv") != nullptr;
}

void configure_phimoe(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm = norms::layer;
    plan.head_bias = config.flag("lm_head_bias");
    plan.layer().attention.window = config.size_or("sliding_window", 0);
    read_experts(config, plan.layer().mlp, "num_local_experts", "intermediate_size");
    MlpPlan::Experts& experts = plan.layer().mlp.experts;
    experts.router = "router";
    experts.form = RouterForm::phimoe;
    experts.jittered = config.number("input_jitter_noise") > 0;
    if (experts.per_token != 2 && config.diagnostics().empty())
        config.unsupported("num_experts_per_tok", "expected 2: the class always chooses two");
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
    const auto windowed = windowed_layers(config, plan.layer_count, all_but_each_last, 2);
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
        config.nested("attn_config", "dbrx attn_config", "kv_n_heads=1 attn_pdrop=0.0 clip_qkv");
    ConfigReader experts_config =
        config.nested("ffn_config", "dbrx ffn_config",
                      "ffn_hidden_size=3584 moe_num_experts=4 moe_top_k=1 ffn_act_fn moe_jitter_eps "
                      "moe_normalize_expert_weights=1.0");
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
    attention.dropout = attention_config.probability("attn_pdrop");
    attention.clips = attention_config.raw("clip_qkv") != nullptr;
    layer.attention_dropout = layer.mlp_dropout = "resid_pdrop";
    layer.dropout = config.probability("resid_pdrop");
    MlpPlan& mlp = layer.mlp;
    mlp.module = "ffn";
    mlp.act = experts_config.nested("ffn_act_fn", "dbrx ffn_act_fn", "name=silu").activation("name");
    MlpPlan::Experts& experts = mlp.experts;
    experts.flat = experts.looped = true;
    experts.count = experts_config.size("moe_num_experts", kLargestCount);
    experts.width = experts_config.size("ffn_hidden_size");
    experts.per_token = experts_config.size("moe_top_k", kLargestCount);
    experts.router = "router.layer";
    experts.form = RouterForm::dbrx;
    experts.jittered = experts_config.raw("moe_jitter_eps") != nullptr;
    experts.normalised = !experts_config.has("moe_normalize_expert_weights") ||
                         experts_config.raw("moe_normalize_expert_weights") != nullptr;
    if (!attention.clips) plan.step_unsupported = "without a bound (attn_config.clip_qkv) the class cannot run";
}

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

void configure_glm4_moe(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    read_heads(config, plan.hidden, attention, Remainder::dropped);
    attention.bias = config.flag("attention_bias");
    attention.dropout = config.probability("attention_dropout");
    attention.rotation = Rotation::halves_joined;
    attention.rotary_dim = read_rotary_dim(config, attention.head_dim, 0.5);
    if (config.knows("use_qk_norm") && config.flag("use_qk_norm")) attention.qk_norm = QkNorm::per_head;
    attention.norm_time = NormTime::after_projections;
    read_deepseek_experts(config, plan);
    for (LayerPlan& layer : plan.kinds) route_as_deepseek(config, layer.mlp.experts);
}

void configure_minimax_m2(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    attention.qk_norm = QkNorm::full;
    attention.rotation = Rotation::halves_joined;
    attention.rotary_dim = config.size_or("rotary_dim", 0);
    if (attention.rotary_dim == 0) attention.rotary_dim = read_rotary_dim(config, attention.head_dim, 1);
    read_experts(config, plan.layer().mlp, "num_local_experts", "intermediate_size");
    plan.layer().mlp.experts.form = RouterForm::minimax;
}

void configure_llama4(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.names_results = true;
    AttentionPlan& attention = layer.attention;
    attention.rotation = Rotation::complex;
    attention.softmax_in_dtype = true;
    attention.norm_time = NormTime::after_rotation;
    attention.qk_norm_kind = {OpKind::rms_norm, NormStyle::no_weight, false, false};
    layer.mlp.module = "feed_forward";
    MlpPlan experts = layer.mlp;
    read_experts(config, experts, "num_local_experts", "intermediate_size");
    experts.experts.router = "router";
    experts.experts.transposed = true;
    experts.experts.shared_width = experts.experts.width;
    experts.experts.form = RouterForm::llama4;
    experts.experts.router_last = true;
    // Dense layers have a width of their own.
    layer.mlp.width = config.size("intermediate_size_mlp");
    const std::vector<std::int64_t> listed = config.sizes("moe_layers");
    const std::int64_t step = config.size("interleave_moe_layer_step", kLargestCount);
    std::vector<bool> sparse;
    for (std::int64_t i = 0; i < plan.layer_count; ++i)
        sparse.push_back(config.raw("moe_layers") != nullptr
                             ? std::find(listed.begin(), listed.end(), i) != listed.end()
                             : (i + 1) % step == 0);
    // Despite its name, an entry of 1 says that the layer rotates; such layers see chunks of the sequence.
    const std::vector<std::int64_t> given = config.sizes("no_rope_layers");
    if (!given.empty() && static_cast<std::int64_t>(given.size()) != plan.layer_count && config.diagnostics().empty())
        config.invalid("no_rope_layers", "expected one entry per layer (" + std::to_string(plan.layer_count) +
                                             "); got " + std::to_string(given.size()));
    const std::int64_t interval = config.size("no_rope_layer_interval", kLargestCount);
    const std::int64_t chunk = config.size_or("attention_chunk_size", 0);
    const bool norms = config.flag("use_qk_norm"), tuned = config.flag("attn_temperature_tuning");
    const std::vector<std::string> types = layer_words(config, "layer_types", plan.layer_count);
    struct Kind {
        bool sparse = false, rotates = false, chunked = false;
        bool operator==(const Kind&) const = default;
    };
    std::vector<Kind> kinds;
    for (std::size_t i = 0; i < sparse.size(); ++i) {
        const bool rotates = i < given.size() ? given[i] != 0 : (static_cast<std::int64_t>(i) + 1) % interval != 0;
        kinds.push_back({sparse[i], rotates, types.empty() ? rotates && chunk > 0 : types[i] == "chunked_attention"});
    }
    plan_layers(plan, kinds, [&, dense = plan.layer()](const Kind& kind) {
        LayerPlan made = dense;
        if (kind.sparse) made.mlp = experts;
        if (kind.chunked) made.attention.window = chunk;
        made.attention.chunked = kind.chunked;
        if (!kind.rotates) made.attention.rotary = -1;
        if (kind.rotates && norms) made.attention.qk_norm = QkNorm::per_head;
        made.attention.by_position = !kind.rotates && tuned;
        return made;
    });
}

}  // namespace membudget
