/// The model families: one row each. A row names the classes that it builds, the function that reads
/// their config, and the keys of the configuration class with its defaults.
///
/// Structure and defaults were read in Hugging Face transformers 5.24 (modeling_NAME.py and
/// configuration_NAME.py of the model type) unless a row says otherwise.

#include "membudget/model.hpp"
#include "model/decoder.hpp"
#include "model/llama_like.hpp"

namespace membudget {
namespace {

constexpr Family kFamilies[] = {
    {"llama",
     "LlamaForCausalLM LlamaModel LlamaForSequenceClassification LLaMAForCausalLM",
     "Llama 1 to 3.x and everything that uses its class (Yi, TinyLlama, SmolLM, DeepSeek LLM, ...)",
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
     "hidden_activation=gelu_pytorch_tanh tie_word_embeddings=true "
     "attention_bias=false attention_dropout=0.0 sliding_window=4096 layer_types "
     "final_logit_softcapping=30.0 attn_logit_softcapping=50.0"},
};
static_assert(names_are_unique(kFamilies));

}  // namespace

Table<Family> families() { return Table<Family>(kFamilies); }

}  // namespace membudget
