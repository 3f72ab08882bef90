"""Compares image models of `membudget inspect` with timm's classes, which are other code for the same networks.

timm's configs hold no sizes: an architecture's name stands for them. So each row gives the sizes, in the keys of the
family of Transformers, and how the names of its modules become timm's. Compared is every tensor, name and shape;
projections of queries, keys and values, which timm has as one matrix, are joined.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.abc
import importlib.machinery
import json
import re
import subprocess
import sys
import types
from typing import Any

import torch

Json = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]


class _Named(type):
    """Classes whose attributes are their own names."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Stub(types.ModuleType):
    """A module that has every class."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Named(name, (), {})


class _WithoutTorchvision(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """timm imports torchvision for its data sets, of which none is needed here."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        own = name.partition(".")[0] == "torchvision"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if own else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


@dataclasses.dataclass(frozen=True)
class Row:
    """One architecture of timm, its sizes, and rules that make timm's names; the first that matches holds."""

    timm: str
    config: Json
    rules: tuple[tuple[str, str], ...]


TRANSFORMER = (
    (r"(?:vit|deit)\.embeddings\.cls_token", "cls_token"),
    (r"deit\.embeddings\.distillation_token", "dist_token"),
    (r"(?:vit|deit)\.embeddings\.position_embeddings", "pos_embed"),
    (r"(?:vit|deit)\.embeddings\.patch_embeddings\.projection", "patch_embed.proj"),
    (r"(?:vit|deit)\.layers\.(\d+)\.attention\.[qkv]_proj", r"blocks.\1.attn.qkv"),
    (r"(?:vit|deit)\.layers\.(\d+)\.attention\.o_proj", r"blocks.\1.attn.proj"),
    (r"(?:vit|deit)\.layers\.(\d+)\.mlp", r"blocks.\1.mlp"),
    (r"(?:vit|deit)\.layers\.(\d+)\.layernorm_before", r"blocks.\1.norm1"),
    (r"(?:vit|deit)\.layers\.(\d+)\.layernorm_after", r"blocks.\1.norm2"),
    (r"(?:vit|deit)\.layernorm", "norm"),
    (r"(?:cls_)?classifier", "head"),
    (r"distillation_classifier", "head_dist"),
)
SWIN_LAYER = r"swin\.encoder\.layers\.(\d+)\.blocks\.(\d+)\."
SWIN = (
    (r"swin\.embeddings\.patch_embeddings\.projection", "patch_embed.proj"),
    (r"swin\.embeddings\.norm", "patch_embed.norm"),
    (SWIN_LAYER + r"attention\.[qkv]_proj", r"layers.\1.blocks.\2.attn.qkv"),
    (SWIN_LAYER + r"attention\.o_proj", r"layers.\1.blocks.\2.attn.proj"),
    (SWIN_LAYER + r"attention\.relative_position_bias\.", r"layers.\1.blocks.\2.attn."),
    (SWIN_LAYER + r"mlp", r"layers.\1.blocks.\2.mlp"),
    (SWIN_LAYER + r"layernorm_before", r"layers.\1.blocks.\2.norm1"),
    (SWIN_LAYER + r"layernorm_after", r"layers.\1.blocks.\2.norm2"),
    (r"swin\.encoder\.layers\.0\.downsample", "layers.1.downsample"),  # timm has it where the next stage begins
    (r"swin\.encoder\.layers\.1\.downsample", "layers.2.downsample"),
    (r"swin\.encoder\.layers\.2\.downsample", "layers.3.downsample"),
    (r"swin\.layernorm", "norm"),
    (r"classifier", "head.fc"),
)
CONVNEXT_STAGE = r"convnext\.encoder\.stages\.(\d+)\."
CONVNEXT = (
    (r"convnext\.embeddings\.patch_embeddings", "stem.0"),
    (r"convnext\.embeddings\.layernorm", "stem.1"),
    (CONVNEXT_STAGE + r"downsampling_layer", r"stages.\1.downsample"),
    (CONVNEXT_STAGE + r"layers\.(\d+)\.layer_scale_parameter", r"stages.\1.blocks.\2.gamma"),
    (CONVNEXT_STAGE + r"layers\.(\d+)\.dwconv", r"stages.\1.blocks.\2.conv_dw"),
    (CONVNEXT_STAGE + r"layers\.(\d+)\.layernorm", r"stages.\1.blocks.\2.norm"),
    (CONVNEXT_STAGE + r"layers\.(\d+)\.pwconv", r"stages.\1.blocks.\2.mlp.fc"),
    (r"convnext\.layernorm", "head.norm"),
    (r"classifier", "head.fc"),
)
# Stages and convolutions count from 1 in timm.
RESNET = (
    (r"resnet\.embedder\.embedder\.convolution", "conv1"),
    (r"resnet\.embedder\.embedder\.normalization", "bn1"),
    *(
        rule
        for stage in range(4)
        for rule in (
            *(
                (rf"resnet\.encoder\.stages\.{stage}\.layers\.(\d+)\.layer\.{i}\.{ours}", rf"layer{stage + 1}.\1.{theirs}{i + 1}")
                for i in range(3)
                for ours, theirs in (("convolution", "conv"), ("normalization", "bn"))
            ),
            (rf"resnet\.encoder\.stages\.{stage}\.layers\.(\d+)\.shortcut\.convolution", rf"layer{stage + 1}.\1.downsample.0"),
            (rf"resnet\.encoder\.stages\.{stage}\.layers\.(\d+)\.shortcut\.normalization", rf"layer{stage + 1}.\1.downsample.1"),
        )
    ),
    (r"classifier\.1", "fc"),
)  # fmt: skip

CLASSES = {"num_labels": 1000}


def vit(name: str, hidden: int, layers: int, heads: int, patch: int, **more: Any) -> Row:
    """A vision transformer whose feed-forward networks are four times as wide."""
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    config = {"model_type": "vit", **sizes, "intermediate_size": 4 * hidden, "patch_size": patch, **CLASSES, **more}
    return Row(name, config, TRANSFORMER)


def swin(name: str, width: int, depths: list[int], heads: list[int]) -> Row:
    """A Swin transformer with windows of 7."""
    return Row(name, {"model_type": "swin", "embed_dim": width, "depths": depths, "num_heads": heads, **CLASSES}, SWIN)


def convnext(name: str, widths: list[int], depths: list[int]) -> Row:
    """A ConvNeXt."""
    return Row(name, {"model_type": "convnext", "hidden_sizes": widths, "depths": depths, **CLASSES}, CONVNEXT)


def resnet(name: str, kind: str, widths: list[int], depths: list[int]) -> Row:
    """A ResNet."""
    config = {"model_type": "resnet", "layer_type": kind, "hidden_sizes": widths, "depths": depths, **CLASSES}
    return Row(name, config, RESNET)


DISTILLED = {"model_type": "deit", "architectures": ["DeiTForImageClassificationWithTeacher"]}
BASIC, BOTTLENECK = [64, 128, 256, 512], [256, 512, 1024, 2048]

ROWS = (
    vit("vit_tiny_patch16_224", 192, 12, 3, 16),
    vit("vit_base_patch16_224", 768, 12, 12, 16),
    vit("vit_base_patch32_384", 768, 12, 12, 32, image_size=384),
    vit("vit_large_patch14_224", 1024, 24, 16, 14),
    vit("vit_huge_patch14_224", 1280, 32, 16, 14),
    vit("deit_base_patch16_224", 768, 12, 12, 16),
    vit("deit_small_distilled_patch16_224", 384, 12, 6, 16, **DISTILLED),
    vit("deit_base_distilled_patch16_384", 768, 12, 12, 16, image_size=384, **DISTILLED),
    swin("swin_tiny_patch4_window7_224", 96, [2, 2, 6, 2], [3, 6, 12, 24]),
    swin("swin_base_patch4_window7_224", 128, [2, 2, 18, 2], [4, 8, 16, 32]),
    swin("swin_large_patch4_window7_224", 192, [2, 2, 18, 2], [6, 12, 24, 48]),
    convnext("convnext_tiny", [96, 192, 384, 768], [3, 3, 9, 3]),
    convnext("convnext_base", [128, 256, 512, 1024], [3, 3, 27, 3]),
    convnext("convnext_xlarge", [256, 512, 1024, 2048], [3, 3, 27, 3]),
    resnet("resnet18", "basic", BASIC, [2, 2, 2, 2]),
    resnet("resnet34", "basic", BASIC, [3, 4, 6, 3]),
    resnet("resnet50", "bottleneck", BOTTLENECK, [3, 4, 6, 3]),
    resnet("resnet152", "bottleneck", BOTTLENECK, [3, 8, 36, 3]),
)


def theirs(name: str) -> Shapes:
    """The tensors of timm's class."""
    import timm

    with torch.device("meta"):
        model = timm.create_model(name, num_classes=CLASSES["num_labels"])
    return {key: tuple(value.shape) for key, value in model.named_parameters()}


def renamed(name: str, rules: tuple[tuple[str, str], ...]) -> str:
    """What timm calls it; its own name where no rule matches."""
    for pattern, replacement in rules:
        if re.match(pattern, name):
            return re.sub(pattern, replacement, name, count=1)
    return name


def ours(program: str, row: Row) -> Shapes:
    """The tensors that the program lists, under timm's names; those of one name are joined."""
    command = [program, "inspect", "-", "--format", "json"]
    run = subprocess.run(command, input=json.dumps(row.config), capture_output=True, text=True, check=True)
    shapes: Shapes = {}
    for tensor in json.loads(run.stdout)["tensors"]:
        name, shape = renamed(tensor["name"], row.rules), tuple(tensor["shape"])
        shapes[name] = (shapes[name][0] + shape[0], *shape[1:]) if name in shapes else shape
    return shapes


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="membudget", help="the membudget to check")
    arguments = parser.parse_args()
    sys.meta_path.insert(0, _WithoutTorchvision())
    differing = 0
    for row in ROWS:
        left, right = ours(arguments.program, row), theirs(row.timm)
        wrong = sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))
        differing += bool(wrong)
        shown = ", ".join(f"{name} {left.get(name)} instead of {right.get(name)}" for name in wrong[:3])
        print(f"{row.timm}: " + (f"DIFFERS in {len(wrong)}: {shown}" if wrong else f"agrees, {len(right)} tensors"))
    print(f"{len(ROWS) - differing} agree, {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
