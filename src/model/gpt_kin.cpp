/// Decoders in the modules of GPT and OPT that differ from them in few of them.

#include "model/gpt_like.hpp"
#include "model/llama_like.hpp"

namespace membudget {
namespace {

/// Keys of a class that has fairseq's layers.
struct FairseqKeys {
    std::string_view width, act, dropout, attention_dropout;
};

/// The layers of fairseq's decoders: biases everywhere, a layer norm before each sublayer, and one at the end.
void read_fairseq_layers(ConfigReader& config, DecoderPlan& plan, const FairseqKeys& keys) {
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
    layer.mlp.act_name = "activation_fn";
    layer.mlp.bias = true;
    layer.mlp.inlined = true;
    layer.mlp.width = config.size(keys.width);
    layer.mlp.act = config.activation(keys.act);
    layer.mlp.inner_dropout = "activation_dropout";
    layer.mlp.inner_dropout_p = config.probability("activation_dropout");
    layer.attention.dropout = config.probability(keys.attention_dropout);
    layer.attention.softmax_in_dtype = true;
    plan.embedding_scale = true;
    plan.embedding_dropout = layer.attention_dropout = layer.mlp_dropout = "dropout";
    plan.embedding_dropout_p = layer.dropout = config.probability(keys.dropout);
    note_layerdrop(config, "layerdrop");
}

}  // namespace

void configure_xglm(ConfigReader& config, DecoderPlan& plan) {
    read_fairseq_layers(config, plan, {"ffn_dim", "activation_function", "dropout", "attention_dropout"});
    plan.positions_buffered = true;
    plan.layer().attention.scales_query = true;
    plan.layer().attention.form = AttentionForm::xglm;
    if (config.flag("add_cross_attention"))
        config.unsupported("add_cross_attention", "expected a decoder without cross-attention; got true");
}

void configure_biogpt(ConfigReader& config, DecoderPlan& plan) {
    // Positions 0 and 1 are left to padding.
    constexpr std::int64_t kPositionOffset = 2;
    read_fairseq_layers(config, plan,
                        {"intermediate_size", "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob"});
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
    layer.attention.form = AttentionForm::openai_gpt;
    layer.attention.dropout = config.probability("attn_pdrop");
    layer.attention.output_dropout = layer.mlp.output_dropout = "dropout";
    layer.attention.output_dropout_p = layer.mlp.output_dropout_p = config.probability("resid_pdrop");
    plan.embedding_dropout = "drop";
    plan.embedding_dropout_p = config.probability("embd_pdrop");
    layer.names_results = true;
    layer.mlp.gated = false;
    layer.mlp.up = "c_fc";
    layer.mlp.down = "c_proj";
    layer.mlp.act_name = "act";
    layer.mlp.act = Act::gelu_new;  // ACT_FNS["gelu"]
    layer.mlp.bias = true;
    layer.mlp.width = 4 * plan.hidden;
    if (const std::string act = config.text("afn"); act != "gelu")
        config.unsupported("afn", "expected 'gelu'; got '" + act + "'");
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
    layer.attention.sliced = true;
    layer.attention.rotary_dim = read_rotary_dim(config, layer.attention.head_dim, 0.5);
    layer.attention.rotation = Rotation::halves_named;
    layer.attention.dropout = config.probability("attention_dropout");
    if (config.flag("qk_layernorm")) {
        norm_each_head(layer.attention);
        layer.attention.norm_time = NormTime::after_projections;
    }
    layer.mlp_dropout = "dropout";
    layer.dropout = config.probability("hidden_dropout");
    layer.mlp.act_name = "act";
    layer.mlp.gated = false;
    layer.mlp.up = "dense_h_to_4h";
    layer.mlp.down = "dense_4h_to_h";
    layer.mlp.bias = true;
    layer.mlp.width = config.size("intermediate_size");
    layer.mlp.act = config.activation("hidden_act");
}

}  // namespace membudget
