"""Families that are arrangements of known blocks, each in the same few forms of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from architectures import (
    Config,
    Dims,
    Inputs,
    bart,
    bert,
    distilbert,
    gemma3_image,
    gemma3_image_inputs,
    gemma4_image,
    gemma4_image_inputs,
    image_inputs,
    latent,
    llama,
    llava,
    llava_inputs,
    modernbert,
    t5,
    vit_classes,
    with_head_dim,
)

CPU_OPTIMIZER: dict[str, Any] = {"name": "AdamW", "implementation": "for-loop", "options": {}}
SGD: dict[str, Any] = {"name": "SGD", "implementation": "for-loop", "options": {"lr": 0.001}}
DIMS = Dims(hidden=256, intermediate=704, layers=3, heads=4, kv_heads=2, vocab=1000, batch=3, seq=96, image=128)


@dataclass(frozen=True)
class Family:
    """A class, its config, and what of the forms it does not have."""

    model: str
    config: Callable[[Dims], Config]
    inputs: Callable[[Dims], Inputs] = lambda d: None
    eager_only: bool = False
    checkpointing: bool = True
    padding: bool = True
    dropout: bool = False
    lora: bool = False
    tracker: str = "profiler"
    pooled_loss: bool = False  # the class computes none
    wide: bool = False  # the class computes in fp32 alone


# Sizes and training of each form; dropout where the class has it, masks where it takes them.
FORMS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"dropout": 0.1}, {"attn_implementation": "eager", "optimizer": CPU_OPTIMIZER, "keep_outputs": False}),
    ({"batch": 2, "seq": 128}, {"autocast": "bfloat16", "optimizer": SGD, "padding_mask": True}),
    (
        {"batch": 1, "seq": 192, "kv_heads": 4},
        {"param_dtype": "bfloat16", "optimizer": SGD, "keep_outputs": False, "checkpointing": "non_reentrant"},
    ),
]
ADAPTED: tuple[dict[str, Any], dict[str, Any]] = (
    {"batch": 2, "seq": 160},
    {
        "param_dtype": "bfloat16",
        "optimizer": CPU_OPTIMIZER,
        "checkpointing": "reentrant",
        "lora": {"r": 8, "lora_alpha": 16, "target_modules": "all-linear"},
    },
)


def relative_positions(d: Dims, **more: Any) -> Config:
    """DeBERTa, in one form with one kind of scores of positions alone."""
    kinds = ["p2c"] if d.batch == 2 else ["c2p", "p2c"]
    return bert(d, relative_attention=True, pos_att_type=kinds, type_vocab_size=0, max_relative_positions=128, **more)


def token_labels(d: Dims) -> Inputs:
    """A class of each token."""
    shape = [d.batch, d.seq]
    return {"input_ids": {"shape": shape, "low": 3, "high": d.vocab}, "labels": {"shape": shape, "high": 3}}


def spans(d: Dims) -> Inputs:
    """The first and the last token of an answer."""
    positions = {"shape": [d.batch], "high": d.seq}
    ids = {"shape": [d.batch, d.seq], "low": 3, "high": d.vocab}
    return {"input_ids": ids, "start_positions": positions, "end_positions": positions}


def next_sentence(d: Dims) -> Inputs:
    """One of two classes of each sequence."""
    ids = {"shape": [d.batch, d.seq], "low": 3, "high": d.vocab}
    return {"input_ids": ids, "labels": {"shape": [d.batch], "high": 2}}


def blip(d: Dims) -> Config:
    """Images and texts of other numbers of heads."""
    text = bert(d) | {"encoder_hidden_size": d.hidden, "bos_token_id": 1, "sep_token_id": 2}
    vision = {**vit_classes(d), "patch_size": 16, "attention_dropout": d.dropout}
    del vision["num_labels"]
    return {"text_config": text | {"num_attention_heads": 8}, "vision_config": vision}


def smoothed(d: Dims) -> Config:
    """The same with smoothed labels."""
    config = blip(d)
    return config | {"text_config": config["text_config"] | {"label_smoothing": 0.1}}


def captions(d: Dims) -> Inputs:
    """An image and what is said of it."""
    ids = {"shape": [d.batch, d.seq], "low": 3, "high": d.vocab}
    return {"pixel_values": {"shape": [d.batch, 3, d.image, d.image]}, "input_ids": ids, "labels": ids}


def siglip_tower(d: Dims, config: Config) -> Config:
    """The same over SigLIP's tower, whose pool nothing reads."""
    vision = config["vision_config"] | {"model_type": "siglip_vision_model", "vision_use_head": d.batch == 3}
    return config | {"vision_config": vision}


def with_experts(config: Config) -> Config:
    """The same with experts beside the feed-forward network of each layer."""
    experts = {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 176}
    return config | {"text_config": config["text_config"] | experts}


def swin(d: Dims) -> Config:
    """Three stages, of which some grids are padded to whole windows, and one has an odd side."""
    return {
        "image_size": 224 if d.batch == 3 else 200,
        "patch_size": 8,
        "embed_dim": 64,
        "depths": [2, 4, 2],
        "num_heads": [2, 4, 8],
        "window_size": 7,
        "hidden_dropout_prob": d.dropout,
        "attention_probs_dropout_prob": d.dropout,
        "drop_path_rate": 0.1 if d.dropout > 0 else 0.0,
        "num_labels": 10,
    }


FAMILIES: dict[str, Family] = {
    # Encoders.
    "mpnet": Family("MPNetForMaskedLM", bert, eager_only=True, checkpointing=False, dropout=True),
    "ernie": Family("ErnieForMaskedLM", lambda d: bert(d, use_task_id=d.batch == 3), dropout=True),
    "rembert": Family(
        "RemBertForMaskedLM",
        lambda d: bert(d, input_embedding_size=96, output_embedding_size=320),
        eager_only=True,
        dropout=True,
    ),
    "roformer": Family("RoFormerForMaskedLM", bert, eager_only=True, dropout=True),
    "deberta": Family("DebertaForMaskedLM", relative_positions, eager_only=True, dropout=True, wide=True),
    "deberta-v2-conv": Family(
        "DebertaV2ForMaskedLM",
        lambda d: relative_positions(d, position_buckets=64, norm_rel_ebd="layer_norm", share_att_key=True)
        | {"conv_kernel_size": 3, "conv_act": "gelu" if d.batch == 1 else "tanh"},
        eager_only=True,
        dropout=True,
    ),
    # What encoders are fine-tuned for.
    "bert-tokens": Family(
        "BertForTokenClassification", lambda d: bert(d, num_labels=9), token_labels, padding=False, dropout=True
    ),
    "bert-spans": Family("BertForQuestionAnswering", bert, spans, padding=False, dropout=True),
    "bert-next": Family("BertForNextSentencePrediction", bert, next_sentence, padding=False, dropout=True),
    "distilbert-spans": Family(
        "DistilBertForQuestionAnswering",
        lambda d: distilbert(d) | {"qa_dropout": d.dropout},
        spans,
        padding=False,
        dropout=True,
    ),
    "distilbert-classes": Family(
        "DistilBertForSequenceClassification",
        lambda d: distilbert(d) | {"seq_classif_dropout": d.dropout},
        next_sentence,
        padding=False,
        dropout=True,
    ),
    "mpnet-classes": Family(
        "MPNetForSequenceClassification",
        bert,
        next_sentence,
        eager_only=True,
        checkpointing=False,
        padding=False,
        dropout=True,
    ),
    "modernbert-tokens": Family(
        "ModernBertForTokenClassification", lambda d: modernbert(d) | {"num_labels": 9}, token_labels, padding=False
    ),
    "modernbert-mean": Family(
        "ModernBertForSequenceClassification",
        lambda d: modernbert(d) | {"classifier_pooling": "mean", "num_labels": 3},
        next_sentence,
        padding=False,
    ),
    # Decoders.
    "seed-oss": Family("SeedOssForCausalLM", lambda d: with_head_dim(d, attention_dropout=d.dropout), dropout=True),
    "ernie4-5": Family("Ernie4_5ForCausalLM", with_head_dim),
    "hunyuan": Family("HunYuanDenseV1ForCausalLM", with_head_dim),
    "exaone4": Family(
        "Exaone4ForCausalLM",
        lambda d: llama(
            d, sliding_window=64, layer_types=["sliding_attention", "full_attention", "sliding_attention"]
        ),
    ),
    "arcee": Family("ArceeForCausalLM", llama),
    "helium": Family("HeliumForCausalLM", with_head_dim),
    "granite-swa": Family("GraniteSWAForCausalLM", llama, eager_only=True),
    "bitnet": Family("BitNetForCausalLM", llama),
    "hyperclovax": Family("HyperCLOVAXForCausalLM", llama),
    "nanochat": Family("NanoChatForCausalLM", llama),
    "apertus": Family("ApertusForCausalLM", llama),
    "nemotron": Family("NemotronForCausalLM", llama, lora=True),
    "stablelm-norms": Family("StableLmForCausalLM", lambda d: llama(d, qk_layernorm=True)),
    "olmo-clip": Family("OlmoForCausalLM", lambda d: llama(d, clip_qkv=8.0)),
    "codegen": Family(
        "CodeGenForCausalLM",
        lambda d: {
            "n_embd": d.hidden,
            "n_layer": d.layers,
            "n_head": d.heads,
            "n_inner": 4 * d.hidden,
            "rotary_dim": d.head_dim // 2,
            "vocab_size": d.vocab,
            "n_positions": 512,
            "resid_pdrop": d.dropout,
            "embd_pdrop": d.dropout,
            "attn_pdrop": d.dropout,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
        dropout=True,
    ),
    "falcon-alibi": Family(
        "FalconForCausalLM",
        lambda d: {
            "hidden_size": d.hidden,
            "num_hidden_layers": d.layers,
            "num_attention_heads": d.heads,
            "alibi": True,
            "multi_query": d.batch == 3,
            "new_decoder_architecture": False,
            "parallel_attn": False,
            "bias": True,
            "vocab_size": d.vocab,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "xglm": Family(
        "XGLMForCausalLM",
        lambda d: {
            "d_model": d.hidden,
            "ffn_dim": 4 * d.hidden,
            "num_layers": d.layers,
            "attention_heads": d.heads,
            "vocab_size": d.vocab,
            "max_position_embeddings": 512,
            "dropout": d.dropout,
            "attention_dropout": d.dropout,
        },
        eager_only=True,
        dropout=True,
    ),
    "biogpt": Family(
        "BioGptForCausalLM",
        lambda d: bert(d) | {"max_position_embeddings": 512, "pad_token_id": 1},
        dropout=True,
    ),
    "openai-gpt": Family(
        "OpenAIGPTLMHeadModel",
        lambda d: {
            "n_embd": d.hidden,
            "n_layer": d.layers,
            "n_head": d.heads,
            "vocab_size": d.vocab,
            "n_positions": 512,
            "resid_pdrop": d.dropout,
            "embd_pdrop": d.dropout,
            "attn_pdrop": d.dropout,
        },
        eager_only=True,
        checkpointing=False,
        dropout=True,
    ),
    "persimmon": Family("PersimmonForCausalLM", llama),
    "minicpm3": Family("MiniCPM3ForCausalLM", latent),
    # Encoder-decoders.
    "umt5": Family("UMT5ForConditionalGeneration", t5, eager_only=True, dropout=True),
    "plbart": Family("PLBartForConditionalGeneration", bart, dropout=True),
    "pegasus": Family("PegasusForConditionalGeneration", bart, dropout=True),
    "m2m-100": Family("M2M100ForConditionalGeneration", bart, dropout=True),
    "marian": Family("MarianMTModel", bart, dropout=True),
    "blenderbot": Family("BlenderbotForConditionalGeneration", bart, dropout=True),
    "blenderbot-small": Family("BlenderbotSmallForConditionalGeneration", bart, dropout=True),
    "mbart": Family("MBartForConditionalGeneration", bart, dropout=True),
    # Images.
    "swinv2": Family(
        "Swinv2ForImageClassification",
        lambda d: swin(d) | {"image_size": 256 if d.batch == 3 else 192, "window_size": 8},
        lambda d: image_inputs(replace(d, image=256 if d.batch == 3 else 192)),
        padding=False,
        checkpointing=False,
        dropout=True,
        eager_only=True,
    ),
    "blip-smoothed": Family(
        "BlipForConditionalGeneration", smoothed, captions, padding=False, dropout=True, eager_only=True
    ),
    "blip": Family("BlipForConditionalGeneration", blip, captions, padding=False, dropout=True, eager_only=True),
    "llava-features": Family(
        "LlavaForConditionalGeneration",
        lambda d: llava(d) | {"vision_feature_layer": [0, 1, -1] if d.batch == 3 else [-2, 1]},
        llava_inputs,
        padding=False,
    ),
    "convnext": Family(
        "ConvNextForImageClassification",
        lambda d: {
            "image_size": 128,
            "patch_size": 4,
            "hidden_sizes": [48, 96, 192],
            "depths": [1, 2, 1],
            "num_stages": 3,
            "drop_path_rate": d.dropout,
            "layer_scale_init_value": 0.0 if d.batch == 2 else 1e-6,
            "num_labels": 10,
        },
        image_inputs,
        padding=False,
        checkpointing=False,
        eager_only=True,
        dropout=True,
    ),
    "llava-siglip": Family(
        "LlavaForConditionalGeneration",
        lambda d: siglip_tower(d, llava(d)) | {"vision_feature_select_strategy": "full"},
        llava_inputs,
        padding=False,
    ),
    "gemma3-pool": Family(
        "Gemma3ForConditionalGeneration",
        lambda d: siglip_tower(d, gemma3_image(replace(d, layers=2))),
        gemma3_image_inputs,
        padding=False,
        tracker="dispatch",
    ),
    "gemma4-moe-image": Family(
        "Gemma4ForConditionalGeneration",
        lambda d: with_experts(gemma4_image(replace(d, layers=2))),
        gemma4_image_inputs,
        padding=False,
        tracker="dispatch",
    ),
    "gemma4-image-plain": Family(
        "Gemma4ForConditionalGeneration",
        lambda d: gemma4_image(replace(d, layers=2)),
        gemma4_image_inputs,
        padding=False,
        lora=True,
        tracker="dispatch",
    ),
    "dinov3": Family(
        "DINOv3ViTModel",
        lambda d: vit_classes(d, patch_size=16, num_register_tokens=4, use_gated_mlp=d.batch == 3),
        lambda d: {"pixel_values": image_inputs(d)["pixel_values"]},
        padding=False,
        pooled_loss=True,
    ),
    "swin": Family(
        "SwinForImageClassification",
        swin,
        lambda d: image_inputs(replace(d, image=224 if d.batch == 3 else 200)),
        padding=False,
        checkpointing=False,
        dropout=True,
        lora=True,
    ),
    "dinov2-registers": Family(
        "Dinov2WithRegistersForImageClassification",
        lambda d: vit_classes(d, mlp_ratio=4, drop_path_rate=0.1 if d.batch == 2 else 0.0),
        image_inputs,
        padding=False,
    ),
}


def _case(name: str, family: Family, form: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    sizes, training = form
    dims = replace(DIMS, **sizes)
    if not family.dropout:
        dims = replace(dims, dropout=0.0)
    if "pixel_values" in (family.inputs(dims) or {}):
        dims = replace(dims, batch=max(2, dims.batch))  # of one image, what is expanded for each is not summed
    chosen = {"attn_implementation": "sdpa", "keep_outputs": True, "batch": dims.batch, "seq": dims.seq} | training
    if family.eager_only:
        chosen["attn_implementation"] = "eager"
    if not family.checkpointing:
        chosen["checkpointing"] = "none"
    if not family.padding:
        chosen["padding_mask"] = False
    if family.pooled_loss:
        chosen["loss"] = {"name": "pooled-mean"}
    if family.wide:
        chosen |= {"param_dtype": "float32", "autocast": None}
    case = {"architecture": name, "model": family.model, "config": family.config(dims), "training": chosen}
    if family.tracker != "profiler":
        case["tracker"] = family.tracker
    inputs = family.inputs(dims)
    return case | ({} if inputs is None else {"inputs": inputs})


def relatives() -> list[dict[str, Any]]:
    """Every family in every form that it has."""
    cases = []
    for name, family in FAMILIES.items():
        forms = FORMS + ([ADAPTED] if family.lora else [])
        cases += [{"name": f"{name}-{number}"} | _case(name, family, form) for number, form in enumerate(forms)]
    return cases
