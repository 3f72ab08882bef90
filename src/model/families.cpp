/// The model families: one row each. A row names the classes that it builds, the function that reads
/// their config, and the keys of the configuration class with its defaults.
///
/// Structure and defaults were read in Hugging Face transformers 5.24 (modeling_NAME.py and
/// configuration_NAME.py of the model type) unless a row says otherwise.

#include "membudget/model.hpp"
#include "model/decoder.hpp"
#include "model/encoder.hpp"
#include "model/gpt_like.hpp"
#include "model/llama_like.hpp"

namespace membudget {
namespace {

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
     "max_window_layers=28 layer_types attention_dropout=0.0"},
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
     "rope_parameters hidden_dropout=0.0 attention_dropout=0.0"},
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
     "expansion_ratio=4 vocab_size=50368 tie_word_embeddings=true"},
    {"falcon",
     "FalconForCausalLM FalconModel FalconForSequenceClassification",
     "Falcon 7B, 40B, 180B",
     "transformers 5.24 models/falcon",
     build_decoder_family<configure_falcon>,
     "vocab_size=65024 hidden_size|n_embed=4544 num_hidden_layers=32 num_attention_heads=71 "
     "num_kv_heads num_ln_in_parallel_attn alibi=false new_decoder_architecture=false "
     "multi_query=true parallel_attn=true bias=false ffn_hidden_size activation=gelu "
     "tie_word_embeddings=true attention_dropout=0.0"},
    {"RefinedWeb",
     "RWForCausalLM RWModel",
     "Falcon 40B as first published",
     "modelling_RW.py beside the weights of tiiuae/falcon-40b",
     build_decoder_family<configure_falcon>,
     "vocab_size=65024 hidden_size|n_embed=4544 num_hidden_layers|n_layer=32 "
     "num_attention_heads|n_head=71 num_kv_heads|n_head_kv num_ln_in_parallel_attn alibi=false "
     "new_decoder_architecture=true multi_query=true parallel_attn=true bias=false "
     "ffn_hidden_size activation=gelu tie_word_embeddings=true attention_dropout=0.0"},
    {"RefinedWebModel",
     "RWForCausalLM RWModel",
     "Falcon 7B as first published",
     "modelling_RW.py beside the weights of tiiuae/falcon-7b",
     build_decoder_family<configure_falcon>,
     "vocab_size=65024 hidden_size|n_embed=4544 num_hidden_layers|n_layer=32 "
     "num_attention_heads|n_head=71 num_kv_heads|n_head_kv num_ln_in_parallel_attn alibi=false "
     "new_decoder_architecture=false multi_query=true parallel_attn=true bias=false "
     "ffn_hidden_size activation=gelu tie_word_embeddings=true attention_dropout=0.0"},
    {"starcoder2",
     "Starcoder2ForCausalLM Starcoder2Model Starcoder2ForSequenceClassification",
     "StarCoder 2",
     "transformers 5.24 models/starcoder2",
     build_decoder_family<configure_starcoder2>,
     "vocab_size=49152 hidden_size=3072 intermediate_size=12288 num_hidden_layers=30 "
     "num_attention_heads=24 num_key_value_heads=2 head_dim hidden_act=gelu_pytorch_tanh "
     "tie_word_embeddings=true use_bias=true sliding_window attention_dropout=0.0 "
     "residual_dropout=0.0 embedding_dropout=0.0"},
    {"bert",
     "BertForMaskedLM BertModel BertForPreTraining BertForSequenceClassification",
     "BERT and the embedding models of its class (BGE, E5, GTE, Arctic Embed, ...)",
     "transformers 5.24 models/bert",
     build_encoder_family<configure_bert>,
     "vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 "
     "intermediate_size=3072 hidden_act=gelu max_position_embeddings=512 type_vocab_size=2 "
     "tie_word_embeddings=true hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 "
     "is_decoder=false add_cross_attention=false"},
    {"roberta",
     "RobertaForMaskedLM RobertaModel RobertaForSequenceClassification",
     "RoBERTa",
     "transformers 5.24 models/roberta",
     build_encoder_family<configure_roberta>,
     "vocab_size=50265 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 "
     "intermediate_size=3072 hidden_act=gelu max_position_embeddings=512 type_vocab_size=2 "
     "tie_word_embeddings=true hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 "
     "is_decoder=false add_cross_attention=false"},
    {"xlm-roberta",
     "XLMRobertaForMaskedLM XLMRobertaModel XLMRobertaForSequenceClassification",
     "XLM-RoBERTa, BGE-M3, multilingual E5",
     "transformers 5.24 models/xlm_roberta",
     build_encoder_family<configure_roberta>,
     "vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 "
     "intermediate_size=3072 hidden_act=gelu max_position_embeddings=512 type_vocab_size=2 "
     "tie_word_embeddings=true hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 "
     "is_decoder=false add_cross_attention=false"},
    {"camembert",
     "CamembertForMaskedLM CamembertModel CamembertForSequenceClassification",
     "CamemBERT",
     "transformers 5.24 models/camembert",
     build_encoder_family<configure_roberta>,
     "vocab_size=30522 hidden_size=768 num_hidden_layers=12 num_attention_heads=12 "
     "intermediate_size=3072 hidden_act=gelu max_position_embeddings=512 type_vocab_size=2 "
     "tie_word_embeddings=true hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1 "
     "is_decoder=false add_cross_attention=false"},
    {"electra",
     "ElectraForPreTraining ElectraForMaskedLM ElectraModel ElectraForSequenceClassification",
     "ELECTRA",
     "transformers 5.24 models/electra",
     build_encoder_family<configure_electra>,
     "vocab_size=30522 hidden_size=256 embedding_size=128 num_hidden_layers=12 "
     "num_attention_heads=4 intermediate_size=1024 hidden_act=gelu max_position_embeddings=512 "
     "type_vocab_size=2 tie_word_embeddings=true hidden_dropout_prob=0.1 "
     "attention_probs_dropout_prob=0.1 is_decoder=false add_cross_attention=false"},
    {"distilbert",
     "DistilBertForMaskedLM DistilBertModel",
     "DistilBERT",
     "transformers 5.24 models/distilbert",
     build_encoder_family<configure_distilbert>,
     "vocab_size=30522 max_position_embeddings=512 num_hidden_layers|n_layers=6 "
     "num_attention_heads|n_heads=12 hidden_size|dim=768 hidden_dim=3072 activation=gelu "
     "tie_word_embeddings=true dropout=0.1 attention_dropout=0.1"},
};
static_assert(names_are_unique(kFamilies));

}  // namespace

Table<Family> families() { return Table<Family>(kFamilies); }

}  // namespace membudget
