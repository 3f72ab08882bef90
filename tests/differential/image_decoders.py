"""Further decoders that read images: cases of their classes, in each precision, with trained and frozen towers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mixtures import ALTERNATING, WINDOW, base, llama4, minimax_m3, routed, step3p7
from vision_language import (
    CELL,
    CPU_OPTIMIZER,
    MERGE,
    PATCH,
    SIDE,
    TOWER,
    VOCAB,
    internvl,
    internvl_inputs,
    mistral3,
    mistral3_inputs,
    words_and_images,
)

Config = dict[str, Any]
ROTATION = {"rope_type": "default", "rope_theta": 10000.0}
ODD_SIDE = 144  # eighteen patches, then nine, then five: large enough that oneDNN takes the convolutions
TILE_TOKENS = (SIDE // CELL // 2) ** 2


def llama4_images() -> Config:
    """Llama 4: patches by a matrix product, the class token last, complex rotations, shuffled pixels."""
    tower = TOWER | {"intermediate_size": 4 * TOWER["hidden_size"], "image_size": SIDE, "patch_size": CELL}
    widths = {"projector_input_dim": 320, "projector_output_dim": 320, "vision_output_dim": 320}
    return {
        "text_config": llama4(),
        "vision_config": tower | widths | {"rope_parameters": ROTATION},
        "image_token_index": VOCAB - 1,
    }


def paligemma(text: str, **more: Any) -> Config:
    """A SigLIP tower and a linear module before Gemma; the prefix, images and prompt, is seen as a whole."""
    tower = TOWER | {"image_size": SIDE, "patch_size": CELL, "vision_use_head": False}
    return {
        "text_config": {"model_type": text, **base(head_dim=48), **more},
        "vision_config": {"model_type": "siglip_vision_model", **tower},
        "projection_dim": base()["hidden_size"],
        "image_token_index": VOCAB - 1,
    }


def prefixes(batch: int, images: int, words: int, form: int) -> dict[str, Any]:
    """Images and half of the words are the prefix."""
    del form
    patches = (SIDE // CELL) ** 2
    made = words_and_images(batch, images, words, patches)
    shape = made["input_ids"]["shape"]
    return made | {
        "token_type_ids": {"shape": shape, "high": 1, "fill": [[shape[1] - words // 2, shape[1], 1]]},
        "pixel_values": {"shape": [batch * images, 3, SIDE, SIDE]},
    }


def kimi_k25() -> Config:
    """Kimi K2.5: positions resampled from a table, frames pooled, and DeepSeek-V3."""
    latent = {"q_lora_rank": 128, "kv_lora_rank": 64, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64, "v_head_dim": 64}
    text = routed(num_key_value_heads=4, n_group=1, topk_group=1, first_k_dense_replace=1) | latent
    del text["head_dim"]
    return {
        "text_config": {"model_type": "deepseek_v3", **text},
        "vision_config": TOWER | {"patch_size": PATCH, "pos_emb_height": 16, "pos_emb_width": 16},
        "projection_hidden_size": TOWER["hidden_size"],
        "image_token_id": VOCAB - 1,
        "video_token_id": VOCAB - 2,
        "tie_word_embeddings": False,
    }


def minimax_m3_images() -> Config:
    """MiniMax-M3: rotation in three directions, of which some dimensions are left over, and patches merged late."""
    return {
        "text_config": minimax_m3(),
        "vision_config": TOWER | {"hidden_size": 176, "patch_size": PATCH},
        "projector_hidden_size": 320,
        "image_token_index": VOCAB - 1,
        "video_token_index": VOCAB - 2,
    }


def step3p7_images() -> Config:
    """Step 3.7: layers with scales, and two convolutions behind them."""
    tower = {"num_hidden_layers": 3, "num_attention_heads": 4, "hidden_size": 192, "mlp_ratio": 2.7}
    return {
        "text_config": step3p7(),
        "vision_config": tower | {"image_size": ODD_SIDE, "patch_size": CELL},
        "image_token_id": VOCAB - 1,
    }


def whole_images(batch: int, images: int, words: int, form: int) -> dict[str, Any]:
    """Images of one size, of whose rows of patches each convolution leaves half."""
    del form
    left = -(-ODD_SIDE // CELL // 2)
    return words_and_images(batch, images, words, (-(-left // 2)) ** 2) | {
        "pixel_values": {"shape": [batch * images, 3, ODD_SIDE, ODD_SIDE]},
    }


def packed_grids(batch: int, images: int, words: int, form: int) -> dict[str, Any]:
    """The same, each patch of two frames in one row."""
    made = grids(batch, images, words, form)
    return made | {"pixel_values": {"shape": [made["pixel_values"]["shape"][0], 2 * 3 * PATCH**2]}}


def grids(batch: int, images: int, words: int, form: int) -> dict[str, Any]:
    """Images of one size, cut into patches."""
    height, width = [(16, 12), (8, 14)][form % 2]
    shape = [batch * images * height * width, 3, PATCH, PATCH]
    return words_and_images(batch, images, words, height * width // MERGE**2) | {
        "pixel_values": {"shape": shape},
        "image_grid_thw": {"values": [[1, height, width]] * (batch * images)},
    }


def tiles(batch: int, images: int, words: int, form: int) -> dict[str, Any]:
    """Tiles of one size."""
    del form
    return words_and_images(batch, images, words, TILE_TOKENS) | {
        "pixel_values": {"shape": [batch * images, 3, SIDE, SIDE]},
    }


# Layers whose input comes by keyword get no gradient from a reentrant region.
REENTRANT = 4
BY_KEYWORD = {"llama4-images"}
FORMS: list[tuple[dict[str, int], dict[str, Any]]] = [
    ({"batch": 1, "images": 1, "words": 80}, {}),
    ({"batch": 2, "images": 1, "words": 80}, {"attn_implementation": "eager", "keep_outputs": True}),
    ({"batch": 2, "images": 2, "words": 64}, {"autocast": "bfloat16"}),
    (
        {"batch": 2, "images": 1, "words": 64},
        {"param_dtype": "bfloat16", "frozen": ["vision_"], "checkpointing": "non_reentrant"},
    ),
    ({"batch": 1, "images": 2, "words": 64}, {"checkpointing": "reentrant", "keep_outputs": True}),
    (
        {"batch": 2, "images": 1, "words": 64},
        {
            "param_dtype": "bfloat16",
            "keep_outputs": True,
            "accumulation": 2,
            "lora": {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "o_proj"]},
        },
    ),
]
COMMON: dict[str, Any] = {"attn_implementation": "sdpa", "optimizer": CPU_OPTIMIZER, "keep_outputs": False}
CLASSES: dict[str, tuple[str, Callable[[], Config], Callable[..., dict[str, Any]]]] = {
    "llama4-images": ("Llama4ForConditionalGeneration", llama4_images, tiles),
    "kimi-k25": ("Kimi_K25ForConditionalGeneration", kimi_k25, grids),
    "minimax-m3-images": ("MiniMaxM3SparseForConditionalGeneration", minimax_m3_images, packed_grids),
    "step3p7": ("Step3p7ForConditionalGeneration", step3p7_images, whole_images),
    "paligemma": ("PaliGemmaForConditionalGeneration", lambda: paligemma("gemma"), prefixes),
    "paligemma2": (
        "PaliGemmaForConditionalGeneration",
        lambda: paligemma("gemma2", sliding_window=WINDOW, layer_types=ALTERNATING),
        prefixes,
    ),
}


def earlier_layers() -> list[dict[str, Any]]:
    """Towers of which another layer than the last is read: what runs behind it goes into the outputs alone."""
    cases = []
    for name, (model, config, make) in {
        "internvl": ("InternVLForConditionalGeneration", internvl, internvl_inputs),
        "mistral3": ("Mistral3ForConditionalGeneration", mistral3, mistral3_inputs),
    }.items():
        checkpointed = ({"batch": 2, "images": 1, "words": 60}, {"checkpointing": "non_reentrant", "keep_outputs": True})
        for number, (shape, training) in enumerate([*FORMS[:4], checkpointed]):
            layer = {"vision_feature_layer": [-2, 1, -2, 1, -3][number]}
            pooling = {"use_mean_pooling": number < 2} if name == "internvl" else {}
            made = config() | layer
            made["vision_config"] = made["vision_config"] | pooling
            if number == 3:  # as it is without checkpoints
                training = {key: value for key, value in training.items() if key != "checkpointing"}
            batch = make(**shape, form=number)
            sizes = {"batch": shape["batch"], "seq": batch["input_ids"]["shape"][1]}
            case = {"architecture": name, "model": model, "config": made, "inputs": batch}
            cases.append({"name": f"{name}-earlier-{number}", **case, "training": COMMON | training | sizes})
    return cases


def image_decoders() -> list[dict[str, Any]]:
    """Every class in every form."""
    cases = []
    for name, (model, config, make) in CLASSES.items():
        for number, (shape, training) in enumerate(FORMS):
            if number == REENTRANT and name in BY_KEYWORD:
                continue
            if name == "kimi-k25" and "lora" in training:  # latent attention has other modules
                targets = {"target_modules": ["q_b_proj", "o_proj"]}
                training = training | {"lora": training["lora"] | targets}
            if name == "paligemma2":  # its decoder has no other
                training = training | {"attn_implementation": "eager"}
            batch = make(**shape, form=number)
            sizes = {"batch": shape["batch"], "seq": batch["input_ids"]["shape"][1]}
            case = {"architecture": name, "model": model, "config": config(), "inputs": batch}
            cases.append({"name": f"{name}-{number}", **case, "training": COMMON | training | sizes})
    return cases + earlier_layers()
