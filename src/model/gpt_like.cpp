#include "model/gpt_like.hpp"

#include <algorithm>

#include "model/llama_like.hpp"

namespace membudget {
namespace {

/// Heads that divide the hidden size: no key of these classes gives the head size.
void read_equal_heads(ConfigReader& config, std::int64_t hidden, AttentionPlan& attention) {
    attention.heads = config.size("num_attention_heads", kLargestCount);
    attention.kv_heads = attention.heads;
    config.divides("hidden_size", hidden, "num_attention_heads", attention.heads);
    attention.head_dim = std::max<std::int64_t>(1, hidden / attention.heads);
}

/// Names that GPT-2 gave to its modules and its descendants kept.
void name_as_gpt2(DecoderPlan& plan) {
    plan.base = "transformer";
    plan.embedding = "wte";
    plan.layers = "h";
    plan.final_norm = "ln_f";
    plan.norm = norms::layer;
    plan.embedding_dropout = "drop";
    LayerPlan& layer = plan.layer();
    layer.norms[0] = "ln_1";
    layer.norms[1] = "ln_2";
    layer.names_results = true;
    layer.attention.module = "attn";
    layer.attention.qkv = "c_attn";
    layer.attention.o = "c_proj";
    layer.attention.bias = true;
    layer.attention.output_bias = true;
    layer.attention.output_dropout = "resid_dropout";
    layer.attention.rotary = -1;
    layer.mlp.gated = false;
    layer.mlp.up = "c_fc";
    layer.mlp.down = "c_proj";
    layer.mlp.act_name = "act";
    layer.mlp.bias = true;
    layer.mlp.output_dropout = "dropout";
}

/// Hidden, vocabulary, layers, learned positions, feed-forward width and dropouts of GPT-2.
void read_gpt2_sizes(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    LayerPlan& layer = plan.layer();
    read_equal_heads(config, plan.hidden, layer.attention);
    layer.mlp.width = config.size_or("n_inner", 4 * plan.hidden);
    layer.mlp.act = config.activation("activation_function");
    plan.embedding_dropout_p = config.probability("embd_pdrop");
    layer.attention.dropout = config.probability("attn_pdrop");
    layer.attention.output_dropout_p = config.probability("resid_pdrop");
    layer.mlp.output_dropout_p = layer.attention.output_dropout_p;
}

}  // namespace

void configure_gpt2(ConfigReader& config, DecoderPlan& plan) {
    name_as_gpt2(plan);
    read_gpt2_sizes(config, plan);
    plan.positions = "wpe";
    plan.position_rows = config.size("max_position_embeddings");
    plan.transposed_linear = true;
    if (config.flag("add_cross_attention"))
        config.unsupported("add_cross_attention",
                           "expected a decoder without cross-attention; got true");
    plan.layer().attention.softmax_in_dtype = true;
    plan.layer().attention.cast_to_values = true;
}

void configure_gpt_bigcode(ConfigReader& config, DecoderPlan& plan) {
    configure_gpt2(config, plan);
    plan.transposed_linear = false;
    if (config.flag("multi_query")) plan.layer().attention.kv_heads = 1;
}

void configure_gpt_neo(ConfigReader& config, DecoderPlan& plan) {
    name_as_gpt2(plan);
    read_decoder_sizes(config, plan);
    plan.positions = "wpe";
    plan.position_rows = config.size("max_position_embeddings");
    plan.embedding_dropout_p = config.probability("embed_dropout");
    LayerPlan& layer = plan.layer();
    read_equal_heads(config, plan.hidden, layer.attention);
    layer.attention.module = "attn.attention";
    layer.attention.qkv = "";
    layer.attention.o = "out_proj";
    layer.attention.bias = false;
    layer.attention.dropout = config.probability("attention_dropout");
    layer.attention.output_dropout_p = config.probability("resid_dropout");
    layer.mlp.width = config.size_or("intermediate_size", 4 * plan.hidden);
    layer.mlp.act = config.activation("activation_function");
    layer.mlp.output_dropout_p = layer.attention.output_dropout_p;
    layer.attention.form = AttentionForm::gpt_neo;
}

void configure_gptj(ConfigReader& config, DecoderPlan& plan) {
    name_as_gpt2(plan);
    read_gpt2_sizes(config, plan);
    plan.head_bias = true;
    LayerPlan& layer = plan.layer();
    layer.arrangement = Arrangement::parallel;
    layer.attention.qkv = "";
    layer.attention.o = "out_proj";
    layer.attention.bias = false;
    layer.attention.output_bias = false;
    layer.attention.rotary = 0;
    layer.attention.rotary_dim = config.size_or("rotary_dim", layer.attention.head_dim);
    layer.attention.rotation = Rotation::pairs_apart;
    layer.attention.form = AttentionForm::gptj;
    layer.mlp.up = "fc_in";
    layer.mlp.down = "fc_out";
}

void configure_codegen(ConfigReader& config, DecoderPlan& plan) {
    configure_gptj(config, plan);
    plan.layer().attention.qkv = "qkv_proj";
    plan.layer().attention.rotation = Rotation::pairs_apart_promoted;
}

void configure_gpt_neox(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.base = "gpt_neox";
    plan.embedding = "embed_in";
    plan.embedding_dropout = "emb_dropout";
    plan.final_norm = "final_layer_norm";
    plan.head = "lm_head";
    plan.norm = norms::layer;
    LayerPlan& layer = plan.layer();
    layer.arrangement = config.flag("use_parallel_residual") ? Arrangement::parallel_two
                                                             : Arrangement::pre_norm;
    layer.names_results = true;
    layer.attention_dropout = "post_attention_dropout";
    layer.mlp_dropout = "post_mlp_dropout";
    layer.dropout = config.probability("hidden_dropout");
    plan.embedding_dropout_p = layer.dropout;
    AttentionPlan& attention = layer.attention;
    read_equal_heads(config, plan.hidden, attention);
    attention.module = "attention";
    attention.qkv = "query_key_value";
    attention.o = "dense";
    attention.bias = config.flag("attention_bias");
    attention.output_bias = attention.bias;
    attention.dropout = config.probability("attention_dropout");
    attention.rotation = Rotation::halves_joined;
    attention.rotary_dim = read_rotary_dim(config, attention.head_dim, 0.25);
    layer.mlp.gated = false;
    layer.mlp.up = "dense_h_to_4h";
    layer.mlp.down = "dense_4h_to_h";
    layer.mlp.act_name = "act";
    layer.mlp.bias = true;
    layer.mlp.width = config.size("intermediate_size");
    layer.mlp.act = config.activation("hidden_act");
}

void configure_opt(ConfigReader& config, DecoderPlan& plan) {
    // Positions 0 and 1 are left to padding.
    constexpr std::int64_t kPositionOffset = 2;
    read_decoder_sizes(config, plan);
    const bool norm_before = config.flag("do_layer_norm_before");
    const bool biases = config.flag("enable_bias");
    plan.norm = config.flag("layer_norm_elementwise_affine") ? norms::layer
                                                             : norms::layer_no_parameters;
    plan.embedding = "decoder.embed_tokens";
    plan.positions = "decoder.embed_positions";
    plan.position_rows = config.size("max_position_embeddings") + kPositionOffset;
    plan.positions_per_token = true;
    plan.layers = "decoder.layers";
    const bool final_norm = norm_before && !config.flag("_remove_final_layer_norm");
    plan.final_norm = final_norm ? "decoder.final_layer_norm" : "";
    plan.embedding_width = config.size_or("word_embed_proj_dim", plan.hidden);
    if (plan.embedding_width != plan.hidden) {
        plan.project_in = "decoder.project_in";
        plan.project_out = "decoder.project_out";
    }
    LayerPlan& layer = plan.layer();
    layer.arrangement = norm_before ? Arrangement::pre_norm : Arrangement::post_norm;
    layer.norms[0] = "self_attn_layer_norm";
    layer.norms[1] = "final_layer_norm";
    layer.attention_dropout = "attention_dropout";
    layer.mlp_dropout = "mlp_dropout";
    layer.dropout = config.probability("dropout");
    read_equal_heads(config, plan.hidden, layer.attention);
    layer.attention.o = "out_proj";
    layer.attention.bias = biases;
    layer.attention.output_bias = biases;
    layer.attention.rotary = -1;
    layer.attention.scales_query = true;
    layer.attention.dropout = config.probability("attention_dropout");
    layer.mlp.module = "";
    layer.mlp.inlined = true;
    layer.mlp.gated = false;
    layer.mlp.up = "fc1";
    layer.mlp.down = "fc2";
    layer.mlp.act_name = "activation_fn";
    layer.mlp.bias = biases;
    layer.mlp.width = config.size("ffn_dim");
    layer.mlp.act = config.activation("activation_function");
    note_layerdrop(config, "layerdrop");
}

void configure_bloom(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.base = "transformer";
    plan.embedding = "word_embeddings";
    plan.embedding_norm = "word_embeddings_layernorm";
    plan.keeps_embeddings = true;
    plan.layers = "h";
    plan.final_norm = "ln_f";
    plan.norm = norms::layer;
    LayerPlan& layer = plan.layer();
    layer.names_results = true;
    AttentionPlan& attention = layer.attention;
    read_equal_heads(config, plan.hidden, attention);
    attention.module = "self_attention";
    attention.qkv = "query_key_value";
    attention.o = "dense";
    attention.bias = true;
    attention.output_bias = true;
    attention.rotary = -1;
    attention.alibi = true;
    attention.dropout = config.probability("attention_dropout");
    layer.attention_dropout = "attention_dropout_add";
    layer.mlp_dropout = "mlp_dropout_add";
    layer.dropout = config.probability("hidden_dropout");
    layer.mlp.gated = false;
    layer.mlp.up = "dense_h_to_4h";
    layer.mlp.down = "dense_4h_to_h";
    layer.mlp.act_name = "gelu_impl";
    layer.mlp.bias = true;
    layer.mlp.width = 4 * plan.hidden;
    layer.mlp.act = Act::bloom_gelu;
    attention.form = AttentionForm::bloom;
    layer.arrangement = Arrangement::adds_inside;
    attention.sliced = true;
}

void configure_mpt(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.base = "transformer";
    plan.embedding = "wte";
    plan.layers = "blocks";
    plan.final_norm = "norm_f";
    plan.norm = norms::layer_no_bias;
    LayerPlan& layer = plan.layer();
    layer.norms[0] = "norm_1";
    layer.norms[1] = "norm_2";
    AttentionPlan& attention = layer.attention;
    read_equal_heads(config, plan.hidden, attention);
    attention.module = "attn";
    attention.qkv = "Wqkv";
    attention.o = "out_proj";
    attention.rotary = -1;
    attention.alibi = true;
    layer.mlp.module = "ffn";
    layer.mlp.gated = false;
    layer.mlp.up = "up_proj";
    layer.mlp.down = "down_proj";
    layer.mlp.act_name = "act";
    // The class multiplies by 4 whatever `expansion_ratio` says.
    layer.mlp.width = 4 * plan.hidden;
    layer.mlp.act = Act::gelu;
    if (config.number("expansion_ratio") != 4)
        config.unsupported("expansion_ratio", "expected 4, which is what the class computes with");
    attention.alibi_length = config.size("max_seq_len");
    attention.form = AttentionForm::mpt;
    layer.arrangement = Arrangement::mlp_adds;
}

void configure_falcon(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.base = "transformer";
    plan.embedding = "word_embeddings";
    plan.layers = "h";
    plan.final_norm = "ln_f";
    plan.norm = norms::layer;
    const bool new_architecture = config.flag("new_decoder_architecture");
    const bool parallel = config.flag("parallel_attn");
    const bool biases = config.flag("bias");
    LayerPlan& layer = plan.layer();
    AttentionPlan& attention = layer.attention;
    read_equal_heads(config, plan.hidden, attention);
    attention.spreads_keys = new_architecture;
    if (new_architecture) {
        attention.kv_heads = config.size_or("num_kv_heads", attention.heads, kLargestCount);
        config.divides("num_attention_heads", attention.heads, "num_kv_heads", attention.kv_heads);
    } else if (config.flag("multi_query")) {
        attention.kv_heads = 1;
    } else {
        attention.sliced = true;
    }
    attention.module = "self_attention";
    attention.qkv = "query_key_value";
    attention.o = "dense";
    attention.bias = biases;
    attention.output_bias = biases;
    attention.alibi = config.flag("alibi");
    if (attention.alibi) attention.rotary = -1;
    plan.unused_tables = attention.alibi;
    attention.dropout = config.probability("attention_dropout");
    layer.mlp.gated = false;
    layer.mlp.up = "dense_h_to_4h";
    layer.mlp.down = "dense_4h_to_h";
    layer.mlp.act_name = "act";
    layer.mlp.bias = biases;
    layer.mlp.width = config.size_or("ffn_hidden_size", 4 * plan.hidden);
    layer.mlp.act = config.activation("activation");
    const std::int64_t norm_count =
        config.size_or("num_ln_in_parallel_attn", new_architecture ? 2 : 1, 2);
    layer.arrangement = parallel ? Arrangement::falcon : Arrangement::pre_norm;
    layer.names_norms = layer.names_results = !parallel;
    if (parallel) {
        layer.norms[0] = norm_count == 2 ? "ln_attn" : "input_layernorm";
        layer.norms[1] = norm_count == 2 ? "ln_mlp" : "";
    }
    layer.mlp_dropout = "mlp_dropout_add";
    layer.dropout = config.probability("hidden_dropout");
    plan.matmul_linear = true;
    attention.form = AttentionForm::falcon;
}

void configure_refined_web(ConfigReader& config, DecoderPlan& plan) {
    configure_falcon(config, plan);
    plan.step_unsupported = "the ops of the RefinedWeb class, which ships with its weights, are not "
                            "modelled; the config of the transformers class has model_type 'falcon'";
}

namespace {

/// What all Phi 1 to 2 share once sizes, heads and widths are read.
void finish_phi(DecoderPlan& plan) {
    plan.embedding_dropout = "embed_dropout";
    plan.final_norm = "final_layernorm";
    plan.norm = norms::layer;
    plan.head_bias = true;
    LayerPlan& layer = plan.layer();
    layer.arrangement = Arrangement::parallel;
    layer.attention.o = "dense";
    layer.attention.bias = true;
    layer.attention.output_bias = true;
    layer.attention_dropout = "resid_dropout";
    layer.mlp_dropout = "resid_dropout";
    layer.mlp.gated = false;
    layer.mlp.up = "fc1";
    layer.mlp.down = "fc2";
    layer.mlp.act_name = "activation_fn";
    layer.mlp.bias = true;
}

}  // namespace

void norm_each_head(AttentionPlan& attention) {
    attention.qk_norm = QkNorm::per_head;
    attention.qk_norm_kind = norms::layer;
    attention.q_norm = "q_layernorm";
    attention.k_norm = "k_layernorm";
}

void configure_phi(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    finish_phi(plan);
    LayerPlan& layer = plan.layer();
    read_heads(config, plan.hidden, layer.attention);
    layer.attention.rotary_dim = read_rotary_dim(config, layer.attention.head_dim, 0.5);
    layer.attention.rotation = Rotation::halves_named;
    layer.attention.dropout = config.probability("attention_dropout");
    if (config.flag("qk_layernorm")) {
        norm_each_head(layer.attention);
    }
    layer.mlp.width = config.size("intermediate_size");
    layer.mlp.act = config.activation("hidden_act");
    plan.embedding_dropout_p = config.probability("embd_pdrop");
    layer.dropout = config.probability("resid_pdrop");
}

void configure_phi_msft(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    finish_phi(plan);
    LayerPlan& layer = plan.layer();
    read_equal_heads(config, plan.hidden, layer.attention);
    layer.attention.rotary_dim = config.size("rotary_dim");
    layer.attention.dropout = config.probability("attn_pdrop");
    layer.mlp.width = config.size_or("n_inner", 4 * plan.hidden);
    layer.mlp.act = config.activation("activation_function");
    plan.embedding_dropout_p = config.probability("embd_pdrop");
    layer.dropout = config.probability("resid_pdrop");
    plan.step_unsupported = "the ops of the class that ships with these weights are not modelled; "
                            "the config of the transformers class has model_type 'phi'";
}

void configure_starcoder2(ConfigReader& config, DecoderPlan& plan) {
    read_decoder_sizes(config, plan);
    plan.norm = norms::layer;
    plan.embedding_dropout = "embedding_dropout";
    plan.embedding_dropout_p = config.probability("embedding_dropout");
    LayerPlan& layer = plan.layer();
    read_heads(config, plan.hidden, layer.attention);
    const bool biases = config.flag("use_bias");
    layer.attention.bias = biases;
    layer.attention.output_bias = biases;
    layer.attention.dropout = config.probability("attention_dropout");
    layer.attention.window = config.size_or("sliding_window", 0);
    layer.attention.output_dropout = "residual_dropout";
    layer.attention.output_dropout_p = config.probability("residual_dropout");
    layer.mlp.gated = false;
    layer.mlp.up = "c_fc";
    layer.mlp.down = "c_proj";
    layer.mlp.act_name = "act";
    layer.mlp.bias = biases;
    layer.mlp.width = config.size("intermediate_size");
    layer.mlp.act = config.activation("hidden_act");
    layer.mlp.output_dropout = "residual_dropout";
    layer.mlp.output_dropout_p = layer.attention.output_dropout_p;
}

}  // namespace membudget
