/// Decoders in the modules of GPT and OPT of which the parameters are known and no step has been measured.

#include "model/gpt_like.hpp"
#include "model/llama_like.hpp"

namespace membudget {
namespace {

/// The layers of fairseq's decoders: biases everywhere, a layer norm before each sublayer, and one at the end.
void read_fairseq_layers(ConfigReader& config, DecoderPlan& plan, std::string_view width, std::string_view act) {
    read_decoder_sizes(config, plan);
    plan.norm = norms::layer;
    plan.final_norm = "layer_norm";
    LayerPlan& layer = plan.layer();
    layer.norms[0] = "self_attn_layer_norm";
    layer.norms[1] = "final_layer_norm";
    read_heads(config, plan.hidden, layer.attention);
    layer.attention.o = "out_proj";
    layer.attention.bias = layer.attention.output_bias = true;
    layer.attention.rotary = -1;
    layer.mlp.module = "";
    layer.mlp.gated = false;
    layer.mlp.up = "fc1";
    layer.mlp.down = "fc2";
    layer.mlp.bias = true;
    layer.mlp.width = config.size(width);
    layer.mlp.act = config.activation(act);
    plan.step_unsupported = kCountedOnly;
}

}  // namespace

void configure_xglm(ConfigReader& config, DecoderPlan& plan) {
    read_fairseq_layers(config, plan, "ffn_dim", "activation_function");
    if (config.flag("add_cross_attention"))
        config.unsupported("add_cross_attention", "expected a decoder without cross-attention; got true");
}

void configure_biogpt(ConfigReader& config, DecoderPlan& plan) {
    // Positions 0 and 1 are left to padding.
    constexpr std::int64_t kPositionOffset = 2;
    read_fairseq_layers(config, plan, "intermediate_size", "hidden_act");
    plan.base = "biogpt";
    plan.head = "output_projection";
    plan.positions = "embed_positions";
    plan.position_rows = config.size("max_position_embeddings") + kPositionOffset;
}

void configure_openai_gpt(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.base = "transformer";
    plan.embedding = "tokens_embed";
    plan.positions = "positions_embed";
    plan.position_rows = config.size("max_position_embeddings");
    plan.layers = "h";
    plan.final_norm = "";
    plan.norm = norms::layer;
    plan.transposed_linear = true;
    LayerPlan& layer = plan.layer();
    layer.arrangement = Arrangement::post_norm;
    layer.norms[0] = "ln_1";
    layer.norms[1] = "ln_2";
    read_heads(config, plan.hidden, layer.attention);
    layer.attention.module = "attn";
    layer.attention.qkv = "c_attn";
    layer.attention.o = "c_proj";
    layer.attention.bias = layer.attention.output_bias = true;
    layer.attention.rotary = -1;
    layer.mlp.gated = false;
    layer.mlp.up = "c_fc";
    layer.mlp.down = "c_proj";
    layer.mlp.bias = true;
    layer.mlp.width = 4 * plan.hidden;
    plan.step_unsupported = kCountedOnly;
}

void configure_persimmon(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.norm = norms::layer;
    plan.final_norm = "final_layernorm";
    LayerPlan& layer = plan.layer();
    read_heads(config, plan.hidden, layer.attention);
    layer.attention.qkv = "query_key_value";
    layer.attention.o = "dense";
    layer.attention.bias = layer.attention.output_bias = true;
    if (config.flag("qk_layernorm"))
        layer.extra = [width = layer.attention.head_dim](BlockBuilder& b) {
            b.norm_weights("self_attn.q_layernorm", width, norms::layer);
            b.norm_weights("self_attn.k_layernorm", width, norms::layer);
        };
    layer.mlp.gated = false;
    layer.mlp.up = "dense_h_to_4h";
    layer.mlp.down = "dense_4h_to_h";
    layer.mlp.bias = true;
    layer.mlp.width = config.size("intermediate_size");
    layer.mlp.act = config.activation("hidden_act");
    plan.step_unsupported = kCountedOnly;
}

}  // namespace membudget
