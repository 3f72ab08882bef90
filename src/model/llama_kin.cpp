/// Decoders in Llama's modules that differ from it in few of them.

#include <string>
#include <vector>

#include "model/llama_like.hpp"
#include "model/moe.hpp"

namespace membudget {

void configure_seed_oss(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    attention.output_bias = config.flag("attention_out_bias");
    MlpPlan& mlp = plan.layer().mlp;
    attention.output_dropout = mlp.output_dropout = "residual_dropout";
    attention.output_dropout_p = mlp.output_dropout_p = config.probability("residual_dropout");
}

void configure_ernie4_5(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.attention.bias = layer.attention.output_bias = layer.mlp.bias = config.flag("use_bias");
    layer.attention.rotation = Rotation::pairs_cast;
    layer.attention.dropout = 0;  // whatever the config says
}

void configure_ernie4_5_moe(ConfigReader& config, DecoderPlan& plan) {
    configure_ernie4_5(config, plan);
    MlpPlan experts = plan.layer().mlp;
    read_experts(config, experts, "num_experts", "moe_intermediate_size");
    plan.head_bias = experts.experts.shared_bias = experts.bias;
    experts.bias = false;
    experts.experts.shared = "shared_experts";
    experts.experts.shared_width = config.count_or("moe_num_shared_experts", 0) * experts.experts.width;
    experts.experts.correction = "gate.moe_statics.e_score_correction_bias";
    experts.experts.form = RouterForm::ernie;
    experts.experts.wide_router = true;
    experts.experts.sharing = SharedExpert::first;
    const std::int64_t first = config.count_or("moe_layer_start_index", 0);
    const double end = config.number("moe_layer_end_index");
    const std::int64_t interval = config.size("moe_layer_interval", kLargestCount);
    std::vector<bool> sparse;
    for (std::int64_t i = 0; i < plan.layer_count; ++i)
        sparse.push_back((i + 1) % interval == 0 && i >= first && (end == -1 || static_cast<double>(i) <= end));
    mix_experts(plan, experts, sparse);
}

void configure_hunyuan_dense(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    attention.qk_norm = QkNorm::per_head;
    attention.q_norm = "query_layernorm";
    attention.k_norm = "key_layernorm";
    attention.norm_time = NormTime::after_rotation;
}

void configure_exaone4(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    norm_results_only(layer);
    layer.attention.qk_norm = QkNorm::per_head;
    layer.attention.norm_time = NormTime::after_projections;
    const std::int64_t window = config.size_or("sliding_window", 0);
    if (window == 0) return;
    // Layers without a window do not rotate. A pattern in letters is repeated, and the last layer has none.
    const KeyTree* const pattern = config.raw("sliding_window_pattern");
    const bool lettered = pattern != nullptr && pattern->is(KeyTree::Kind::string);
    const std::string letters = lettered ? config.text("sliding_window_pattern") : std::string();
    std::vector<bool> windowed = layers_of_type(config, plan.layer_count, "sliding_attention", "full_attention");
    const std::int64_t period = letters.empty() ? config.size("sliding_window_pattern", kLargestCount) : 0;
    if (windowed.empty())
        for (std::int64_t i = 0; i < plan.layer_count; ++i)
            windowed.push_back(letters.empty() ? (i + 1) % period != 0
                                               : i + 1 < plan.layer_count &&
                                                     letters[static_cast<std::size_t>(i) % letters.size()] == 'L');
    alternate_windows(plan, windowed, window);
    for (LayerPlan& kind : plan.kinds)
        if (kind.attention.window == 0) kind.attention.rotary = -1;
}

void configure_arcee(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().mlp.gated = false;
}

void configure_dots1(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    read_heads(config, plan.hidden, attention, Remainder::dropped);
    attention.bias = attention.output_bias = config.flag("attention_bias");
    attention.dropout = config.probability("attention_dropout");
    attention.qk_norm = QkNorm::per_head;
    read_deepseek_experts(config, plan);
    for (LayerPlan& layer : plan.kinds) route_as_deepseek(config, layer.mlp.experts);
    read_last_windows(config, plan);
}

void configure_minimax(ConfigReader& config, DecoderPlan& plan) {
    configure_mixtral(config, plan);
    LayerPlan linear = plan.layer();
    const AttentionPlan& attention = plan.layer().attention;
    const std::int64_t hidden = plan.hidden, inner = attention.heads * attention.head_dim;
    linear.attention.weights = [hidden, inner](BlockBuilder& b) {
        b.norm_weights("self_attn.norm", inner, norms::rms);
        b.linear_weights("self_attn.qkv_proj", hidden, 3 * inner, false, Component::attention);
        b.linear_weights("self_attn.out_proj", inner, hidden, false, Component::attention);
        b.linear_weights("self_attn.output_gate", hidden, inner, false, Component::attention);
    };
    plan.kinds.push_back(std::move(linear));
    const std::vector<std::string> types = config.texts("layer_types");
    const bool listed = config.raw("layer_types") != nullptr;
    if (listed && static_cast<std::int64_t>(types.size()) != plan.layer_count)
        config.invalid("layer_types", "expected an entry for each layer");
    std::vector<int> kinds;
    for (std::int64_t i = 0; i < plan.layer_count && config.diagnostics().empty(); ++i)
        kinds.push_back(listed ? types[static_cast<std::size_t>(i)] == "linear_attention" : i % 2 == 1);
    assign_kinds(plan, std::move(kinds));
    plan.step_unsupported = kCountedOnly;
}

void configure_helium(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm.style = NormStyle::wide_weight;
    AttentionPlan& attention = plan.layer().attention;
    attention.output_bias = false;
    attention.rotation = Rotation::pairs;
    if (attention.heads * attention.head_dim != plan.hidden && config.diagnostics().empty())
        config.invalid("head_dim", "expected heads that make up hidden_size (" + std::to_string(plan.hidden) + ")");
}

void configure_cwm(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    const std::int64_t window = config.size_or("sliding_window", 0);
    const auto windowed = windowed_layers(
        config, plan.layer_count, [](std::int64_t index, std::int64_t period) { return index % period != 0; }, 4);
    if (window > 0) alternate_windows(plan, windowed, window);
}

void configure_ministral(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    const std::int64_t window = config.size_or("sliding_window", 0);
    const auto windowed = windowed_layers(
        config, plan.layer_count, [](std::int64_t, std::int64_t width) { return width > 0; }, window);
    if (window > 0) alternate_windows(plan, windowed, window);
}

void configure_granite_swa(ConfigReader& config, DecoderPlan& plan) {
    configure_granite(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    attention.sinks = true;
    attention.form = AttentionForm::granite_swa;
    const std::int64_t window = config.size_or("sliding_window", 0);
    std::vector<bool> windowed = layers_of_type(config, plan.layer_count, "sliding_attention", "full_attention");
    for (std::int64_t i = 0; windowed.size() < static_cast<std::size_t>(plan.layer_count); ++i)
        windowed.push_back(i % 4 != 0);
    if (window > 0) alternate_windows(plan, windowed, window);
    if (config.raw("layer_rope_theta") != nullptr)
        config.unsupported("layer_rope_theta", "expected one base of the rotation for all layers");
}

void configure_bitnet(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.result_norm = "attn_sub_norm";
    plan.layer().mlp.inner_norm = "ffn_sub_norm";
}

void configure_hyperclovax(ConfigReader& config, DecoderPlan& plan) {
    configure_granite(config, plan);
    LayerPlan& layer = plan.layer();
    if (config.flag("use_post_norm")) {
        layer.arrangement = Arrangement::sandwich;
        layer.norms[1] = "post_norm1";
        layer.norms[2] = "post_attention_layernorm";
        layer.norms[3] = "post_norm2";
    }
}

void configure_diffllama(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.extra = [width = layer.attention.head_dim](BlockBuilder& b) {
        for (const std::string_view name : {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"})
            b.parameter(join("self_attn", name), {width}, Component::attention);
    };
    plan.step_unsupported = kCountedOnly;
}

void configure_nanochat(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm = {OpKind::rms_norm, NormStyle::no_weight, false, false};
    plan.head_softcap = config.number("final_logit_softcapping");
    LayerPlan& layer = plan.layer();
    layer.attention.qk_norm = QkNorm::per_head;
    layer.attention.qk_norm_kind = plan.norm;
    layer.attention.norm_time = NormTime::after_rotation;
    plan.stem_norm = "norm";
    layer.mlp.gated = false;
    layer.mlp.up = "fc1";
    layer.mlp.down = "fc2";
}

void configure_apertus(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.norms[0] = "attention_layernorm";
    layer.norms[1] = "feedforward_layernorm";
    layer.attention.qk_norm = QkNorm::per_head;
    layer.attention.norm_time = NormTime::after_projections;
    layer.mlp.gated = false;
    layer.mlp.act = Act::xielu;
}

void configure_jais2(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.norm = norms::layer;
    plan.layer().mlp.gated = false;
}

void configure_vaultgemma(ConfigReader& config, DecoderPlan& plan) {
    configure_gemma2(config, plan);
    for (LayerPlan& layer : plan.kinds) {
        layer.arrangement = Arrangement::pre_norm;
        layer.norms[1] = "pre_feedforward_layernorm";
    }
}

}  // namespace membudget
