#pragma once

/// Parameters of modules that many models of which only those are known have in common.

#include <cstdint>
#include <string_view>

#include "model/blocks.hpp"

namespace membudget {

/// An attention with four linear modules.
struct AttentionWeights {
    std::string_view q = "q_proj", k = "k_proj", v = "v_proj", o = "o_proj";
    std::int64_t hidden = 1, heads = 1, kv_heads = 1, head_dim = 1;
    std::int64_t value_dim = 0;  ///< 0: head_dim
    bool bias = false, output_bias = false;
    Component component = Component::attention;
};
/// Sizes of an attention whose heads are those of `hidden` cut in pieces, with biases everywhere.
[[nodiscard]] AttentionWeights biased_attention(std::int64_t hidden, Component component);
void attention_weights(BlockBuilder& builder, std::string_view module, const AttentionWeights& attention);

/// Two linear modules, `up` and `down`.
void plain_mlp_weights(BlockBuilder& builder, std::string_view module, std::string_view up, std::string_view down,
                       std::int64_t hidden, std::int64_t width, bool bias, Component component);
/// `gate_proj`, `up_proj` and `down_proj`.
void gated_mlp_weights(BlockBuilder& builder, std::string_view module, std::int64_t hidden, std::int64_t width,
                       bool bias, Component component);

/// Several norms of one width.
void norms_weights(BlockBuilder& builder, std::initializer_list<std::string_view> names, std::int64_t width,
                   const Norm& norm, Component component = Component::norm);

/// A stack of experts and what chooses among them, as an op whose inputs are not modelled: its parameters are
/// those that a token uses in part.
struct ExpertStack {
    std::string_view module;  ///< of the op
    std::int64_t count = 1, per_token = 1, width = 1;
};
void experts_op(BlockBuilder& builder, const ExpertStack& experts, std::vector<int> parameters);

}  // namespace membudget
