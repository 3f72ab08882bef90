/// What llama.cpp calls the tensors of decoders in the modules of Llama. Names: gguf-py/gguf/constants.py
/// (TENSOR_NAMES) and tensor_mapping.py; splits of joined tensors: convert_hf_to_gguf.py.

#include <algorithm>

#include <fmt/format.h>

#include "model/stored_names.hpp"

namespace membudget {
namespace {

struct GgufName {
    std::string_view module;  ///< within a layer, or of the whole model
    std::string_view gguf;
};

constexpr GgufName kOfModel[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};

constexpr GgufName kOfLayer[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
};

std::string_view find(std::span<const GgufName> names, std::string_view module) {
    for (const GgufName& row : names)
        if (row.module == module) return row.gguf;
    return {};
}

/// The norm after attention is the MLP's, unless the layer has another one for that (Gemma 2) or none
/// before the MLP (OLMo 2).
std::string_view norm_after_attention(const Block& block) {
    const bool other = std::any_of(
        block.parameters.begin(), block.parameters.end(), [](const Parameter& parameter) {
            return parameter.name.find("feedforward_layernorm.") != std::string::npos;
        });
    return other ? "post_attention_norm" : "ffn_norm";
}

}  // namespace

std::vector<StoredPiece> gguf_pieces(std::string_view name, std::int64_t layer,
                                     const std::vector<std::int64_t>& shape, const Block& block) {
    constexpr std::string_view kLayer = "model.layers.{}.";
    constexpr std::string_view kGateAndUp = "mlp.experts.gate_up_proj";
    const bool in_layer = name.starts_with(kLayer);
    if (in_layer) name.remove_prefix(kLayer.size());
    if (in_layer && name == kGateAndUp && shape.size() == 3) {
        std::vector<std::int64_t> half{shape[0], shape[1] / 2, shape[2]};
        return {{fmt::format("blk.{}.ffn_gate_exps.weight", layer), half, 1},
                {fmt::format("blk.{}.ffn_up_exps.weight", layer), half, 1}};
    }
    std::string_view kind = ".weight";
    for (const std::string_view suffix : {".weight", ".bias"})
        if (name.ends_with(suffix)) {
            kind = suffix;
            name.remove_suffix(suffix.size());
            break;
        }
    const std::string_view gguf = !in_layer ? find(kOfModel, name)
                                  : name == "post_attention_layernorm" ? norm_after_attention(block)
                                                                       : find(kOfLayer, name);
    if (gguf.empty()) return {};
    return {{in_layer ? fmt::format("blk.{}.{}{}", layer, gguf, kind)
                      : fmt::format("{}{}", gguf, kind),
             shape, 1}};
}

}  // namespace membudget
