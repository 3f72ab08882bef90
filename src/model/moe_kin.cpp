/// Mixtures of experts of which the parameters are known and no step has been measured.

#include <algorithm>
#include <charconv>
#include <utility>

#include "model/llama_like.hpp"
#include "model/module_weights.hpp"
#include "model/moe.hpp"

namespace membudget {
namespace {

constexpr std::string_view kWindow = "sliding_attention";

/// Whether each layer has experts: the words of `mlp_layer_types`, else the numbers of `moe_layer_freq`, of which
/// 0 stands for a dense layer; empty where the file has neither.
std::vector<bool> listed_sparse_layers(ConfigReader& config, std::int64_t layers, std::int64_t trailing = 0) {
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

/// The layers that `moe_layers_enum` numbers, as a list or as text ("3,4,5").
std::vector<std::int64_t> numbered_layers(ConfigReader& config, std::string_view key) {
    const KeyTree* value = config.raw(key);
    if (value == nullptr || !value->is(KeyTree::Kind::string)) return config.sizes(key);
    std::vector<std::int64_t> out;
    const std::string text = config.text(key);
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
        std::int64_t number = 0;
        const auto [next, error] = std::from_chars(at, end, number);
        if (error == std::errc()) out.push_back(number);
        at = next == at ? at + 1 : next;
    }
    return out;
}

}  // namespace

void configure_mimo_v2_flash(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    LayerPlan base;
    AttentionPlan& attention = base.attention;
    attention.heads = config.size("num_attention_heads", kLargestCount);
    attention.kv_heads = config.size("num_key_value_heads", kLargestCount);
    attention.head_dim = config.size("head_dim");
    attention.value_dim = config.size("v_head_dim");
    attention.bias = config.flag("attention_bias");
    AttentionPlan windowed = attention;
    windowed.heads = config.size_or("swa_num_attention_heads", attention.heads, kLargestCount);
    windowed.kv_heads = config.size_or("swa_num_key_value_heads", 2 * attention.kv_heads, kLargestCount);
    windowed.head_dim = config.size_or("swa_head_dim", attention.head_dim);
    windowed.value_dim = config.size_or("swa_v_head_dim", attention.value_dim);
    windowed.window = config.size("sliding_window");
    windowed.rotary = 1;
    attention.sinks = config.flag("add_full_attention_sink_bias");
    windowed.sinks = config.flag("add_swa_attention_sink_bias");
    base.mlp.width = config.size("intermediate_size");
    base.mlp.act = config.activation("hidden_act");
    MlpPlan experts = base.mlp;
    read_experts(config, experts, "n_routed_experts", "moe_intermediate_size");
    if (config.count_or("n_shared_experts", 0) > 0)
        config.unsupported("n_shared_experts", "expected none: the class has no shared experts");

    std::vector<bool> windows = layers_of_type(config, plan.layer_count, kWindow, "full_attention");
    if (windows.empty())
        for (const std::int64_t mark : config.sizes("hybrid_layer_pattern")) windows.push_back(mark != 0);
    if (windows.empty())
        for (std::int64_t i = 0; i < plan.layer_count; ++i) windows.push_back(i != 0 && (i + 1) % 6 != 0);
    if (static_cast<std::int64_t>(windows.size()) != plan.layer_count)
        config.invalid("hybrid_layer_pattern", "expected an entry for each layer");
    std::vector<bool> sparse = listed_sparse_layers(config, plan.layer_count);
    if (sparse.empty())
        for (std::int64_t i = 0; i < plan.layer_count; ++i) sparse.push_back(i != 0);
    std::vector<std::pair<bool, bool>> layers;
    for (std::size_t i = 0; i < std::min(windows.size(), sparse.size()); ++i) layers.emplace_back(windows[i], sparse[i]);
    plan_layers(plan, layers, [&](const auto& key) {
        LayerPlan layer = base;
        if (key.first) layer.attention = windowed;
        if (key.second) layer.mlp = experts;
        return layer;
    });
    plan.step_unsupported = kCountedOnly;
}

void configure_minimax_m3(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.norm = norms::rms_one_plus;
    LayerPlan base;
    read_heads(config, plan.hidden, base.attention);
    base.attention.qk_norm = QkNorm::per_head;
    base.attention.qk_norm_kind = norms::rms_one_plus;
    base.attention.rotary_dim = config.size("rotary_dim");
    base.mlp.gate_up = "gate_up_proj";
    base.mlp.width = config.size("dense_intermediate_size");
    MlpPlan experts = base.mlp;
    read_experts(config, experts, "num_local_experts", "intermediate_size");
    experts.experts.shared = "shared_experts";
    experts.experts.shared_gate_up = "gate_up_proj";
    experts.experts.shared_width = config.size("shared_intermediate_size");
    if (config.flag("attention_output_gate"))
        config.unsupported("attention_output_gate", "expected false: the class has no such gate");
    if (!config.flag("use_qk_norm"))
        config.unsupported("use_qk_norm", "expected true: the class always normalises queries and keys");

    // Published files describe the layers in an object of their own.
    ConfigReader sparse_config = config.nested(
        "sparse_attention_config", "sparse attention",
        "sparse_num_index_heads sparse_index_dim sparse_attention_freq sparse_disable_index_value");
    const std::int64_t heads = sparse_config.size_or("sparse_num_index_heads", config.size("index_n_heads", kLargestCount), kLargestCount);
    const std::int64_t width = sparse_config.size_or("sparse_index_dim", config.size("index_head_dim"));
    std::vector<bool> indexed = layers_of_type(config, plan.layer_count, "minimax_m3_sparse", "full_attention");
    if (indexed.empty())
        for (const std::int64_t mark : sparse_config.sizes("sparse_attention_freq")) indexed.push_back(mark != 0);
    const auto count = static_cast<std::size_t>(plan.layer_count);
    if (indexed.empty()) indexed.assign(count, false);
    if (indexed.size() != count)
        sparse_config.invalid("sparse_attention_freq", "expected an entry for each layer");
    const std::vector<std::int64_t> without_value = sparse_config.sizes("sparse_disable_index_value");
    for (std::size_t i = 0; i < std::min(indexed.size(), without_value.size()); ++i)
        if (indexed[i] && without_value[i] == 0) {
            sparse_config.unsupported("sparse_disable_index_value", "expected indexers without values in all sparse layers");
            break;
        }
    std::vector<bool> sparse = listed_sparse_layers(config, plan.layer_count);
    if (sparse.empty()) sparse.assign(count, true);
    std::vector<std::pair<bool, bool>> layers;
    for (std::size_t i = 0; i < std::min(indexed.size(), sparse.size()); ++i) layers.emplace_back(indexed[i], sparse[i]);
    plan_layers(plan, layers, [&, hidden = plan.hidden](const auto& key) {
        LayerPlan layer = base;
        if (key.second) layer.mlp = experts;
        if (key.first)
            layer.extra = [=](BlockBuilder& b) {
                b.linear_weights("self_attn.indexer.q_proj", hidden, heads * width, false, Component::attention);
                b.linear_weights("self_attn.indexer.k_proj", hidden, width, false, Component::attention);
                for (const std::string_view norm : {"self_attn.indexer.q_norm", "self_attn.indexer.k_norm"})
                    b.norm_weights(norm, width, norms::rms_one_plus);
            };
        return layer;
    });
    plan.step_unsupported = kCountedOnly;
}

void configure_step3p5(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    LayerPlan base;
    AttentionPlan& attention = base.attention;
    attention.heads = config.size("num_attention_heads", kLargestCount);
    attention.kv_heads = config.size("num_key_value_heads", kLargestCount);
    attention.head_dim = config.size("head_dim");
    attention.bias = attention.output_bias = config.flag("attention_bias");
    attention.qk_norm = QkNorm::per_head;
    base.mlp.width = config.size("intermediate_size");
    base.mlp.bias = config.flag("mlp_bias");
    MlpPlan experts = base.mlp;
    read_experts(config, experts, "n_routed_experts", "moe_intermediate_size");
    experts.experts.shared = "shared_experts";
    experts.experts.shared_width = config.size("share_expert_dim");
    experts.experts.shared_bias = base.mlp.bias;

    // Layers with a window have heads of their own number.
    ConfigReader other = config.nested("attention_other_setting", "attention of layers with a window",
                                       "num_attention_heads");
    const std::int64_t window_heads = config.size_or(
        "num_sliding_attention_heads", other.size_or("num_attention_heads", attention.heads, kLargestCount), kLargestCount);
    const std::int64_t trailing = config.count_or("num_nextn_predict_layers", 0);
    std::vector<bool> windows;
    for (const std::string& word : layer_words(config, "layer_types", plan.layer_count, trailing))
        windows.push_back(word == kWindow);
    windows.resize(static_cast<std::size_t>(plan.layer_count));
    std::vector<bool> sparse = listed_sparse_layers(config, plan.layer_count, trailing);
    if (sparse.empty()) {
        const bool listed = config.raw("moe_layers_enum") != nullptr;
        const std::vector<std::int64_t> numbers = numbered_layers(config, "moe_layers_enum");
        for (std::int64_t i = 0; i < plan.layer_count; ++i)
            sparse.push_back(listed ? std::find(numbers.begin(), numbers.end(), i) != numbers.end() : i >= 3);
    }
    std::vector<std::pair<bool, bool>> layers;
    for (std::size_t i = 0; i < std::min(windows.size(), sparse.size()); ++i) layers.emplace_back(windows[i], sparse[i]);
    plan_layers(plan, layers, [&, hidden = plan.hidden](const auto& key) {
        LayerPlan layer = base;
        if (key.first) layer.attention.heads = window_heads;
        if (key.second) layer.mlp = experts;
        // A gate for each head's result.
        layer.extra = [hidden, heads = layer.attention.heads](BlockBuilder& b) {
            b.linear_weights("self_attn.g_proj", hidden, heads, false, Component::attention);
        };
        return layer;
    });
    plan.step_unsupported = kCountedOnly;
}

namespace {

/// The mixture of layers that `mlp_layer_types` does not call dense; without it, of those from
/// `first_k_dense_replace` on, where the class has that key, else from `first` on.
std::vector<bool> read_sparse_layers(ConfigReader& config, std::int64_t layers, std::int64_t first) {
    std::vector<bool> sparse;
    if (config.knows("mlp_layer_types")) sparse = listed_sparse_layers(config, layers);
    if (!sparse.empty()) return sparse;
    if (config.knows("first_k_dense_replace")) first = config.count_or("first_k_dense_replace", first);
    for (std::int64_t i = 0; i < layers; ++i) sparse.push_back(i >= first);
    return sparse;
}

/// Experts beside `count` shared ones that are one network of their common width.
void share_experts(MlpPlan& experts, std::int64_t count) {
    experts.experts.shared = "shared_experts";
    experts.experts.shared_width = detail::checked_mul(count, experts.experts.width);
}

}  // namespace

void configure_granitemoeshared(ConfigReader& config, DecoderPlan& plan) {
    configure_granitemoe(config, plan);
    const std::int64_t width = config.count_or("shared_intermediate_size", 0, kLargestWidth);
    if (width == 0) return;
    plan.layer().beside_mlp = [hidden = plan.hidden, width, act = plan.layer().mlp.act](BlockBuilder& b, int x, int routed) {
        int own = -1;
        {
            const auto function = b.scope();
            const int both = b.linear(x, "shared_mlp.input_linear", 2 * width, false, place::mlp);
            const auto halves = b.split(both, "shared_mlp.chunk", {width, width}, place::mlp);
            b.hold(halves[0]);
            b.hold(halves[1]);
            const int product = b.gated_activation(halves[0], halves[1], "shared_mlp.activation", act, place::mlp);
            own = b.linear(product, "shared_mlp.output_linear", hidden, false, place::mlp);
        }
        return b.add(routed, own, "shared_mlp.sum", place::mlp);
    };
}

WeightsOnly granite_shared_mlp(ConfigReader& config, std::int64_t hidden) {
    const std::int64_t width = config.count_or("shared_intermediate_size", 0, kLargestWidth);
    return [hidden, width](BlockBuilder& b) {
        if (width == 0) return;
        b.linear_weights("shared_mlp.input_linear", hidden, 2 * width, false, Component::mlp);
        b.linear_weights("shared_mlp.output_linear", width, hidden, false, Component::mlp);
    };
}

void configure_flex_olmo(ConfigReader& config, DecoderPlan& plan) {
    configure_olmo2(config, plan);
    read_experts(config, plan.layer().mlp, "num_experts", "intermediate_size");
    plan.layer().mlp.experts.form = RouterForm::qwen;
    plan.layer().mlp.experts.normalised = config.flag("norm_topk_prob");
}

namespace {

/// Norms of queries and keys, and experts beside shared ones, as K-EXAONE and Hunyuan 3 have them; returns the
/// network of the layers with experts.
MlpPlan read_exaone(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    attention.qk_norm = QkNorm::per_head;
    attention.norms_last = true;
    MlpPlan experts = plan.layer().mlp;
    read_experts(config, experts, "num_experts", "moe_intermediate_size");
    share_experts(experts, config.count_or("num_shared_experts", 0));
    return experts;
}

/// Layers without a window do not rotate.
void rotate_windows_only(DecoderPlan& plan) {
    for (LayerPlan& layer : plan.kinds)
        if (layer.attention.window == 0) layer.attention.rotary = -1;
}

}  // namespace

void configure_exaone_moe(ConfigReader& config, DecoderPlan& plan) {
    MlpPlan experts = read_exaone(config, plan);
    route_as_deepseek(config, experts.experts);
    const std::int64_t window = config.size_or("sliding_window", 0);
    const std::vector<bool> windowed = windowed_layers(
        config, plan.layer_count,
        [](std::int64_t index, std::int64_t period) { return period > 0 && (index + 1) % period != 0; },
        config.count_or("sliding_window_pattern", 0));
    mix_experts(plan, experts, read_sparse_layers(config, plan.layer_count, 1), windowed, window);
    if (window > 0) rotate_windows_only(plan);
}

void configure_solar_open(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    AttentionPlan& attention = plan.layer().attention;
    read_heads(config, plan.hidden, attention);
    attention.bias = config.flag("attention_bias");
    read_experts(config, plan.layer().mlp, "n_routed_experts", "moe_intermediate_size");
    share_experts(plan.layer().mlp, config.count_or("n_shared_experts", 0));
    plan.layer().mlp.act = config.activation("hidden_act");
    route_as_deepseek(config, plan.layer().mlp.experts);
}

void configure_mellum(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    plan.layer().attention.qk_norm = QkNorm::per_head;
    MlpPlan experts = plan.layer().mlp;
    read_experts(config, experts, "num_local_experts", "moe_intermediate_size");
    experts.experts.form = RouterForm::qwen;
    experts.experts.normalised = config.flag("norm_topk_prob");
    mix_experts(plan, experts, read_sparse_layers(config, plan.layer_count, 0),
                windowed_layers(config, plan.layer_count, [](std::int64_t, std::int64_t) { return false; }, 0),
                config.size_or("sliding_window", 0));
    for (LayerPlan& layer : plan.kinds)
        if (layer.attention.window > 0) layer.attention.rotary = 1;
}

void configure_hy_v3(ConfigReader& config, DecoderPlan& plan) {
    MlpPlan experts = read_exaone(config, plan);
    experts.experts.form = RouterForm::hunyuan;
    experts.experts.wide_router = true;
    experts.experts.sharing = config.flag("enable_moe_fp32_combine") ? SharedExpert::wide : SharedExpert::last;
    experts.experts.shared_bias = experts.bias;
    experts.bias = false;
    mix_experts(plan, experts, read_sparse_layers(config, plan.layer_count, 1));
}

void configure_cohere2_moe(ConfigReader& config, DecoderPlan& plan) {
    configure_cohere(config, plan);
    plan.norm = config.raw("rms_norm_eps") != nullptr ? norms::rms : norms::layer_unfused;
    LayerPlan& layer = plan.layer();
    MlpPlan experts = layer.mlp;
    read_experts(config, experts, "num_experts", "intermediate_size");
    share_experts(experts, config.count_or("num_shared_experts", 0));
    experts.experts.form =
        config.text("expert_selection_fn") == "sigmoid" ? RouterForm::cohere_sigmoid : RouterForm::cohere;
    experts.experts.normalised = config.flag("norm_topk_prob");
    experts.experts.sharing =
        config.text("shared_expert_combination_strategy") == "sum" ? SharedExpert::last : SharedExpert::mean;
    layer.mlp.width = config.size_or("prefix_dense_intermediate_size", layer.mlp.width);
    // The dense layers at the beginning have a period of their own.
    const std::int64_t dense = config.count_or("first_k_dense_replace", 0);
    const std::int64_t first_period = config.size("prefix_dense_sliding_window_pattern", kLargestCount);
    const std::int64_t period = config.size("sliding_window_pattern", kLargestCount);
    std::vector<bool> windowed = layers_of_type(config, plan.layer_count, kWindow, "full_attention");
    for (std::int64_t i = static_cast<std::int64_t>(windowed.size()); i < plan.layer_count; ++i)
        windowed.push_back(i < dense ? (i + 1) % first_period != 0 : (i - dense + 1) % period != 0);
    mix_experts(plan, experts, read_sparse_layers(config, plan.layer_count, 0), windowed,
                config.size_or("sliding_window", 0));
    for (LayerPlan& kind : plan.kinds) {
        const bool forced = kind.mlp.experts.count == 0 && first_period == 1;
        if (kind.attention.window == 0 && !forced) kind.attention.rotary = -1;
    }
}

void configure_afmoe(ConfigReader& config, DecoderPlan& plan) {
    read_llama(config, plan);
    LayerPlan& layer = plan.layer();
    layer.arrangement = Arrangement::sandwich;
    layer.norms[1] = "post_attention_layernorm";
    layer.norms[2] = "pre_mlp_layernorm";
    layer.norms[3] = "post_mlp_layernorm";
    plan.norm = norms::rms_wide_product;
    plan.embedding_scale = config.flag("mup_enabled");
    AttentionPlan& attention = layer.attention;
    attention.qk_norm = QkNorm::per_head;
    attention.qk_norm_kind = norms::rms_wide_product;
    attention.norms_last = true;
    attention.gate = "gate_proj";
    MlpPlan experts = layer.mlp;
    read_experts(config, experts, "num_experts", "moe_intermediate_size");
    experts.experts.router = "router.gate";
    share_experts(experts, config.count_or("num_shared_experts", 0));
    experts.experts.form = RouterForm::afmoe;
    experts.experts.sharing = SharedExpert::between;
    const std::int64_t dense = config.count_or("num_dense_layers", 0);
    std::vector<bool> sparse;
    for (std::int64_t i = 0; i < plan.layer_count; ++i) sparse.push_back(i >= dense);
    const std::int64_t window = config.size_or("sliding_window", 0);
    mix_experts(plan, experts, sparse,
                windowed_layers(
                    config, plan.layer_count,
                    [](std::int64_t index, std::int64_t period) { return period > 0 && (index + 1) % period != 0; },
                    config.count_or("global_attn_every_n_layers", 0)),
                window);
    rotate_windows_only(plan);
    for (LayerPlan& kind : plan.kinds)
        if (const std::int64_t count = kind.mlp.experts.count; count > 0)
            kind.extra = [count](BlockBuilder& b) {
                b.parameter("mlp.expert_bias", {count}, Component::router);
                b.parameter_named("mlp.expert_bias").trainable = false;
                b.parameter_named("mlp.expert_bias").dtype = &dtype::fp32;
            };
}

void configure_hunyuan_moe(ConfigReader& config, DecoderPlan& plan) {
    configure_hunyuan_dense(config, plan);
    MlpPlan& mlp = plan.layer().mlp;
    mlp.experts.count = config.size("num_experts", kLargestCount);
    mlp.experts.width = mlp.width;
    // One number for all layers, or a list of one for each.
    const KeyTree* chosen = config.raw("num_experts_per_tok");
    const bool listed = chosen != nullptr && chosen->is(KeyTree::Kind::array);
    const std::vector<std::int64_t> numbers = listed ? config.sizes("num_experts_per_tok") : std::vector<std::int64_t>{};
    mlp.experts.per_token = listed ? (numbers.empty() ? 1 : numbers.front())
                                   : config.size("num_experts_per_tok", kLargestCount);
    mlp.experts.router = "gate.wg";
    mlp.experts.shared = "shared_mlp";
    mlp.experts.shared_width = mlp.width;
}

void configure_jetmoe(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    const std::int64_t hidden = plan.hidden;
    const std::int64_t count = config.size("num_local_experts", kLargestCount);
    const std::int64_t per_token = config.size("num_experts_per_tok", kLargestCount);
    const std::int64_t width = config.size("intermediate_size");
    const std::int64_t head = config.size("kv_channels");
    const std::int64_t kv_heads = config.size("num_key_value_heads", kLargestCount);
    LayerPlan& layer = plan.layer();
    layer.attention.heads = detail::checked_mul(kv_heads, per_token);
    layer.attention.kv_heads = kv_heads;
    layer.attention.head_dim = head;
    layer.attention.rotary = -1;
    layer.mlp.width = width;
    // Experts of queries and of outputs too (arXiv:2404.07413).
    const auto mixture = [=](BlockBuilder& b, const std::string& module, std::int64_t inner, std::int64_t in_width) {
        b.parameter(module + ".bias", {hidden}, Component::experts);
        std::vector<int> parameters{
            b.parameter(module + ".input_linear.weight", {count, in_width, hidden}, Component::experts),
            b.parameter(module + ".output_linear.weight", {count, hidden, inner}, Component::experts)};
        const std::vector<int> router = b.linear_weights(module + ".router.layer", hidden, count, false, Component::router);
        parameters.insert(parameters.end(), router.begin(), router.end());
        experts_op(b, {module, count, per_token, inner}, std::move(parameters));
    };
    layer.attention.weights = [=](BlockBuilder& b) {
        mixture(b, "self_attention.experts", kv_heads * head, kv_heads * head);
        b.linear_weights("self_attention.kv_proj", hidden, 2 * kv_heads * head, false, Component::attention);
    };
    layer.mlp.weights = [=](BlockBuilder& b) { mixture(b, "mlp", width, 2 * width); };
    plan.step_unsupported = kCountedOnly;
}

}  // namespace membudget
