#include "model/module_weights.hpp"

#include <string>
#include <utility>

namespace membudget {

AttentionWeights biased_attention(std::int64_t hidden, Component component) {
    AttentionWeights out;
    out.hidden = hidden;
    out.head_dim = hidden;  // one head of the whole width has the same matrices
    out.bias = out.output_bias = true;
    out.component = component;
    return out;
}

void attention_weights(BlockBuilder& b, std::string_view module, const AttentionWeights& a) {
    const std::int64_t value = a.value_dim > 0 ? a.value_dim : a.head_dim;
    const auto linear = [&](std::string_view name, std::int64_t in, std::int64_t out, bool bias) {
        b.linear_weights(join(module, name), in, out, bias, a.component);
    };
    linear(a.q, a.hidden, a.heads * a.head_dim, a.bias);
    linear(a.k, a.hidden, a.kv_heads * a.head_dim, a.bias);
    linear(a.v, a.hidden, a.kv_heads * value, a.bias);
    linear(a.o, a.heads * value, a.hidden, a.output_bias);
}

void plain_mlp_weights(BlockBuilder& b, std::string_view module, std::string_view up, std::string_view down,
                       std::int64_t hidden, std::int64_t width, bool bias, Component component) {
    b.linear_weights(join(module, up), hidden, width, bias, component);
    b.linear_weights(join(module, down), width, hidden, bias, component);
}

void gated_mlp_weights(BlockBuilder& b, std::string_view module, std::int64_t hidden, std::int64_t width,
                       bool bias, Component component) {
    b.linear_weights(join(module, "gate_proj"), hidden, width, bias, component);
    b.linear_weights(join(module, "up_proj"), hidden, width, bias, component);
    b.linear_weights(join(module, "down_proj"), width, hidden, bias, component);
}

void norms_weights(BlockBuilder& b, std::initializer_list<std::string_view> names, std::int64_t width,
                   const Norm& norm, Component component) {
    for (const std::string_view name : names) b.norm_weights(name, width, norm, component);
}

void experts_op(BlockBuilder& b, const ExpertStack& experts, std::vector<int> parameters) {
    OpAttributes& attributes =
        b.op(OpKind::moe, std::string(experts.module), place::mlp, {}, {}, std::move(parameters)).attributes;
    attributes.experts = experts.count;
    attributes.experts_per_token = experts.per_token;
    attributes.expert_width = experts.width;
}

}  // namespace membudget
