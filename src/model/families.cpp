/// The model families: one row each. A row names the classes that it builds, the function that reads
/// their config, and the keys of the configuration class with its defaults.
///
/// Structure and defaults were read in Hugging Face transformers 5.24 (modeling_NAME.py and
/// configuration_NAME.py of the model type) unless a row says otherwise.

#include "membudget/model.hpp"
#include "model/contrastive.hpp"
#include "model/decoder.hpp"
#include "model/diffusion.hpp"
#include "model/encoder.hpp"
#include "model/gpt_like.hpp"
#include "model/hybrid.hpp"
#include "model/image_models.hpp"
#include "model/latent.hpp"
#include "model/llama_like.hpp"
#include "model/modernbert.hpp"
#include "model/moe.hpp"
#include "model/multimodal.hpp"
#include "model/seq2seq.hpp"
#include "model/speech.hpp"
#include "model/vit.hpp"

namespace membudget {
namespace {

// Names in published files where the class has changed them, as conversion_mapping.py of transformers
// 5.24 gives them.
constexpr std::string_view kStoredExperts =
    ".experts.gate_up_proj=.experts.{E}.{gate_proj,up_proj}.weight "
    ".experts.down_proj=.experts.{E}.down_proj.weight";
constexpr std::string_view kStoredMixtral =
    ".mlp.=.block_sparse_moe. .experts.gate_up_proj=.experts.{E}.{w1,w3}.weight "
    ".experts.down_proj=.experts.{E}.w2.weight";
constexpr std::string_view kStoredPhimoe =
    ".mlp.=.block_sparse_moe. .router.weight=.gate.weight "
    ".experts.gate_up_proj=.experts.{E}.{w1,w3}.weight .experts.down_proj=.experts.{E}.w2.weight";
constexpr std::string_view kStoredGranitemoe =
    "block_sparse_moe.experts.gate_up_proj=block_sparse_moe.input_linear.weight "
    "block_sparse_moe.experts.down_proj=block_sparse_moe.output_linear.weight "
    "block_sparse_moe.router.weight=block_sparse_moe.router.layer.weight";
constexpr std::string_view kStoredVit =
    "layers.{}.=encoder.layer.{}. attention.o_proj=attention.output.dense "
    "attention.q_proj=attention.attention.query attention.k_proj=attention.attention.key "
    "attention.v_proj=attention.attention.value mlp.fc1=intermediate.dense mlp.fc2=output.dense";
constexpr std::string_view kStoredDinov2 =
    "attention.q_proj=attention.attention.query attention.k_proj=attention.attention.key "
    "attention.v_proj=attention.attention.value attention.o_proj=attention.output.dense "
    "mlp.gate_proj=mlp.weights_in mlp.up_proj=mlp.weights_in mlp.down_proj=mlp.weights_out";
constexpr std::string_view kStoredSwin =
    "attention.q_proj=attention.self.query attention.k_proj=attention.self.key "
    "attention.v_proj=attention.self.value "
    "attention.relative_position_bias.=attention.self. attention.o_proj=attention.output.dense "
    "mlp.fc1=intermediate.dense mlp.fc2=output.dense";
constexpr std::string_view kStoredQwen2Vl =
    "^model.visual.=visual. ^model.language_model.=model.";
constexpr std::string_view kStoredTower =
    "^embeddings.=vision_model.embeddings. ^encoder.=vision_model.encoder. ^head.=vision_model.head. "
    "^pre_layrnorm.=vision_model.pre_layrnorm. ^post_layernorm.=vision_model.post_layernorm.";
// Wrappers whose parts were models of their own.
constexpr std::string_view kStoredMistral3 =
    "^lm_head.=language_model.lm_head. ^model.language_model.=language_model.model. "
    "^model.vision_tower.=vision_tower. ^model.multi_modal_projector.=multi_modal_projector.";
constexpr std::string_view kStoredMllama =
    "^lm_head.=language_model.lm_head. ^model.language_model.=language_model.model. "
    "^model.vision_model.=vision_model. ^model.multi_modal_projector.=multi_modal_projector.";
constexpr std::string_view kStoredInternvl =
    "^lm_head.=language_model.lm_head. ^model.language_model.=language_model.model. "
    "^model.vision_tower.=vision_tower. ^model.multi_modal_projector.=multi_modal_projector. "
    ".experts.gate_up_proj=.experts.{E}.{gate_proj,up_proj}.weight "
    ".experts.down_proj=.experts.{E}.down_proj.weight";
// The encoders of CLIP and SigLIP are one level deeper than Pixtral's.
constexpr std::string_view kStoredLlava =
    "^lm_head.=language_model.lm_head. ^model.language_model.=language_model.model. "
    "^model.multi_modal_projector.=multi_modal_projector. ^model.image_newline=image_newline "
    "^model.vision_tower.=vision_tower. ^vision_tower.embeddings.=vision_tower.vision_model.embeddings. "
    "^vision_tower.encoder.=vision_tower.vision_model.encoder. "
    "^vision_tower.head.=vision_tower.vision_model.head. "
    "^vision_tower.pre_layrnorm.=vision_tower.vision_model.pre_layrnorm. "
    "^vision_tower.post_layernorm.=vision_tower.vision_model.post_layernorm.";
constexpr std::string_view kStoredErnieMoe =
    ".gate.moe_statics.=.moe_statics. .experts.gate_up_proj=.experts.{E}.{gate_proj,up_proj}.weight "
    ".experts.down_proj=.experts.{E}.down_proj.weight";
constexpr std::string_view kStoredMimoV2 =
    "self_attn.sinks=self_attn.attention_sink_bias .experts.gate_up_proj=.experts.{E}.{gate_proj,up_proj}.weight "
    ".experts.down_proj=.experts.{E}.down_proj.weight";
constexpr std::string_view kStoredMinimaxM3Vl =
    ".mlp.gate.=.block_sparse_moe.gate. .mlp.shared_experts.=.block_sparse_moe.shared_experts. "
    ".mlp.experts.=.block_sparse_moe.experts. .experts.gate_up_proj=.experts.{E}.{w1,w3}.weight "
    ".experts.down_proj=.experts.{E}.w2.weight .gate_up_proj.weight=.{gate_proj,up_proj}.weight "
    ".indexer.q_=.index_q_ .indexer.k_=.index_k_ ^lm_head.=language_model.lm_head. "
    "^model.language_model.=language_model.model. "
    "^model.vision_tower.embeddings.proj.=vision_tower.vision_model.embeddings.patch_embedding. "
    "^model.vision_tower.layers.=vision_tower.vision_model.encoder.layers. "
    "^model.vision_tower.pre_layrnorm.=vision_tower.vision_model.pre_layrnorm. "
    "^model.multi_modal_projector.merge_linear_=patch_merge_mlp.linear_ "
    "^model.multi_modal_projector.=multi_modal_projector.";
constexpr std::string_view kStoredStep3p5 =
    ".mlp.gate.=.moe.gate. .mlp.experts.gate_up_proj=.moe.{gate_proj,up_proj}.weight "
    ".mlp.experts.down_proj=.moe.down_proj.weight .mlp.shared_experts.=.share_expert.";
constexpr std::string_view kStoredStep3p7 =
    "^model.language_model.=model. .mlp.gate.=.moe.gate. .mlp.experts.gate_up_proj=.moe.{gate_proj,up_proj}.weight "
    ".mlp.experts.down_proj=.moe.down_proj.weight .mlp.shared_experts.=.share_expert. "
    "^model.multi_modal_projector.=vit_large_projector. "
    "^model.vision_model.embeddings.patch_embedding.=vision_model.conv1. "
    "^model.vision_model.embeddings.position_embedding.weight=vision_model.positional_embedding "
    "^model.vision_model.pre_layernorm.=vision_model.ln_pre. ^model.vision_model.downsampler=vision_model.vit_downsampler "
    "^model.vision_model.layers.=vision_model.transformer.resblocks. resblocks.{}.lambda_1=resblocks.{}.ls_1.gamma "
    "resblocks.{}.lambda_2=resblocks.{}.ls_2.gamma resblocks.{}.mlp.fc1.=resblocks.{}.mlp.c_fc. "
    "resblocks.{}.mlp.fc2.=resblocks.{}.mlp.c_proj. resblocks.{}.layernorm_before.=resblocks.{}.ln_1. "
    "resblocks.{}.layernorm_after.=resblocks.{}.ln_2. resblocks.{}.self_attn.=resblocks.{}.attn. "
    "resblocks.{}.attn.q_proj.=resblocks.{}.attn.in_proj_ resblocks.{}.attn.k_proj.=resblocks.{}.attn.in_proj_ "
    "resblocks.{}.attn.v_proj.=resblocks.{}.attn.in_proj_";
constexpr std::string_view kStoredKimiK25 =
    "^lm_head.=language_model.lm_head. ^model.language_model.=language_model.model. "
    "^model.mm_projector.=mm_projector. ^model.vision_tower.=vision_tower. ^vision_tower.layers.=vision_tower.encoder.blocks. "
    "vision_tower.final_layernorm.=vision_tower.encoder.final_layernorm. .norm1.=.norm0. .norm2.=.norm1. "
    ".mlp.fc1.=.mlp.fc0. .mlp.fc2.=.mlp.fc1. .attn.proj.=.wo. .attn.q_proj.=.wqkv. .attn.k_proj.=.wqkv. "
    ".attn.v_proj.=.wqkv. mm_projector.in_proj.=mm_projector.proj.0. mm_projector.out_proj.=mm_projector.proj.2. "
    "pos_emb.position_embeddings=pos_emb.weight .experts.gate_up_proj=.experts.{E}.{gate_proj,up_proj}.weight "
    ".experts.down_proj=.experts.{E}.down_proj.weight";
constexpr std::string_view kStoredDeepseekV4 =
    "^model.= hc_head.hc_=hc_head_ .compressor.indexer.scorer.weights_proj.=.indexer.weights_proj. "
    ".compressor.indexer.q_b_proj.=.indexer.wq_b. .compressor.indexer.=.indexer.compressor. "
    "^embed_tokens.=embed. ^lm_head.=head. .input_layernorm.=.attn_norm. .post_attention_layernorm.=.ffn_norm. "
    ".attn_hc.=.hc_attn_ .ffn_hc.=.hc_ffn_ .sinks=.attn_sink .compressor.kv_norm.=.compressor.norm. "
    ".position_bias=.ape .q_a_proj.=.wq_a. .self_attn.q_b_proj.=.self_attn.wq_b. .kv_proj.=.wkv. "
    ".compressor.gate_proj.=.compressor.wgate. .o_a_proj.=.wo_a. .o_b_proj.=.wo_b. .q_a_norm.=.q_norm. "
    ".shared_experts.gate_proj.=.shared_experts.w1. .shared_experts.down_proj.=.shared_experts.w2. "
    ".shared_experts.up_proj.=.shared_experts.w3. .experts.gate_up_proj=.experts.{E}.{w1,w3}.weight "
    ".experts.down_proj=.experts.{E}.w2.weight .self_attn.=.attn. .mlp.=.ffn.";
constexpr std::string_view kStoredHyV3 =
    "mlp.gate.weight=mlp.router.gate.weight .shared_experts.=.shared_mlp. "
    ".experts.gate_up_proj=.experts.{E}.{gate_proj,up_proj}.weight .experts.down_proj=.experts.{E}.down_proj.weight";
constexpr std::string_view kStoredPaligemma =
    "^lm_head.=language_model.lm_head. ^model.language_model.=language_model.model. "
    "^model.multi_modal_projector.=multi_modal_projector. ^model.vision_tower.=vision_tower.vision_model.";
constexpr std::string_view kStoredExaone =
    "^model.embed_tokens.=transformer.wte. ^model.layers.=transformer.h. ^model.norm.=transformer.ln_f. "
    ".input_layernorm.=.ln_1. .post_attention_layernorm.=.ln_2. .self_attn.o_proj.=.attn.attention.out_proj. "
    ".self_attn.=.attn.attention. .mlp.gate_proj.=.mlp.c_fc_0. .mlp.up_proj.=.mlp.c_fc_1. "
    ".mlp.down_proj.=.mlp.c_proj.";
constexpr std::string_view kStoredSarvamMoe =
    "^model.embed_tokens.=model.word_embeddings. .self_attn.q_proj.=.attention.query_key_value. "
    ".self_attn.k_proj.=.attention.query_key_value. .self_attn.v_proj.=.attention.query_key_value. "
    ".self_attn.q_norm.=.attention.query_layernorm. .self_attn.k_norm.=.attention.key_layernorm. "
    ".self_attn.o_proj.=.attention.dense. .experts.gate_up_proj=.experts.{E}.{gate_proj,up_proj}.weight "
    ".experts.down_proj=.experts.{E}.down_proj.weight";
constexpr std::string_view kStoredLfm2Moe =
    ".experts.gate_up_proj=.experts.{E}.{w1,w3}.weight .experts.down_proj=.experts.{E}.w2.weight";

// Keys that two rows share.
constexpr std::string_view kMinimaxM3Keys =
    "vocab_size=200064 hidden_size=6144 intermediate_size=3072 dense_intermediate_size=12288 "
    "shared_intermediate_size=3072 num_hidden_layers=60 num_attention_heads=64 num_key_value_heads=4 head_dim=128 "
    "tie_word_embeddings=false partial_rotary_factor rope_parameters num_experts_per_tok=4 "
    "num_local_experts|num_experts=128 layer_types mlp_layer_types moe_layer_freq index_n_heads=4 index_head_dim=128 "
    "index_block_size=128 index_topk_blocks=16 index_local_blocks=1 sparse_attention_config attention_dropout=0.0 "
    "output_router_logits=false attention_output_gate=false use_qk_norm=true";
constexpr std::string_view kDeepseekV4Keys =
    "vocab_size=129280 hidden_size=4096 moe_intermediate_size|intermediate_size=2048 num_hidden_layers=43 "
    "num_attention_heads=64 head_dim=512 q_lora_rank=1024 num_experts_per_tok=6 "
    "n_routed_experts|num_local_experts=256 layer_types compress_ratios compress_rates hc_mult=4 o_groups=8 "
    "o_lora_rank=1024 index_n_heads=64 index_head_dim=128 tie_word_embeddings=false mlp_bias=false "
    "mlp_layer_types num_hash_layers=3 hc_sinkhorn_iters=20 sliding_window=128 index_topk=512 "
    "attention_dropout=0.0 partial_rotary_factor qk_rope_head_dim scoring_func=sqrtsoftplus";

constexpr Family kFamilies[] = {
    {"llama",
     "LlamaForCausalLM LlamaModel LlamaForSequenceClassification LLaMAForCausalLM",
     "Llama 1 to 3.x and everything that uses its class (Yi, TinyLlama, SmolLM, DeepSeek LLM, "
     "...)",
     "transformers 5.24 models/llama",
     build_decoder_family<configure_llama>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 mlp_bias=false"},
    {"mistral",
     "MistralForCausalLM MistralModel MistralForSequenceClassification",
     "Mistral 7B, Nemo, Small, Large",
     "transformers 5.24 models/mistral",
     build_decoder_family<configure_mistral>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads=8 head_dim hidden_act=silu "
     "tie_word_embeddings=false sliding_window=4096 attention_dropout=0.0"},
    {"ministral3",
     "Ministral3ForCausalLM Ministral3Model Ministral3ForSequenceClassification",
     "Ministral 3",
     "transformers 5.24 models/ministral3",
     build_decoder_family<configure_mistral>,
     "vocab_size=131072 hidden_size=4096 intermediate_size=14336 num_hidden_layers=34 "
     "num_attention_heads=32 num_key_value_heads=8 head_dim=128 hidden_act=silu "
     "tie_word_embeddings=false sliding_window attention_dropout=0.0"},
    {"qwen2",
     "Qwen2ForCausalLM Qwen2Model Qwen2ForSequenceClassification",
     "Qwen 1.5, 2 and 2.5",
     "transformers 5.24 models/qwen2",
     build_decoder_family<configure_qwen2>,
     "vocab_size=151936 hidden_size=4096 intermediate_size=22016 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads=32 head_dim hidden_act=silu "
     "tie_word_embeddings=false use_sliding_window=false sliding_window=4096 "
     "max_window_layers=28 layer_types attention_dropout=0.0"},
    {"qwen3",
     "Qwen3ForCausalLM Qwen3Model Qwen3ForSequenceClassification",
     "Qwen 3, dense",
     "transformers 5.24 models/qwen3",
     build_decoder_family<configure_qwen3>,
     "vocab_size=151936 hidden_size=4096 intermediate_size=22016 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads=32 head_dim=128 hidden_act=silu "
     "tie_word_embeddings=false attention_bias=false use_sliding_window=false "
     "sliding_window=4096 max_window_layers=28 layer_types attention_dropout=0.0"},
    {"qwen",
     "QWenLMHeadModel QWenModel",
     "Qwen 1",
     "modeling_qwen.py beside the weights of Qwen/Qwen-7B",
     build_decoder_family<configure_qwen>,
     "vocab_size=151936 hidden_size=4096 intermediate_size=22016 num_hidden_layers=32 "
     "num_attention_heads=32 no_bias=true tie_word_embeddings=false"},
    {"gemma",
     "GemmaForCausalLM GemmaModel GemmaForSequenceClassification",
     "Gemma 1",
     "transformers 5.24 models/gemma",
     build_decoder_family<configure_gemma>,
     "vocab_size=256000 hidden_size=3072 intermediate_size=24576 num_hidden_layers=28 "
     "num_attention_heads=16 num_key_value_heads=16 head_dim=256 hidden_act=gelu_pytorch_tanh "
     "tie_word_embeddings=true attention_bias=false attention_dropout=0.0"},
    {"gemma2",
     "Gemma2ForCausalLM Gemma2Model Gemma2ForSequenceClassification",
     "Gemma 2",
     "transformers 5.24 models/gemma2",
     build_decoder_family<configure_gemma2>,
     "vocab_size=256000 hidden_size=2304 intermediate_size=9216 num_hidden_layers=26 "
     "num_attention_heads=8 num_key_value_heads=4 head_dim=256 "
     "hidden_activation=gelu_pytorch_tanh tie_word_embeddings=true attention_bias=false "
     "attention_dropout=0.0 sliding_window=4096 layer_types final_logit_softcapping=30.0 "
     "attn_logit_softcapping=50.0"},
    {"phi3",
     "Phi3ForCausalLM Phi3Model Phi3ForSequenceClassification",
     "Phi 3, 3.5 and 4",
     "transformers 5.24 models/phi3",
     build_decoder_family<configure_phi3>,
     "vocab_size=32064 hidden_size=3072 intermediate_size=8192 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads head_dim hidden_act=silu "
     "tie_word_embeddings=false sliding_window partial_rotary_factor rope_parameters "
     "resid_pdrop=0.0 attention_dropout=0.0"},
    {"phi",
     "PhiForCausalLM PhiModel PhiForSequenceClassification",
     "Phi 1, 1.5 and 2",
     "transformers 5.24 models/phi",
     build_decoder_family<configure_phi>,
     "vocab_size=51200 hidden_size=2048 intermediate_size=8192 num_hidden_layers=24 "
     "num_attention_heads=32 num_key_value_heads head_dim hidden_act=gelu_new "
     "tie_word_embeddings=false qk_layernorm=false partial_rotary_factor rope_parameters "
     "resid_pdrop=0.0 embd_pdrop=0.0 attention_dropout=0.0"},
    {"phi-msft",
     "PhiForCausalLM",
     "Phi 1 to 2 as first published",
     "the files of microsoft/phi-2 before its class entered transformers",
     build_decoder_family<configure_phi_msft>,
     "vocab_size|padded_vocab_size=50304 hidden_size|n_embd=1024 num_hidden_layers|n_layer=20 "
     "num_attention_heads|n_head=16 n_inner rotary_dim=32 activation_function=gelu_new "
     "tie_word_embeddings=false resid_pdrop=0.0 embd_pdrop=0.0 attn_pdrop=0.0"},
    {"mixformer-sequential",
     "MixFormerSequentialForCausalLM",
     "Phi 1 to 2 as first published",
     "the files of microsoft/phi-1_5 before its class entered transformers",
     build_decoder_family<configure_phi_msft>,
     "vocab_size|padded_vocab_size=50304 hidden_size|n_embd=1024 num_hidden_layers|n_layer=20 "
     "num_attention_heads|n_head=16 n_inner rotary_dim=32 activation_function=gelu_new "
     "tie_word_embeddings=false resid_pdrop=0.0 embd_pdrop=0.0 attn_pdrop=0.0"},
    {"stablelm",
     "StableLmForCausalLM StableLmModel StableLmForSequenceClassification",
     "StableLM 3B, 2",
     "transformers 5.24 models/stablelm",
     build_decoder_family<configure_stablelm>,
     "vocab_size=50304 intermediate_size=6912 hidden_size=2560 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads=32 hidden_act=silu tie_word_embeddings=false "
     "use_qkv_bias=false qk_layernorm=false use_parallel_residual=false partial_rotary_factor "
     "rope_parameters hidden_dropout=0.0 attention_dropout=0.0"},
    {"cohere",
     "CohereForCausalLM CohereModel",
     "Command R, Aya",
     "transformers 5.24 models/cohere",
     build_decoder_family<configure_cohere>,
     "vocab_size=256000 hidden_size=8192 intermediate_size=22528 num_hidden_layers=40 "
     "num_attention_heads=64 num_key_value_heads head_dim hidden_act=silu "
     "tie_word_embeddings=true attention_bias=false attention_dropout=0.0 use_qk_norm=false"},
    {"cohere2",
     "Cohere2ForCausalLM Cohere2Model",
     "Command R7B, Command A",
     "transformers 5.24 models/cohere2",
     build_decoder_family<configure_cohere2>,
     "vocab_size=256000 hidden_size=8192 intermediate_size=22528 num_hidden_layers=40 "
     "num_attention_heads=64 num_key_value_heads head_dim hidden_act=silu "
     "tie_word_embeddings=true attention_bias=false attention_dropout=0.0 sliding_window=4096 "
     "sliding_window_pattern=4 layer_types"},
    {"olmo",
     "OlmoForCausalLM OlmoModel OlmoForSequenceClassification",
     "OLMo 1",
     "transformers 5.24 models/olmo",
     build_decoder_family<configure_olmo>,
     "vocab_size=50304 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 clip_qkv"},
    {"olmo2",
     "Olmo2ForCausalLM Olmo2Model Olmo2ForSequenceClassification",
     "OLMo 2",
     "transformers 5.24 models/olmo2",
     build_decoder_family<configure_olmo2>,
     "vocab_size=50304 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0"},
    {"olmo3",
     "Olmo3ForCausalLM Olmo3Model Olmo3ForSequenceClassification",
     "OLMo 3",
     "transformers 5.24 models/olmo3",
     build_decoder_family<configure_olmo3>,
     "vocab_size=50304 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 sliding_window=4096 "
     "layer_types"},
    {"glm",
     "GlmForCausalLM GlmModel GlmForSequenceClassification",
     "GLM-4 9B",
     "transformers 5.24 models/glm",
     build_decoder_family<configure_glm>,
     "vocab_size=151552 hidden_size=4096 intermediate_size=13696 num_hidden_layers=40 "
     "num_attention_heads=32 num_key_value_heads=2 head_dim=128 hidden_act=silu "
     "tie_word_embeddings=false attention_bias=true attention_dropout=0.0 "
     "partial_rotary_factor rope_parameters"},
    {"glm4",
     "Glm4ForCausalLM Glm4Model Glm4ForSequenceClassification",
     "GLM-4 0414",
     "transformers 5.24 models/glm4",
     build_decoder_family<configure_glm4>,
     "vocab_size=151552 hidden_size=4096 intermediate_size=13696 num_hidden_layers=40 "
     "num_attention_heads=32 num_key_value_heads=2 head_dim=128 hidden_act=silu "
     "tie_word_embeddings=false attention_bias=true attention_dropout=0.0 "
     "partial_rotary_factor rope_parameters"},
    {"chatglm",
     "ChatGLMForConditionalGeneration ChatGLMModel",
     "ChatGLM 2, 3 and GLM-4 with the code beside their weights",
     "modeling_chatglm.py beside the weights of THUDM/chatglm3-6b",
     build_decoder_family<configure_chatglm>,
     "vocab_size|padded_vocab_size=65024 hidden_size=4096 num_hidden_layers|num_layers=28 "
     "num_attention_heads=32 kv_channels=128 ffn_hidden_size=13696 multi_query_attention=false "
     "multi_query_group_num=1 add_bias_linear=false add_qkv_bias=false rmsnorm=true "
     "post_layer_norm=true"},
    {"granite",
     "GraniteForCausalLM GraniteModel",
     "Granite 3",
     "transformers 5.24 models/granite",
     build_decoder_family<configure_granite>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 mlp_bias=false"},
    {"smollm3",
     "SmolLM3ForCausalLM SmolLM3Model SmolLM3ForSequenceClassification",
     "SmolLM 3",
     "transformers 5.24 models/smollm3",
     build_decoder_family<configure_smollm3>,
     "vocab_size=128256 hidden_size=2048 intermediate_size=11008 num_hidden_layers=36 "
     "num_attention_heads=16 num_key_value_heads=4 head_dim hidden_act=silu "
     "tie_word_embeddings=true attention_bias=false attention_dropout=0.0 mlp_bias=false "
     "no_rope_layers no_rope_layer_interval=4"},
    {"minicpm",
     "MiniCPMForCausalLM MiniCPMModel MiniCPMForSequenceClassification",
     "MiniCPM 1 and 2",
     "modeling_minicpm.py beside the weights of openbmb/MiniCPM-2B",
     build_decoder_family<configure_minicpm>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads hidden_act=silu tie_word_embeddings=true "
     "attention_bias=false attention_dropout=0.0"},
    {"internlm",
     "InternLMForCausalLM InternLMModel InternLMForSequenceClassification",
     "InternLM 1",
     "modeling_internlm.py beside the weights of internlm/internlm-7b",
     build_decoder_family<configure_internlm>,
     "vocab_size=103168 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 hidden_act=silu tie_word_embeddings=false bias=true "
     "attention_dropout=0.0"},
    {"internlm2",
     "InternLM2ForCausalLM InternLM2Model InternLM2ForSequenceClassification",
     "InternLM 2",
     "modeling_internlm2.py beside the weights of internlm/internlm2-7b",
     build_decoder_family<configure_internlm2>,
     "vocab_size=103168 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads hidden_act=silu tie_word_embeddings=false "
     "bias=true attention_dropout=0.0"},
    {"mimo",
     "MiMoForCausalLM MiMoModel",
     "MiMo 7B",
     "modeling_mimo.py beside the weights of XiaomiMiMo/MiMo-7B-Base",
     build_decoder_family<configure_mimo>,
     "vocab_size=151680 hidden_size=4096 intermediate_size=11008 num_hidden_layers=36 "
     "num_attention_heads=32 num_key_value_heads=32 head_dim hidden_act=silu "
     "tie_word_embeddings=false use_sliding_window=false sliding_window=4096 "
     "max_window_layers=28 layer_types attention_dropout=0.0 num_nextn_predict_layers=0"},
    {"baichuan",
     "BaichuanForCausalLM BaiChuanForCausalLM",
     "Baichuan 1 and 2",
     "modeling_baichuan.py beside the weights of baichuan-inc/Baichuan2-7B-Base",
     build_decoder_family<configure_baichuan>,
     "vocab_size=125696 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 hidden_act=silu tie_word_embeddings=false attention_dropout=0.0"},
    {"nemotron",
     "NemotronForCausalLM NemotronModel NemotronForSequenceClassification",
     "Nemotron 4, Minitron",
     "transformers 5.24 models/nemotron",
     build_decoder_family<configure_nemotron>,
     "vocab_size=256000 hidden_size=6144 intermediate_size=24576 num_hidden_layers=32 "
     "num_attention_heads=48 head_dim num_key_value_heads hidden_act=relu2 "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 mlp_bias=false "
     "partial_rotary_factor rope_parameters"},
    {"gpt2",
     "GPT2LMHeadModel GPT2Model GPT2ForSequenceClassification",
     "GPT-2",
     "transformers 5.24 models/gpt2",
     build_decoder_family<configure_gpt2>,
     "vocab_size=50257 max_position_embeddings|n_positions=1024 hidden_size|n_embd=768 "
     "num_hidden_layers|n_layer=12 num_attention_heads|n_head=12 n_inner "
     "activation_function=gelu_new tie_word_embeddings=true resid_pdrop=0.1 embd_pdrop=0.1 "
     "attn_pdrop=0.1 add_cross_attention=false"},
    {"gpt_bigcode",
     "GPTBigCodeForCausalLM GPTBigCodeModel GPTBigCodeForSequenceClassification",
     "SantaCoder, StarCoder 1",
     "transformers 5.24 models/gpt_bigcode",
     build_decoder_family<configure_gpt_bigcode>,
     "vocab_size=50257 max_position_embeddings|n_positions=1024 hidden_size|n_embd=768 "
     "num_hidden_layers|n_layer=12 num_attention_heads|n_head=12 n_inner "
     "activation_function=gelu_pytorch_tanh multi_query=true tie_word_embeddings=true "
     "resid_pdrop=0.1 embd_pdrop=0.1 attn_pdrop=0.1 add_cross_attention=false"},
    {"gpt_neo",
     "GPTNeoForCausalLM GPTNeoModel GPTNeoForSequenceClassification",
     "GPT-Neo",
     "transformers 5.24 models/gpt_neo",
     build_decoder_family<configure_gpt_neo>,
     "vocab_size=50257 max_position_embeddings=2048 hidden_size=2048 "
     "num_hidden_layers|num_layers=24 num_attention_heads|num_heads=16 intermediate_size "
     "activation_function=gelu_new tie_word_embeddings=true resid_dropout=0.0 "
     "embed_dropout=0.0 attention_dropout=0.0"},
    {"gptj",
     "GPTJForCausalLM GPTJModel GPTJForSequenceClassification",
     "GPT-J",
     "transformers 5.24 models/gptj",
     build_decoder_family<configure_gptj>,
     "vocab_size=50400 hidden_size|n_embd=4096 num_hidden_layers|n_layer=28 "
     "num_attention_heads|n_head=16 rotary_dim=64 n_inner activation_function=gelu_new "
     "tie_word_embeddings=false resid_pdrop=0.0 embd_pdrop=0.0 attn_pdrop=0.0"},
    {"codegen",
     "CodeGenForCausalLM CodeGenModel",
     "CodeGen 1, 2",
     "transformers 5.24 models/codegen",
     build_decoder_family<configure_codegen>,
     "vocab_size=50400 hidden_size|n_embd=4096 num_hidden_layers|n_layer=28 "
     "num_attention_heads|n_head=16 rotary_dim=64 n_inner activation_function=gelu_new "
     "tie_word_embeddings=false resid_pdrop=0.0 embd_pdrop=0.0 attn_pdrop=0.0"},
    {"gpt_neox",
     "GPTNeoXForCausalLM GPTNeoXModel GPTNeoXForSequenceClassification",
     "Pythia, GPT-NeoX, RedPajama-INCITE, Dolly",
     "transformers 5.24 models/gpt_neox",
     build_decoder_family<configure_gpt_neox>,
     "vocab_size=50432 hidden_size=6144 num_hidden_layers=44 num_attention_heads=64 "
     "intermediate_size=24576 hidden_act=gelu tie_word_embeddings=false "
     "use_parallel_residual=true attention_bias=true partial_rotary_factor|rotary_pct "
     "rope_parameters hidden_dropout=0.0 attention_dropout=0.0",
     "^lm_head.=embed_out."},
    {"opt",
     "OPTForCausalLM OPTModel OPTForSequenceClassification",
     "OPT, Galactica",
     "transformers 5.24 models/opt",
     build_decoder_family<configure_opt>,
     "vocab_size=50272 hidden_size=768 num_hidden_layers=12 ffn_dim=3072 "
     "max_position_embeddings=2048 do_layer_norm_before=true _remove_final_layer_norm=false "
     "word_embed_proj_dim num_attention_heads=12 activation_function=relu enable_bias=true "
     "layer_norm_elementwise_affine=true tie_word_embeddings=true dropout=0.1 "
     "attention_dropout=0.0 layerdrop=0.0"},
    {"bloom",
     "BloomForCausalLM BloomModel BloomForSequenceClassification",
     "BLOOM, BLOOMZ",
     "transformers 5.24 models/bloom",
     build_decoder_family<configure_bloom>,
     "vocab_size=250880 hidden_size|n_embed=64 num_hidden_layers|n_layer=2 "
     "num_attention_heads|n_head=8 tie_word_embeddings=true hidden_dropout=0.0 "
     "attention_dropout=0.0"},
    {"mpt",
     "MptForCausalLM MptModel MptForSequenceClassification MPTForCausalLM",
     "MPT",
     "transformers 5.24 models/mpt",
     build_decoder_family<configure_mpt>,
     "hidden_size|d_model=2048 num_attention_heads|n_heads=16 num_hidden_layers|n_layers=24 "
     "expansion_ratio=4 max_seq_len=2048 vocab_size=50368 tie_word_embeddings=true"},
    {"falcon",
     "FalconForCausalLM FalconModel FalconForSequenceClassification",
     "Falcon 7B, 40B, 180B",
     "transformers 5.24 models/falcon",
     build_decoder_family<configure_falcon>,
     "vocab_size=65024 hidden_size|n_embed=4544 num_hidden_layers=32 num_attention_heads=71 "
     "num_kv_heads num_ln_in_parallel_attn alibi=false new_decoder_architecture=false "
     "multi_query=true parallel_attn=true bias=false ffn_hidden_size activation=gelu "
     "tie_word_embeddings=true attention_dropout=0.0 "
     "hidden_dropout=0.0"},
    {"RefinedWeb",
     "RWForCausalLM RWModel",
     "Falcon 40B as first published",
     "modelling_RW.py beside the weights of tiiuae/falcon-40b",
     build_decoder_family<configure_refined_web>,
     "vocab_size=65024 hidden_size|n_embed=4544 num_hidden_layers|n_layer=32 "
     "num_attention_heads|n_head=71 num_kv_heads|n_head_kv num_ln_in_parallel_attn alibi=false "
     "new_decoder_architecture=true multi_query=true parallel_attn=true bias=false "
     "ffn_hidden_size activation=gelu tie_word_embeddings=true attention_dropout=0.0 "
     "hidden_dropout=0.0"},
    {"RefinedWebModel",
     "RWForCausalLM RWModel",
     "Falcon 7B as first published",
     "modelling_RW.py beside the weights of tiiuae/falcon-7b",
     build_decoder_family<configure_refined_web>,
     "vocab_size=65024 hidden_size|n_embed=4544 num_hidden_layers|n_layer=32 "
     "num_attention_heads|n_head=71 num_kv_heads|n_head_kv num_ln_in_parallel_attn alibi=false "
     "new_decoder_architecture=false multi_query=true parallel_attn=true bias=false "
     "ffn_hidden_size activation=gelu tie_word_embeddings=true attention_dropout=0.0 "
     "hidden_dropout=0.0"},
    {"starcoder2",
     "Starcoder2ForCausalLM Starcoder2Model Starcoder2ForSequenceClassification",
     "StarCoder 2",
     "transformers 5.24 models/starcoder2",
     build_decoder_family<configure_starcoder2>,
     "vocab_size=49152 hidden_size=3072 intermediate_size=12288 num_hidden_layers=30 "
     "num_attention_heads=24 num_key_value_heads=2 head_dim hidden_act=gelu_pytorch_tanh "
     "tie_word_embeddings=true use_bias=true sliding_window attention_dropout=0.0 "
     "residual_dropout=0.0 embedding_dropout=0.0"},
    {"gemma3_text",
     "Gemma3ForCausalLM Gemma3TextModel",
     "Gemma 3, text only",
     "transformers 5.24 models/gemma3",
     build_decoder_family<configure_gemma3>,
     "vocab_size=262208 hidden_size=2304 intermediate_size=9216 num_hidden_layers=26 "
     "num_attention_heads=8 num_key_value_heads=4 head_dim=256 "
     "hidden_activation=gelu_pytorch_tanh tie_word_embeddings=true attention_bias=false "
     "attention_dropout=0.0 sliding_window=4096 "
     "sliding_window_pattern|_sliding_window_pattern=6 layer_types final_logit_softcapping "
     "attn_logit_softcapping"},
    {"gemma3n_text",
     "Gemma3nForCausalLM",
     "Gemma 3n, its decoder",
     "transformers 5.24 models/gemma3n",
     build_parts_family<configure_gemma3n_text>,
     "vocab_size=262400 hidden_size=2048 intermediate_size=16384 num_hidden_layers=35 num_attention_heads=8 "
     "num_key_value_heads=2 head_dim=256 hidden_activation=gelu_pytorch_tanh tie_word_embeddings=true "
     "attention_bias=false attention_dropout=0.0 vocab_size_per_layer_input=262144 hidden_size_per_layer_input=256 "
     "altup_num_inputs=4 num_kv_shared_layers=15 laurel_rank=64 layer_types sliding_window=512 "
     "final_logit_softcapping=30.0 activation_sparsity_pattern altup_coef_clip altup_correct_scale=true"},
    {"mixtral",
     "MixtralForCausalLM MixtralModel MixtralForSequenceClassification",
     "Mixtral 8x7B, 8x22B",
     "transformers 5.24 models/mixtral",
     build_decoder_family<configure_mixtral>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads=8 head_dim hidden_act=silu "
     "tie_word_embeddings=false sliding_window attention_dropout=0.0 num_experts_per_tok=2 "
     "num_local_experts|num_experts=8 output_router_logits=false",
     kStoredMixtral},
    {"qwen2_moe",
     "Qwen2MoeForCausalLM Qwen2MoeModel Qwen2MoeForSequenceClassification",
     "Qwen1.5-MoE, Qwen2-57B-A14B",
     "transformers 5.24 models/qwen2_moe",
     build_decoder_family<configure_qwen2_moe>,
     "vocab_size=151936 hidden_size=2048 intermediate_size=5632 num_hidden_layers=24 "
     "num_attention_heads=16 num_key_value_heads=16 head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_dropout=0.0 qkv_bias=true decoder_sparse_step=1 "
     "moe_intermediate_size=1408 shared_expert_intermediate_size=5632 num_experts_per_tok=4 "
     "num_experts=60 mlp_only_layers norm_topk_prob=false output_router_logits=false",
     kStoredExperts},
    {"qwen3_moe",
     "Qwen3MoeForCausalLM Qwen3MoeModel Qwen3MoeForSequenceClassification",
     "Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder",
     "transformers 5.24 models/qwen3_moe",
     build_decoder_family<configure_qwen3_moe>,
     "vocab_size=151936 hidden_size=2048 intermediate_size=6144 num_hidden_layers=24 "
     "num_attention_heads=32 num_key_value_heads=4 head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 "
     "decoder_sparse_step=1 moe_intermediate_size=768 num_experts_per_tok=8 "
     "num_experts|num_local_experts=128 mlp_only_layers norm_topk_prob=false output_router_logits=false",
     kStoredExperts},
    {"olmoe",
     "OlmoeForCausalLM OlmoeModel",
     "OLMoE",
     "transformers 5.24 models/olmoe",
     build_decoder_family<configure_olmoe>,
     "vocab_size=50304 hidden_size=2048 intermediate_size=2048 num_hidden_layers=16 "
     "num_attention_heads=16 num_key_value_heads hidden_act=silu tie_word_embeddings=false "
     "attention_bias=false attention_dropout=0.0 num_experts_per_tok=8 "
     "num_experts|num_local_experts=64 norm_topk_prob=false clip_qkv output_router_logits=false",
     kStoredExperts},
    {"phimoe",
     "PhimoeForCausalLM PhimoeModel PhimoeForSequenceClassification PhiMoEForCausalLM",
     "Phi-3.5-MoE",
     "transformers 5.24 models/phimoe",
     build_decoder_family<configure_phimoe>,
     "vocab_size=32064 hidden_size=4096 intermediate_size=6400 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads=8 head_dim hidden_act=silu "
     "tie_word_embeddings=false sliding_window attention_dropout=0.0 num_experts_per_tok=2 "
     "num_local_experts=16 attention_bias=false lm_head_bias=false output_router_logits=false input_jitter_noise=0.0",
     kStoredPhimoe},
    {"granitemoe",
     "GraniteMoeForCausalLM GraniteMoeModel",
     "Granite 3 MoE",
     "transformers 5.24 models/granitemoe",
     build_decoder_family<configure_granitemoe>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 num_local_experts=8 "
     "num_experts_per_tok=2 output_router_logits=false",
     kStoredGranitemoe},
    {"gpt_oss",
     "GptOssForCausalLM GptOssModel GptOssForSequenceClassification",
     "gpt-oss 20B, 120B",
     "transformers 5.24 models/gpt_oss",
     build_decoder_family<configure_gpt_oss>,
     "vocab_size=201088 hidden_size=2880 intermediate_size=2880 num_hidden_layers=36 "
     "num_attention_heads=64 num_key_value_heads=8 head_dim=64 hidden_act=silu "
     "tie_word_embeddings=false attention_bias=true sliding_window=128 layer_types "
     "attention_dropout=0.0 num_experts_per_tok|experts_per_token=4 "
     "num_local_experts|num_experts=128 output_router_logits=false"},
    {"dbrx",
     "DbrxForCausalLM DbrxModel",
     "DBRX",
     "transformers 5.24 models/dbrx",
     build_decoder_family<configure_dbrx>,
     "hidden_size|d_model=2048 num_attention_heads|n_heads=16 num_hidden_layers|n_layers=24 "
     "vocab_size=32000 attn_config ffn_config tie_word_embeddings=false resid_pdrop=0.0 output_router_logits=false"},
    {"deepseek_v2",
     "DeepseekV2ForCausalLM DeepseekV2Model DeepseekV2ForSequenceClassification",
     "DeepSeek-V2, V2-Lite, Coder-V2",
     "transformers 5.24 models/deepseek_v2",
     build_decoder_family<configure_deepseek>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=11008 moe_intermediate_size=1407 "
     "num_hidden_layers=32 num_attention_heads=32 n_shared_experts=2 "
     "n_routed_experts|num_local_experts=64 kv_lora_rank=512 q_lora_rank=1536 "
     "qk_rope_head_dim=64 v_head_dim=128 qk_nope_head_dim=128 num_experts_per_tok=6 "
     "first_k_dense_replace=0 hidden_act=silu tie_word_embeddings=false attention_bias=false",
     kStoredExperts},
    {"deepseek_v3",
     "DeepseekV3ForCausalLM DeepseekV3Model DeepseekV3ForSequenceClassification",
     "DeepSeek-V3, R1, V3.1",
     "transformers 5.24 models/deepseek_v3",
     build_decoder_family<configure_deepseek>,
     "vocab_size=129280 hidden_size=7168 intermediate_size=18432 moe_intermediate_size=2048 "
     "num_hidden_layers=61 num_attention_heads=128 n_shared_experts=1 "
     "n_routed_experts|num_local_experts=256 kv_lora_rank=512 q_lora_rank=1536 "
     "qk_rope_head_dim=64 v_head_dim=128 qk_nope_head_dim=128 num_experts_per_tok=8 "
     "first_k_dense_replace=3 hidden_act=silu tie_word_embeddings=false attention_bias=false "
     "norm_topk_prob=true attention_dropout=0.0",
     kStoredExperts},
    {"kimi_k2",
     "DeepseekV3ForCausalLM DeepseekV3Model",
     "Kimi K2",
     "modeling_deepseek.py beside the weights of moonshotai/Kimi-K2-Instruct; its class is "
     "that of DeepSeek-V3",
     build_decoder_family<configure_deepseek>,
     "vocab_size=129280 hidden_size=7168 intermediate_size=18432 moe_intermediate_size=2048 "
     "num_hidden_layers=61 num_attention_heads=128 n_shared_experts=1 "
     "n_routed_experts|num_local_experts=256 kv_lora_rank=512 q_lora_rank=1536 "
     "qk_rope_head_dim=64 v_head_dim=128 qk_nope_head_dim=128 num_experts_per_tok=8 "
     "first_k_dense_replace=3 hidden_act=silu tie_word_embeddings=false attention_bias=false "
     "norm_topk_prob=true attention_dropout=0.0",
     kStoredExperts},
    {"minicpm3",
     "MiniCPM3ForCausalLM MiniCPM3Model",
     "MiniCPM 3",
     "transformers 5.24 models/minicpm3",
     build_decoder_family<configure_minicpm3>,
     "vocab_size=73448 hidden_size=2560 intermediate_size=6400 num_hidden_layers=62 num_attention_heads=40 "
     "hidden_act=silu tie_word_embeddings=true attention_bias=false attention_dropout=0.0 mlp_bias=false "
     "kv_lora_rank=256 q_lora_rank=768 qk_nope_head_dim=64 qk_rope_head_dim=32 v_head_dim"},
    {"mimo_v2_flash",
     "MiMoV2FlashForCausalLM MiMoV2FlashModel",
     "MiMo-V2-Flash",
     "transformers 5.24 models/mimo_v2_flash",
     build_decoder_family<configure_mimo_v2_flash>,
     "vocab_size=152576 hidden_size=4096 intermediate_size=16384 num_hidden_layers=48 num_attention_heads=64 "
     "num_key_value_heads=4 head_dim=192 v_head_dim=128 hidden_act=silu tie_word_embeddings=false "
     "attention_bias=false attention_dropout=0.0 moe_intermediate_size=2048 num_experts_per_tok=8 "
     "n_routed_experts|num_local_experts=256 n_shared_experts sliding_window=129 layer_types "
     "hybrid_layer_pattern mlp_layer_types moe_layer_freq swa_num_attention_heads swa_num_key_value_heads "
     "swa_head_dim swa_v_head_dim add_swa_attention_sink_bias=true add_full_attention_sink_bias=false "
     "norm_topk_prob=true partial_rotary_factor rope_parameters",
     kStoredMimoV2},
    {"minimax_m3_vl_text",
     "MiniMaxM3VLForCausalLM",
     "MiniMax-M3, its decoder",
     "transformers 5.24 models/minimax_m3_vl",
     build_decoder_family<configure_minimax_m3>,
     kMinimaxM3Keys},
    {"minimax_m3",
     "MiniMaxM3ForCausalLM",
     "MiniMax-M3 without images",
     "the decoder of transformers 5.24 models/minimax_m3_vl, without the layers that predict further tokens",
     build_decoder_family<configure_minimax_m3>,
     kMinimaxM3Keys},
    {"step3p5",
     "Step3p5ForCausalLM",
     "Step 3.5",
     "the decoder of transformers 5.24 models/step3p7, without the layers that predict further tokens",
     build_decoder_family<configure_step3p5>,
     "vocab_size=128815 hidden_size=4096 intermediate_size=11264 num_hidden_layers=45 num_attention_heads=64 "
     "num_key_value_heads|num_attention_groups=8 head_dim=128 tie_word_embeddings=false attention_bias=false "
     "mlp_bias=false num_experts_per_tok|moe_top_k=8 n_routed_experts|moe_num_experts|num_local_experts=288 "
     "moe_intermediate_size=1280 share_expert_dim|share_expert_dims=1280 layer_types mlp_layer_types "
     "moe_layers_enum num_sliding_attention_heads attention_other_setting sliding_window rope_parameters "
     "partial_rotary_factor partial_rotary_factors attention_dropout=0.0 num_nextn_predict_layers|num_mtp_layers=0",
     kStoredStep3p5},
    {"gemma4_text",
     "Gemma4ForCausalLM",
     "Gemma 4, text only",
     "transformers 5.24 models/gemma4",
     build_parts_family<configure_gemma4_text>,
     "vocab_size=262144 hidden_size=2304 intermediate_size=9216 num_hidden_layers=30 num_attention_heads=8 "
     "num_key_value_heads=4 head_dim=256 global_head_dim=512 num_global_key_value_heads "
     "hidden_activation=gelu_pytorch_tanh tie_word_embeddings=true attention_bias=false layer_types "
     "vocab_size_per_layer_input=262144 hidden_size_per_layer_input=256 attention_k_eq_v=false "
     "num_kv_shared_layers=0 enable_moe_block=false use_double_wide_mlp=false num_experts "
     "num_experts_per_tok|top_k_experts moe_intermediate_size per_layer_config sliding_window=512 "
     "final_logit_softcapping attention_dropout=0.0 use_bidirectional_attention"},
    {"deepseek_v4",
     "DeepseekV4ForCausalLM",
     "DeepSeek-V4",
     "transformers 5.24 models/deepseek_v4",
     build_parts_family<configure_deepseek_v4>,
     kDeepseekV4Keys,
     kStoredDeepseekV4},
    {"deepseek_ref",
     "DeepseekV4ForCausalLM",
     "DeepSeek-V4 as republished for SGLang",
     "the class that its files name: transformers 5.24 models/deepseek_v4",
     build_parts_family<configure_deepseek_v4>,
     kDeepseekV4Keys,
     kStoredDeepseekV4},
    {"seed_oss",
     "SeedOssForCausalLM SeedOssModel SeedOssForSequenceClassification",
     "Seed-OSS",
     "transformers 5.24 models/seed_oss",
     build_decoder_family<configure_seed_oss>,
     "vocab_size=155136 hidden_size=4096 intermediate_size=27648 num_hidden_layers=64 "
     "num_attention_heads=80 num_key_value_heads=8 head_dim=128 hidden_act=silu "
     "tie_word_embeddings=false attention_bias=true attention_out_bias=false "
     "attention_dropout=0.1 residual_dropout=0.1 mlp_bias=false"},
    {"ernie4_5",
     "Ernie4_5ForCausalLM Ernie4_5Model",
     "ERNIE 4.5, dense",
     "transformers 5.24 models/ernie4_5",
     build_decoder_family<configure_ernie4_5>,
     "vocab_size=103424 hidden_size=1024 intermediate_size=3072 num_hidden_layers=18 "
     "num_attention_heads=16 num_key_value_heads=2 head_dim=128 hidden_act=silu "
     "tie_word_embeddings=true use_bias=false attention_dropout=0.0"},
    {"ernie4_5_moe",
     "Ernie4_5_MoeForCausalLM Ernie4_5_MoeModel",
     "ERNIE 4.5, mixtures of experts",
     "transformers 5.24 models/ernie4_5_moe",
     build_decoder_family<configure_ernie4_5_moe>,
     "vocab_size=103424 hidden_size=2560 intermediate_size=12288 num_hidden_layers=28 "
     "num_attention_heads=20 num_key_value_heads=4 head_dim hidden_act=silu tie_word_embeddings=true "
     "use_bias=false moe_intermediate_size=1536 num_experts_per_tok|moe_k=6 "
     "num_experts|moe_num_experts=64 moe_num_shared_experts=2 moe_layer_start_index=1 "
     "moe_layer_end_index=-1 moe_layer_interval=1 attention_dropout=0.0 output_router_logits=false",
     kStoredErnieMoe},
    {"hunyuan_v1_dense",
     "HunYuanDenseV1ForCausalLM HunYuanDenseV1Model HunYuanDenseV1ForSequenceClassification",
     "Hunyuan, dense",
     "transformers 5.24 models/hunyuan_v1_dense",
     build_decoder_family<configure_hunyuan_dense>,
     "vocab_size=290943 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0"},
    {"exaone4",
     "Exaone4ForCausalLM Exaone4Model Exaone4ForSequenceClassification",
     "EXAONE 4",
     "transformers 5.24 models/exaone4",
     build_decoder_family<configure_exaone4>,
     "vocab_size=102400 hidden_size=4096 intermediate_size=16384 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads=32 head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_dropout=0.0 sliding_window=4096 sliding_window_pattern=4 layer_types"},
    {"arcee",
     "ArceeForCausalLM ArceeModel ArceeForSequenceClassification",
     "Arcee AFM",
     "transformers 5.24 models/arcee",
     build_decoder_family<configure_arcee>,
     "vocab_size=32000 hidden_size=2560 intermediate_size=18432 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads head_dim hidden_act=relu2 "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 mlp_bias=false"},
    {"exaone",
     "ExaoneForCausalLM LlamaForCausalLM",
     "EXAONE 3 and 3.5",
     "transformers 5.24 models/exaone, which builds the class of Llama",
     build_decoder_family<configure_llama>,
     "vocab_size=102400 hidden_size=4096 intermediate_size=14336 num_hidden_layers|num_layers=32 "
     "num_attention_heads=32 num_key_value_heads=8 head_dim hidden_act|activation_function=silu "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 mlp_bias=false",
     kStoredExaone},
    {"internlm3",
     "InternLM3ForCausalLM LlamaForCausalLM",
     "InternLM 3",
     "transformers 5.24 models/internlm3, which builds the class of Llama",
     build_decoder_family<configure_llama>,
     "vocab_size=128512 hidden_size=4096 intermediate_size=10240 num_hidden_layers=48 num_attention_heads=32 "
     "num_key_value_heads=2 head_dim=128 hidden_act=silu tie_word_embeddings=false "
     "attention_bias|qkv_bias=false attention_dropout=0.0 mlp_bias|bias=false"},
    {"iquestcoder",
     "IQuestCoderForCausalLM LlamaForCausalLM",
     "IQuest-Coder",
     "transformers 5.24 models/iquestcoder, which builds the class of Llama",
     build_decoder_family<configure_llama>,
     "vocab_size=76800 hidden_size=5120 intermediate_size=27648 num_hidden_layers=80 num_attention_heads=40 "
     "num_key_value_heads=8 head_dim=128 hidden_act=silu tie_word_embeddings=false attention_bias=false "
     "attention_dropout=0.0 mlp_bias=false"},
    {"ministral",
     "MinistralForCausalLM MinistralModel",
     "Ministral 8B",
     "transformers 5.24 models/ministral",
     build_decoder_family<configure_ministral>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 "
     "num_key_value_heads=8 head_dim sliding_window=4096 layer_types hidden_act=silu tie_word_embeddings=false "
     "attention_dropout=0.0"},
    {"cwm",
     "CwmForCausalLM CwmModel",
     "Code World Model",
     "transformers 5.24 models/cwm",
     build_decoder_family<configure_cwm>,
     "vocab_size=128256 hidden_size=6144 intermediate_size=21504 num_hidden_layers=64 num_attention_heads=48 "
     "num_key_value_heads=8 head_dim=128 sliding_window=8192 layer_types mlp_bias=false hidden_act=silu "
     "tie_word_embeddings=false attention_dropout=0.0"},
    {"helium",
     "HeliumForCausalLM HeliumModel",
     "Helium",
     "transformers 5.24 models/helium",
     build_decoder_family<configure_helium>,
     "vocab_size=48000 hidden_size=2560 intermediate_size=7040 num_hidden_layers=24 num_attention_heads=20 "
     "num_key_value_heads=20 head_dim=128 attention_bias=false mlp_bias=false hidden_act=silu "
     "tie_word_embeddings=false attention_dropout=0.0"},
    {"jais2",
     "Jais2ForCausalLM Jais2Model",
     "Jais 2",
     "transformers 5.24 models/jais2",
     build_decoder_family<configure_jais2>,
     "vocab_size=150272 hidden_size=3328 intermediate_size=26624 num_hidden_layers=32 num_attention_heads=26 "
     "num_key_value_heads head_dim hidden_act=relu2 tie_word_embeddings=false attention_bias=true "
     "mlp_bias=true attention_dropout=0.0"},
    {"vaultgemma",
     "VaultGemmaForCausalLM VaultGemmaModel",
     "VaultGemma",
     "transformers 5.24 models/vaultgemma",
     build_decoder_family<configure_vaultgemma>,
     "vocab_size=256000 hidden_size=2304 intermediate_size=9216 num_hidden_layers=26 num_attention_heads=8 "
     "num_key_value_heads=4 head_dim=256 hidden_activation=gelu_pytorch_tanh tie_word_embeddings=true "
     "attention_bias=false attention_dropout=0.0 sliding_window=4096 layer_types final_logit_softcapping=30.0 "
     "attn_logit_softcapping=50.0"},
    {"granite_swa",
     "GraniteSWAForCausalLM GraniteSWAModel",
     "Granite with windows",
     "transformers 5.24 models/granite_swa",
     build_decoder_family<configure_granite_swa>,
     "vocab_size=100352 hidden_size=2560 intermediate_size=8192 num_hidden_layers=24 num_attention_heads=20 "
     "num_key_value_heads=4 hidden_act=silu tie_word_embeddings=true attention_bias=false "
     "attention_dropout=0.0 mlp_bias=false sliding_window=128 layer_types layer_rope_theta"},
    {"bitnet",
     "BitNetForCausalLM BitNetModel",
     "BitNet b1.58",
     "transformers 5.24 models/bitnet",
     build_decoder_family<configure_bitnet>,
     "vocab_size=128256 hidden_size=2560 intermediate_size=6912 num_hidden_layers=30 num_attention_heads=20 "
     "num_key_value_heads=5 hidden_act=relu2 tie_word_embeddings=false attention_bias=false "
     "attention_dropout=0.0"},
    {"hyperclovax",
     "HyperCLOVAXForCausalLM HyperCLOVAXModel",
     "HyperCLOVA X SEED",
     "transformers 5.24 models/hyperclovax",
     build_decoder_family<configure_hyperclovax>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 "
     "num_key_value_heads head_dim use_post_norm=true attention_bias=false mlp_bias=false hidden_act=silu "
     "tie_word_embeddings=false attention_dropout=0.0"},
    {"diffllama",
     "DiffLlamaForCausalLM DiffLlamaModel",
     "DiffLlama",
     "transformers 5.24 models/diffllama",
     build_decoder_family<configure_diffllama>,
     "vocab_size=32000 hidden_size=2048 intermediate_size=8192 num_hidden_layers=16 num_attention_heads=32 "
     "num_key_value_heads head_dim attention_bias=false hidden_act=silu tie_word_embeddings=false "
     "attention_dropout=0.0"},
    {"nanochat",
     "NanoChatForCausalLM NanoChatModel",
     "nanochat",
     "transformers 5.24 models/nanochat",
     build_decoder_family<configure_nanochat>,
     "vocab_size=50304 hidden_size=768 intermediate_size=8192 num_hidden_layers=12 num_attention_heads=6 "
     "num_key_value_heads=6 hidden_act=relu2 tie_word_embeddings=false attention_bias=false "
     "attention_dropout=0.0 final_logit_softcapping=15.0"},
    {"apertus",
     "ApertusForCausalLM ApertusModel",
     "Apertus",
     "transformers 5.24 models/apertus",
     build_decoder_family<configure_apertus>,
     "vocab_size=131072 hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 "
     "num_key_value_heads tie_word_embeddings=false attention_bias=false attention_dropout=0.0"},
    {"xglm",
     "XGLMForCausalLM XGLMModel",
     "XGLM",
     "transformers 5.24 models/xglm",
     build_decoder_family<configure_xglm>,
     "vocab_size=256008 hidden_size|d_model=1024 ffn_dim=4096 num_hidden_layers|num_layers=24 "
     "num_attention_heads|attention_heads=16 activation_function=gelu tie_word_embeddings=true "
     "add_cross_attention=false dropout=0.1 attention_dropout=0.1 activation_dropout=0.0 layerdrop=0.0"},
    {"biogpt",
     "BioGptForCausalLM BioGptModel",
     "BioGPT",
     "transformers 5.24 models/biogpt",
     build_decoder_family<configure_biogpt>,
     "vocab_size=42384 hidden_size=1024 num_hidden_layers=24 num_attention_heads=16 intermediate_size=4096 "
     "hidden_act=gelu max_position_embeddings=1024 tie_word_embeddings=true hidden_dropout_prob=0.1 "
     "attention_probs_dropout_prob=0.1 activation_dropout=0.0 layerdrop=0.0"},
    {"openai-gpt",
     "OpenAIGPTLMHeadModel OpenAIGPTModel",
     "GPT 1",
     "transformers 5.24 models/openai",
     build_decoder_family<configure_openai_gpt>,
     "vocab_size=40478 max_position_embeddings|n_positions=512 hidden_size|n_embd=768 "
     "num_hidden_layers|n_layer=12 num_attention_heads|n_head=12 tie_word_embeddings=true afn=gelu "
     "resid_pdrop=0.1 embd_pdrop=0.1 attn_pdrop=0.1"},
    {"persimmon",
     "PersimmonForCausalLM PersimmonModel",
     "Persimmon",
     "transformers 5.24 models/persimmon",
     build_decoder_family<configure_persimmon>,
     "vocab_size=262144 hidden_size=4096 intermediate_size=16384 num_hidden_layers=36 num_attention_heads=64 "
     "hidden_act=relu2 tie_word_embeddings=false qk_layernorm=true attention_dropout=0.0 hidden_dropout=0.0 "
     "partial_rotary_factor rope_parameters"},
    {"granitemoeshared",
     "GraniteMoeSharedForCausalLM GraniteMoeSharedModel",
     "Granite MoE with a shared network",
     "transformers 5.24 models/granitemoeshared",
     build_decoder_family<configure_granitemoeshared>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 "
     "num_key_value_heads attention_bias=false num_local_experts=8 num_experts_per_tok=2 "
     "shared_intermediate_size=0 hidden_act=silu tie_word_embeddings=false attention_dropout=0.0 "
     "output_router_logits=false",
     kStoredGranitemoe},
    {"flex_olmo",
     "FlexOlmoForCausalLM FlexOlmoModel",
     "FlexOlmo",
     "transformers 5.24 models/flex_olmo",
     build_decoder_family<configure_flex_olmo>,
     "vocab_size=100352 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 "
     "num_key_value_heads attention_bias=false num_experts_per_tok=5 num_experts|num_local_experts=7 "
     "hidden_act=silu tie_word_embeddings=false attention_dropout=0.0 norm_topk_prob=false output_router_logits=false",
     kStoredExperts},
    {"exaone_moe",
     "ExaoneMoeForCausalLM ExaoneMoeModel",
     "K-EXAONE",
     "transformers 5.24 models/exaone_moe",
     build_decoder_family<configure_exaone_moe>,
     "vocab_size=102400 hidden_size=4096 intermediate_size=16384 num_hidden_layers=32 num_attention_heads=32 "
     "num_key_value_heads=32 head_dim num_experts=128 num_experts_per_tok=8 moe_intermediate_size=1024 "
     "num_shared_experts=1 first_k_dense_replace=1 mlp_layer_types hidden_act=silu tie_word_embeddings=false "
     "attention_dropout=0.0 norm_topk_prob=true sliding_window=4096 sliding_window_pattern=4 layer_types",
     kStoredExperts},
    {"sarvam_moe",
     "SarvamMoEForCausalLM Glm4MoeForCausalLM",
     "Sarvam, mixture of experts",
     "transformers 5.24 models/sarvam_moe, which builds the class of GLM-4.5",
     build_decoder_family<configure_glm4_moe>,
     "vocab_size=262144 hidden_size=4096 intermediate_size=8192 num_hidden_layers=19 num_attention_heads=64 "
     "num_key_value_heads=4 head_dim attention_bias|use_qkv_bias=false moe_intermediate_size=1024 "
     "num_experts_per_tok=6 n_shared_experts|num_shared_experts=1 "
     "n_routed_experts|num_experts|num_local_experts=128 first_k_dense_replace=1 use_qk_norm=true "
     "partial_rotary_factor=1.0 rope_parameters hidden_act=silu tie_word_embeddings=false "
     "attention_dropout=0.0 norm_topk_prob=true",
     kStoredSarvamMoe},
    {"sarvam_mla",
     "SarvamMLAForCausalLM DeepseekV3ForCausalLM",
     "Sarvam with latent attention",
     "transformers 5.24 models/sarvam_mla, which builds the class of DeepSeek-V3",
     build_decoder_family<configure_deepseek>,
     "vocab_size=262144 hidden_size=4096 intermediate_size=16384 moe_intermediate_size=2048 "
     "num_hidden_layers=32 num_attention_heads=64 n_shared_experts|num_shared_experts=1 "
     "n_routed_experts|num_experts|num_local_experts=128 kv_lora_rank=512 q_lora_rank qk_rope_head_dim=64 "
     "v_head_dim=128 qk_nope_head_dim=128 num_experts_per_tok=8 first_k_dense_replace=1 attention_bias=false "
     "norm_topk_prob=true hidden_act=silu tie_word_embeddings=false attention_dropout=0.0",
     kStoredExperts},
    {"solar_open",
     "SolarOpenForCausalLM SolarOpenModel",
     "Solar Open",
     "transformers 5.24 models/solar_open",
     build_decoder_family<configure_solar_open>,
     "vocab_size=196608 hidden_size=4096 num_hidden_layers=48 num_attention_heads=64 num_key_value_heads=8 "
     "head_dim=128 tie_word_embeddings=false attention_bias=false moe_intermediate_size=1280 "
     "num_experts_per_tok=8 n_shared_experts=1 n_routed_experts|num_local_experts=128 "
     "hidden_act=silu attention_dropout=0.0 norm_topk_prob=true",
     kStoredExperts},
    {"hy_v3",
     "HYV3ForCausalLM HYV3Model",
     "Hunyuan 3",
     "transformers 5.24 models/hy_v3",
     build_decoder_family<configure_hy_v3>,
     "vocab_size=120832 hidden_size=4096 intermediate_size=13312 num_hidden_layers=80 num_attention_heads=64 "
     "num_key_value_heads=8 head_dim=128 attention_bias=false mlp_bias=false num_experts=192 "
     "num_experts_per_tok=8 num_shared_experts=1 moe_intermediate_size=1536 mlp_layer_types hidden_act=silu "
     "tie_word_embeddings=false attention_dropout=0.0 enable_moe_fp32_combine=true",
     kStoredHyV3},
    {"mellum",
     "MellumForCausalLM MellumModel",
     "Mellum 2",
     "transformers 5.24 models/mellum",
     build_decoder_family<configure_mellum>,
     "vocab_size=98304 hidden_size=2304 intermediate_size=7168 num_hidden_layers=28 num_attention_heads=32 "
     "num_key_value_heads=4 head_dim=128 attention_bias=false num_local_experts|num_experts=64 "
     "num_experts_per_tok=8 moe_intermediate_size=896 mlp_layer_types hidden_act=silu "
     "tie_word_embeddings=false attention_dropout=0.0 norm_topk_prob=true sliding_window=1024 layer_types "
     "output_router_logits=false",
     kStoredExperts},
    {"cohere2_moe",
     "Cohere2MoeForCausalLM Cohere2MoeModel",
     "Command A with experts",
     "transformers 5.24 models/cohere2_moe",
     build_decoder_family<configure_cohere2_moe>,
     "vocab_size=256000 hidden_size=8192 intermediate_size=22528 num_hidden_layers=40 num_attention_heads=64 "
     "num_key_value_heads head_dim=128 hidden_act=silu tie_word_embeddings=true attention_bias=false "
     "attention_dropout=0.0 num_experts_per_tok=2 num_experts=8 num_shared_experts=0 "
     "prefix_dense_intermediate_size mlp_layer_types first_k_dense_replace=0 norm_topk_prob=true "
     "expert_selection_fn=softmax shared_expert_combination_strategy=average sliding_window=4096 layer_types "
     "sliding_window_pattern=4 prefix_dense_sliding_window_pattern=1 rms_norm_eps",
     kStoredExperts},
    {"afmoe",
     "AfmoeForCausalLM AfmoeModel",
     "Trinity (Arcee)",
     "transformers 5.24 models/afmoe",
     build_decoder_family<configure_afmoe>,
     "vocab_size=200192 hidden_size=2048 intermediate_size=6144 num_hidden_layers=32 num_attention_heads=16 "
     "num_key_value_heads head_dim=128 attention_bias=false moe_intermediate_size=1408 num_dense_layers=1 "
     "num_experts=64 num_experts_per_tok=6 num_shared_experts=2 hidden_act=silu tie_word_embeddings=false "
     "attention_dropout=0.0 mup_enabled=false sliding_window=1024 layer_types global_attn_every_n_layers=4",
     kStoredExperts},
    {"hunyuan_v1_moe",
     "HunYuanMoEV1ForCausalLM HunYuanMoEV1Model",
     "Hunyuan-A13B",
     "transformers 5.24 models/hunyuan_v1_moe",
     build_decoder_family<configure_hunyuan_moe>,
     "vocab_size=290943 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 "
     "num_key_value_heads head_dim attention_bias=false num_experts|num_local_experts=1 "
     "num_experts_per_tok|moe_topk=1 hidden_act=silu tie_word_embeddings=false attention_dropout=0.0",
     kStoredExperts},
    {"jetmoe",
     "JetMoeForCausalLM JetMoeModel",
     "JetMoE",
     "transformers 5.24 models/jetmoe",
     build_decoder_family<configure_jetmoe>,
     "vocab_size=32000 hidden_size=2048 num_hidden_layers=12 num_key_value_heads=16 kv_channels|head_dim=128 "
     "intermediate_size=5632 num_local_experts=8 num_experts_per_tok=2 tie_word_embeddings=true"},
    {"youtu",
     "YoutuForCausalLM YoutuModel",
     "Youtu-LLM",
     "transformers 5.24 models/youtu",
     build_decoder_family<configure_youtu>,
     "vocab_size=128256 hidden_size=2048 intermediate_size=6144 num_hidden_layers=32 num_attention_heads=16 "
     "kv_lora_rank=512 q_lora_rank=1536 qk_rope_head_dim=64 v_head_dim=128 qk_nope_head_dim=128 "
     "hidden_act=silu tie_word_embeddings=true attention_bias=false attention_dropout=0.0"},
    {"deepseek_v32",
     "DeepseekV32ForCausalLM DeepseekV32Model",
     "DeepSeek-V3.2",
     "transformers 5.24 models/deepseek_v32",
     build_decoder_family<configure_deepseek_v32>,
     "vocab_size=129280 hidden_size=7168 intermediate_size=18432 moe_intermediate_size=2048 "
     "num_hidden_layers=61 num_attention_heads=128 n_shared_experts=1 "
     "n_routed_experts|num_experts|num_local_experts=256 kv_lora_rank=512 q_lora_rank=1536 qk_rope_head_dim=64 "
     "v_head_dim=128 qk_nope_head_dim=128 num_experts_per_tok=8 first_k_dense_replace=3 mlp_layer_types "
     "index_head_dim=128 index_n_heads=64 index_topk=2048 attention_bias=false hidden_act=silu "
     "tie_word_embeddings=false attention_dropout=0.0 norm_topk_prob=true",
     kStoredExperts},
    {"longcat_flash",
     "LongcatFlashForCausalLM LongcatFlashModel",
     "LongCat-Flash",
     "transformers 5.24 models/longcat_flash",
     build_decoder_family<configure_longcat_flash>,
     "vocab_size=131072 hidden_size=6144 num_hidden_layers|num_layers=28 num_attention_heads=64 "
     "intermediate_size|ffn_hidden_size=12288 moe_intermediate_size|expert_ffn_hidden_size=2048 "
     "num_experts_per_tok|moe_topk=12 n_routed_experts|num_local_experts=512 zero_expert_num=256 "
     "router_bias=false kv_lora_rank=512 q_lora_rank=1536 qk_rope_head_dim=64 v_head_dim=128 "
     "qk_nope_head_dim=128 tie_word_embeddings=false attention_bias=false attention_dropout=0.0",
     kStoredExperts},
    {"dots1",
     "Dots1ForCausalLM Dots1Model",
     "dots.llm1",
     "transformers 5.24 models/dots1",
     build_decoder_family<configure_dots1>,
     "vocab_size=152064 hidden_size=4608 intermediate_size=10944 moe_intermediate_size=1408 "
     "num_hidden_layers=62 num_attention_heads=32 num_key_value_heads=32 head_dim n_shared_experts "
     "n_routed_experts|num_local_experts num_experts_per_tok first_k_dense_replace=0 "
     "hidden_act=silu tie_word_embeddings=false attention_bias=false attention_dropout=0.0 "
     "norm_topk_prob=false sliding_window=4096 max_window_layers=62 layer_types",
     kStoredExperts},
    {"glm4_moe_lite",
     "Glm4MoeLiteForCausalLM Glm4MoeLiteModel",
     "GLM-4.7-Flash",
     "transformers 5.24 models/glm4_moe_lite",
     build_decoder_family<configure_glm4_moe_lite>,
     "vocab_size=154880 hidden_size=2048 intermediate_size=10240 moe_intermediate_size=1536 "
     "num_hidden_layers=47 num_attention_heads=20 n_shared_experts=1 "
     "n_routed_experts|num_local_experts=64 kv_lora_rank=512 q_lora_rank=768 "
     "qk_rope_head_dim=64 v_head_dim=256 qk_nope_head_dim=192 num_experts_per_tok=4 "
     "first_k_dense_replace=1 hidden_act=silu tie_word_embeddings=false attention_bias=false "
     "norm_topk_prob=true attention_dropout=0.0 mlp_layer_types",
     kStoredExperts},
    {"nemotron_h",
     "NemotronHForCausalLM NemotronHModel",
     "Nemotron-H, Nemotron Nano 2, Nemotron 3",
     "transformers 5.24 models/nemotron_h",
     build_decoder_family<configure_nemotron_h>,
     "vocab_size=131072 hidden_size=4096 layers_block_type|layer_types hybrid_override_pattern "
     "num_attention_heads=32 num_key_value_heads=8 head_dim=128 intermediate_size=21504 "
     "mlp_bias=false ssm_state_size=128 mamba_num_heads=128 mamba_head_dim=64 "
     "mamba_n_groups|n_groups=8 mamba_d_conv|conv_kernel=4 mamba_conv_bias|use_conv_bias=true "
     "use_bias=false n_routed_experts|num_local_experts=8 moe_intermediate_size=7688 "
     "moe_shared_expert_intermediate_size=7688 moe_latent_size num_experts_per_tok=2",
     "^model.=backbone. .experts.up_proj=.experts.{E}.up_proj.weight "
     ".experts.down_proj=.experts.{E}.down_proj.weight"},
    {"glm_moe_dsa",
     "GlmMoeDsaForCausalLM GlmMoeDsaModel",
     "GLM-5",
     "transformers 5.24 models/glm_moe_dsa",
     build_decoder_family<configure_glm_moe_dsa>,
     "vocab_size=154880 hidden_size=6144 intermediate_size=12288 moe_intermediate_size=2048 "
     "num_hidden_layers=78 num_attention_heads=64 n_shared_experts=1 "
     "n_routed_experts|num_local_experts=256 kv_lora_rank=512 q_lora_rank=2048 "
     "qk_rope_head_dim=64 v_head_dim=256 qk_nope_head_dim=192 num_experts_per_tok=8 "
     "first_k_dense_replace=3 hidden_act=silu tie_word_embeddings=false attention_bias=false "
     "index_head_dim=128 index_n_heads=32 index_topk=2048 mlp_layer_types indexer_types index_topk_pattern index_topk_freq=1 "
     "index_skip_topk_offset=2 attention_dropout=0.0 norm_topk_prob=true",
     kStoredExperts},
    {"glm4_moe",
     "Glm4MoeForCausalLM Glm4MoeModel",
     "GLM-4.5, 4.6",
     "transformers 5.24 models/glm4_moe",
     build_decoder_family<configure_glm4_moe>,
     "vocab_size=151552 hidden_size=4096 intermediate_size=10944 num_hidden_layers=46 "
     "num_attention_heads=96 num_key_value_heads=8 head_dim hidden_act=silu "
     "tie_word_embeddings=false attention_bias=false attention_dropout=0.0 "
     "moe_intermediate_size=1408 num_experts_per_tok=8 n_shared_experts=1 "
     "n_routed_experts|num_local_experts=128 first_k_dense_replace=1 use_qk_norm=false "
     "norm_topk_prob=true partial_rotary_factor rope_parameters",
     kStoredExperts},
    {"minimax_m2",
     "MiniMaxM2ForCausalLM MiniMaxM2Model",
     "MiniMax-M2",
     "transformers 5.24 models/minimax_m2",
     build_decoder_family<configure_minimax_m2>,
     "vocab_size=200064 hidden_size=3072 intermediate_size=1536 num_hidden_layers=62 "
     "num_attention_heads=48 num_key_value_heads=8 head_dim=128 hidden_act=silu "
     "tie_word_embeddings=false attention_dropout=0.0 rotary_dim num_experts_per_tok=8 "
     "num_local_experts|num_experts=256 partial_rotary_factor rope_parameters output_router_logits=false",
     kStoredMixtral},
    {"minimax",
     "MiniMaxForCausalLM MiniMaxModel",
     "MiniMax-Text-01, M1",
     "transformers 5.24 models/minimax",
     build_decoder_family<configure_minimax>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads=8 head_dim hidden_act=silu tie_word_embeddings=false "
     "sliding_window attention_dropout=0.0 num_experts_per_tok=2 num_local_experts=8 layer_types",
     kStoredMixtral},
    {"llama4_text",
     "Llama4ForCausalLM Llama4TextModel",
     "Llama 4, text only",
     "transformers 5.24 models/llama4",
     build_decoder_family<configure_llama4>,
     "vocab_size=202048 hidden_size=5120 intermediate_size=8192 intermediate_size_mlp=16384 "
     "num_hidden_layers=48 num_attention_heads=40 num_key_value_heads=8 head_dim=128 "
     "hidden_act=silu tie_word_embeddings=false attention_bias=false attention_dropout=0.0 "
     "num_experts_per_tok=1 num_local_experts=16 moe_layers interleave_moe_layer_step=1 use_qk_norm=true "
     "no_rope_layers no_rope_layer_interval=4 attention_chunk_size=8192 layer_types attn_temperature_tuning=true"},
    {"qwen3_next",
     "Qwen3NextForCausalLM Qwen3NextModel Qwen3NextForSequenceClassification",
     "Qwen3-Next",
     "transformers 5.24 models/qwen3_next",
     build_decoder_family<configure_qwen3_next>,
     "vocab_size=151936 hidden_size=2048 num_hidden_layers=48 num_attention_heads=16 "
     "num_key_value_heads=2 head_dim=256 hidden_act=silu tie_word_embeddings=false "
     "attention_bias=false partial_rotary_factor rope_parameters linear_conv_kernel_dim=4 "
     "linear_key_head_dim=128 linear_value_head_dim=128 linear_num_key_heads=16 "
     "linear_num_value_heads=32 layer_types full_attention_interval=4 intermediate_size=5632 "
     "decoder_sparse_step=1 mlp_only_layers moe_intermediate_size=512 "
     "shared_expert_intermediate_size=512 num_experts_per_tok=10 num_experts=512",
     kStoredExperts},
    {"qwen3_5_text",
     "Qwen3_5ForCausalLM Qwen3_5TextModel",
     "Qwen 3.5, dense, text only",
     "transformers 5.24 models/qwen3_5",
     build_decoder_family<configure_qwen3_5>,
     "vocab_size=248320 hidden_size=4096 num_hidden_layers=32 num_attention_heads=16 "
     "num_key_value_heads=4 head_dim=256 hidden_act=silu tie_word_embeddings=false "
     "attention_bias=false partial_rotary_factor rope_parameters linear_conv_kernel_dim=4 "
     "linear_key_head_dim=128 linear_value_head_dim=128 linear_num_key_heads=16 "
     "linear_num_value_heads=32 layer_types full_attention_interval=4 intermediate_size=12288"},
    {"qwen3_5_moe_text",
     "Qwen3_5MoeForCausalLM Qwen3_5MoeTextModel",
     "Qwen 3.5, mixture of experts, text only",
     "transformers 5.24 models/qwen3_5_moe",
     build_decoder_family<configure_qwen3_5_moe>,
     "vocab_size=248320 hidden_size=2048 num_hidden_layers=40 num_attention_heads=16 "
     "num_key_value_heads=2 head_dim=256 hidden_act=silu tie_word_embeddings=false "
     "attention_bias=false partial_rotary_factor rope_parameters linear_conv_kernel_dim=4 "
     "linear_key_head_dim=128 linear_value_head_dim=128 linear_num_key_heads=16 "
     "linear_num_value_heads=32 layer_types full_attention_interval=4 "
     "moe_intermediate_size=512 shared_expert_intermediate_size=512 num_experts_per_tok=8 "
     "num_experts=256",
     kStoredExperts},
    {"mamba",
     "MambaForCausalLM MambaModel",
     "Mamba 1",
     "transformers 5.24 models/mamba",
     build_decoder_family<configure_mamba>,
     "vocab_size=50280 hidden_size=768 state_size=16 num_hidden_layers=32 expand=2 "
     "intermediate_size conv_kernel=4 use_bias=false use_conv_bias=true time_step_rank=auto "
     "tie_word_embeddings=true"},
    {"falcon_mamba",
     "FalconMambaForCausalLM FalconMambaModel",
     "Falcon-Mamba",
     "transformers 5.24 models/falcon_mamba",
     build_decoder_family<configure_mamba>,
     "vocab_size=50280 hidden_size=768 state_size=16 num_hidden_layers=32 expand=2 "
     "intermediate_size conv_kernel=4 use_bias=false use_conv_bias=true time_step_rank=auto "
     "tie_word_embeddings=true"},
    {"mamba2",
     "Mamba2ForCausalLM Mamba2Model",
     "Mamba 2, Codestral Mamba",
     "transformers 5.24 models/mamba2",
     build_decoder_family<configure_mamba2>,
     "num_heads=128 vocab_size=32768 hidden_size=4096 state_size=128 num_hidden_layers=64 "
     "expand=2 conv_kernel=4 n_groups=8 use_bias=false use_conv_bias=true "
     "tie_word_embeddings=false"},
    {"jamba",
     "JambaForCausalLM JambaModel JambaForSequenceClassification",
     "Jamba",
     "transformers 5.24 models/jamba",
     build_decoder_family<configure_jamba>,
     "vocab_size=65536 tie_word_embeddings=false hidden_size=4096 intermediate_size=14336 "
     "num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=8 hidden_act=silu "
     "num_experts_per_tok=2 num_experts|num_local_experts=16 expert_layer_period=2 "
     "expert_layer_offset=1 attn_layer_period=8 attn_layer_offset=4 mamba_d_state=16 "
     "mamba_d_conv=4 mamba_expand=2 mamba_dt_rank=auto mamba_conv_bias=true "
     "mamba_proj_bias=false",
     kStoredExperts},
    {"falcon_h1",
     "FalconH1ForCausalLM FalconH1Model",
     "Falcon-H1",
     "transformers 5.24 models/falcon_h1",
     build_decoder_family<configure_falcon_h1>,
     "vocab_size=128000 tie_word_embeddings=false hidden_size=4096 intermediate_size=14336 "
     "num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=8 head_dim "
     "hidden_act=silu attention_bias=false attention_dropout=0.0 mlp_bias=false "
     "mamba_d_ssm=1024 mamba_n_heads=128 mamba_n_groups=1 mamba_d_state=256 mamba_d_conv=4 "
     "mamba_expand=2 mamba_conv_bias=true mamba_proj_bias=false projectors_bias=false "
     "mamba_rms_norm=false"},
    {"lfm2",
     "Lfm2ForCausalLM Lfm2Model",
     "LFM2",
     "transformers 5.24 models/lfm2",
     build_decoder_family<configure_lfm2>,
     "vocab_size=65536 hidden_size=2560 block_ff_dim|intermediate_size=12288 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads=8 tie_word_embeddings=true tie_embedding conv_bias=false "
     "conv_L_cache=3 block_multiple_of=256 block_ffn_dim_multiplier=1.0 block_auto_adjust_ff_dim=true "
     "full_attn_idxs layer_types"},
    {"lfm2_moe",
     "Lfm2MoeForCausalLM Lfm2MoeModel",
     "LFM2, mixture of experts",
     "transformers 5.24 models/lfm2_moe",
     build_decoder_family<configure_lfm2_moe>,
     "vocab_size=65536 hidden_size=2048 intermediate_size=7168 moe_intermediate_size=1792 num_hidden_layers=32 "
     "num_attention_heads=32 num_key_value_heads=8 tie_word_embeddings=true tie_embedding conv_bias=false "
     "conv_L_cache=3 num_dense_layers=2 num_experts_per_tok=4 num_experts=32 layer_types",
     kStoredLfm2Moe},
    {"granitemoehybrid",
     "GraniteMoeHybridForCausalLM GraniteMoeHybridModel",
     "Granite 4",
     "transformers 5.24 models/granitemoehybrid",
     build_decoder_family<configure_granitemoehybrid>,
     "vocab_size=32000 hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 "
     "num_key_value_heads attention_bias=false num_local_experts=8 num_experts_per_tok=2 "
     "shared_intermediate_size=1024 layer_types|layers_block_type mamba_n_heads=128 mamba_n_groups=1 "
     "mamba_d_state=256 mamba_d_conv=4 mamba_expand=2 mamba_conv_bias=true mamba_proj_bias=false "
     "hidden_act=silu tie_word_embeddings=false attention_dropout=0.0",
     kStoredGranitemoe},
    {"bamba",
     "BambaForCausalLM BambaModel",
     "Bamba",
     "transformers 5.24 models/bamba",
     build_decoder_family<configure_bamba>,
     "vocab_size=128000 hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 "
     "num_key_value_heads=8 attention_bias=false mlp_bias=false attn_layer_indices mamba_n_heads=128 "
     "mamba_n_groups=1 mamba_d_state=256 mamba_d_conv=4 mamba_expand=2 mamba_conv_bias=true "
     "mamba_proj_bias=false hidden_act=silu tie_word_embeddings=false attention_dropout=0.0"},
    {"olmo_hybrid",
     "OlmoHybridForCausalLM OlmoHybridModel",
     "OLMo Hybrid",
     "transformers 5.24 models/olmo_hybrid",
     build_decoder_family<configure_olmo_hybrid>,
     "vocab_size=100352 hidden_size=3840 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=30 "
     "num_key_value_heads attention_bias=false layer_types linear_num_key_heads linear_num_value_heads "
     "linear_key_head_dim linear_value_head_dim linear_conv_kernel_dim=4 hidden_act=silu "
     "tie_word_embeddings=false attention_dropout=0.0"},
    {"kimi_linear",
     "KimiLinearForCausalLM KimiLinearModel",
     "Kimi Linear",
     "transformers 5.24 models/kimi_linear",
     build_decoder_family<configure_kimi_linear>,
     "vocab_size=163840 hidden_size=2304 intermediate_size=9216 moe_intermediate_size=1024 "
     "num_hidden_layers=27 num_attention_heads=32 n_shared_experts|num_shared_experts=1 "
     "num_experts|num_local_experts=256 num_experts_per_tok|num_experts_per_token=8 kv_lora_rank=512 "
     "q_lora_rank qk_rope_head_dim=64 v_head_dim=128 qk_nope_head_dim=128 attention_bias=false layer_types "
     "mlp_layer_types first_k_dense_replace=1 linear_attn_config linear_num_heads=32 linear_head_dim=128 "
     "linear_conv_kernel_dim=4 hidden_act=silu tie_word_embeddings=false attention_dropout=0.0"},
    {"rwkv",
     "RwkvForCausalLM RwkvModel",
     "RWKV 4",
     "transformers 5.24 models/rwkv",
     build_decoder_family<configure_rwkv>,
     "vocab_size=50277 hidden_size=4096 num_hidden_layers=32 attention_hidden_size "
     "intermediate_size tie_word_embeddings=false"},
    {"gemma3",
     "Gemma3ForConditionalGeneration",
     "Gemma 3 with images",
     "transformers 5.24 models/gemma3",
     build_parts_family<configure_gemma3_vl>,
     "text_config vision_config tie_word_embeddings mm_tokens_per_image=256",
     kStoredLlava},
    {"qwen2_vl",
     "Qwen2VLForConditionalGeneration",
     "Qwen2-VL, olmOCR",
     "transformers 5.24 models/qwen2_vl",
     build_parts_family<configure_qwen2_vl>,
     "text_config vision_config tie_word_embeddings",
     kStoredQwen2Vl},
    {"qwen2_5_vl",
     "Qwen2_5_VLForConditionalGeneration",
     "Qwen2.5-VL",
     "transformers 5.24 models/qwen2_5_vl",
     build_parts_family<configure_qwen2_5_vl>,
     "text_config vision_config tie_word_embeddings",
     kStoredQwen2Vl},
    {"qwen3_vl",
     "Qwen3VLForConditionalGeneration",
     "Qwen3-VL, dense",
     "transformers 5.24 models/qwen3_vl",
     build_parts_family<configure_qwen3_vl>,
     "text_config vision_config tie_word_embeddings"},
    {"qwen3_vl_moe",
     "Qwen3VLMoeForConditionalGeneration",
     "Qwen3-VL, mixture of experts",
     "transformers 5.24 models/qwen3_vl_moe",
     build_parts_family<configure_qwen3_vl_moe>,
     "text_config vision_config tie_word_embeddings"},
    {"qwen3_5",
     "Qwen3_5ForConditionalGeneration",
     "Qwen 3.5, dense",
     "transformers 5.24 models/qwen3_5",
     build_parts_family<configure_qwen3_5_vl>,
     "text_config vision_config tie_word_embeddings"},
    {"qwen3_5_moe",
     "Qwen3_5MoeForConditionalGeneration",
     "Qwen 3.5, mixture of experts",
     "transformers 5.24 models/qwen3_5_moe",
     build_parts_family<configure_qwen3_5_moe_vl>,
     "text_config vision_config tie_word_embeddings",
     kStoredExperts},
    {"glm4v",
     "Glm4vForConditionalGeneration",
     "GLM-4.1V",
     "transformers 5.24 models/glm4v",
     build_parts_family<configure_glm4v>,
     "text_config vision_config tie_word_embeddings"},
    {"glm4v_moe",
     "Glm4vMoeForConditionalGeneration",
     "GLM-4.5V",
     "transformers 5.24 models/glm4v_moe",
     build_parts_family<configure_glm4v_moe>,
     "text_config vision_config tie_word_embeddings=false",
     kStoredExperts},
    {"llama4",
     "Llama4ForConditionalGeneration",
     "Llama 4 Scout, Maverick",
     "transformers 5.24 models/llama4",
     build_parts_family<configure_llama4_vl>,
     "text_config vision_config tie_word_embeddings"},
    {"internvl_chat",
     "InternVLChatModel",
     "InternVL 1.5 to 2.5 with the code beside their weights",
     "modeling_internvl_chat.py beside the weights of OpenGVLab/InternVL2-8B",
     build_parts_family<configure_internvl_chat>,
     "llm_config vision_config tie_word_embeddings downsample_ratio=0.5"},
    {"llava",
     "LlavaForConditionalGeneration",
     "LLaVA 1.5",
     "transformers 5.24 models/llava",
     build_parts_family<configure_llava>,
     "text_config vision_config tie_word_embeddings multimodal_projector_bias=true "
     "projector_hidden_act=gelu vision_feature_layer=-2 vision_feature_select_strategy=default",
     kStoredLlava},
    {"llava_next",
     "LlavaNextForConditionalGeneration",
     "LLaVA-NeXT (1.6)",
     "transformers 5.24 models/llava_next",
     build_parts_family<configure_llava_next>,
     "text_config vision_config tie_word_embeddings=false multimodal_projector_bias=true vision_feature_layer=-2 "
     "projector_hidden_act=gelu vision_feature_select_strategy=default image_grid_pinpoints",
     kStoredLlava},
    {"mistral3",
     "Mistral3ForConditionalGeneration",
     "Mistral Small 3.1 and 3.2",
     "transformers 5.24 models/mistral3",
     build_parts_family<configure_mistral3>,
     "text_config vision_config tie_word_embeddings multimodal_projector_bias=false "
     "vision_feature_layer=-1 spatial_merge_size=2 projector_hidden_act=gelu",
     kStoredMistral3},
    {"internvl",
     "InternVLForConditionalGeneration",
     "InternVL 3 and 3.5 with the class of transformers",
     "transformers 5.24 models/internvl",
     build_parts_family<configure_internvl>,
     "text_config vision_config tie_word_embeddings downsample_ratio=0.5 projector_hidden_act=gelu "
     "vision_feature_layer=-1 vision_feature_select_strategy=default",
     kStoredInternvl},
    {"mllama",
     "MllamaForConditionalGeneration",
     "Llama 3.2 Vision",
     "transformers 5.24 models/mllama",
     build_parts_family<configure_mllama>,
     "text_config vision_config",
     kStoredMllama},
    {"paligemma",
     "PaliGemmaForConditionalGeneration",
     "PaliGemma 1 and 2",
     "transformers 5.24 models/paligemma",
     build_parts_family<configure_paligemma>,
     "text_config vision_config tie_word_embeddings=true projection_dim=2048",
     kStoredPaligemma},
    {"gemma4",
     "Gemma4ForConditionalGeneration",
     "Gemma 4 with images and sound",
     "transformers 5.24 models/gemma4",
     build_parts_family<configure_gemma4>,
     "text_config vision_config audio_config tie_word_embeddings vision_soft_tokens_per_image=280"},
    {"kimi_k25",
     "Kimi_K25ForConditionalGeneration KimiK25ForConditionalGeneration",
     "Kimi K2.5, K2.6",
     "transformers 5.24 models/kimi_k25",
     build_parts_family<configure_kimi_k25>,
     "text_config vision_config tie_word_embeddings=true projection_hidden_size=1152",
     kStoredKimiK25},
    {"step3p7",
     "Step3p7ForConditionalGeneration",
     "Step 3.7",
     "transformers 5.24 models/step3p7, without the layers that predict further tokens",
     build_parts_family<configure_step3p7>,
     "text_config vision_config tie_word_embeddings=false projector_bias=false",
     kStoredStep3p7},
    {"minimax_m3_vl",
     "MiniMaxM3SparseForConditionalGeneration",
     "MiniMax-M3",
     "transformers 5.24 models/minimax_m3_vl, without the layers that predict further tokens",
     build_parts_family<configure_minimax_m3_vl>,
     "text_config vision_config tie_word_embeddings projector_hidden_size=6144",
     kStoredMinimaxM3Vl},
    {"bert",
     "BertForMaskedLM BertModel BertForPreTraining BertForSequenceClassification BertForTokenClassification "
     "BertForQuestionAnswering BertForNextSentencePrediction",
     "BERT and the embedding models of its class (BGE, E5, GTE, Arctic Embed, ...)",
     "transformers 5.24 models/bert",
     build_encoder_family<configure_bert>,
     "vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 "
     "intermediate_size=3072 hidden_act=gelu max_position_embeddings=512 type_vocab_size=2 "
     "tie_word_embeddings=true hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 "
     "is_decoder=false add_cross_attention=false"},
    {"roberta",
     "RobertaForMaskedLM RobertaModel RobertaForSequenceClassification RobertaForTokenClassification "
     "RobertaForQuestionAnswering",
     "RoBERTa",
     "transformers 5.24 models/roberta",
     build_encoder_family<configure_roberta>,
     "vocab_size=50265 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 "
     "intermediate_size=3072 hidden_act=gelu max_position_embeddings=512 type_vocab_size=2 "
     "tie_word_embeddings=true hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 "
     "is_decoder=false add_cross_attention=false"},
    {"xlm-roberta",
     "XLMRobertaForMaskedLM XLMRobertaModel XLMRobertaForSequenceClassification "
     "XLMRobertaForTokenClassification XLMRobertaForQuestionAnswering",
     "XLM-RoBERTa, BGE-M3, multilingual E5",
     "transformers 5.24 models/xlm_roberta",
     build_encoder_family<configure_roberta>,
     "vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 "
     "intermediate_size=3072 hidden_act=gelu max_position_embeddings=512 type_vocab_size=2 "
     "tie_word_embeddings=true hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 "
     "is_decoder=false add_cross_attention=false"},
    {"camembert",
     "CamembertForMaskedLM CamembertModel CamembertForSequenceClassification CamembertForTokenClassification "
     "CamembertForQuestionAnswering",
     "CamemBERT",
     "transformers 5.24 models/camembert",
     build_encoder_family<configure_roberta>,
     "vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 "
     "intermediate_size=3072 hidden_act=gelu max_position_embeddings=512 type_vocab_size=2 "
     "tie_word_embeddings=true hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 "
     "is_decoder=false add_cross_attention=false"},
    {"electra",
     "ElectraForPreTraining ElectraForMaskedLM ElectraModel ElectraForSequenceClassification "
     "ElectraForTokenClassification ElectraForQuestionAnswering",
     "ELECTRA",
     "transformers 5.24 models/electra",
     build_encoder_family<configure_electra>,
     "vocab_size=30522 hidden_size=256 embedding_size=128 num_hidden_layers=12 "
     "num_attention_heads=4 intermediate_size=1024 hidden_act=gelu max_position_embeddings=512 "
     "type_vocab_size=2 tie_word_embeddings=true hidden_dropout_prob=0.1 "
     "attention_probs_dropout_prob=0.1 is_decoder=false add_cross_attention=false"},
    {"distilbert",
     "DistilBertForMaskedLM DistilBertModel DistilBertForSequenceClassification DistilBertForTokenClassification "
     "DistilBertForQuestionAnswering",
     "DistilBERT",
     "transformers 5.24 models/distilbert",
     build_encoder_family<configure_distilbert>,
     "vocab_size=30522 max_position_embeddings=512 num_hidden_layers|n_layers=6 "
     "num_attention_heads|n_heads=12 hidden_size|dim=768 hidden_dim=3072 activation=gelu "
     "tie_word_embeddings=true dropout=0.1 attention_dropout=0.1 qa_dropout=0.1 "
     "seq_classif_dropout=0.2"},
    {"albert",
     "AlbertForMaskedLM AlbertModel AlbertForPreTraining AlbertForSequenceClassification "
     "AlbertForTokenClassification AlbertForQuestionAnswering",
     "ALBERT",
     "transformers 5.24 models/albert",
     build_encoder_family<configure_albert>,
     "vocab_size=30000 embedding_size=128 hidden_size=4096 num_hidden_layers=12 "
     "num_hidden_groups=1 num_attention_heads=64 intermediate_size=16384 inner_group_num=1 "
     "max_position_embeddings=512 type_vocab_size=2 hidden_act=gelu_new hidden_dropout_prob=0 "
     "attention_probs_dropout_prob=0 is_decoder=false add_cross_attention=false tie_word_embeddings=true"},
    {"mpnet",
     "MPNetForMaskedLM MPNetModel MPNetForSequenceClassification MPNetForTokenClassification MPNetForQuestionAnswering",
     "MPNet and its sentence encoders",
     "transformers 5.24 models/mpnet",
     build_encoder_family<configure_mpnet>,
     "vocab_size=30527 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 "
     "intermediate_size=3072 max_position_embeddings=512 relative_attention_num_buckets=32 hidden_act=gelu "
     "hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 tie_word_embeddings=true"},
    {"ernie",
     "ErnieForMaskedLM ErnieModel ErnieForSequenceClassification ErnieForTokenClassification "
     "ErnieForQuestionAnswering ErnieForPreTraining ErnieForNextSentencePrediction",
     "ERNIE 1 to 3",
     "transformers 5.24 models/ernie",
     build_encoder_family<configure_ernie>,
     "vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072 "
     "hidden_act=gelu max_position_embeddings=512 type_vocab_size=2 tie_word_embeddings=true "
     "hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 is_decoder=false add_cross_attention=false "
     "use_task_id=false task_type_vocab_size=3"},
    {"roformer",
     "RoFormerForMaskedLM RoFormerModel RoFormerForSequenceClassification RoFormerForTokenClassification "
     "RoFormerForQuestionAnswering",
     "RoFormer",
     "transformers 5.24 models/roformer",
     build_encoder_family<configure_roformer>,
     "vocab_size=50000 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072 "
     "hidden_act=gelu max_position_embeddings=1536 type_vocab_size=2 tie_word_embeddings=true "
     "hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 is_decoder=false add_cross_attention=false "
     "embedding_size"},
    {"rembert",
     "RemBertForMaskedLM RemBertModel RemBertForSequenceClassification RemBertForTokenClassification "
     "RemBertForQuestionAnswering",
     "RemBERT",
     "transformers 5.24 models/rembert",
     build_encoder_family<configure_rembert>,
     "vocab_size=250300 hidden_size=1152 num_hidden_layers=32 num_attention_heads=18 intermediate_size=4608 "
     "hidden_act=gelu max_position_embeddings=512 type_vocab_size=2 tie_word_embeddings=false "
     "hidden_dropout_prob=0.0 attention_probs_dropout_prob=0.0 is_decoder=false add_cross_attention=false "
     "input_embedding_size=256 output_embedding_size=1664"},
    {"deberta-v2",
     "DebertaV2ForMaskedLM DebertaV2Model DebertaV2ForSequenceClassification DebertaV2ForTokenClassification "
     "DebertaV2ForQuestionAnswering",
     "DeBERTa v2 and v3",
     "transformers 5.24 models/deberta_v2",
     build_encoder_family<configure_deberta_v2>,
     "vocab_size=128100 hidden_size=1536 embedding_size num_hidden_layers=24 "
     "num_attention_heads=24 intermediate_size=6144 max_position_embeddings=512 "
     "type_vocab_size=0 relative_attention=false max_relative_positions=-1 position_buckets=-1 "
     "position_biased_input=true pos_att_type norm_rel_ebd=none share_att_key=false "
     "conv_kernel_size=0 conv_groups=1 conv_act=tanh hidden_act=gelu hidden_dropout_prob=0.1 "
     "attention_probs_dropout_prob=0.1 tie_word_embeddings=true"},
    {"deberta",
     "DebertaForMaskedLM DebertaModel DebertaForSequenceClassification DebertaForTokenClassification "
     "DebertaForQuestionAnswering",
     "DeBERTa v1",
     "transformers 5.24 models/deberta",
     build_encoder_family<configure_deberta>,
     "vocab_size=50265 hidden_size=768 embedding_size num_hidden_layers=12 "
     "num_attention_heads=12 intermediate_size=3072 max_position_embeddings=512 "
     "type_vocab_size=0 relative_attention=false max_relative_positions=-1 talking_head=false "
     "position_biased_input=true pos_att_type hidden_act=gelu hidden_dropout_prob=0.1 "
     "attention_probs_dropout_prob=0.1 tie_word_embeddings=true legacy=true"},
    {"modernbert",
     "ModernBertForMaskedLM ModernBertModel ModernBertForSequenceClassification ModernBertForTokenClassification "
     "ModernBertForQuestionAnswering",
     "ModernBERT",
     "transformers 5.24 models/modernbert",
     build_modernbert,
     "vocab_size=50368 hidden_size=768 intermediate_size=1152 num_hidden_layers=22 "
     "num_attention_heads=12 norm_bias=false attention_bias=false mlp_bias=false "
     "decoder_bias=true classifier_bias=false tie_word_embeddings=true local_attention=128 "
     "layer_types global_attn_every_n_layers=3 hidden_activation=gelu classifier_activation=gelu "
     "embedding_dropout=0.0 attention_dropout=0.0 mlp_dropout=0.0 classifier_dropout=0.0 "
     "classifier_pooling=cls sparse_prediction=false max_position_embeddings=8192"},
    {"t5",
     "T5ForConditionalGeneration T5Model T5EncoderModel",
     "T5, Flan-T5, T5 v1.1",
     "transformers 5.24 models/t5",
     build_parts_family<configure_t5>,
     "vocab_size=32128 d_model=512 d_kv=64 d_ff=2048 num_layers=6 num_decoder_layers "
     "num_heads=8 relative_attention_num_buckets=32 feed_forward_proj=relu is_gated_act=false "
     "dropout_rate=0.1 scale_decoder_outputs tie_word_embeddings=true"},
    {"mt5",
     "MT5ForConditionalGeneration MT5Model MT5EncoderModel",
     "mT5",
     "transformers 5.24 models/mt5",
     build_parts_family<configure_t5>,
     "vocab_size=250112 d_model=512 d_kv=64 d_ff=1024 num_layers=8 num_decoder_layers "
     "num_heads=6 relative_attention_num_buckets=32 feed_forward_proj=gated-gelu "
     "is_gated_act=false dropout_rate=0.1 scale_decoder_outputs tie_word_embeddings=false"},
    {"umt5",
     "UMT5ForConditionalGeneration UMT5Model UMT5EncoderModel",
     "UMT5",
     "transformers 5.24 models/umt5",
     build_parts_family<configure_umt5>,
     "vocab_size=250112 d_model=512 d_kv=64 d_ff=1024 num_layers=8 num_decoder_layers "
     "num_heads=6 relative_attention_num_buckets=32 feed_forward_proj=gated-gelu "
     "is_gated_act=false dropout_rate=0.1 scale_decoder_outputs tie_word_embeddings=true"},
    {"bart",
     "BartForConditionalGeneration BartModel",
     "BART",
     "transformers 5.24 models/bart",
     build_parts_family<configure_bart>,
     "vocab_size=50265 max_position_embeddings=1024 encoder_layers=12 encoder_ffn_dim=4096 "
     "encoder_attention_heads=16 decoder_layers=12 decoder_ffn_dim=4096 "
     "decoder_attention_heads=16 d_model=1024 dropout=0.1 attention_dropout=0.0 "
     "encoder_layerdrop=0.0 decoder_layerdrop=0.0 "
     "activation_dropout=0.0 activation_function=gelu tie_word_embeddings=true"},
    {"mbart",
     "MBartForConditionalGeneration MBartModel",
     "mBART",
     "transformers 5.24 models/mbart",
     build_parts_family<configure_mbart>,
     "vocab_size=50265 max_position_embeddings=1024 encoder_layers=12 encoder_ffn_dim=4096 "
     "encoder_attention_heads=16 decoder_layers=12 decoder_ffn_dim=4096 "
     "decoder_attention_heads=16 d_model=1024 dropout=0.1 attention_dropout=0.0 "
     "encoder_layerdrop=0.0 decoder_layerdrop=0.0 "
     "activation_dropout=0.0 activation_function=gelu tie_word_embeddings=true"},
    {"pegasus",
     "PegasusForConditionalGeneration PegasusModel",
     "PEGASUS",
     "transformers 5.24 models/pegasus",
     build_parts_family<configure_pegasus>,
     "vocab_size=50265 max_position_embeddings=1024 encoder_layers=12 encoder_ffn_dim=4096 "
     "encoder_attention_heads=16 decoder_layers=12 decoder_ffn_dim=4096 "
     "decoder_attention_heads=16 d_model=1024 dropout=0.1 attention_dropout=0.0 "
     "encoder_layerdrop=0.0 decoder_layerdrop=0.0 "
     "activation_dropout=0.0 activation_function=gelu tie_word_embeddings=true"},
    {"m2m_100",
     "M2M100ForConditionalGeneration M2M100Model",
     "M2M-100, NLLB",
     "transformers 5.24 models/m2m_100",
     build_parts_family<configure_m2m_100>,
     "vocab_size=128112 max_position_embeddings=1024 encoder_layers=12 encoder_ffn_dim=4096 "
     "encoder_attention_heads=16 decoder_layers=12 decoder_ffn_dim=4096 "
     "decoder_attention_heads=16 d_model=1024 dropout=0.1 attention_dropout=0.1 "
     "encoder_layerdrop=0.05 decoder_layerdrop=0.05 "
     "activation_dropout=0.0 activation_function=relu tie_word_embeddings=true"},
    {"marian",
     "MarianMTModel MarianModel",
     "Marian, OPUS-MT",
     "transformers 5.24 models/marian",
     build_parts_family<configure_marian>,
     "vocab_size=58101 decoder_vocab_size max_position_embeddings=1024 encoder_layers=12 "
     "encoder_ffn_dim=4096 encoder_attention_heads=16 decoder_layers=12 decoder_ffn_dim=4096 "
     "decoder_attention_heads=16 d_model=1024 dropout=0.1 attention_dropout=0.0 "
     "encoder_layerdrop=0.0 decoder_layerdrop=0.0 "
     "activation_dropout=0.0 activation_function=gelu share_encoder_decoder_embeddings=true "
     "tie_word_embeddings=true"},
    {"whisper",
     "WhisperForConditionalGeneration",
     "Whisper",
     "transformers 5.24 models/whisper",
     build_parts_family<configure_whisper>,
     "vocab_size=51865 num_mel_bins=80 encoder_layers=4 decoder_layers=4 "
     "encoder_attention_heads=6 decoder_attention_heads=6 decoder_ffn_dim=1536 "
     "encoder_ffn_dim=1536 d_model=384 max_source_positions=1500 max_target_positions=448 "
     "dropout=0.0 attention_dropout=0.0 activation_dropout=0.0 "
     "encoder_layerdrop=0.0 decoder_layerdrop=0.0 activation_function=gelu "
     "tie_word_embeddings=true"},
    {"plbart",
     "PLBartForConditionalGeneration PLBartModel",
     "PLBART",
     "transformers 5.24 models/plbart",
     build_parts_family<configure_plbart>,
     "vocab_size=50005 max_position_embeddings=1024 encoder_layers=6 encoder_ffn_dim=3072 "
     "encoder_attention_heads=12 decoder_layers=6 decoder_ffn_dim=3072 decoder_attention_heads=12 d_model=768 "
     "dropout=0.1 attention_dropout=0.1 activation_dropout=0.0 "
     "encoder_layerdrop=0.0 decoder_layerdrop=0.0 activation_function=gelu "
     "tie_word_embeddings=true"},
    {"blenderbot",
     "BlenderbotForConditionalGeneration BlenderbotModel",
     "BlenderBot",
     "transformers 5.24 models/blenderbot",
     build_parts_family<configure_blenderbot>,
     "vocab_size=8008 max_position_embeddings=128 encoder_layers=2 encoder_ffn_dim=10240 "
     "encoder_attention_heads=32 decoder_layers=24 decoder_ffn_dim=10240 decoder_attention_heads=32 "
     "d_model=2560 dropout=0.1 attention_dropout=0.0 activation_dropout=0.0 "
     "encoder_layerdrop=0.0 decoder_layerdrop=0.0 activation_function=gelu "
     "tie_word_embeddings=true"},
    {"blenderbot-small",
     "BlenderbotSmallForConditionalGeneration BlenderbotSmallModel",
     "BlenderBot, small",
     "transformers 5.24 models/blenderbot_small",
     build_parts_family<configure_blenderbot_small>,
     "vocab_size=50265 max_position_embeddings=512 encoder_layers=8 encoder_ffn_dim=2048 "
     "encoder_attention_heads=16 decoder_layers=8 decoder_ffn_dim=2048 decoder_attention_heads=16 d_model=512 "
     "dropout=0.1 attention_dropout=0.0 activation_dropout=0.0 "
     "encoder_layerdrop=0.0 decoder_layerdrop=0.0 activation_function=gelu "
     "tie_word_embeddings=true"},
    {"wav2vec2",
     "Wav2Vec2ForCTC Wav2Vec2Model Wav2Vec2ForSequenceClassification",
     "wav2vec 2.0",
     "transformers 5.24 models/wav2vec2",
     build_parts_family<configure_wav2vec2>,
     "vocab_size=32 hidden_size=768 num_hidden_layers=12 intermediate_size=3072 feat_extract_norm=group "
     "conv_dim=[512,512,512,512,512,512,512] conv_kernel=[10,3,3,3,3,2,2] conv_bias=false "
     "num_conv_pos_embeddings=128 num_conv_pos_embedding_groups=16 mask_time_prob=0.05 mask_feature_prob=0.0 "
     "classifier_proj_size=256 use_weighted_layer_sum=false do_stable_layer_norm=false adapter_attn_dim "
     "add_adapter=false"},
    {"hubert",
     "HubertForCTC HubertModel HubertForSequenceClassification",
     "HuBERT",
     "transformers 5.24 models/hubert",
     build_parts_family<configure_hubert>,
     "vocab_size=32 hidden_size=768 num_hidden_layers=12 intermediate_size=3072 feat_extract_norm=group "
     "conv_dim=[512,512,512,512,512,512,512] conv_kernel=[10,3,3,3,3,2,2] conv_bias=false "
     "num_conv_pos_embeddings=128 num_conv_pos_embedding_groups=16 mask_time_prob=0.05 mask_feature_prob=0.0 "
     "classifier_proj_size=256 use_weighted_layer_sum=false feat_proj_layer_norm=true "
     "conv_pos_batch_norm=false"},
    {"vit",
     "ViTForImageClassification ViTModel",
     "ViT",
     "transformers 5.24 models/vit",
     build_vit_family<configure_vit>,
     "hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072 "
     "image_size=224 patch_size=16 num_channels=3 qkv_bias=true pooler_output_size pooler_act=tanh "
     "hidden_act=gelu hidden_dropout_prob=0.0 attention_probs_dropout_prob=0.0",
     kStoredVit},
    {"deit",
     "DeiTForImageClassification DeiTForImageClassificationWithTeacher DeiTModel",
     "DeiT",
     "transformers 5.24 models/deit",
     build_vit_family<configure_deit>,
     "hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072 "
     "image_size=224 patch_size=16 num_channels=3 qkv_bias=true pooler_output_size pooler_act=tanh "
     "hidden_act=gelu hidden_dropout_prob=0.0 attention_probs_dropout_prob=0.0",
     kStoredVit},
    {"dinov2",
     "Dinov2Model Dinov2ForImageClassification",
     "DINOv2",
     "transformers 5.24 models/dinov2",
     build_vit_family<configure_dinov2>,
     "hidden_size=768 num_hidden_layers=12 num_attention_heads=12 mlp_ratio=4 image_size=224 "
     "patch_size=14 num_channels=3 qkv_bias=true use_swiglu_ffn=false use_mask_token=true "
     "hidden_act=gelu hidden_dropout_prob=0.0 attention_probs_dropout_prob=0.0 drop_path_rate=0.0",
     kStoredDinov2},
    {"dinov2_with_registers",
     "Dinov2WithRegistersModel Dinov2WithRegistersForImageClassification",
     "DINOv2 with registers",
     "transformers 5.24 models/dinov2_with_registers",
     build_vit_family<configure_dinov2_with_registers>,
     "hidden_size=768 num_hidden_layers=12 num_attention_heads=12 mlp_ratio=4 image_size=224 "
     "patch_size=16 num_channels=3 qkv_bias=true use_swiglu_ffn=false num_register_tokens=4 "
     "hidden_act=gelu hidden_dropout_prob=0.0 attention_probs_dropout_prob=0.0 drop_path_rate=0.0",
     kStoredDinov2},
    {"swin",
     "SwinForImageClassification SwinModel",
     "Swin",
     "transformers 5.24 models/swin",
     build_parts_family<configure_swin>,
     "patch_size=4 num_channels=3 embed_dim=96 depths=[2,2,6,2] num_heads=[3,6,12,24] "
     "window_size=7 mlp_ratio=4.0 qkv_bias=true use_absolute_embeddings=false image_size=224 hidden_act=gelu "
     "hidden_dropout_prob=0.0 attention_probs_dropout_prob=0.0 drop_path_rate=0.1",
     kStoredSwin},
    {"swinv2",
     "Swinv2ForImageClassification Swinv2Model",
     "Swin v2",
     "transformers 5.24 models/swinv2",
     build_parts_family<configure_swinv2>,
     "image_size=224 patch_size=4 num_channels=3 embed_dim=96 depths=[2,2,6,2] num_heads=[3,6,12,24] "
     "window_size=7 mlp_ratio=4.0 qkv_bias=true use_absolute_embeddings=false hidden_act=gelu "
     "hidden_dropout_prob=0.0 attention_probs_dropout_prob=0.0 drop_path_rate=0.1"},
    {"convnext",
     "ConvNextForImageClassification ConvNextModel",
     "ConvNeXt",
     "transformers 5.24 models/convnext",
     build_parts_family<configure_convnext>,
     "num_channels=3 patch_size=4 image_size=224 hidden_sizes=[96,192,384,768] depths=[3,3,9,3] "
     "layer_scale_init_value=1e-06 hidden_act=gelu drop_path_rate=0.0"},
    {"convnextv2",
     "ConvNextV2ForImageClassification ConvNextV2Model",
     "ConvNeXt V2",
     "transformers 5.24 models/convnextv2",
     build_parts_family<configure_convnextv2>,
     "num_channels=3 patch_size=4 hidden_sizes=[96,192,384,768] depths=[3,3,9,3]"},
    {"dinov3_vit",
     "DINOv3ViTModel",
     "DINOv3",
     "transformers 5.24 models/dinov3_vit",
     build_vit_family<configure_dinov3_vit>,
     "patch_size=16 image_size=224 hidden_size=384 intermediate_size=1536 num_hidden_layers=12 "
     "num_attention_heads=6 num_channels=3 hidden_act=gelu attention_dropout=0.0 drop_path_rate=0.0 query_bias=true "
     "key_bias=false value_bias=true proj_bias=true mlp_bias=true use_gated_mlp=false num_register_tokens=0",
     "^model.layer.=layer."},
    {"resnet",
     "ResNetForImageClassification ResNetModel",
     "ResNet",
     "transformers 5.24 models/resnet",
     build_parts_family<configure_resnet>,
     "num_channels=3 embedding_size=64 hidden_sizes=[256,512,1024,2048] depths=[3,4,6,3] "
     "layer_type=bottleneck downsample_in_first_stage=false"},
    {"clip_text_model",
     "CLIPTextModel CLIPTextModelWithProjection",
     "CLIP's text encoder, as Stable Diffusion has it",
     "transformers 5.24 models/clip",
     build_parts_family<configure_clip_text>,
     "vocab_size=49408 hidden_size=512 intermediate_size=2048 projection_dim=512 "
     "num_hidden_layers=12 num_attention_heads=8 max_position_embeddings=77 hidden_act=quick_gelu "
     "attention_dropout=0.0 eos_token_id=49407",
     "^embeddings.=text_model.embeddings. ^encoder.=text_model.encoder. "
     "^final_layer_norm.=text_model.final_layer_norm."},
    {"clip",
     "CLIPModel",
     "CLIP",
     "transformers 5.24 models/clip",
     build_parts_family<configure_clip>,
     "text_config vision_config projection_dim=512"},
    {"siglip",
     "SiglipModel",
     "SigLIP",
     "transformers 5.24 models/siglip",
     build_parts_family<configure_siglip>,
     "text_config vision_config"},
    {"siglip2",
     "Siglip2Model",
     "SigLIP 2 for images of any shape",
     "transformers 5.24 models/siglip2",
     build_parts_family<configure_siglip2>,
     "text_config vision_config"},
    {"clip_vision_model",
     "CLIPVisionModel CLIPVisionModelWithProjection",
     "CLIP's image encoder",
     "transformers 5.24 models/clip",
     build_parts_family<configure_clip_vision>,
     vision_keys::clip,
     kStoredTower},
    {"siglip_vision_model",
     "SiglipVisionModel",
     "SigLIP's image encoder",
     "transformers 5.24 models/siglip",
     build_parts_family<configure_siglip_vision>,
     vision_keys::siglip,
     kStoredTower},
    {"siglip2_vision_model",
     "Siglip2VisionModel",
     "SigLIP 2's image encoder",
     "transformers 5.24 models/siglip2",
     build_parts_family<configure_siglip_vision>,
     vision_keys::siglip2,
     kStoredTower},
    {"blip",
     "BlipForConditionalGeneration",
     "BLIP, captioning",
     "transformers 5.24 models/blip",
     build_parts_family<configure_blip>,
     "text_config vision_config"},
    {"UNet2DConditionModel",
     "UNet2DConditionModel",
     "the UNet of Stable Diffusion 1, 2 and XL",
     "diffusers 0.42.1 models/unets/unet_2d_condition.py",
     build_parts_family<configure_unet>,
     "in_channels=4 block_out_channels=[320,640,1280,1280] layers_per_block=2 "
     "cross_attention_dim=1280 transformer_layers_per_block=1 use_linear_projection=false "
     "class_embed_type encoder_hid_dim encoder_hid_dim_type num_class_embeds "
     "time_cond_proj_dim addition_embed_type projection_class_embeddings_input_dim "
     "down_block_types=[CrossAttnDownBlock2D,CrossAttnDownBlock2D,CrossAttnDownBlock2D,DownBlock2D] "
     "out_channels=4 "
     "up_block_types=[UpBlock2D,CrossAttnUpBlock2D,CrossAttnUpBlock2D,CrossAttnUpBlock2D]"},
    {"ControlNetModel",
     "ControlNetModel",
     "ControlNet for Stable Diffusion",
     "diffusers 0.42.1 models/controlnets/controlnet.py",
     build_parts_family<configure_controlnet>,
     "in_channels=4 block_out_channels=[320,640,1280,1280] layers_per_block=2 "
     "cross_attention_dim=1280 transformer_layers_per_block=1 use_linear_projection=false "
     "class_embed_type encoder_hid_dim encoder_hid_dim_type num_class_embeds "
     "time_cond_proj_dim addition_embed_type projection_class_embeddings_input_dim "
     "down_block_types=[CrossAttnDownBlock2D,CrossAttnDownBlock2D,CrossAttnDownBlock2D,DownBlock2D] "
     "conditioning_channels=3 conditioning_embedding_out_channels=[16,32,96,256]"},
    {"AutoencoderKL",
     "AutoencoderKL",
     "the autoencoder of Stable Diffusion and FLUX",
     "diffusers 0.42.1 models/autoencoders/autoencoder_kl.py",
     build_parts_family<configure_autoencoder_kl>,
     "in_channels=3 out_channels=3 down_block_types=[DownEncoderBlock2D] "
     "up_block_types=[UpDecoderBlock2D] block_out_channels=[64] layers_per_block=1 "
     "latent_channels=4 use_quant_conv=true use_post_quant_conv=true "
     "mid_block_add_attention=true"},
    {"FluxTransformer2DModel",
     "FluxTransformer2DModel",
     "FLUX.1",
     "diffusers 0.42.1 models/transformers/transformer_flux.py",
     build_parts_family<configure_flux>,
     "patch_size=1 in_channels=64 out_channels num_layers=19 num_single_layers=38 "
     "attention_head_dim=128 num_attention_heads=24 joint_attention_dim=4096 "
     "pooled_projection_dim=768 guidance_embeds=false"},
    {"ChromaTransformer2DModel",
     "ChromaTransformer2DModel",
     "Chroma",
     "diffusers 0.42.1 models/transformers/transformer_chroma.py",
     build_parts_family<configure_chroma>,
     "patch_size=1 in_channels=64 out_channels num_layers=19 num_single_layers=38 "
     "attention_head_dim=128 num_attention_heads=24 joint_attention_dim=4096 "
     "approximator_num_channels=64 approximator_hidden_dim=5120 approximator_layers=5"},
    {"SD3Transformer2DModel",
     "SD3Transformer2DModel",
     "Stable Diffusion 3 and 3.5",
     "diffusers 0.42.1 models/transformers/transformer_sd3.py",
     build_parts_family<configure_sd3>,
     "patch_size=2 in_channels=16 out_channels=16 num_layers=18 attention_head_dim=64 "
     "num_attention_heads=18 joint_attention_dim=4096 caption_projection_dim=1152 "
     "pooled_projection_dim=2048 dual_attention_layers qk_norm"},
    {"HunyuanDiT2DModel",
     "HunyuanDiT2DModel",
     "HunyuanDiT",
     "diffusers 0.42.1 models/transformers/hunyuan_transformer_2d.py",
     build_parts_family<configure_hunyuan_dit>,
     "num_attention_heads=16 attention_head_dim=88 in_channels patch_size num_layers=1 "
     "mlp_ratio=4.0 learn_sigma=true cross_attention_dim=1024 cross_attention_dim_t5=2048 "
     "pooled_projection_dim=1024 text_len=77 text_len_t5=256 "
     "use_style_cond_and_image_meta_size=true"},
};
static_assert(names_are_unique(kFamilies));

}  // namespace

Table<Family> families() { return Table<Family>(kFamilies); }

}  // namespace membudget
