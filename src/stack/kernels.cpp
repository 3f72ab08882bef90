// The kernels table: which implementation computes an op, and with which tensors. A kernel is the
// framework's function written against the tape: the same ops in the same order, names that live as
// long as the framework's locals. Sources: transformers 5 (src/transformers/...), PyTorch 2.13.

#include "stack/kernels.hpp"

#include "membudget/stack.hpp"

namespace membudget {

namespace {

constexpr Kernel kKernels[] = {
    {"torch", OpKind::embedding, "table lookup; its gradient is dense", kernel::embedding,
     "aten/src/ATen/native/Embedding.cpp"},
    {"torch", OpKind::position_embedding, "table lookup of positions", kernel::embedding,
     "aten/src/ATen/native/Embedding.cpp"},
    {"torch", OpKind::scale, "x * number", kernel::scale, "derivatives.yaml: mul.Scalar"},
    {"torch", OpKind::add, "x + y; saves nothing", kernel::add, "derivatives.yaml: add.Tensor"},
    {"torch", OpKind::multiply, "x * y; saves both", kernel::multiply,
     "derivatives.yaml: mul.Tensor"},
    {"torch", OpKind::layer_norm, "one kernel: saves input, mean and reciprocal deviation",
     kernel::layer_norm, "derivatives.yaml: native_layer_norm"},
    {"hf", OpKind::rms_norm, "as Hugging Face writes it: fp32 copy, square, mean, products",
     kernel::hf_rms_norm, "transformers models/llama/modeling_llama.py LlamaRMSNorm.forward"},
    {"litgpt", OpKind::rms_norm, "all in fp32, the product with the weight too, then one cast",
     kernel::wide_rms_norm, "litgpt 0.5.13 model.py RMSNorm.forward"},
    {"fused", OpKind::rms_norm,
     "one kernel (torch.nn.RMSNorm, Liger, Apex, Transformer Engine): saves input and one number "
     "per row",
     kernel::fused_rms_norm, "derivatives.yaml: _fused_rms_norm; Liger-Kernel ops/rms_norm.py"},
    {"torch", OpKind::linear, "matrix product: saves its input and refers to the weight",
     kernel::linear, "derivatives.yaml: addmm, mm"},
    {"bitsandbytes-0.42", OpKind::linear,
     "as torch, but a 4-bit product keeps its input with its node, which lives as long as the loss "
     "(up to bitsandbytes 0.42)",
     kernel::linear_of_early_bitsandbytes, "bitsandbytes 0.42.0 autograd/_functions.py MatMul4Bit.forward"},
    {"torch", OpKind::split, "views of one tensor", kernel::split, "derivatives.yaml: split"},
    {"hf", OpKind::rotary, "q * cos + rotate_half(q) * sin, each a tensor", kernel::hf_rotary,
     "transformers models/llama/modeling_llama.py apply_rotary_pos_emb"},
    {"fused", OpKind::rotary, "one kernel in place (Liger): saves cos and sin", kernel::fused_rotary,
     "Liger-Kernel ops/rope.py"},
    {"flash", OpKind::attention,
     "scaled_dot_product_attention's flash kernel: saves q, k, v, output and log-sum-exp; where it cannot run "
     "(a mask, fp32, values of another width), the memory-efficient or the math one",
     kernel::flash_attention, "aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp, cuda/sdp_utils.cpp",
     kernel::early_scores},
    {"flash-attention-2", OpKind::attention,
     "the flash-attn package: as flash, but padding is cut out of copies of q, k and v, and values are padded to "
     "the width of keys",
     kernel::flash_package_attention,
     "Dao-AILab/flash-attention csrc/flash_attn/flash_api.cpp; transformers modeling_flash_attention_utils.py",
     kernel::early_scores},
    {"sdpa-efficient", OpKind::attention,
     "scaled_dot_product_attention's memory-efficient kernel, which takes masks and fp32: saves q, k, v "
     "for all heads, output and log-sum-exp",
     kernel::efficient_attention,
     "aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h", kernel::early_scores},
    {"sdpa-cpu", OpKind::attention, "scaled_dot_product_attention's flash kernel on the CPU",
     kernel::cpu_flash_attention,
     "aten/src/ATen/native/transformers/attention.cpp _scaled_dot_product_flash_attention_for_cpu",
     kernel::early_scores},
    {"sdpa-math", OpKind::attention,
     "scaled_dot_product_attention without a fused kernel: scores in fp32", kernel::math_attention,
     "aten/src/ATen/native/transformers/attention.cpp _scaled_dot_product_attention_math",
     kernel::early_scores},
    {"eager", OpKind::attention,
     "scores and probabilities as tensors of heads x sequence squared; the softmax in fp32, but for "
     "classes that keep the scores' type (GPT-2, BERT)",
     kernel::eager_attention,
     "transformers models/llama/modeling_llama.py eager_attention_forward", kernel::early_scores},
    {"hf", OpKind::spread_streams, "expanded and copied", kernel::spread_streams,
     "transformers models/deepseek_v4/modeling_deepseek_v4.py DeepseekV4Model.forward"},
    {"hf", OpKind::collapse_streams,
     "a projection of all streams in fp32; the weights of the mix are normalised by rows and columns in turn, each of "
     "which keeps two tensors",
     kernel::collapse_streams,
     "transformers models/deepseek_v4/modeling_deepseek_v4.py DeepseekV4HyperConnection.forward"},
    {"hf", OpKind::mix_streams, "an outer product and a product of matrices, added", kernel::mix_streams,
     "transformers models/deepseek_v4/modeling_deepseek_v4.py DeepseekV4DecoderLayer.forward"},
    {"hf", OpKind::compress, "tokens of a window weighted by a softmax, summed, normalised and rotated", kernel::compress,
     "transformers models/deepseek_v4/modeling_deepseek_v4.py DeepseekV4CSACompressor.forward"},
    {"torch", OpKind::position_bias, "a lookup by the distance of query and key; zeros without a table",
     kernel::position_bias, "transformers models/t5/modeling_t5.py T5Attention.compute_bias"},
    {"torch", OpKind::transpose_heads, "transposed heads, made contiguous", kernel::transpose_heads,
     "transformers models/whisper/modeling_whisper.py WhisperAttention.forward"},
    {"torch", OpKind::convolution, "saves its input and refers to the weight", kernel::convolution,
     "derivatives.yaml: convolution_overrideable"},
    {"torch", OpKind::activation, "one op, or several where the function has no kernel of its own",
     kernel::activation, "transformers activations.py"},
    {"eager", OpKind::gated_activation, "act(gate) * up: saves gate, act(gate) and up",
     kernel::gated_activation, "transformers models/llama/modeling_llama.py LlamaMLP.forward",
     kernel::gate},
    {"fused", OpKind::gated_activation, "one kernel (Liger, Megatron, TE): saves gate and up",
     kernel::fused_gated_activation, "Liger-Kernel ops/swiglu.py"},
    {"grouped", OpKind::moe, "all experts in one grouped product of rows sorted by expert",
     kernel::grouped_moe, "transformers integrations/moe.py grouped_mm_experts_forward"},
    {"loop", OpKind::moe, "one expert after the other; the gradient of a weight is as large as all",
     kernel::looped_moe, "transformers models/mixtral/modeling_mixtral.py MixtralExperts.forward"},
    {"hf", OpKind::latent_expand, "keys copied together from both latents; values are views",
     kernel::latent_expand,
     "transformers models/deepseek_v3/modeling_deepseek_v3.py DeepseekV3Attention.expand_kv"},
    {"hf", OpKind::sparse_mask,
     "scores of all pairs for each of the indexer's heads; a mask of the best keys, or blocks of them; no graph remains",
     kernel::sparse_mask,
     "transformers models/deepseek_v32/modeling_deepseek_v32.py DeepseekV32Indexer.forward, "
     "DeepseekV32Attention.forward; models/minimax_m3_vl/modeling_minimax_m3_vl.py MiniMaxM3VLIndexer"},
    {"torch", OpKind::softcap, "cap * tanh(x / cap)", kernel::softcap,
     "transformers models/gemma2/modeling_gemma2.py Gemma2ForCausalLM.forward"},
    {"torch", OpKind::clip, "clamp_ keeps a copy of what it overwrites, clamp what it reads", kernel::clip,
     "derivatives.yaml: clamp; transformers models/olmo/modeling_olmo.py OlmoAttention.forward"},
    {"torch", OpKind::zero_padding, "masked_fill_: keeps the mask", kernel::zero_padding,
     "derivatives.yaml: masked_fill; transformers models/deberta_v2/modeling_deberta_v2.py ConvLayer.forward"},
    {"torch", OpKind::pad, "constant_pad_nd, which copies even where nothing is padded", kernel::pad,
     "derivatives.yaml: constant_pad_nd; transformers models/swin/modeling_swin.py SwinLayer.maybe_pad"},
    {"torch", OpKind::roll, "a copy, in backward too", kernel::roll, "derivatives.yaml: roll"},
    {"torch", OpKind::window_mask, "differences of regions, filled twice", kernel::window_mask,
     "transformers models/swin/modeling_swin.py SwinLayer.get_attn_mask"},
    {"torch", OpKind::window_bias, "a table indexed and copied, and the mask of each window added",
     kernel::window_bias,
     "transformers models/swin/modeling_swin.py SwinRelativePositionBias.forward, SwinAttention.forward"},
    {"torch", OpKind::merge_patches, "four slices, concatenated", kernel::merge_patches,
     "transformers models/swin/modeling_swin.py SwinPatchMerging.forward"},
    {"torch", OpKind::drop_path, "x / keep, times a random number for each sample", kernel::drop_path,
     "transformers models/swin/modeling_swin.py drop_path"},
    {"torch", OpKind::dropout, "CUDA: a byte per element; CPU: a mask of the input's type",
     kernel::dropout, "aten/src/ATen/native/Dropout.cpp"},
    {"eager", OpKind::causal_lm_loss, "logits.float(), log-softmax, negative log-likelihood",
     kernel::causal_lm_loss, "transformers loss/loss_utils.py ForCausalLMLoss"},
    {"transformers-4.46", OpKind::causal_lm_loss,
     "logits.float() inside the loss (4.46 to 4.49), then shifted, which copies them where a batch has "
     "several sequences",
     kernel::shifted_logits_loss, "transformers v4.46 loss/loss_utils.py ForCausalLMLoss"},
    {"transformers-4.44", OpKind::causal_lm_loss,
     "the model's logits are fp32 (up to 4.45), then shifted as above", kernel::float_logits_loss,
     "transformers v4.44 models/llama/modeling_llama.py LlamaForCausalLM.forward"},
    {"liger", OpKind::linear_loss,
     "fused linear cross-entropy (from 0.8.3, and up to 0.6.1): no logits beyond a chunk; forward makes "
     "the gradients",
     kernel::liger_loss, "Liger-Kernel 0.8.5 ops/fused_linear_cross_entropy.py"},
    {"liger-0.7", OpKind::linear_loss,
     "the same from 0.6.2 to 0.8.2: the weight's gradient of each chunk is a tensor, in fp32 too",
     kernel::liger_loss_with_products, "Liger-Kernel 0.7.0 ops/fused_linear_cross_entropy.py"},
    {"torchtune-chunked", OpKind::linear_loss,
     "the head and an fp32 cross-entropy over 8 chunks of the sequence",
     kernel::torchtune_chunked_loss, "torchtune 0.6.1 modules/loss/ce_chunked_output_loss.py", nullptr, true},
    {"litgpt-chunked", OpKind::linear_loss,
     "the head over chunks of 128 tokens, which Fabric turns to fp32 as a list, and their cross-entropy",
     kernel::litgpt_chunked_loss,
     "litgpt 0.5.13 utils.py chunked_cross_entropy; lightning 2.4 fabric/wrappers.py convert_output", nullptr,
     true},
    {"torch", OpKind::masked_lm_loss, "cross-entropy in the logits' own type",
     kernel::masked_lm_loss, "transformers models/bert/modeling_bert.py BertForMaskedLM.forward"},
    {"torch", OpKind::pooler_loss, "a scalar of few numbers", kernel::small_loss,
     "torch.nn.functional.cross_entropy over labels"},
    {"torch", OpKind::span_loss, "two copies of the logits, and two cross-entropies over the sequence",
     kernel::span_loss, "transformers models/bert/modeling_bert.py BertForQuestionAnswering.forward"},
    {"torch", OpKind::classification_loss,
     "cross-entropy, binary cross-entropy or squared error, as the config's problem type says",
     kernel::classification_loss, "transformers loss/loss_utils.py ForSequenceClassificationLoss"},
    {"torch", OpKind::conv_patches,
     "a convolution: saves images and weight; cuDNN's workspace is not counted", kernel::conv_patches,
     "derivatives.yaml: convolution"},
    {"torch", OpKind::concat, "learned tokens expanded for each image, then copied together",
     kernel::concat, "transformers models/vit/modeling_vit.py ViTEmbeddings.forward"},
    {"torch", OpKind::mean_patches, "a mean; its gradient is as large as the patches",
     kernel::mean_patches,
     "transformers models/dinov2/modeling_dinov2.py Dinov2ForImageClassification.forward"},
    {"torch", OpKind::average_pool, "avg_pool2d: keeps what it reads", kernel::average_pool,
     "derivatives.yaml: avg_pool2d"},
    {"torch", OpKind::attention_pool,
     "nn.MultiheadAttention of one query per image: keys and values in one product, copied apart",
     kernel::attention_pool,
     "torch/nn/functional.py multi_head_attention_forward; transformers models/siglip/modeling_siglip.py "
     "SiglipMultiheadAttentionPoolingHead.forward"},
    {"torch", OpKind::pick_token, "indexing; its gradient is as large as all tokens", kernel::pick_token,
     "transformers models/clip/modeling_clip.py CLIPTextModel.forward"},
    {"hf", OpKind::contrastive_loss,
     "embeddings over their norms, their products, and cross-entropy both ways; with a bias the sigmoid of "
     "each pair",
     kernel::contrastive_loss,
     "transformers models/clip/modeling_clip.py CLIPModel.forward, models/siglip/modeling_siglip.py "
     "SiglipModel.forward"},
    {"torch", OpKind::join_images, "masked_scatter of all images' features, copied together",
     kernel::join_images, "transformers models/llava/modeling_llava.py LlavaModel.forward"},
    {"torch", OpKind::add_images, "indexing by a mask, a sum, and an assignment to the same places of a copy",
     kernel::add_images, "transformers models/qwen3_vl/modeling_qwen3_vl.py Qwen3VLTextModel._deepstack_process"},
    {"hf", OpKind::altup, "streams side by side; products in place, whose gradients are copied", kernel::altup,
     "transformers models/gemma3n/modeling_gemma3n.py Gemma3nTextAltUp, Gemma3nTextModel.forward"},
    {"hf", OpKind::sparsify, "relu(x - cutoff) by mean and deviation of each row", kernel::sparsify,
     "transformers models/gemma3n/modeling_gemma3n.py Gemma3nTextMLP._gaussian_topk"},
    {"torch", OpKind::grid_positions, "two embeddings, their sum, and a copy without padding", kernel::grid_positions,
     "transformers models/gemma4/modeling_gemma4.py Gemma4VisionPatchEmbedder.forward"},
    {"torch", OpKind::pool_grid, "a product with the shares of all patches in all tokens, in fp32", kernel::pool_grid,
     "transformers models/gemma4/modeling_gemma4.py Gemma4VisionPooler.forward"},
    {"torch", OpKind::unfold, "im2col of each image, then copied together", kernel::unfold,
     "transformers models/mistral3/modeling_mistral3.py Mistral3PatchMerger.forward"},
    {"torch", OpKind::ids, "8 bytes each", kernel::ids, "transformers vision_utils.py"},
    {"torch", OpKind::reorder, "indexing: keeps the ids; its gradient is as large as what is read", kernel::reorder,
     "derivatives.yaml: index"},
    {"torch", OpKind::interpolate, "entries looked up, times weights in fp32, summed", kernel::interpolate,
     "transformers models/qwen3_vl/modeling_qwen3_vl.py Qwen3VLVisionModel.forward"},
    {"hf", OpKind::rotary_tables, "cos and sin, computed in fp32 and cast", kernel::rotary_tables,
     "transformers models/llama/modeling_llama.py LlamaRotaryEmbedding.forward"},
    {"sdpa", OpKind::attention_mask,
     "a byte each of (batch x) sequence x sequence, where padding or a window needs a mask at all",
     kernel::sdpa_mask, "transformers masking_utils.py sdpa_mask, _ignore_causal_mask_sdpa"},
    {"none", OpKind::attention_mask, "no mask is materialised: the kernel knows the window",
     kernel::no_mask, "transformers masking_utils.py flash_attention_mask"},
    {"additive", OpKind::attention_mask, "batch x 1 x sequence x sequence, in the activations' type",
     kernel::additive_mask, "transformers masking_utils.py eager_mask"},
};

}  // namespace

std::span<const Kernel> kernels() { return kKernels; }

const Kernel* find_kernel(OpKind op, std::string_view name) {
    for (const Kernel& row : kKernels)
        if (row.op == op && row.name == name) return &row;
    return nullptr;
}

std::vector<std::string_view> kernel_names(OpKind op) {
    std::vector<std::string_view> names;
    for (const Kernel& row : kKernels)
        if (row.op == op) names.push_back(row.name);
    return names;
}

}  // namespace membudget
