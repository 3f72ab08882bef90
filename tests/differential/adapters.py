"""What PEFT trains: counts and names of every tensor, for small models and for real configs.

``python adapters.py`` writes ``adapters.json``, the facts that the tests of ``model`` hold. With ``--program`` and
``--configs`` it compares a built ``membudget`` with PEFT on every config.json below a folder.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib.metadata
import itertools
import json
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import peft
import torch
import transformers
from architectures import ARCHITECTURES, Dims, make_case
from model_variations import FAMILIES
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as DEFAULTS

Settings = dict[str, Any]

ATTENTION = [
    *("q_proj", "k_proj", "v_proj", "o_proj", "out_proj", "query", "key", "value", "c_attn"),
    *("query_key_value", "qkv_proj", "q_lin", "v_lin", "q", "v", "o", "Wqkv", "attn.Wqkv"),
]

# The linear modules that experts were before Transformers 5 made them stacks of parameters.
EXPERTS = ["gate_proj", "up_proj", "down_proj", "w1", "w2", "w3"]

CONVOLUTIONS = [
    *("conv", "conv1", "conv2", "conv1d", "dwconv", "convolution", "projection", "patch_embedding", "patch_embed.proj"),
    *("reduction", "layer.0.attention.attention.value", "fc1"),
]

# Families of model_variations.py that are recorded beside the architectures: experts, convolutions, state spaces.
RECORDED_FAMILIES = (
    "phimoe dbrx glm4_moe minimax_m2 llama4 qwen3_next qwen3_vl_moe jamba mamba falcon_h1 convnext resnet swin qwen2_vl"
).split()

SETTINGS: dict[str, Settings] = {
    "default": {},
    "all-linear": {"r": 16, "target_modules": "all-linear"},
    "names": {"r": 4, "target_modules": ATTENTION},
    "pattern": {"r": 3, "target_modules": r"(.*\.)?(layers?|h|block|blocks)\.[0-1]\..*(q|k|v|query|key|c_attn|dense)(_proj)?"},
    "dora": {"r": 8, "target_modules": "all-linear", "use_dora": True, "bias": "lora_only"},
    "layers": {"r": 8, "target_modules": ATTENTION, "layers_to_transform": [0, 2], "bias": "all"},
    "saved": {"r": 8, "target_modules": ATTENTION, "modules_to_save": ["embed_tokens", "lm_head", "classifier", "wte"]},
    "experts": {"r": 4, "target_modules": [*ATTENTION, *EXPERTS]},
    "half": {"r": 4, "target_modules": ["q_proj", "gate_proj", "w1"]},
    "routers": {"r": 4, "target_modules": r".*\.(0|1)\..*(gate|router|w[123]|(up|gate|down|v)_proj)"},
    "parameters": {
        **{"r": 4, "target_modules": ["q_proj", "c_attn"], "layers_to_transform": [1]},
        "target_parameters": ["experts.gate_up_proj", "experts.down_proj", "experts.mlp.w1", "gate.weight"],
    },
    "parameters only": {"r": 4, "target_parameters": ["0.mlp.experts.down_proj", "mlp.down_proj.weight"]},
    "ranks": {
        **{"r": 4, "target_modules": [*ATTENTION, *EXPERTS], "exclude_modules": ["0.self_attn.v_proj"]},
        "rank_pattern": {r"\d\.self_attn\.q_proj": 2, "down_proj": 6, r"[kv](ey)?(_proj)?": 3},
        "alpha_pattern": {"down_proj": 12},
    },
    "convolutions": {"r": 6, "target_modules": CONVOLUTIONS, "lora_bias": True},
    "conv-dora": {"r": 64, "target_modules": CONVOLUTIONS, "use_dora": True},
    "embedding": {"r": 6, "target_modules": [*ATTENTION, "embed_tokens", "word_embeddings", "wte", "shared"]},
}


def build(model: str, config: dict[str, Any]) -> torch.nn.Module:
    """The model on the meta device; an instance of a config of its class."""
    model_class = getattr(transformers, model)
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model_class._from_config(model_class.config_class(**copy.deepcopy(config)))


def digest(lines: list[str]) -> str:
    """FNV-1a of 64 bits over the sorted lines."""
    value = 0xCBF29CE484222325
    for byte in "".join(f"{line}\n" for line in sorted(lines)).encode():
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def tensors_of(model: torch.nn.Module, every_name: bool = False) -> list[str]:
    """A line for each parameter, or for each of its names: name, shape, whether it is trained."""
    return [
        f"{name} {list(p.shape)} {'trained' if p.requires_grad else 'frozen'}"
        for name, p in model.named_parameters(remove_duplicate=not every_name)
    ]


def adapt(model: torch.nn.Module, settings: Settings) -> torch.nn.Module | str:
    """The model with adapters, or what PEFT says against it."""
    with contextlib.redirect_stdout(sys.stderr), torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return peft.get_peft_model(model, peft.LoraConfig(**settings))
        except Exception as error:  # noqa: BLE001  (PEFT has errors of its own)
            return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"


def facts(model: str, config: dict[str, Any], name: str) -> dict[str, Any]:
    """What PEFT makes of one model under one setting."""
    settings = SETTINGS[name]
    made = build(model, config)
    if name == "default" and made.config.model_type not in DEFAULTS:
        return {"setting": name, "error": "no default"}
    adapted = adapt(made, settings)
    if isinstance(adapted, str):
        return {"setting": name, "error": adapted.partition(":")[0]}
    trainable, total = adapted.get_nb_trainable_parameters()
    lines = tensors_of(adapted)
    return {"setting": name, "trainable": trainable, "total": total, "tensors": len(lines), "digest": digest(lines)}


def small_models() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, class and config of each that is recorded."""
    dims = Dims(layers=4)
    for architecture, row in ARCHITECTURES.items():
        yield architecture, row.model, make_case(architecture, dims)["config"]
    for name, model, config in bases():
        if name in RECORDED_FAMILIES:
            yield name, model, config


def bases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The small config of every family of Transformers."""
    for family in FAMILIES:
        model = family.classes.split()[0]
        if family.key == "model_type" and hasattr(transformers, model):
            yield family.model_type, model, {"model_type": family.model_type, **family.base}


def record() -> dict[str, Any]:
    """Facts of all small models."""
    models = {}
    for name, model, config in small_models():
        records = [facts(model, config, setting) for setting in SETTINGS]
        models[name] = {"model": model, "config": config, "records": records}
    versions = {name: importlib.metadata.version(name) for name in ("peft", "torch", "transformers")}
    return {"versions": versions, "settings": SETTINGS, "models": models}


def shown(facts: dict[str, Any]) -> str:
    """JSON with a record on each line."""
    text = json.dumps(facts, indent=1, sort_keys=True)
    return re.sub(r"\{\n\s*(\"(?:error|digest)\"[^{}]*?)\n\s*\}", lambda m: "{" + re.sub(r"\n\s*", " ", m[1]) + "}", text) + "\n"


class Unsupported(Exception):
    """The program does not model this."""


def ours(program: str, config: dict[str, Any], architecture: str, settings: Settings) -> list[str] | str:
    """The lines of ``membudget inspect``, or its diagnostics."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        spec = Path(folder) / "spec.json"
        spec.write_text(
            json.dumps(
                {
                    "membudget": 1,
                    "model": {"config": str(path), "architecture": architecture},
                    "training": {"lora": settings, "quantization": "none"},
                }
            )
        )
        run = subprocess.run([program, "inspect", str(spec), "--format", "json"], capture_output=True, text=True)
    if run.returncode == 3:
        raise Unsupported(run.stderr.strip())
    if run.returncode != 0:
        return run.stderr.strip()
    return [
        f"{t['name']} {t['shape']} {'trained' if t['trainable'] else 'frozen'}"
        for t in json.loads(run.stdout)["tensors"]
    ]


def configs_below(folder: Path, most: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, class and config of files that name a class of Transformers; so many of each family."""
    seen: dict[str, int] = {}
    for path in sorted(folder.rglob("*.json")):
        try:
            config = json.loads(path.read_text())
        except (ValueError, UnicodeDecodeError):
            continue
        names = config.get("architectures") if isinstance(config, dict) else None
        if names and config.get("model_type") and hasattr(transformers, names[0]) and "auto_map" not in config:
            family = config["model_type"]
            seen[family] = seen.get(family, 0) + 1
            config.pop("quantization_config", None)
            if seen[family] <= most:
                yield path.name, names[0], config


def comparable(config: dict[str, Any]) -> dict[str, Any]:
    """The config with what `check_models.py` explains: the class as it is loaded."""
    if config["model_type"] in ("t5", "mt5", "umt5"):
        return {**config, "tie_word_embeddings": True}
    if config["model_type"] in ("mistral3", "internvl"):
        return {"tie_word_embeddings": False, **config}
    return config


def compare(program: str, cases: Iterator[tuple[str, str, dict[str, Any]]]) -> int:
    """Prints each disagreement and the counts; the number of disagreements."""
    agree, differ, skipped, unsupported, families = 0, 0, 0, 0, set()
    for case, architecture, given in cases:
        config = comparable(given)
        family = config["model_type"]
        for name in SETTINGS:
            try:
                made = build(architecture, config)
            except Exception as error:  # noqa: BLE001  (a config that the library refuses says nothing about us)
                print(f"-- {case}: {type(error).__name__}: {str(error)[:100]}")
                skipped += 1
                break
            if name == "default" and made.config.model_type not in DEFAULTS:
                continue
            adapted = adapt(made, SETTINGS[name])
            try:
                lines = ours(program, config, architecture, SETTINGS[name])
            except Unsupported:
                unsupported += 1
                continue
            if isinstance(adapted, str) or isinstance(lines, str):
                same = isinstance(adapted, str) and isinstance(lines, str)
                if not same:
                    print(f"{case} {name}: PEFT: {str(adapted)[:100] if isinstance(adapted, str) else 'fine'}; "
                          f"ours: {lines[:160] if isinstance(lines, str) else 'fine'}")
                skipped += same
                differ += not same
                continue
            theirs = tensors_of(adapted, every_name=True)
            if sorted(theirs) == sorted(lines):
                agree += 1
                families.add(family)
                continue
            differ += 1
            missing = sorted(set(theirs) - set(lines))
            extra = sorted(set(lines) - set(theirs))
            print(f"{case} {architecture} {name}: {len(missing)} missing {missing[:2]}, {len(extra)} extra {extra[:2]}")
    print(
        f"{agree} agree in every tensor, {differ} differ, {skipped} skipped, {unsupported} unsupported; "
        f"{len(families)} families"
    )
    return differ


def main() -> int:
    """Records, or compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", help="a built membudget")
    parser.add_argument("--configs", type=Path, help="a folder of config.json files")
    parser.add_argument("--bases", action="store_true", help="the small configs of model_variations.py")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--most", type=int, default=2, help="configs of each family")
    arguments = parser.parse_args()
    if arguments.program:
        cases = configs_below(arguments.configs, arguments.most) if arguments.configs else iter(())
        chosen = (
            case for case in itertools.chain(cases, bases() if arguments.bases else ()) if arguments.only in case[0]
        )
        return 1 if compare(arguments.program, chosen) else 0
    Path(__file__).with_name("adapters.json").write_text(shown(record()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
