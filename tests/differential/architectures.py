"""Small models of many architectures, as classes and configs of Transformers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]
Inputs = dict[str, Any] | None


@dataclass(frozen=True)
class Dims:
    """Sizes from which every architecture makes its config."""

    hidden: int = 64
    intermediate: int = 176
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    vocab: int = 512
    batch: int = 2
    seq: int = 32
    dropout: float = 0.0
    experts: int = 4
    experts_per_token: int = 2
    image: int = 32
    patch: int = 8

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads


@dataclass(frozen=True)
class Architecture:
    """One architecture: its class, config and, where they are not plain tokens, its inputs."""

    model: str
    kind: str
    config: Callable[[Dims], Config]
    inputs: Callable[[Dims], Inputs] = lambda d: None
    attention: tuple[str, ...] = ("eager", "sdpa")
    checkpointing: bool = True
    padding_mask: bool = True
    lora_targets: tuple[str, ...] = ()
    dropout: bool = False
    tracker: str = "profiler"


def llama(d: Dims, **more: Any) -> Config:
    return {
        "hidden_size": d.hidden,
        "intermediate_size": d.intermediate,
        "num_hidden_layers": d.layers,
        "num_attention_heads": d.heads,
        "num_key_value_heads": d.kv_heads,
        "vocab_size": d.vocab,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **more,
    }


def latent(d: Dims) -> Config:
    """DeepSeek's latent attention in a layer of Llama."""
    return llama(
        d,
        q_lora_rank=d.hidden // 2,
        kv_lora_rank=d.hidden // 4,
        qk_rope_head_dim=d.head_dim // 2,
        qk_nope_head_dim=d.head_dim,
        v_head_dim=d.head_dim,
        num_key_value_heads=d.heads,
    )


def with_head_dim(d: Dims, **more: Any) -> Config:
    return llama(d, head_dim=d.head_dim, **more)


def gemma4(d: Dims) -> Config:
    """Inputs of each layer; the second half of the layers uses keys and values of the first, in wider networks."""
    kinds = ["sliding_attention", "full_attention"] * (d.layers // 2)
    shares = {"num_kv_shared_layers": d.layers // 2 if d.layers > 2 else 0, "use_double_wide_mlp": d.batch > 2}
    inputs = {"hidden_size_per_layer_input": 16 * d.batch, "vocab_size_per_layer_input": d.vocab}
    widths = {"global_head_dim": 2 * d.head_dim, "sliding_window": 64, "layer_types": kinds}
    return with_head_dim(d, **shares, **inputs, **widths)


def gemma3n(d: Dims) -> Config:
    """Several streams; the first layer is sparse, and the second half uses keys and values of the first."""
    kinds = ["sliding_attention", "full_attention"] * (d.layers // 2)
    shares = {"num_kv_shared_layers": d.layers // 2 if d.layers > 2 else 0, "layer_types": kinds}
    inputs = {"hidden_size_per_layer_input": 16 * d.batch, "vocab_size_per_layer_input": d.vocab}
    streams = {"altup_num_inputs": 2 + d.batch % 3, "laurel_rank": 16, "sliding_window": 64}
    sparse = {"activation_sparsity_pattern": [0.95] + [0.0] * (d.layers - 1)}
    return with_head_dim(d, **shares, **inputs, **streams, **sparse)


def _gpt2(d: Dims) -> Config:
    return {
        "n_embd": d.hidden,
        "n_layer": d.layers,
        "n_head": d.heads,
        "n_inner": 4 * d.hidden,
        "vocab_size": d.vocab,
        "n_positions": 512,
        "resid_pdrop": d.dropout,
        "embd_pdrop": d.dropout,
        "attn_pdrop": d.dropout,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def _neox(d: Dims) -> Config:
    return {
        "hidden_size": d.hidden,
        "intermediate_size": 4 * d.hidden,
        "num_hidden_layers": d.layers,
        "num_attention_heads": d.heads,
        "vocab_size": d.vocab,
        "max_position_embeddings": 512,
        "attention_dropout": d.dropout,
        "hidden_dropout": d.dropout,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def bert(d: Dims, **more: Any) -> Config:
    return {
        "hidden_size": d.hidden,
        "intermediate_size": 4 * d.hidden,
        "num_hidden_layers": d.layers,
        "num_attention_heads": d.heads,
        "vocab_size": d.vocab,
        "max_position_embeddings": 514,
        "hidden_dropout_prob": d.dropout,
        "attention_probs_dropout_prob": d.dropout,
        "pad_token_id": 0,
        **more,
    }


def distilbert(d: Dims) -> Config:
    return {
        "dim": d.hidden,
        "hidden_dim": 4 * d.hidden,
        "n_layers": d.layers,
        "n_heads": d.heads,
        "vocab_size": d.vocab,
        "dropout": d.dropout,
        "attention_dropout": d.dropout,
    }


def modernbert(d: Dims) -> Config:
    return {
        "hidden_size": d.hidden,
        "intermediate_size": d.intermediate,
        "num_hidden_layers": d.layers,
        "num_attention_heads": d.heads,
        "vocab_size": d.vocab,
        "local_attention": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    }


def _opt(d: Dims) -> Config:
    return {
        "hidden_size": d.hidden,
        "ffn_dim": 4 * d.hidden,
        "num_hidden_layers": d.layers,
        "num_attention_heads": d.heads,
        "vocab_size": d.vocab,
        "max_position_embeddings": 512,
        "word_embed_proj_dim": d.hidden,
        "dropout": d.dropout,
        "pad_token_id": 1,
    }


def t5(d: Dims, **more: Any) -> Config:
    return {
        "d_model": d.hidden,
        "d_kv": d.head_dim,
        "d_ff": d.intermediate,
        "num_layers": d.layers,
        "num_decoder_layers": d.layers,
        "num_heads": d.heads,
        "vocab_size": d.vocab,
        "dropout_rate": d.dropout,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        **more,
    }


def bart(d: Dims) -> Config:
    return {
        "d_model": d.hidden,
        "encoder_layers": d.layers,
        "decoder_layers": d.layers,
        "encoder_attention_heads": d.heads,
        "decoder_attention_heads": d.heads,
        "encoder_ffn_dim": 4 * d.hidden,
        "decoder_ffn_dim": 4 * d.hidden,
        "vocab_size": d.vocab,
        "max_position_embeddings": 512,
        "dropout": d.dropout,
        "attention_dropout": d.dropout,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
    }


def _bloom(d: Dims) -> Config:
    return {
        "hidden_size": d.hidden,
        "n_layer": d.layers,
        "n_head": d.heads,
        "vocab_size": d.vocab,
        "hidden_dropout": d.dropout,
        "attention_dropout": d.dropout,
    }


def _falcon(d: Dims) -> Config:
    return {
        "hidden_size": d.hidden,
        "num_hidden_layers": d.layers,
        "num_attention_heads": d.heads,
        "num_kv_heads": d.kv_heads,
        "new_decoder_architecture": True,
        "vocab_size": d.vocab,
        "ffn_hidden_size": 4 * d.hidden,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def _falcon7(d: Dims) -> Config:
    config = _falcon(d)
    del config["num_kv_heads"]
    return config | {"new_decoder_architecture": False, "multi_query": True, "parallel_attn": True}


def _mpt(d: Dims) -> Config:
    return {
        "d_model": d.hidden,
        "n_heads": d.heads,
        "n_layers": d.layers,
        "expansion_ratio": 4,
        "max_seq_len": 512,
        "vocab_size": d.vocab,
    }


def _gptj(d: Dims) -> Config:
    config = _gpt2(d)
    return config | {"rotary_dim": d.head_dim // 2}


def _gpt_neo(d: Dims) -> Config:
    return {
        "hidden_size": d.hidden,
        "num_layers": d.layers,
        "num_heads": d.heads,
        "attention_types": [[["global", "local"], d.layers // 2]],
        "intermediate_size": 4 * d.hidden,
        "vocab_size": d.vocab,
        "max_position_embeddings": 512,
        "window_size": 64,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def _deepseek(d: Dims, **more: Any) -> Config:
    return llama(
        d,
        moe_intermediate_size=d.intermediate // 2,
        n_routed_experts=d.experts,
        num_experts_per_tok=d.experts_per_token,
        n_shared_experts=1,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
        q_lora_rank=d.hidden // 2,
        kv_lora_rank=d.hidden // 4,
        qk_rope_head_dim=d.head_dim // 2,
        qk_nope_head_dim=d.head_dim,
        v_head_dim=d.head_dim,
        **(more | {"num_key_value_heads": d.heads}),
    )


def _vit(d: Dims, **more: Any) -> Config:
    return {
        "hidden_size": d.hidden,
        "intermediate_size": 4 * d.hidden,
        "num_hidden_layers": d.layers,
        "num_attention_heads": d.heads,
        "image_size": d.image,
        "patch_size": d.patch,
        **more,
    }


def vit_classes(d: Dims, **more: Any) -> Config:
    return _vit(d, num_labels=10, **more)


def image_inputs(d: Dims) -> Inputs:
    return {
        "pixel_values": {"shape": [d.batch, 3, d.image, d.image]},
        "labels": {"shape": [d.batch], "high": 10},
    }


def _clip_text(d: Dims) -> Config:
    return {
        "hidden_size": d.hidden,
        "intermediate_size": 4 * d.hidden,
        "num_hidden_layers": d.layers,
        "num_attention_heads": d.heads,
        "vocab_size": d.vocab,
        "max_position_embeddings": 512,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }


def _clip(d: Dims) -> Config:
    return {"text_config": _clip_text(d), "vision_config": _vit(d), "projection_dim": d.hidden}


def _siglip(d: Dims) -> Config:
    return {"text_config": _clip_text(d) | {"projection_size": d.hidden}, "vision_config": _vit(d)}


def _clip_inputs(d: Dims) -> Inputs:
    return {
        "input_ids": {"shape": [d.batch, d.seq], "low": 3, "high": d.vocab},
        "pixel_values": {"shape": [d.batch, 3, d.image, d.image]},
        "return_loss": True,
    }


def llava(d: Dims) -> Config:
    return {
        "text_config": {"model_type": "llama", **llama(d)},
        "vision_config": {"model_type": "clip_vision_model", **_vit(d)},
        "image_token_index": d.vocab - 1,
        "vision_feature_layer": -1,
    }


def llava_inputs(d: Dims) -> Inputs:
    patches = (d.image // d.patch) ** 2
    shape = [d.batch, d.seq + patches]
    return {
        "input_ids": {"shape": shape, "high": d.vocab - 1, "fill": [[1, 1 + patches, d.vocab - 1]]},
        "labels": {"shape": shape, "high": d.vocab - 1},
        "pixel_values": {"shape": [d.batch, 3, d.image, d.image]},
    }


def gemma3_image(d: Dims) -> Config:
    text = with_head_dim(d, sliding_window=64, query_pre_attn_scalar=d.head_dim)
    text["layer_types"] = ["sliding_attention", "full_attention"] * (d.layers // 2)
    return {
        "text_config": {"model_type": "gemma3_text", **text},
        "vision_config": {"model_type": "siglip_vision_model", **_vit(d), "vision_use_head": False},
        "image_token_id": d.vocab - 1,
        "mm_tokens_per_image": 4,
    }


def gemma3_image_inputs(d: Dims) -> Inputs:
    shape = [d.batch, d.seq]
    places = [1, 5]
    return {
        "input_ids": {"shape": shape, "high": d.vocab - 1, "fill": [[*places, d.vocab - 1]]},
        "labels": {"shape": shape, "high": d.vocab - 1},
        "token_type_ids": {"shape": shape, "high": 1, "fill": [[*places, 1]]},
        "pixel_values": {"shape": [d.batch, 3, d.image, d.image]},
    }


def _gemma4_grid(d: Dims) -> tuple[int, int]:
    """Rows and columns of patches; each square of them becomes a token."""
    return (12, 16) if d.image > 32 else (8, 12)


def gemma4_image(d: Dims) -> Config:
    """Without inputs of each layer; an image sees itself in layers with a window, or not."""
    kinds = ["sliding_attention", "full_attention"] * (d.layers // 2)
    text = with_head_dim(d, global_head_dim=2 * d.head_dim, sliding_window=64, layer_types=kinds)
    text |= {"hidden_size_per_layer_input": 0, "use_bidirectional_attention": "vision" if d.batch > 1 else None}
    sizes = {"hidden_size": 192, "intermediate_size": 352, "num_hidden_layers": 3, "num_attention_heads": 4}
    heads = {"num_key_value_heads": 4, "head_dim": 48, "pooling_kernel_size": 2, "standardize": d.batch > 2}
    rows, columns = _gemma4_grid(d)
    return {
        "text_config": {"model_type": "gemma4_text", **text},
        "vision_config": {"model_type": "gemma4_vision", **sizes, **heads, "position_embedding_size": 512},
        "image_token_id": d.vocab - 1,
        "vision_soft_tokens_per_image": rows * columns // 4,
    }


def gemma4_image_inputs(d: Dims) -> Inputs:
    shape = [d.batch, d.seq]
    rows, columns = _gemma4_grid(d)
    places = [1, 1 + rows * columns // 4]
    return {
        "input_ids": {"shape": shape, "high": d.vocab - 1, "fill": [[*places, d.vocab - 1]]},
        "labels": {"shape": shape, "high": d.vocab - 1},
        "mm_token_type_ids": {"shape": shape, "high": 1, "fill": [[*places, 1]]},
        "pixel_values": {"shape": [d.batch, rows * columns, 3 * 16 * 16]},
        "image_position_ids": {"grid": [d.batch, rows, columns]},
    }


def _whisper(d: Dims) -> Config:
    config = bart(d)
    del config["forced_eos_token_id"], config["max_position_embeddings"]
    return config | {
        "num_mel_bins": 16,
        "max_source_positions": d.seq,
        "max_target_positions": 512,
        "suppress_tokens": None,
        "begin_suppress_tokens": None,
    }


def _whisper_inputs(d: Dims) -> Inputs:
    return {
        "input_features": {"shape": [d.batch, 16, 2 * d.seq]},
        "labels": {"shape": [d.batch, d.seq // 2], "high": d.vocab},
    }


_LLAMA_TARGETS = ("q_proj", "v_proj")
_ALL_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

ARCHITECTURES: dict[str, Architecture] = {
    "llama": Architecture("LlamaForCausalLM", "decoder", llama, lora_targets=_ALL_TARGETS),
    "qwen2": Architecture("Qwen2ForCausalLM", "decoder", llama, lora_targets=_LLAMA_TARGETS),
    "qwen3": Architecture("Qwen3ForCausalLM", "decoder", with_head_dim, lora_targets=_ALL_TARGETS),
    "mistral": Architecture(
        "MistralForCausalLM", "decoder", lambda d: with_head_dim(d, sliding_window=None), lora_targets=_ALL_TARGETS
    ),
    "gemma": Architecture("GemmaForCausalLM", "decoder", with_head_dim, lora_targets=_LLAMA_TARGETS),
    "gemma2": Architecture(
        "Gemma2ForCausalLM",
        "decoder",
        lambda d: with_head_dim(d, sliding_window=64, query_pre_attn_scalar=d.head_dim),
        attention=("eager",),
    ),
    "gemma3": Architecture(
        "Gemma3ForCausalLM",
        "decoder",
        lambda d: with_head_dim(d, sliding_window=64, query_pre_attn_scalar=d.head_dim),
    ),
    "gpt2": Architecture("GPT2LMHeadModel", "decoder", _gpt2, dropout=True, lora_targets=("c_attn",)),
    "gpt-neox": Architecture("GPTNeoXForCausalLM", "decoder", _neox, dropout=True, lora_targets=("query_key_value",)),
    "gpt-neo": Architecture("GPTNeoForCausalLM", "decoder", _gpt_neo, attention=("eager",)),
    "gptj": Architecture("GPTJForCausalLM", "decoder", _gptj, attention=("eager",), dropout=True),
    "opt": Architecture("OPTForCausalLM", "decoder", _opt, dropout=True),
    "phi": Architecture("PhiForCausalLM", "decoder", lambda d: llama(d, num_key_value_heads=d.heads)),
    "phi3": Architecture("Phi3ForCausalLM", "decoder", llama, lora_targets=("qkv_proj", "o_proj")),
    "falcon": Architecture("FalconForCausalLM", "decoder", _falcon),
    "falcon7": Architecture("FalconForCausalLM", "decoder", _falcon7),
    "bloom": Architecture("BloomForCausalLM", "decoder", _bloom, attention=("eager",), dropout=True),
    "mpt": Architecture("MptForCausalLM", "decoder", _mpt, attention=("eager",)),
    "stablelm": Architecture("StableLmForCausalLM", "decoder", llama),
    "starcoder2": Architecture("Starcoder2ForCausalLM", "decoder", llama),
    "olmo": Architecture("OlmoForCausalLM", "decoder", llama),
    "olmo2": Architecture("Olmo2ForCausalLM", "decoder", llama),
    "cohere": Architecture("CohereForCausalLM", "decoder", llama),
    "glm": Architecture("GlmForCausalLM", "decoder", with_head_dim),
    "granite": Architecture("GraniteForCausalLM", "decoder", llama),
    "smollm3": Architecture("SmolLM3ForCausalLM", "decoder", llama),
    "bert": Architecture("BertForMaskedLM", "encoder", bert, dropout=True, lora_targets=("query", "value")),
    "roberta": Architecture("RobertaForMaskedLM", "encoder", bert, dropout=True),
    "distilbert": Architecture("DistilBertForMaskedLM", "encoder", distilbert, dropout=True),
    "albert": Architecture(
        "AlbertForMaskedLM", "encoder", lambda d: bert(d, embedding_size=d.hidden // 2), checkpointing=False
    ),
    "electra": Architecture(
        "ElectraForMaskedLM", "encoder", lambda d: bert(d, embedding_size=d.hidden // 2), dropout=True
    ),
    "deberta-v2": Architecture(
        "DebertaV2ForMaskedLM",
        "encoder",
        lambda d: bert(d, relative_attention=True, pos_att_type=["p2c", "c2p"], type_vocab_size=0),
        attention=("eager",),
    ),
    "modernbert": Architecture("ModernBertForMaskedLM", "encoder", modernbert),
    "t5": Architecture("T5ForConditionalGeneration", "encoder-decoder", t5, attention=("eager",), dropout=True),
    "t5-gated": Architecture(
        "T5ForConditionalGeneration",
        "encoder-decoder",
        lambda d: t5(d, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
        attention=("eager",),
    ),
    "bart": Architecture("BartForConditionalGeneration", "encoder-decoder", bart, dropout=True),
    "whisper": Architecture(
        "WhisperForConditionalGeneration", "encoder-decoder", _whisper, _whisper_inputs, padding_mask=False
    ),
    "mixtral": Architecture(
        "MixtralForCausalLM",
        "moe",
        lambda d: llama(d, num_local_experts=d.experts, num_experts_per_tok=d.experts_per_token),
        lora_targets=_LLAMA_TARGETS,
    ),
    "qwen2-moe": Architecture(
        "Qwen2MoeForCausalLM",
        "moe",
        lambda d: llama(
            d,
            num_experts=d.experts,
            num_experts_per_tok=d.experts_per_token,
            moe_intermediate_size=d.intermediate // 2,
            shared_expert_intermediate_size=d.intermediate,
        ),
    ),
    "qwen3-moe": Architecture(
        "Qwen3MoeForCausalLM",
        "moe",
        lambda d: with_head_dim(
            d,
            num_experts=d.experts,
            num_experts_per_tok=d.experts_per_token,
            moe_intermediate_size=d.intermediate // 2,
        ),
    ),
    "olmoe": Architecture(
        "OlmoeForCausalLM",
        "moe",
        lambda d: llama(d, num_experts=d.experts, num_experts_per_tok=d.experts_per_token),
    ),
    "deepseek-v3": Architecture("DeepseekV3ForCausalLM", "moe", _deepseek),
    "deepseek-v2": Architecture("DeepseekV2ForCausalLM", "moe", _deepseek),
    "gpt-oss": Architecture(
        "GptOssForCausalLM",
        "moe",
        lambda d: with_head_dim(
            d, num_local_experts=d.experts, num_experts_per_tok=d.experts_per_token, sliding_window=64
        ),
        attention=("eager",),
    ),
    "granite-moe": Architecture(
        "GraniteMoeForCausalLM",
        "moe",
        lambda d: llama(d, num_local_experts=d.experts, num_experts_per_tok=d.experts_per_token),
    ),
    "vit": Architecture("ViTForImageClassification", "vision", vit_classes, image_inputs, padding_mask=False),
    "dinov2": Architecture(
        "Dinov2ForImageClassification",
        "vision",
        lambda d: vit_classes(d, mlp_ratio=4),
        image_inputs,
        padding_mask=False,
    ),
    "clip": Architecture("CLIPModel", "vision-text", _clip, _clip_inputs, padding_mask=False),
    "siglip": Architecture("SiglipModel", "vision-text", _siglip, _clip_inputs, padding_mask=False),
    "llava": Architecture("LlavaForConditionalGeneration", "vision-text", llava, llava_inputs, padding_mask=False),
    "gemma3-image": Architecture(
        "Gemma3ForConditionalGeneration", "vision-text", gemma3_image, gemma3_image_inputs,
        padding_mask=False,
        tracker="dispatch",  # under the profiler what torch.vmap has made of masks is never freed
    ),
    "ministral": Architecture(
        "MinistralForCausalLM",
        "decoder",
        lambda d: with_head_dim(
            d, sliding_window=64, layer_types=["full_attention", "sliding_attention"] * (d.layers // 2)
        ),
    ),
    "cwm": Architecture("CwmForCausalLM", "decoder", lambda d: with_head_dim(d, sliding_window=64)),
    "jais2": Architecture("Jais2ForCausalLM", "decoder", llama),
    "vaultgemma": Architecture(
        "VaultGemmaForCausalLM",
        "decoder",
        lambda d: with_head_dim(d, sliding_window=64, query_pre_attn_scalar=d.head_dim),
        attention=("eager",),
    ),
    "youtu": Architecture("YoutuForCausalLM", "decoder", latent),
    "gemma4-text": Architecture("Gemma4ForCausalLM", "decoder", gemma4, lora_targets=_ALL_TARGETS),
    "gemma4-image": Architecture(
        "Gemma4ForConditionalGeneration", "vision-text", gemma4_image, gemma4_image_inputs,
        padding_mask=False,
        tracker="dispatch",  # as Gemma 3's
    ),
    "gemma3n": Architecture("Gemma3nForCausalLM", "decoder", gemma3n, lora_targets=_ALL_TARGETS),
}


def make_case(architecture: str, dims: Dims, training: dict[str, Any] | None = None) -> dict[str, Any]:
    """A case of one architecture, as ``run_case.py`` reads it."""
    row = ARCHITECTURES[architecture]
    case: dict[str, Any] = {
        "architecture": architecture,
        "model": row.model,
        "config": row.config(dims),
        "training": {"batch": dims.batch, "seq": dims.seq} | (training or {}),
    }
    if row.tracker != "profiler":
        case["tracker"] = row.tracker
    inputs = row.inputs(dims)
    if inputs is not None:
        case["inputs"] = inputs
    return case
