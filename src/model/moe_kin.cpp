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
