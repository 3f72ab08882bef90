"""Decoders that read images of any size: cases whose batches say how each image is cut into patches."""

from __future__ import annotations

from typing import Any

CPU_OPTIMIZER: dict[str, Any] = {"name": "AdamW", "implementation": "for-loop", "options": {}}
VOCAB = 1000
PATCH = 14
MERGE = 2

TEXT: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB,
    "max_position_embeddings": 1024,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]},
}
VISION: dict[str, Any] = {"depth": 3, "num_heads": 4, "patch_size": PATCH, "spatial_merge_size": MERGE}
TOKENS = {"image_token_id": VOCAB - 1, "video_token_id": VOCAB - 2}


def qwen2_vl() -> dict[str, Any]:
    """Qwen2-VL: every layer attends to the whole image."""
    return {"text_config": TEXT, "vision_config": VISION | {"embed_dim": 192, "hidden_size": 256}, **TOKENS}


def qwen2_5_vl() -> dict[str, Any]:
    """Qwen2.5-VL: most layers attend within windows, here of 3 x 3 tokens."""
    vision = {"hidden_size": 192, "out_hidden_size": 256, "intermediate_size": 520}
    windows = {"window_size": 3 * MERGE * PATCH, "fullatt_block_indexes": [1]}
    return {"text_config": TEXT, "vision_config": VISION | vision | windows, **TOKENS}


def qwen3_vl() -> dict[str, Any]:
    """Qwen3-VL: features of layers of the tower join layers of the decoder."""
    vision = {"hidden_size": 192, "out_hidden_size": 256, "intermediate_size": 520, "num_position_embeddings": 144}
    joins = {"deepstack_visual_indexes": [0, 2]}
    return {"text_config": TEXT | {"head_dim": 64}, "vision_config": VISION | vision | joins, **TOKENS}


def qwen3_vl_moe() -> dict[str, Any]:
    """The same with experts in the decoder."""
    config = qwen3_vl()
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 352}
    return config | {"text_config": config["text_config"] | experts}


def glm4v() -> dict[str, Any]:
    """GLM-4.1V: a table of positions sampled at each patch, and a convolution that merges patches."""
    rotation = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6], "partial_rotary_factor": 0.5}
    vision = {"hidden_size": 192, "out_hidden_size": 256, "intermediate_size": 520, "image_size": 168}
    return {"text_config": TEXT | {"rope_parameters": rotation}, "vision_config": VISION | vision, **TOKENS}


def glm4v_moe() -> dict[str, Any]:
    """GLM-4.5V: the tower of GLM-4.1V before layers with experts."""
    config = glm4v()
    experts = {"n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 176, "n_shared_experts": 1}
    return config | {"text_config": config["text_config"] | experts}


def inputs(batch: int, images: int, words: int, height: int, width: int) -> dict[str, Any]:
    """A batch in which every sample has images of one size, after its first token."""
    grid = [1, height // PATCH, width // PATCH]
    patches = grid[1] * grid[2]
    tokens = patches // MERGE**2
    shape = [batch, words + images * tokens]
    places = [[1 + i * (tokens + 1), 1 + i * (tokens + 1) + tokens] for i in range(images)]
    return {
        "input_ids": {"shape": shape, "high": VOCAB - 2, "fill": [[*place, VOCAB - 1] for place in places]},
        "labels": {"shape": shape, "high": VOCAB - 2},
        "mm_token_type_ids": {"shape": shape, "high": 1, "fill": [[*place, 1] for place in places]},
        "pixel_values": {"shape": [batch * images * patches, 3 * 2 * PATCH**2]},
        "image_grid_thw": {"values": [grid] * (batch * images)},
    }


# Class, config, and which of the forms below are recorded.
CLASSES = {
    "qwen2-vl": ("Qwen2VLForConditionalGeneration", qwen2_vl, range(5)),
    "qwen2.5-vl": ("Qwen2_5_VLForConditionalGeneration", qwen2_5_vl, range(5)),
    "qwen3-vl": ("Qwen3VLForConditionalGeneration", qwen3_vl, range(5)),
    "glm4v": ("Glm4vForConditionalGeneration", glm4v, range(5)),
    "glm4v-moe": ("Glm4vMoeForConditionalGeneration", glm4v_moe, (0, 1, 2)),
    "qwen3-vl-moe": ("Qwen3VLMoeForConditionalGeneration", qwen3_vl_moe, (0, 2)),
}


PLAIN_TEXT = {name: value for name, value in TEXT.items() if name != "rope_parameters"}
TOWER: dict[str, Any] = {
    "hidden_size": 192,
    "intermediate_size": 520,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
SIDE = 64
CELL = 8


def llava_next() -> dict[str, Any]:
    """LLaVA-NeXT: images in tiles, of which one is the whole image."""
    return {
        "text_config": {"model_type": "llama", **PLAIN_TEXT},
        "vision_config": {"model_type": "clip_vision_model", "image_size": SIDE, "patch_size": CELL, **TOWER},
        "image_grid_pinpoints": [[SIDE, 2 * SIDE], [2 * SIDE, SIDE], [2 * SIDE, 2 * SIDE]],
        "image_token_index": VOCAB - 1,
    }


def mistral3() -> dict[str, Any]:
    """Mistral 3: the patches of all images under one mask."""
    return {
        "text_config": {"model_type": "mistral", "head_dim": 64, "sliding_window": None, **PLAIN_TEXT},
        "vision_config": {"model_type": "pixtral", "image_size": 256, "patch_size": PATCH, **TOWER},
        "tie_word_embeddings": False,
        "image_token_index": VOCAB - 1,
    }


def internvl() -> dict[str, Any]:
    """InternVL: tiles of one size, of which four patches become a token."""
    return {
        "text_config": {"model_type": "qwen2", **PLAIN_TEXT},
        "vision_config": {"image_size": [SIDE, SIDE], "patch_size": [CELL, CELL], **TOWER},
        "tie_word_embeddings": False,
        "image_token_id": VOCAB - 1,
    }


def words_and_images(batch: int, images: int, words: int, tokens: int) -> dict[str, Any]:
    """Ids and labels of sequences in which every image takes so many tokens."""
    shape = [batch, words + images * tokens]
    places = [[1 + i * (tokens + 1), 1 + i * (tokens + 1) + tokens, VOCAB - 1] for i in range(images)]
    return {
        "input_ids": {"shape": shape, "high": VOCAB - 2, "fill": places},
        "labels": {"shape": shape, "high": VOCAB - 2},
    }


def llava_next_inputs(batch: int, images: int, words: int, form: int) -> dict[str, Any]:
    """Images that fill 2 x 2 tiles but for rows of padding, or 1 x 2."""
    size, tiles, tokens = [([100, 128], 5, 64 + 12 * 17), ([64, 120], 3, 64 + 8 * 17)][form % 2]
    return words_and_images(batch, images, words, tokens) | {
        "pixel_values": {"shape": [batch * images, tiles, 3, SIDE, SIDE]},
        "image_sizes": {"values": [size] * (batch * images)},
    }


def mistral3_inputs(batch: int, images: int, words: int, form: int) -> dict[str, Any]:
    """Images of one size."""
    size = [[224, 168], [112, 196]][form % 2]
    tokens = size[0] * size[1] // (PATCH * MERGE) ** 2
    return words_and_images(batch, images, words, tokens) | {
        "pixel_values": {"shape": [batch * images, 3, *size]},
        "image_sizes": {"values": [size] * (batch * images)},
    }


def internvl_inputs(batch: int, images: int, words: int, form: int) -> dict[str, Any]:
    """Two tiles of each image, or one."""
    tiles = images * (1 + form % 2)
    return words_and_images(batch, tiles, words, (SIDE // CELL // 2) ** 2) | {
        "pixel_values": {"shape": [batch * tiles, 3, SIDE, SIDE]},
    }


TILED = {
    "llava-next": ("LlavaNextForConditionalGeneration", llava_next, llava_next_inputs),
    "mistral3": ("Mistral3ForConditionalGeneration", mistral3, mistral3_inputs),
    "internvl": ("InternVLForConditionalGeneration", internvl, internvl_inputs),
}


def towers_of_tiles() -> list[dict[str, Any]]:
    """The same choices for towers that see tiles or whole images."""
    forms: list[tuple[dict[str, int], dict[str, Any]]] = [
        ({"batch": 1, "images": 1, "words": 80}, {}),
        ({"batch": 2, "images": 1, "words": 80}, {"attn_implementation": "eager", "keep_outputs": True}),
        ({"batch": 2, "images": 2, "words": 64}, {"autocast": "bfloat16"}),
        (
            {"batch": 2, "images": 1, "words": 64},
            {"param_dtype": "bfloat16", "frozen": ["vision_tower"], "checkpointing": "non_reentrant"},
        ),
        ({"batch": 1, "images": 2, "words": 64}, {"checkpointing": "reentrant", "keep_outputs": True}),
    ]
    common = {"attn_implementation": "sdpa", "optimizer": CPU_OPTIMIZER, "keep_outputs": False}
    cases = []
    for name, (model, config, make) in TILED.items():
        for number, (shape, training) in enumerate(forms):
            batch = make(**shape, form=number)
            sizes = {"batch": shape["batch"], "seq": batch["input_ids"]["shape"][1]}
            # LLaVA reads the last layer but one; what runs behind it is counted as not checkpointed.
            whole = name == "llava-next" and "checkpointing" in training
            last = {"vision_feature_layer": -1} if whole else {}
            case = {"architecture": name, "model": model, "config": config() | last, "inputs": batch}
            cases.append({"name": f"{name}-{number}", **case, "training": common | training | sizes})
    return cases


def vision_language() -> list[dict[str, Any]]:
    """Trained and frozen towers, one image and several, in each precision."""
    wide = {"height": 224, "width": 168}
    forms: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"batch": 1, "images": 1, "words": 80, **wide}, {}),
        ({"batch": 2, "images": 1, "words": 80, **wide}, {"attn_implementation": "eager", "keep_outputs": True}),
        ({"batch": 2, "images": 2, "words": 64, "height": 112, "width": 196}, {"autocast": "bfloat16"}),
        (
            {"batch": 2, "images": 1, "words": 64, **wide},
            {"param_dtype": "bfloat16", "frozen": ["visual"], "checkpointing": "non_reentrant"},
        ),
        ({"batch": 1, "images": 2, "words": 64, **wide}, {"checkpointing": "reentrant", "keep_outputs": True}),
    ]
    common = {"attn_implementation": "sdpa", "optimizer": CPU_OPTIMIZER, "keep_outputs": False}
    cases = []
    for name, (model, config, chosen) in CLASSES.items():
        for number in chosen:
            shape, training = forms[number]
            batch = inputs(**shape)
            sizes = {"batch": shape["batch"], "seq": batch["input_ids"]["shape"][1]}
            case = {"architecture": name, "model": model, "config": config(), "inputs": batch}
            cases.append({"name": f"{name}-{number}", **case, "training": common | training | sizes})
    return cases
