"""Draws the cases of the differential test: one seed, one list."""

from __future__ import annotations

import argparse
import json
import random
import sys
from typing import Any

from architectures import ARCHITECTURES, Architecture, Dims, make_case
from image_decoders import image_decoders
from mixtures import mixtures
from relatives import relatives
from vision_language import towers_of_tiles, vision_language

SEED = 20
DRAWS_EACH = 4

# (weight, optimizer); Muon is drawn for decoders only, whose embeddings and heads carry the usual names.
OPTIMIZERS: list[tuple[int, dict[str, Any]]] = [
    (8, {"name": "AdamW", "implementation": "foreach", "options": {}}),
    (6, {"name": "AdamW", "implementation": "fused", "options": {}}),
    (3, {"name": "AdamW", "implementation": "for-loop", "options": {}}),
    (1, {"name": "AdamW", "implementation": "foreach", "options": {"amsgrad": True}}),
    (1, {"name": "Adam", "implementation": "foreach", "options": {"weight_decay": 0.1}}),
    (2, {"name": "SGD", "implementation": "foreach", "options": {"lr": 0.001}}),
    (1, {"name": "SGD", "implementation": "foreach", "options": {"lr": 0.001, "momentum": 0.9}}),
    (1, {"name": "SGD", "implementation": "for-loop", "options": {"lr": 0.001, "weight_decay": 0.1}}),
    (1, {"name": "RMSprop", "implementation": "foreach", "options": {}}),
    (1, {"name": "Adagrad", "implementation": "for-loop", "options": {}}),
    (2, {"name": "Adafactor", "implementation": "for-loop", "options": {}}),
    (1, {"name": "NAdam", "implementation": "foreach", "options": {}}),
    (1, {"name": "Adadelta", "implementation": "foreach", "options": {}}),
    (1, {"name": "Muon", "implementation": "foreach", "options": {}}),
]
PRECISIONS: list[tuple[str, str | None]] = [("float32", None), ("bfloat16", None), ("float32", "bfloat16")]


def draw_dims(rng: random.Random, row: Architecture) -> Dims:
    """Sizes large enough for real terms to dominate, small enough for seconds on one core."""
    heads = rng.choice([4, 8])
    hidden = heads * rng.choice([32, 64]) if rng.random() < 0.7 else 384
    kv_heads = rng.choice([k for k in (1, 2, 4, 8) if heads % k == 0 and k <= heads])
    batch = rng.choice([1, 2, 3, 4])
    seq = rng.choice([64, 96, 128, 192, 256])
    return Dims(
        hidden=hidden,
        intermediate=rng.choice([2, 3]) * hidden + rng.choice([0, 32]),
        layers=rng.choice([2, 4]),
        heads=heads,
        kv_heads=kv_heads,
        vocab=rng.choice([1000, 2048, 4000, 8000]),
        batch=batch,
        seq=seq,
        dropout=0.1 if row.dropout and rng.random() < 0.5 else 0.0,
        experts=rng.choice([4, 8]),
        experts_per_token=2,
        image=rng.choice([32, 64]),
        patch=8,
    )


def draw_training(rng: random.Random, row: Architecture, precision: int) -> dict[str, Any]:
    """Training options; every precision comes up for every architecture."""
    param_dtype, autocast = PRECISIONS[precision % len(PRECISIONS)]
    weights = [w for w, o in OPTIMIZERS if o["name"] != "Muon" or row.kind == "decoder"]
    choices = [o for _, o in OPTIMIZERS if o["name"] != "Muon" or row.kind == "decoder"]
    training: dict[str, Any] = {
        "param_dtype": param_dtype,
        "autocast": autocast,
        "attn_implementation": rng.choice(row.attention),
        "optimizer": rng.choices(choices, weights)[0],
        "step": "first" if rng.random() < 0.2 else "steady",
        "keep_outputs": rng.random() < 0.6,
        "clip": 1.0 if rng.random() < 0.4 else None,
        "set_to_none": rng.random() < 0.85,
        "accumulation": rng.choice([2, 3]) if rng.random() < 0.2 else 1,
    }
    if row.checkpointing and rng.random() < 0.35:
        training["checkpointing"] = rng.choice(["non_reentrant", "reentrant"])
    elif row.kind == "decoder" and rng.random() < 0.1:
        training["use_cache"] = True
    if training["keep_outputs"] and rng.random() < 0.15:
        training["carry_outputs"] = True
    if row.padding_mask and rng.random() < 0.2:
        training["padding_mask"] = True
    if row.lora_targets and rng.random() < 0.35:
        training["lora"] = {
            "r": rng.choice([4, 8, 16]),
            "lora_alpha": 16,
            "lora_dropout": rng.choice([0.0, 0.05]),
            "target_modules": list(row.lora_targets),
        }
        if training["optimizer"]["name"] == "Muon":
            training["optimizer"] = OPTIMIZERS[0][1]
    elif "checkpointing" not in training and rng.random() < 0.08:
        training["frozen"] = ["embed", "wte", "shared"]
    return training


def draw(seed: int = SEED) -> list[dict[str, Any]]:
    """All cases of a seed, each with its name."""
    rng = random.Random(seed)
    cases = []
    for number, (name, row) in enumerate(ARCHITECTURES.items()):
        for turn in range(DRAWS_EACH):
            dims = draw_dims(rng, row)
            case = make_case(name, dims, draw_training(rng, row, number + turn))
            cases.append({"name": f"{name}-{turn}"} | case)
    return cases


FOUR_BIT = {"type": "nf4", "double_quant": False, "compute": "bfloat16", "prepare": True}


def adapters() -> list[dict[str, Any]]:
    """Forms of adapters and of frozen bases that the draw does not have; 4-bit bases need bitsandbytes."""
    all_linear = {"r": 16, "lora_alpha": 16, "target_modules": "all-linear"}
    dora = {"r": 8, "lora_alpha": 16, "use_dora": True, "target_modules": ["q_proj", "down_proj"]}
    embedding = {"r": 8, "target_modules": ["q_proj", "embed_tokens"], "modules_to_save": ["lm_head"], "bias": "all"}
    narrow = {"param_dtype": "bfloat16"}
    forms: dict[str, dict[str, Any]] = {
        "dora-0": {"lora": dora | {"lora_dropout": 0.1}},
        "dora-1": narrow | {"lora": dora},
        "embedding": {"lora": embedding},
        "nf4-0": narrow | {"lora": all_linear, "quantization": FOUR_BIT},
        "nf4-1": narrow | {"lora": all_linear, "quantization": FOUR_BIT | {"double_quant": True, "prepare": False}},
        "nf4-2": narrow
        | {
            "lora": {"r": 8, "lora_dropout": 0.1, "target_modules": ["q_proj", "v_proj"]},
            "quantization": FOUR_BIT | {"double_quant": True},
            "checkpointing": "reentrant",
        },
        "fp4": narrow
        | {
            "lora": all_linear,
            "quantization": FOUR_BIT | {"type": "fp4"},
            "autocast": "bfloat16",
            "checkpointing": "non_reentrant",
        },
    }
    dims = Dims(hidden=512, intermediate=1408, layers=4, heads=8, kv_heads=4, vocab=2048, batch=2, seq=96)
    common = {"attn_implementation": "sdpa", "optimizer": OPTIMIZERS[2][1], "keep_outputs": False}
    return [{"name": f"adapters-{name}"} | make_case("llama", dims, common | form) for name, form in forms.items()]


def stacks() -> list[dict[str, Any]]:
    """Adapters on the parameters of mixtures, into which the names of linear modules turn."""
    dims = Dims(hidden=256, intermediate=704, layers=3, heads=4, kv_heads=2, vocab=1000, batch=2, seq=96)
    common = {"attn_implementation": "sdpa", "optimizer": OPTIMIZERS[2][1], "keep_outputs": False}
    everything = {"r": 8, "target_modules": "all-linear"}
    narrow = {"param_dtype": "bfloat16"}
    experts = {"r": 4, "lora_alpha": 4, "target_modules": ["q_proj"], "target_parameters": ["experts.down_proj"]}
    forms = [
        ("mixtral", {"lora": everything | {"lora_alpha": 16}}),
        ("mixtral", narrow | {"lora": everything, "checkpointing": "non_reentrant"}),
        ("mixtral", {"autocast": "bfloat16", "lora": everything | {"lora_alpha": 16}}),
        ("mixtral", narrow | {"lora": experts}),
        ("qwen2-moe", narrow | {"lora": everything, "accumulation": 2}),
        ("qwen3-moe", {"lora": everything, "checkpointing": "reentrant"}),
        ("gpt-oss", narrow | {"attn_implementation": "eager", "lora": everything | {"lora_alpha": 16}}),
        ("deepseek-v3", narrow | {"lora": everything, "autocast": "bfloat16"}),
        ("qwen2-moe", narrow | {"lora": everything, "quantization": FOUR_BIT, "checkpointing": "non_reentrant"}),
        ("qwen2-moe", narrow | {"lora": everything, "quantization": FOUR_BIT, "autocast": "bfloat16"}),
    ]
    return [
        {"name": f"stacks-{number}"} | make_case(architecture, dims, common | training)
        for number, (architecture, training) in enumerate(forms)
    ]


def losses() -> list[dict[str, Any]]:
    """Losses that the installed version of Transformers does not have."""
    dims = Dims(hidden=128, intermediate=352, layers=2, heads=4, kv_heads=2, vocab=8192, batch=2, seq=300)
    common = {"attn_implementation": "sdpa", "optimizer": OPTIMIZERS[2][1], "param_dtype": "bfloat16"}
    one = Dims(**(vars(dims) | {"batch": 1}))
    forms = {
        "4.46": {"loss": {"name": "transformers-4.46"}, "keep_outputs": False},
        "4.44": {"loss": {"name": "transformers-4.44"}, "keep_outputs": True},
        "torchtune": {"loss": {"name": "torchtune-chunked"}, "keep_outputs": False},
        "litgpt": {"loss": {"name": "litgpt-chunked"}, "keep_outputs": True},
    }
    whole = {"param_dtype": "float32", "autocast": "bfloat16"}
    return [
        {"name": f"losses-{name}-{number}"} | make_case("llama", sizes, common | form | more)
        for name, form in forms.items()
        for number, (sizes, more) in enumerate([(dims, {}), (one, {}), (dims, whole)])
    ]


def towers() -> list[dict[str, Any]]:
    """Vision towers as they are used: the last layer but one is read, and the tower is often frozen."""
    dims = Dims(hidden=256, intermediate=704, layers=3, heads=4, kv_heads=2, vocab=1000, batch=3, seq=64, image=64)
    one = Dims(**(vars(dims) | {"batch": 1}))
    common = {"attn_implementation": "sdpa", "optimizer": OPTIMIZERS[2][1], "keep_outputs": False}
    mixed = {"autocast": "bfloat16", "keep_outputs": True}
    frozen = {"param_dtype": "bfloat16", "frozen": ["vision_tower"]}
    forms = [
        (dims, {}, {}),
        (dims, {}, mixed),
        (one, {}, {"keep_outputs": True, "set_to_none": False}),
        (dims, {}, frozen),
        (dims, {"vision_feature_select_strategy": "full"}, frozen | {"checkpointing": "non_reentrant"}),
        (one, {"vision_feature_layer": 2}, frozen | {"frozen": ["vision_tower", "embed"], "checkpointing": "reentrant"}),
        (dims, {"pairs": True}, mixed | {"attn_implementation": "eager"}),
    ]
    cases = []
    for number, (sizes, config, training) in enumerate(forms):
        case = make_case("llava", sizes, common | training)
        images = 2 if config.pop("pairs", False) else 1
        case["config"] |= {"vision_feature_layer": -2} | config
        tokens = (sizes.image // sizes.patch) ** 2 + (config.get("vision_feature_select_strategy") == "full")
        inputs = case["inputs"]
        inputs["input_ids"]["fill"] = [[1 + i * tokens, 1 + (i + 1) * tokens, sizes.vocab - 1] for i in range(images)]
        for name in ("input_ids", "labels"):
            inputs[name]["shape"] = [sizes.batch, sizes.seq + images * tokens]
        inputs["pixel_values"]["shape"][0] = images * sizes.batch
        cases.append({"name": f"towers-{number}"} | case)
    return cases


def offloads() -> list[dict[str, Any]]:
    """Checkpoints in the memory of the host."""
    dims = Dims(hidden=256, intermediate=704, layers=4, heads=4, kv_heads=2, vocab=1000, batch=3, seq=96)
    common = {"attn_implementation": "sdpa", "optimizer": OPTIMIZERS[2][1], "keep_outputs": False, "offload": True}
    lazy, reentrant = {"checkpointing": "non_reentrant"}, {"checkpointing": "reentrant"}
    mixed = {"autocast": "bfloat16", "keep_outputs": True, "accumulation": 2}
    narrow = {"param_dtype": "bfloat16", "lora": {"r": 8, "target_modules": "all-linear"}}
    forms = [
        ("llama", lazy),
        ("llama", reentrant),
        ("llama", lazy | mixed),
        ("llama", reentrant | mixed),
        ("llama", lazy | narrow),
        ("qwen3-moe", lazy),
        ("gemma3", reentrant),
        ("vit", lazy),
    ]
    return [
        {"name": f"offload-{number}"} | make_case(architecture, dims, common | training)
        for number, (architecture, training) in enumerate(forms)
    ]


def narrow_autocast() -> list[dict[str, Any]]:
    """Autocast over weights that are narrow already: a model loaded in bf16, trained with `bf16=True`."""
    dims = Dims(hidden=256, intermediate=704, layers=3, heads=4, kv_heads=4, vocab=1000, batch=2, seq=96)
    common = {"param_dtype": "bfloat16", "autocast": "bfloat16", "optimizer": OPTIMIZERS[2][1], "keep_outputs": True}
    sdpa = {"attn_implementation": "sdpa"}
    forms = [
        ("llama", sdpa),
        ("llama", {"checkpointing": "non_reentrant", "lora": {"r": 8, "target_modules": "all-linear"}}),
        ("gpt2", sdpa),
        ("bert", sdpa | {"checkpointing": "reentrant"}),
        ("gemma2", {}),
        ("mixtral", sdpa),
        ("phi", sdpa),
        ("opt", {}),
        ("modernbert", sdpa),
        ("t5", {}),
        ("vit", sdpa),
        ("bloom", {}),
    ]
    return [
        {"name": f"narrow-{number}"} | make_case(architecture, dims, common | training)
        for number, (architecture, training) in enumerate(forms)
    ]


def other_draws() -> list[dict[str, Any]]:
    """What draws of other seeds found, and this one's do not have."""
    dims = Dims(hidden=256, intermediate=704, layers=4, heads=8, kv_heads=1, vocab=2000, batch=2, seq=128, image=32)
    slow = OPTIMIZERS[2][1]
    eager = {"attn_implementation": "eager"}
    mixed = {"autocast": "bfloat16", "attn_implementation": "eager", "optimizer": slow}
    forms = [
        ("falcon7", 0.0, {"attn_implementation": "sdpa"}),
        ("falcon7", 0.0, {"attn_implementation": "sdpa", "autocast": "bfloat16", "checkpointing": "non_reentrant"}),
        ("falcon", 0.0, {"attn_implementation": "eager", "use_cache": True, "padding_mask": True}),
        ("t5", 0.1, {"attn_implementation": "eager", "checkpointing": "reentrant", "optimizer": slow}),
        ("t5-gated", 0.0, mixed | {"checkpointing": "non_reentrant"}),
        ("t5-gated", 0.0, mixed | {"checkpointing": "reentrant"}),
        ("gpt2", 0.1, mixed | {"frozen": ["wte"]}),
        ("llava", 0.0, {"attn_implementation": "sdpa", "param_dtype": "bfloat16", "optimizer": slow}),
        ("gpt-oss", 0.0, eager | {"checkpointing": "non_reentrant", "optimizer": slow}),
        ("t5-gated", 0.0, eager | {"checkpointing": "non_reentrant", "accumulation": 2, "carry_outputs": True}),
        ("mpt", 0.0, mixed | {"checkpointing": "reentrant", "padding_mask": True}),
        ("bloom", 0.1, mixed | {"frozen": ["embed"]}),
        ("deberta-v2", 0.0, eager | {"checkpointing": "non_reentrant", "padding_mask": True, "optimizer": slow}),
        ("mpt", 0.0, eager | {"use_cache": True, "optimizer": slow}),
        ("gptj", 0.0, eager | {"use_cache": True, "optimizer": slow}),
        ("gpt-neo", 0.0, eager | {"use_cache": True, "optimizer": slow}),
        ("bert", 0.0, mixed | {"checkpointing": "reentrant"}),
        ("bart", 0.1, mixed | {"checkpointing": "reentrant"}),
        ("distilbert", 0.1, mixed | {"checkpointing": "reentrant", "lora": {"r": 8, "target_modules": "all-linear"}}),
        ("whisper", 0.0, mixed | {"checkpointing": "reentrant"}),
        ("mpt", 0.0, mixed | {"optimizer": {"name": "Muon", "implementation": "foreach", "options": {}}}),
    ]
    return [
        {"name": f"other-{number}"} | make_case(architecture, Dims(**(vars(dims) | {"dropout": dropout})), training)
        for number, (architecture, dropout, training) in enumerate(forms)
    ]


def all_cases(seed: int) -> list[dict[str, Any]]:
    """What `record.py` runs."""
    tables = [vision_language, towers_of_tiles, mixtures, relatives, image_decoders]
    by_hand = [adapters, stacks, losses, towers, offloads, narrow_autocast, other_draws, *tables]
    return draw(seed) + [case for make in by_hand for case in make()]


def main() -> None:
    """Prints the cases as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    for case in all_cases(arguments.seed):
        json.dump(case, sys.stdout, sort_keys=True)
        print()


if __name__ == "__main__":
    main()
