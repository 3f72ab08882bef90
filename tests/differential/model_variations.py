"""Small configs of every family that the frameworks have, with variations of each key that decides a tensor."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

SEED = 20260


@dataclasses.dataclass(frozen=True)
class Case:
    """One config and what it is called."""

    name: str
    config: Json


@dataclasses.dataclass(frozen=True)
class Family:
    """A model type: its classes, a small config, and other values of its keys."""

    model_type: str
    classes: str
    base: Json
    choices: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    key: str = "model_type"


DECODER = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 120,
    "pad_token_id": 0,
}
GQA = {**DECODER, "num_key_value_heads": 2}
TIED = {"tie_word_embeddings": [True, False]}
HEADS = {"num_key_value_heads": [1, 2, 4], "head_dim": [24, 16]}
BIAS = {"attention_bias": [True, False]}
MLP_BIAS = {"mlp_bias": [True, False]}
MOE = {**GQA, "num_experts_per_tok": 2}
QWEN_MOE = {**MOE, "moe_intermediate_size": 32, "num_experts": 4}
MLA = {
    **DECODER,
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,
    "qk_nope_head_dim": 16,
    "n_group": 1,
    "topk_group": 1,
}
MLA_CHOICES = {
    "first_k_dense_replace": [0, 1, 4],
    "q_lora_rank": [None, 16],
    "n_shared_experts": [1, 2],
    "n_routed_experts": [4, 8],
    "v_head_dim": [8],
    **BIAS,
    **TIED,
}
GPT2 = {"n_embd": 64, "n_layer": 3, "n_head": 4, "vocab_size": 120, "n_positions": 32}
BERT = {**DECODER, "max_position_embeddings": 40}
DELTA = {
    **GQA,
    "head_dim": 16,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
DELTA_CHOICES = {
    "linear_num_value_heads": [2, 8],
    "linear_value_head_dim": [16],
    "linear_conv_kernel_dim": [2],
    "layer_types": [["full_attention"] * 4, ["linear_attention", "full_attention"] * 2],
    **TIED,
}
SEQ2SEQ = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 112,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "vocab_size": 120,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
T5 = {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 3, "num_heads": 4, "vocab_size": 120}
T5_CHOICES = {"feed_forward_proj": ["gated-gelu", "relu"], "num_decoder_layers": [2], "d_kv": [8], **TIED}
VIT = {
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "image_size": 32,
    "patch_size": 8,
}
IMAGE_CHOICES = {"qkv_bias": [False], "image_size": [40], "num_channels": [1], "id2label": [{"0": "a", "1": "b", "2": "c"}]}
SMALL_TEXT = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_hidden_layers": 2}
SMALL_VISION = {**SMALL_TEXT, "hidden_size": 48, "image_size": 32, "patch_size": 8}
QWEN_VISION = {"depth": 2, "hidden_size": 64, "num_heads": 4, "patch_size": 4}
VL_TEXT = {**GQA, "head_dim": 16}
NAFLEX_VISION = {**SMALL_TEXT, "hidden_size": 48, "num_patches": 16, "patch_size": 8}
INTERN_VISION = {**SMALL_VISION, "image_size": [32, 32], "patch_size": [8, 8]}
ERNIE_MOE = {**GQA, "moe_intermediate_size": 32, "moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 2}
TILED_TEXT = {**GQA, "cross_attention_layers": [1]}
TILED_VISION = {**SMALL_VISION, "num_global_layers": 1, "vision_output_dim": 144}
GEMMA3N = {
    **GQA,
    "head_dim": 16,
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "num_kv_shared_layers": 0,
    "vocab_size_per_layer_input": 110,
    "hidden_size_per_layer_input": 12,
    "laurel_rank": 6,
}
GLM_MOE_TEXT = {
    **MOE,
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3]},
}
MLA_HEADS = {key: MLA[key] for key in ("kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "v_head_dim", "qk_nope_head_dim")}
MINIMAX_M3 = {
    **MOE,
    "head_dim": 16,
    "dense_intermediate_size": 112,
    "shared_intermediate_size": 48,
    "num_local_experts": 4,
    "index_n_heads": 2,
    "index_head_dim": 12,
    "partial_rotary_factor": 0.5,
}
STEP = {
    **MOE,
    "head_dim": 16,
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "share_expert_dim": 40,
    "sliding_window": 16,
}
GEMMA4 = {
    **GQA,
    "num_hidden_layers": 6,
    "head_dim": 16,
    "global_head_dim": 32,
    "hidden_size_per_layer_input": 12,
    "vocab_size_per_layer_input": 110,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
}
GEMMA4_VISION = {**SMALL_TEXT, "num_key_value_heads": 4, "head_dim": 12, "patch_size": 8, "position_embedding_size": 30}
GEMMA4_AUDIO = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
DEEPSEEK_V4 = {
    **{key: value for key, value in DECODER.items() if key != "intermediate_size"},
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "head_dim": 16,
    "q_lora_rank": 24,
    "o_groups": 2,
    "o_lora_rank": 12,
    "index_n_heads": 2,
    "index_head_dim": 8,
    "qk_rope_head_dim": 8,
}

LONGCAT = {
    **{key: value for key, value in MLA.items() if key not in ("intermediate_size", "moe_intermediate_size", "num_hidden_layers", "num_experts_per_tok")},
    "num_layers": 2,
    "ffn_hidden_size": 96,
    "expert_ffn_hidden_size": 32,
    "moe_topk": 2,
    "zero_expert_num": 2,
}
GRANITE_HYBRID = {
    **MOE,
    "num_local_experts": 4,
    "shared_intermediate_size": 48,
    "layer_types": ["mamba", "mamba", "attention", "mamba"],
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 8,
}

SPEECH = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "conv_dim": [32, 48],
    "conv_stride": [5, 2],
    "conv_kernel": [10, 3],
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
}

KIMI_LINEAR = {
    **{key: value for key, value in MLA.items() if key not in ("n_routed_experts", "num_experts_per_tok", "q_lora_rank", "n_group")},
    "num_experts": 4,
    "num_experts_per_token": 2,
    "linear_num_heads": 2,
    "linear_head_dim": 24,
}

FAMILIES = (
    Family(
        "llama",
        "LlamaForCausalLM LlamaModel LlamaForSequenceClassification",
        DECODER,
        {**HEADS, **BIAS, **MLP_BIAS, **TIED, "num_key_value_heads": [None, 1, 2], "num_labels": [5]},
    ),
    Family("mistral", "MistralForCausalLM MistralModel", GQA, {**HEADS, **TIED, "num_key_value_heads": [None, 4]}),
    Family("ministral3", "Ministral3ForCausalLM", GQA, {**HEADS, **TIED}),
    Family("qwen2", "Qwen2ForCausalLM", GQA, {**HEADS, **TIED, "use_sliding_window": [True]}),
    Family("qwen3", "Qwen3ForCausalLM Qwen3ForSequenceClassification", GQA, {**HEADS, **BIAS, **TIED}),
    Family("gemma", "GemmaForCausalLM", GQA, {**HEADS, **BIAS, **TIED}),
    Family("gemma2", "Gemma2ForCausalLM", GQA, {**HEADS, **BIAS, **TIED, "num_hidden_layers": [5]}),
    Family("gemma3_text", "Gemma3ForCausalLM", GQA, {**HEADS, **BIAS, **TIED, "num_hidden_layers": [7]}),
    Family("phi3", "Phi3ForCausalLM", DECODER, {"num_key_value_heads": [1, 2], **TIED}),
    Family("phi", "PhiForCausalLM", DECODER, {"num_key_value_heads": [2], "qk_layernorm": [True], **TIED}),
    Family(
        "stablelm",
        "StableLmForCausalLM",
        GQA,
        {"use_qkv_bias": [True], "qk_layernorm": [True], "use_parallel_residual": [True], **TIED},
    ),
    Family("cohere", "CohereForCausalLM", GQA, {"use_qk_norm": [True], **BIAS, **TIED}),
    Family("cohere2", "Cohere2ForCausalLM", GQA, {**BIAS, **TIED, "head_dim": [24]}),
    Family("olmo", "OlmoForCausalLM", GQA, {**BIAS, **TIED}),
    Family("olmo2", "Olmo2ForCausalLM", GQA, {**BIAS, **TIED}),
    Family("olmo3", "Olmo3ForCausalLM", GQA, {**BIAS, **TIED}),
    Family("glm", "GlmForCausalLM", {**GQA, "head_dim": 16}, {**BIAS, **TIED, "num_key_value_heads": [4]}),
    Family("glm4", "Glm4ForCausalLM", {**GQA, "head_dim": 16}, {**BIAS, **TIED}),
    Family("granite", "GraniteForCausalLM", GQA, {**BIAS, **MLP_BIAS, **TIED}),
    Family("smollm3", "SmolLM3ForCausalLM", GQA, {**BIAS, **MLP_BIAS, **TIED, "no_rope_layers": [[1, 0, 1, 1]]}),
    Family("nemotron", "NemotronForCausalLM", GQA, {**BIAS, **MLP_BIAS, **TIED, "head_dim": [24]}),
    Family(
        "gpt2",
        "GPT2LMHeadModel GPT2Model GPT2ForSequenceClassification",
        {**GPT2, "pad_token_id": 0},
        {"n_inner": [100], "n_positions": [16], **TIED},
    ),
    Family("gpt_bigcode", "GPTBigCodeForCausalLM", GPT2, {"multi_query": [False], "n_inner": [100], **TIED}),
    Family(
        "gpt_neo",
        "GPTNeoForCausalLM",
        {
            "hidden_size": 64,
            "num_layers": 4,
            "num_heads": 4,
            "vocab_size": 120,
            "attention_types": [[["global", "local"], 2]],
        },
        {"intermediate_size": [100], **TIED},
    ),
    Family("gptj", "GPTJForCausalLM", {**GPT2, "rotary_dim": 8}, {"n_inner": [100], **TIED}),
    Family("codegen", "CodeGenForCausalLM", {**GPT2, "rotary_dim": 8}, {"n_inner": [100], **TIED}),
    Family("gpt_neox", "GPTNeoXForCausalLM GPTNeoXModel", DECODER, {**BIAS, **TIED, "use_parallel_residual": [False]}),
    Family(
        "opt",
        "OPTForCausalLM OPTModel",
        {
            "hidden_size": 64,
            "ffn_dim": 96,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "vocab_size": 120,
            "word_embed_proj_dim": 64,
        },
        {
            "word_embed_proj_dim": [32],
            "do_layer_norm_before": [False],
            "enable_bias": [False],
            "layer_norm_elementwise_affine": [False],
            **TIED,
        },
    ),
    Family("bloom", "BloomForCausalLM", {"hidden_size": 64, "n_layer": 3, "n_head": 4, "vocab_size": 120}, TIED),
    Family("mpt", "MptForCausalLM", {"d_model": 64, "n_layers": 3, "n_heads": 4, "vocab_size": 120}, TIED),
    Family(
        "falcon",
        "FalconForCausalLM",
        {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 120},
        {
            "multi_query": [False],
            "new_decoder_architecture": [True],
            "num_kv_heads": [2],
            "bias": [True],
            "parallel_attn": [False],
            "alibi": [True],
            "num_ln_in_parallel_attn": [1, 2],
            **TIED,
        },
    ),
    Family("starcoder2", "Starcoder2ForCausalLM", GQA, {"use_bias": [False], **TIED}),
    Family("mixtral", "MixtralForCausalLM", {**MOE, "num_local_experts": 4}, {**HEADS, **TIED, "num_local_experts": [2]}),
    Family(
        "qwen2_moe",
        "Qwen2MoeForCausalLM",
        {**QWEN_MOE, "shared_expert_intermediate_size": 48},
        {"decoder_sparse_step": [2], "mlp_only_layers": [[1], [0, 3]], "qkv_bias": [False], "num_experts": [2], **TIED},
    ),
    Family(
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        QWEN_MOE,
        {"decoder_sparse_step": [2], "mlp_only_layers": [[0]], **HEADS, **BIAS, **TIED},
    ),
    Family("olmoe", "OlmoeForCausalLM", {**MOE, "num_experts": 4}, {**BIAS, **TIED, "num_experts": [2]}),
    Family(
        "phimoe",
        "PhimoeForCausalLM",
        {**MOE, "num_local_experts": 4},
        {**BIAS, "lm_head_bias": [True], "num_local_experts": [2], **TIED},
    ),
    Family("granitemoe", "GraniteMoeForCausalLM", {**MOE, "num_local_experts": 4}, {**BIAS, **TIED}),
    Family("gpt_oss", "GptOssForCausalLM", {**MOE, "num_local_experts": 4, "head_dim": 16}, {**HEADS, **TIED}),
    Family(
        "dbrx",
        "DbrxForCausalLM",
        {
            "d_model": 64,
            "n_heads": 4,
            "n_layers": 3,
            "vocab_size": 120,
            "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4},
            "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2},
        },
        {
            "attn_config": [{"kv_n_heads": 4, "rope_theta": 1e4}],
            "ffn_config": [{"ffn_hidden_size": 80, "moe_num_experts": 2, "moe_top_k": 1}, {}],
        },
    ),
    Family("deepseek_v3", "DeepseekV3ForCausalLM", MLA, MLA_CHOICES),
    Family("deepseek_v2", "DeepseekV2ForCausalLM", MLA, MLA_CHOICES),
    Family(
        "glm4_moe",
        "Glm4MoeForCausalLM",
        {**MOE, "moe_intermediate_size": 32, "n_routed_experts": 4, "head_dim": 16, "n_group": 1, "topk_group": 1},
        {"first_k_dense_replace": [0, 2], "use_qk_norm": [True], "n_shared_experts": [2], **BIAS, **TIED},
    ),
    Family(
        "glm_moe_dsa",
        "GlmMoeDsaForCausalLM",
        {**MLA, "index_n_heads": 2, "index_head_dim": 16, "index_topk": 8},
        {"index_n_heads": [4], "q_lora_rank": [16], "n_routed_experts": [8], "index_topk_freq": [2], **BIAS, **TIED},
    ),
    Family("minimax_m2", "MiniMaxM2ForCausalLM", {**MOE, "num_local_experts": 4, "head_dim": 16}, {**HEADS, **TIED}),
    Family(
        "llama4_text",
        "Llama4ForCausalLM",
        {**MOE, "num_local_experts": 4, "intermediate_size_mlp": 112, "head_dim": 16},
        {"interleave_moe_layer_step": [1, 2], "moe_layers": [[1, 3], []], **BIAS, **TIED},
    ),
    Family(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        {**DELTA, **QWEN_MOE, "shared_expert_intermediate_size": 48},
        {**DELTA_CHOICES, "mlp_only_layers": [[0]], "decoder_sparse_step": [2], **BIAS},
    ),
    Family("qwen3_5_text", "Qwen3_5ForCausalLM", DELTA, {**DELTA_CHOICES, **BIAS}),
    Family(
        "qwen3_5_moe_text",
        "Qwen3_5MoeForCausalLM",
        {**DELTA, **QWEN_MOE, "shared_expert_intermediate_size": 48},
        DELTA_CHOICES,
    ),
    Family(
        "mamba",
        "MambaForCausalLM MambaModel",
        {"hidden_size": 64, "num_hidden_layers": 3, "state_size": 8, "vocab_size": 120},
        {"use_bias": [True], "use_conv_bias": [False], "time_step_rank": [7], "expand": [1], "conv_kernel": [2], **TIED},
    ),
    Family(
        "falcon_mamba",
        "FalconMambaForCausalLM",
        {"hidden_size": 64, "num_hidden_layers": 3, "state_size": 8, "vocab_size": 120},
        {"use_bias": [True], "use_conv_bias": [False], "time_step_rank": [7], "expand": [1], **TIED},
    ),
    Family(
        "mamba2",
        "Mamba2ForCausalLM",
        {"hidden_size": 64, "num_hidden_layers": 3, "state_size": 8, "vocab_size": 120, "num_heads": 8, "head_dim": 16},
        {"n_groups": [2], "use_bias": [True], "use_conv_bias": [False], "conv_kernel": [2], **TIED},
    ),
    Family(
        "jamba",
        "JambaForCausalLM",
        {**MOE, "num_experts": 4, "num_hidden_layers": 8, "use_mamba_kernels": False, "mamba_d_state": 8},
        {
            "attn_layer_offset": [2],
            "expert_layer_period": [4],
            "num_experts": [1, 2],
            "mamba_dt_rank": [5],
            "mamba_conv_bias": [False],
            "mamba_proj_bias": [True],
            **TIED,
        },
    ),
    Family(
        "falcon_h1",
        "FalconH1ForCausalLM",
        {**GQA, "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8},
        {
            "mamba_rms_norm": [True],
            "mamba_proj_bias": [True],
            "mamba_conv_bias": [False],
            "projectors_bias": [True],
            **BIAS,
            **MLP_BIAS,
            **TIED,
        },
    ),
    Family(
        "rwkv",
        "RwkvForCausalLM",
        {"hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 120},
        {"attention_hidden_size": [32], "intermediate_size": [96], **TIED},
    ),
    Family("bert", "BertForMaskedLM BertModel BertForPreTraining BertForSequenceClassification BertForTokenClassification BertForQuestionAnswering BertForNextSentencePrediction", BERT, {**TIED, "type_vocab_size": [1]}),
    Family("roberta", "RobertaForMaskedLM RobertaModel RobertaForSequenceClassification RobertaForTokenClassification RobertaForQuestionAnswering", BERT, {**TIED, "type_vocab_size": [1]}),
    Family("xlm-roberta", "XLMRobertaForMaskedLM", BERT, TIED),
    Family("camembert", "CamembertForMaskedLM", BERT, TIED),
    Family("electra", "ElectraForPreTraining ElectraForMaskedLM ElectraModel ElectraForSequenceClassification ElectraForTokenClassification ElectraForQuestionAnswering", BERT, {"embedding_size": [64, 32], **TIED}),
    Family("distilbert", "DistilBertForMaskedLM DistilBertModel DistilBertForSequenceClassification DistilBertForTokenClassification DistilBertForQuestionAnswering", {"dim": 64, "n_heads": 4, "n_layers": 3, "hidden_dim": 96, "vocab_size": 120}, TIED),
    Family("albert", "AlbertForMaskedLM AlbertModel AlbertForPreTraining AlbertForSequenceClassification AlbertForTokenClassification AlbertForQuestionAnswering", {**BERT, "embedding_size": 32}, {"num_hidden_groups": [2], "inner_group_num": [2], **TIED}),
    Family("mpnet", "MPNetForMaskedLM MPNetModel MPNetForSequenceClassification MPNetForTokenClassification MPNetForQuestionAnswering", BERT, {"relative_attention_num_buckets": [16], **TIED}),
    Family(
        "deberta-v2",
        "DebertaV2ForMaskedLM DebertaV2Model DebertaV2ForSequenceClassification DebertaV2ForTokenClassification DebertaV2ForQuestionAnswering",
        BERT,
        {
            "relative_attention": [True],
            "pos_att_type": ["p2c|c2p", ["c2p"]],
            "position_buckets": [16],
            "share_att_key": [True],
            "norm_rel_ebd": ["layer_norm"],
            "conv_kernel_size": [3],
            "position_biased_input": [False],
            "type_vocab_size": [2],
            "embedding_size": [32],
            **TIED,
        },
    ),
    Family(
        "modernbert",
        "ModernBertForMaskedLM ModernBertModel ModernBertForSequenceClassification ModernBertForTokenClassification ModernBertForQuestionAnswering",
        {**DECODER, "bos_token_id": 0, "eos_token_id": 0, "cls_token_id": 0, "sep_token_id": 0},
        {"norm_bias": [True], "decoder_bias": [False], "classifier_bias": [True], **BIAS, **MLP_BIAS, **TIED},
    ),
    Family("t5", "T5ForConditionalGeneration T5Model T5EncoderModel", T5, T5_CHOICES),
    Family("mt5", "MT5ForConditionalGeneration", T5, T5_CHOICES),
    Family("bart", "BartForConditionalGeneration BartModel", SEQ2SEQ, TIED),
    Family("mbart", "MBartForConditionalGeneration MBartModel", SEQ2SEQ, TIED),
    Family("whisper", "WhisperForConditionalGeneration", {**SEQ2SEQ, "decoder_start_token_id": 0}, {"num_mel_bins": [128], "max_target_positions": [50], **TIED}),
    Family("vit", "ViTForImageClassification ViTModel", VIT, {**IMAGE_CHOICES, "pooler_output_size": [24]}),
    Family("deit", "DeiTForImageClassification DeiTForImageClassificationWithTeacher DeiTModel", VIT, IMAGE_CHOICES),
    Family(
        "dinov2",
        "Dinov2ForImageClassification Dinov2Model",
        {key: value for key, value in VIT.items() if key != "intermediate_size"},
        {**IMAGE_CHOICES, "use_swiglu_ffn": [True], "mlp_ratio": [2]},
    ),
    Family(
        "dinov2_with_registers",
        "Dinov2WithRegistersForImageClassification Dinov2WithRegistersModel",
        {key: value for key, value in VIT.items() if key != "intermediate_size"},
        {**IMAGE_CHOICES, "use_swiglu_ffn": [True], "mlp_ratio": [2], "num_register_tokens": [0, 2]},
    ),
    Family("swin", "SwinForImageClassification SwinModel", {"embed_dim": 24}, {"qkv_bias": [False], "window_size": [4], "mlp_ratio": [2.0], "depths": [[1, 1, 2, 1]]}),
    Family("convnext", "ConvNextForImageClassification ConvNextModel", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 2, 1, 1]}, {"layer_scale_init_value": [0.0], "patch_size": [2]}),
    Family("resnet", "ResNetForImageClassification ResNetModel", {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1, 2, 1, 1]}, {"layer_type": ["basic"], "downsample_in_first_stage": [True], "downsample_in_bottleneck": [True]}),
    Family("clip_text_model", "CLIPTextModel CLIPTextModelWithProjection", {**BERT, "projection_dim": 48}, {"projection_dim": [24]}),
    Family("clip", "CLIPModel", {"text_config": SMALL_TEXT, "vision_config": SMALL_VISION, "projection_dim": 40}, {"vision_config": [{**SMALL_VISION, "patch_size": 16}], "projection_dim": [24]}),
    Family("siglip", "SiglipModel", {"text_config": SMALL_TEXT, "vision_config": SMALL_VISION}, {"text_config": [{**SMALL_TEXT, "projection_size": 24}], "vision_config": [{**SMALL_VISION, "vision_use_head": False}]}),
    Family("blip", "BlipForConditionalGeneration", {"text_config": {**SMALL_TEXT, "encoder_hidden_size": 48}, "vision_config": SMALL_VISION}),
    Family("gemma3", "Gemma3ForConditionalGeneration", {"text_config": VL_TEXT, "vision_config": {**SMALL_VISION, "vision_use_head": False}}, {"text_config": [{**VL_TEXT, "num_hidden_layers": 7}], "vision_config": [SMALL_VISION], **TIED}),
    Family("llava", "LlavaForConditionalGeneration", {"text_config": {"model_type": "llama", **DECODER}, "vision_config": {"model_type": "clip_vision_model", **SMALL_VISION}}, {"multimodal_projector_bias": [False], "text_config": [{"model_type": "mistral", **GQA}, {"model_type": "qwen2", **GQA}]}),
    Family("seed_oss", "SeedOssForCausalLM SeedOssModel", GQA, {**TIED, **HEADS, **BIAS, **MLP_BIAS, "attention_out_bias": [True]}),
    Family("ernie4_5", "Ernie4_5ForCausalLM", GQA, {**TIED, **HEADS, "use_bias": [True]}),
    Family("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", {**GQA, "head_dim": 16}, {**TIED, **HEADS, **BIAS}),
    Family("exaone4", "Exaone4ForCausalLM", GQA, {**TIED, **HEADS}),
    Family("arcee", "ArceeForCausalLM", GQA, {**TIED, **HEADS, **BIAS, **MLP_BIAS}),
    Family("dots1", "Dots1ForCausalLM", {**GQA, "moe_intermediate_size": 32, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2}, {**TIED, **HEADS, **BIAS, "n_shared_experts": [2], "first_k_dense_replace": [1, 2]}),
    Family("glm4_moe_lite", "Glm4MoeLiteForCausalLM", MLA, {**TIED, **BIAS, "q_lora_rank": [None], "n_shared_experts": [2], "mlp_layer_types": [["sparse", "dense", "sparse", "dense"]]}),
    Family(
        "nemotron_h",
        "NemotronHForCausalLM NemotronHModel",
        {**GQA, "head_dim": 16, "hybrid_override_pattern": "M-*E", "mamba_num_heads": 4, "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 8, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 48},
        {**TIED, **MLP_BIAS, "num_key_value_heads": [1], "use_bias": [True], "use_conv_bias": [False], "mamba_n_groups": [1], "moe_latent_size": [24], "layers_block_type": [["mamba", "moe", "attention", "mlp"], ["linear_attention", "full_attention", "moe", "moe"]], "num_nextn_predict_layers": [1]},
    ),
    Family("minimax", "MiniMaxForCausalLM MiniMaxModel", {**MOE, "num_local_experts": 4}, {**HEADS, **TIED, "layer_types": [["linear_attention", "full_attention"] * 2, ["full_attention"] * 4]}),
    Family("deberta", "DebertaForMaskedLM DebertaModel DebertaForSequenceClassification DebertaForTokenClassification DebertaForQuestionAnswering", BERT, {"relative_attention": [True], "pos_att_type": ["c2p|p2c", ["c2p"]], "max_relative_positions": [16], "position_biased_input": [False], "type_vocab_size": [2], "embedding_size": [32], **TIED}),
    Family("swinv2", "Swinv2ForImageClassification Swinv2Model", {"embed_dim": 24}, {"qkv_bias": [False], "window_size": [8], "mlp_ratio": [2.0], "depths": [[1, 1, 2, 1]], "id2label": [{"0": "a", "1": "b", "2": "c"}]}),
    Family("mllama", "MllamaForConditionalGeneration", {"text_config": TILED_TEXT, "vision_config": TILED_VISION}, {"text_config": [{**TILED_TEXT, "cross_attention_layers": [0, 3]}], "vision_config": [{**TILED_VISION, "num_global_layers": 2, "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]], "max_num_tiles": 2}], **TIED}),
    Family("gemma3n_text", "Gemma3nForCausalLM", GEMMA3N, {"num_kv_shared_layers": [2], "intermediate_size": [[96, 96, 80, 80, 80, 80]], "altup_num_inputs": [2], "laurel_rank": [4], **HEADS, **BIAS, **TIED}),
    Family("clip_vision_model", "CLIPVisionModel CLIPVisionModelWithProjection", SMALL_VISION, {"image_size": [40], "num_channels": [1], "projection_dim": [24]}),
    Family("siglip_vision_model", "SiglipVisionModel", SMALL_VISION, {"vision_use_head": [False], "image_size": [40], "num_channels": [1]}),
    Family("siglip2_vision_model", "Siglip2VisionModel", NAFLEX_VISION, {"vision_use_head": [False], "num_patches": [25], "num_channels": [1]}),
    Family("siglip2", "Siglip2Model", {"text_config": SMALL_TEXT, "vision_config": NAFLEX_VISION}, {"text_config": [{**SMALL_TEXT, "projection_size": 24}], "vision_config": [{**NAFLEX_VISION, "vision_use_head": False}]}),
    Family("umt5", "UMT5ForConditionalGeneration UMT5Model UMT5EncoderModel", T5, T5_CHOICES),
    Family("pegasus", "PegasusForConditionalGeneration PegasusModel", SEQ2SEQ, TIED),
    Family("m2m_100", "M2M100ForConditionalGeneration M2M100Model", SEQ2SEQ, TIED),
    Family("marian", "MarianMTModel MarianModel", SEQ2SEQ, {"share_encoder_decoder_embeddings": [False], "decoder_vocab_size": [130], **TIED}),
    Family("ernie4_5_moe", "Ernie4_5_MoeForCausalLM Ernie4_5_MoeModel", ERNIE_MOE, {**TIED, "head_dim": [24], "use_bias": [True], "moe_num_shared_experts": [0, 1], "moe_layer_interval": [2], "moe_layer_start_index": [0, 2], "moe_layer_end_index": [2]}),
    Family("glm4v_moe", "Glm4vMoeForConditionalGeneration", {"text_config": GLM_MOE_TEXT, "vision_config": {**QWEN_VISION, "intermediate_size": 48, "out_hidden_size": 64}}, {"text_config": [{**GLM_MOE_TEXT, "attention_bias": False}, {**GLM_MOE_TEXT, "n_shared_experts": 2, "first_k_dense_replace": 2}], **TIED}),
    Family("llava_next", "LlavaNextForConditionalGeneration", {"text_config": {"model_type": "llama", **DECODER}, "vision_config": {"model_type": "clip_vision_model", **SMALL_VISION}}, {"multimodal_projector_bias": [False], "vision_feature_layer": [[-2, -1]], "text_config": [{"model_type": "mistral", **GQA}], "vision_config": [{"model_type": "siglip_vision_model", **SMALL_VISION}]}),
    Family("mistral3", "Mistral3ForConditionalGeneration", {"text_config": {"model_type": "mistral", **VL_TEXT}, "vision_config": {"model_type": "pixtral", **SMALL_VISION}}, {"multimodal_projector_bias": [True], "vision_feature_layer": [[-2, -1]], "spatial_merge_size": [3], "text_config": [{"model_type": "ministral3", **VL_TEXT}], **TIED}),
    Family("internvl", "InternVLForConditionalGeneration", {"text_config": {"model_type": "qwen2", **GQA}, "vision_config": INTERN_VISION}, {"downsample_ratio": [0.25, 1.0], "text_config": [{"model_type": "qwen3", **VL_TEXT}, {"model_type": "qwen3_moe", **QWEN_MOE}], "vision_config": [{**INTERN_VISION, "attention_bias": True, "use_qk_norm": True, "norm_type": "rms_norm"}, {**INTERN_VISION, "use_mask_token": True, "use_mean_pooling": False, "use_absolute_position_embeddings": False}, {**INTERN_VISION, "image_size": [32, 64], "patch_size": [8, 16]}], **TIED}),
    Family("exaone", "ExaoneForCausalLM", GQA, {**HEADS, **TIED}),
    Family("internlm3", "InternLM3ForCausalLM", {**GQA, "head_dim": 16}, {**HEADS, **TIED}),
    Family("iquestcoder", "IQuestCoderForCausalLM", {**GQA, "head_dim": 16}, {**HEADS, **BIAS, **MLP_BIAS, **TIED}),
    Family("ministral", "MinistralForCausalLM", {**GQA, "head_dim": 16}, {**HEADS, **TIED, "sliding_window": [None]}),
    Family("cwm", "CwmForCausalLM CwmModel", GQA, {**HEADS, **MLP_BIAS, **TIED}),
    Family("helium", "HeliumForCausalLM", {**GQA, "head_dim": 16}, {"num_key_value_heads": [1, 4], **BIAS, **MLP_BIAS, **TIED}),
    Family("jais2", "Jais2ForCausalLM Jais2Model", GQA, {**HEADS, **BIAS, **MLP_BIAS, **TIED}),
    Family("vaultgemma", "VaultGemmaForCausalLM", GQA, {**HEADS, **BIAS, **TIED}),
    Family("granite_swa", "GraniteSWAForCausalLM", GQA, {"num_key_value_heads": [1, 4], **BIAS, **MLP_BIAS, **TIED}),
    Family("bitnet", "BitNetForCausalLM", GQA, {"num_key_value_heads": [1, 4], **BIAS, **TIED}),
    Family("hyperclovax", "HyperCLOVAXForCausalLM", GQA, {**HEADS, **BIAS, **MLP_BIAS, **TIED, "use_post_norm": [False]}),
    Family("diffllama", "DiffLlamaForCausalLM", GQA, {"num_key_value_heads": [4], "head_dim": [24], **BIAS, **TIED}),
    Family("nanochat", "NanoChatForCausalLM NanoChatModel", GQA, {"num_key_value_heads": [1, 4], **BIAS, **TIED}),
    Family("apertus", "ApertusForCausalLM ApertusModel", GQA, {"num_key_value_heads": [1, 4], **BIAS, **TIED}),
    Family("xglm", "XGLMForCausalLM XGLMModel", {"d_model": 64, "ffn_dim": 96, "num_layers": 3, "attention_heads": 4, "vocab_size": 120}, TIED),
    Family("biogpt", "BioGptForCausalLM BioGptModel", BERT, TIED),
    Family("openai-gpt", "OpenAIGPTLMHeadModel OpenAIGPTModel", GPT2, {"n_positions": [16], **TIED}),
    Family("persimmon", "PersimmonForCausalLM PersimmonModel", DECODER, {"qk_layernorm": [False], **TIED}),
    Family("granitemoeshared", "GraniteMoeSharedForCausalLM", {**MOE, "num_local_experts": 4, "shared_intermediate_size": 48}, {"shared_intermediate_size": [0], **BIAS, **TIED}),
    Family("flex_olmo", "FlexOlmoForCausalLM", {**MOE, "num_experts": 4}, {**BIAS, **TIED, "num_experts": [2]}),
    Family("exaone_moe", "ExaoneMoeForCausalLM", {**QWEN_MOE, "head_dim": 16}, {**HEADS, **TIED, "num_shared_experts": [2], "first_k_dense_replace": [0, 2], "mlp_layer_types": [["sparse", "dense"] * 2]}),
    Family("sarvam_moe", "SarvamMoEForCausalLM", {**QWEN_MOE, "head_dim": 16}, {**HEADS, **TIED, "num_shared_experts": [2], "first_k_dense_replace": [0, 2], "use_qk_norm": [False], "use_qkv_bias": [True]}),
    Family("sarvam_mla", "SarvamMLAForCausalLM", MLA, MLA_CHOICES),
    Family("solar_open", "SolarOpenForCausalLM", {**QWEN_MOE, "n_routed_experts": 4, "head_dim": 16}, {**HEADS, **BIAS, **TIED, "n_shared_experts": [2]}),
    Family("hy_v3", "HYV3ForCausalLM", {**QWEN_MOE, "head_dim": 16}, {**HEADS, **BIAS, **MLP_BIAS, **TIED, "num_shared_experts": [2], "mlp_layer_types": [["sparse", "dense"] * 2]}),
    Family("mellum", "MellumForCausalLM", {**QWEN_MOE, "head_dim": 16}, {**HEADS, **BIAS, **TIED, "mlp_layer_types": [["sparse", "dense"] * 2]}),
    Family("cohere2_moe", "Cohere2MoeForCausalLM", {**MOE, "num_experts": 4, "head_dim": 16}, {**BIAS, **TIED, "num_shared_experts": [1, 2], "first_k_dense_replace": [1], "prefix_dense_intermediate_size": [80], "mlp_layer_types": [["sparse", "dense"] * 2]}),
    Family("afmoe", "AfmoeForCausalLM", {**QWEN_MOE, "head_dim": 16}, {**HEADS, **BIAS, **TIED, "num_dense_layers": [0, 2], "num_shared_experts": [1]}),
    Family("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", {**GQA, "head_dim": 16, "num_experts": 4, "moe_topk": 2}, {**HEADS, **BIAS, **TIED, "moe_topk": [[1, 1, 1, 1]]}),
    Family("jetmoe", "JetMoeForCausalLM", {**MOE, "kv_channels": 16, "num_local_experts": 4}, {**TIED, "kv_channels": [8], "num_experts_per_tok": [1], "num_key_value_heads": [1]}),
    Family("youtu", "YoutuForCausalLM YoutuModel", {**DECODER, **MLA_HEADS}, {**BIAS, **TIED, "q_lora_rank": [None, 16], "v_head_dim": [8]}),
    Family("deepseek_v32", "DeepseekV32ForCausalLM", {**MLA, "index_n_heads": 2, "index_head_dim": 16}, {**TIED, **BIAS, "index_n_heads": [4], "first_k_dense_replace": [0, 2], "mlp_layer_types": [["sparse", "dense"] * 2], "n_shared_experts": [2]}),
    Family("longcat_flash", "LongcatFlashForCausalLM", LONGCAT, {**TIED, **BIAS, "q_lora_rank": [16], "zero_expert_num": [0, 3], "n_routed_experts": [6]}),
    Family("lfm2", "Lfm2ForCausalLM Lfm2Model", GQA, {"full_attn_idxs": [[1, 3]], "layer_types": [["conv", "full_attention"] * 2], "conv_bias": [True], "conv_L_cache": [4], "block_auto_adjust_ff_dim": [False], "block_multiple_of": [8], "block_ffn_dim_multiplier": [1.3], "num_key_value_heads": [1, 4], "block_ff_dim": [112], "tie_embedding": [False]}),
    Family("lfm2_moe", "Lfm2MoeForCausalLM", {**QWEN_MOE, "layer_types": ["conv", "full_attention"] * 2}, {"num_dense_layers": [0, 1, 4], "layer_types": [["full_attention"] * 4], "conv_bias": [True], "num_experts": [2], **TIED}),
    Family("granitemoehybrid", "GraniteMoeHybridForCausalLM", GRANITE_HYBRID, {"layer_types": [["mamba", "attention"] * 2, ["attention"] * 4], "num_local_experts": [0, 2], "shared_intermediate_size": [80], "mamba_n_groups": [2], "mamba_d_state": [16], "mamba_conv_bias": [False], "mamba_proj_bias": [True], **BIAS, **TIED}),
    Family("bamba", "BambaForCausalLM", {**GQA, "mamba_n_heads": 8, "mamba_d_head": 16}, {"attn_layer_indices": [[1, 3], []], "mamba_n_groups": [2], "mamba_conv_bias": [False], "mamba_proj_bias": [True], **BIAS, **MLP_BIAS, **TIED}),
    Family("olmo_hybrid", "OlmoHybridForCausalLM", {**GQA, "num_hidden_layers": 4}, {"layer_types": [["full_attention", "linear_attention"] * 2], "linear_num_key_heads": [2], "linear_num_value_heads": [2], "linear_key_head_dim": [8], "linear_value_head_dim": [12], "linear_conv_kernel_dim": [3], **BIAS, **TIED}),
    Family("ernie", "ErnieForMaskedLM ErnieModel ErnieForSequenceClassification ErnieForTokenClassification ErnieForQuestionAnswering ErnieForPreTraining ErnieForNextSentencePrediction", BERT, {**TIED, "use_task_id": [True], "task_type_vocab_size": [4]}),
    Family("roformer", "RoFormerForMaskedLM RoFormerModel RoFormerForSequenceClassification RoFormerForTokenClassification RoFormerForQuestionAnswering", BERT, {**TIED, "embedding_size": [32]}),
    Family("rembert", "RemBertForMaskedLM RemBertModel RemBertForSequenceClassification RemBertForTokenClassification RemBertForQuestionAnswering", {**BERT, "input_embedding_size": 24, "output_embedding_size": 40}, {"input_embedding_size": [32], "output_embedding_size": [48]}),
    Family("plbart", "PLBartForConditionalGeneration PLBartModel", SEQ2SEQ, TIED),
    Family("blenderbot", "BlenderbotForConditionalGeneration BlenderbotModel", SEQ2SEQ, TIED),
    Family("blenderbot-small", "BlenderbotSmallForConditionalGeneration BlenderbotSmallModel", SEQ2SEQ, TIED),
    Family("wav2vec2", "Wav2Vec2ForCTC Wav2Vec2Model Wav2Vec2ForSequenceClassification", SPEECH, {"feat_extract_norm": ["layer"], "conv_bias": [True], "do_stable_layer_norm": [True], "adapter_attn_dim": [6], "mask_time_prob": [0.0], "mask_feature_prob": [0.1], "use_weighted_layer_sum": [True], "conv_dim": [[24, 24]], "num_conv_pos_embedding_groups": [8]}),
    Family("hubert", "HubertForCTC HubertModel HubertForSequenceClassification", SPEECH, {"feat_extract_norm": ["layer"], "conv_bias": [True], "do_stable_layer_norm": [True], "feat_proj_layer_norm": [False], "conv_pos_batch_norm": [True], "mask_time_prob": [0.0], "use_weighted_layer_sum": [True]}),
    Family("convnextv2", "ConvNextV2ForImageClassification ConvNextV2Model", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 2, 1, 1]}, {"patch_size": [2], "num_channels": [1], "id2label": [{"0": "a", "1": "b", "2": "c"}]}),
    Family("dinov3_vit", "DINOv3ViTModel", VIT, {"num_register_tokens": [4], "use_gated_mlp": [True], "key_bias": [True], "query_bias": [False], "proj_bias": [False], "mlp_bias": [False], "num_channels": [1]}),
    Family("kimi_linear", "KimiLinearForCausalLM KimiLinearModel", KIMI_LINEAR, {**TIED, "linear_attn_config": [{"head_dim": 8, "num_heads": 3, "short_conv_kernel_size": 3, "full_attn_layers": [2, 4], "kda_layers": [1, 3]}], "layer_types": [["full_attention", "linear_attention"] * 2], "first_k_dense_replace": [0, 2], "num_shared_experts": [2], "mlp_layer_types": [["sparse", "dense"] * 2]}),
    Family("paligemma", "PaliGemmaForConditionalGeneration", {"text_config": {"model_type": "gemma", **VL_TEXT}, "vision_config": {"model_type": "siglip_vision_model", **SMALL_VISION}, "projection_dim": 64}, {"text_config": [{"model_type": "gemma2", **VL_TEXT}], "vision_config": [{"model_type": "siglip_vision_model", **SMALL_VISION, "vision_use_head": False}], "projection_dim": [40], **TIED}),
    Family("minicpm3", "MiniCPM3ForCausalLM MiniCPM3Model", {**DECODER, **MLA_HEADS}, {**BIAS, **MLP_BIAS, **TIED, "v_head_dim": [None, 8], "q_lora_rank": [None, 16], "kv_lora_rank": [24]}),
    Family("mimo_v2_flash", "MiMoV2FlashForCausalLM MiMoV2FlashModel", {**MOE, "head_dim": 16, "v_head_dim": 12, "moe_intermediate_size": 32, "n_routed_experts": 4}, {**BIAS, **TIED, "num_key_value_heads": [1], "v_head_dim": [16], "layer_types": [["sliding_attention"] * 3 + ["full_attention"]], "mlp_layer_types": [["sparse", "dense"] * 2], "n_routed_experts": [8], "num_hidden_layers": [7]}),
    Family("minimax_m3_vl_text", "MiniMaxM3VLForCausalLM", MINIMAX_M3, {**TIED, **HEADS, "layer_types": [["minimax_m3_sparse", "full_attention"] * 2], "mlp_layer_types": [["dense", "sparse"] * 2], "moe_layer_freq": [[0, 0, 1, 1]], "sparse_attention_config": [{"sparse_num_index_heads": 4, "sparse_index_dim": 8, "sparse_attention_freq": [0, 1, 1, 0]}], "shared_intermediate_size": [64]}),
    Family("minimax_m3_vl", "MiniMaxM3SparseForConditionalGeneration", {"text_config": MINIMAX_M3, "vision_config": SMALL_VISION, "projector_hidden_size": 40}, {"projector_hidden_size": [56], "text_config": [{**MINIMAX_M3, "layer_types": ["full_attention"] * 3 + ["minimax_m3_sparse"]}], "vision_config": [{**SMALL_VISION, "spatial_merge_size": 1}, {**SMALL_VISION, "temporal_patch_size": 1, "num_channels": 1}], **TIED}),
    Family("step3p7", "Step3p7ForConditionalGeneration", {"text_config": STEP, "vision_config": {**SMALL_VISION, "mlp_ratio": 2.5}}, {"projector_bias": [True], "text_config": [{**STEP, "attention_bias": True, "mlp_bias": True}, {**STEP, "layer_types": ["full_attention", "sliding_attention"] * 2, "attention_other_setting": {"num_attention_heads": 6}, "moe_layers_enum": "1,3"}, {**STEP, "layer_types": ["sliding_attention"] * 5, "num_nextn_predict_layers": 1, "mlp_layer_types": ["dense", "sparse"] * 2}, {**STEP, "tie_word_embeddings": True}], "vision_config": [{**SMALL_VISION, "mlp_ratio": 1.7, "num_channels": 1}], **TIED}),
    Family("gemma4_text", "Gemma4ForCausalLM", GEMMA4, {**BIAS, **TIED, "layer_types": [["full_attention", "sliding_attention"] * 3, ["sliding_attention"] * 6], "num_kv_shared_layers": [2], "use_double_wide_mlp": [True], "hidden_size_per_layer_input": [0, 8], "attention_k_eq_v": [True], "num_global_key_value_heads": [1], "enable_moe_block": [True], "vocab_size_per_layer_input": [80], "global_head_dim": [24]}),
    Family("gemma4", "Gemma4ForConditionalGeneration", {"text_config": GEMMA4, "vision_config": GEMMA4_VISION}, {"text_config": [{**GEMMA4, "attention_k_eq_v": True, "num_global_key_value_heads": 1}], "vision_config": [None, {**GEMMA4_VISION, "num_key_value_heads": 2}, {**GEMMA4_VISION, "position_embedding_size": 9, "patch_size": 4, "standardize": True}], "audio_config": [None, GEMMA4_AUDIO, {**GEMMA4_AUDIO, "conv_kernel_size": 3, "subsampling_conv_channels": [16, 4], "output_proj_dims": 40}], **TIED}),
    Family("deepseek_v4", "DeepseekV4ForCausalLM", DEEPSEEK_V4, {**MLP_BIAS, **TIED, "compress_ratios": [[0, 4, 128, 4, 0]], "layer_types": [["sliding_attention"] * 4], "compress_rates": [{"compressed_sparse_attention": 2, "heavily_compressed_attention": 16}], "hc_mult": [2], "o_groups": [4], "n_routed_experts": [8], "n_shared_experts": [2], "num_hidden_layers": [3]}),
    Family("kimi_k25", "Kimi_K25ForConditionalGeneration", {"text_config": MLA, "vision_config": SMALL_VISION, "projection_hidden_size": 48}, {"projection_hidden_size": [40], "vision_config": [{**SMALL_VISION, "pos_emb_height": 4, "pos_emb_width": 6, "merge_kernel_size": [2, 3]}], "text_config": [{**MLA, "model_type": "kimi_k2", "first_k_dense_replace": 1}, {**MLA, "tie_word_embeddings": True}], **TIED}),
    Family("llama4", "Llama4ForConditionalGeneration", {"text_config": {**MOE, "num_local_experts": 4, "intermediate_size_mlp": 112, "head_dim": 16}, "vision_config": {"hidden_size": 48, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 96, "vision_output_dim": 64, "projector_input_dim": 64, "projector_output_dim": 64, "image_size": 32, "patch_size": 8}}),
    Family("qwen2_vl", "Qwen2VLForConditionalGeneration", {**GQA, "vision_config": {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 4, "patch_size": 4}}, {"vision_config": [{"depth": 1, "embed_dim": 32, "hidden_size": 64, "num_heads": 4, "mlp_ratio": 2}], **TIED}),
    Family("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", {**GQA, "vision_config": {**QWEN_VISION, "intermediate_size": 48, "out_hidden_size": 64}}, {"vision_config": [{**QWEN_VISION, "intermediate_size": 48, "out_hidden_size": 64, "depth": 1}], **TIED}),
    Family("qwen3_vl", "Qwen3VLForConditionalGeneration", {"text_config": VL_TEXT, "vision_config": {**QWEN_VISION, "intermediate_size": 48, "out_hidden_size": 64, "deepstack_visual_indexes": [0, 1]}}, {"text_config": [{**VL_TEXT, "attention_bias": True}], "vision_config": [{**QWEN_VISION, "out_hidden_size": 64, "deepstack_visual_indexes": [1]}], **TIED}),
    Family("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", {"text_config": {**QWEN_MOE, "head_dim": 16}, "vision_config": {**QWEN_VISION, "out_hidden_size": 64, "deepstack_visual_indexes": [0]}}, {"text_config": [{**QWEN_MOE, "head_dim": 16, "mlp_only_layers": [0]}], **TIED}),
    Family("qwen3_5", "Qwen3_5ForConditionalGeneration", {"text_config": DELTA, "vision_config": {**QWEN_VISION, "out_hidden_size": 64}}, TIED),
    Family("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", {"text_config": {**DELTA, **QWEN_MOE, "shared_expert_intermediate_size": 48}, "vision_config": {**QWEN_VISION, "out_hidden_size": 64}}, TIED),
    Family("glm4v", "Glm4vForConditionalGeneration", {"text_config": {**GQA, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3]}}, "vision_config": {**QWEN_VISION, "intermediate_size": 48, "out_hidden_size": 64}}, TIED),
    Family(
        "UNet2DConditionModel",
        "UNet2DConditionModel",
        {"block_out_channels": [32, 64, 64, 64], "cross_attention_dim": 24, "attention_head_dim": 8, "layers_per_block": 1},
        {
            "in_channels": [9],
            "layers_per_block": [2],
            "use_linear_projection": [True],
            "transformer_layers_per_block": [2],
            "time_cond_proj_dim": [16],
            "num_class_embeds": [5],
        },
        "_class_name",
    ),
    Family(
        "ControlNetModel",
        "ControlNetModel",
        {"block_out_channels": [32, 64, 64, 64], "cross_attention_dim": 24, "attention_head_dim": 8, "layers_per_block": 1},
        {"use_linear_projection": [True], "layers_per_block": [2], "conditioning_channels": [1]},
        "_class_name",
    ),
    Family(
        "AutoencoderKL",
        "AutoencoderKL",
        {"block_out_channels": [32, 64], "down_block_types": ["DownEncoderBlock2D"] * 2, "up_block_types": ["UpDecoderBlock2D"] * 2},
        {"latent_channels": [16], "layers_per_block": [2], "use_quant_conv": [False], "use_post_quant_conv": [False], "mid_block_add_attention": [False]},
        "_class_name",
    ),
    Family(
        "FluxTransformer2DModel",
        "FluxTransformer2DModel",
        {"num_layers": 2, "num_single_layers": 3, "attention_head_dim": 16, "num_attention_heads": 4, "joint_attention_dim": 24, "pooled_projection_dim": 20, "axes_dims_rope": [4, 4, 8]},
        {"guidance_embeds": [True], "in_channels": [16], "out_channels": [32]},
        "_class_name",
    ),
    Family(
        "SD3Transformer2DModel",
        "SD3Transformer2DModel",
        {"num_layers": 3, "attention_head_dim": 16, "num_attention_heads": 4, "joint_attention_dim": 24, "caption_projection_dim": 64, "pooled_projection_dim": 20, "sample_size": 16},
        {"qk_norm": ["rms_norm"], "dual_attention_layers": [[0, 1]], "in_channels": [8]},
        "_class_name",
    ),
)  # fmt: skip


def variations(drawn: int, seed: int) -> Iterator[Case]:
    """Of every class the base, each other value of a key, and as many random combinations as asked for."""
    for family in FAMILIES:
        for architecture in family.classes.split():
            chosen = random.Random(f"{seed} {architecture}")
            for number, changes in enumerate(draw(family, drawn, chosen)):
                head = {family.key: family.model_type, "architectures": [architecture]}
                if family.key == "_class_name":
                    del head["architectures"]
                shown = ", ".join(f"{key}={value}" for key, value in changes.items())
                yield Case(f"{architecture}/{number}({shown})", {**head, **family.base, **changes})


def draw(family: Family, drawn: int, chosen: random.Random) -> Iterator[Json]:
    """Changes of the base; none twice."""
    singles = [{key: value} for key, values in family.choices.items() for value in values]
    combined = [
        {key: chosen.choice(values) for key, values in family.choices.items() if chosen.random() < 0.5}
        for _ in range(drawn)
    ]
    seen: list[Json] = []
    for changes in [{}, *singles, *combined]:
        if changes not in seen:
            seen.append(changes)
            yield changes
