/// Mixtures of experts of which the parameters are known and no step has been measured.

#include <utility>

#include "model/llama_like.hpp"
#include "model/module_weights.hpp"
#include "model/moe.hpp"

namespace membudget {

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
