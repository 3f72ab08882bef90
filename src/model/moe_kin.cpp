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
    mlp.experts.sharing = SharedExpert::first;
    mlp.experts.form = RouterForm::qwen;
    mlp.experts.normalised = true;
    plan.layer().attention.norm_time = NormTime::after_rotation;
    plan.step_unsupported.clear();
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
