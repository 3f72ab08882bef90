"""Compares every tensor that `membudget inspect` lists with the framework's own class of the same config.

The classes are those of Transformers and diffusers, built on the meta device: no weights, no downloads. Compared are
names, shapes, which tensors share one storage, which the class freezes, and the names that `save_pretrained` writes.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers.conversion_mapping import get_model_conversion_mapping  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402
from transformers.core_model_loading import (  # noqa: E402
    PrefixChange,
    WeightTransform,
    revert_weight_conversion,
)

from model_variations import SEED, Case, variations  # noqa: E402

Json = dict[str, Any]

# Classes that published configs name and that entered Transformers under another name.
RENAMED_CLASSES = {
    "LLaMAForCausalLM": "LlamaForCausalLM",
    "KimiK25ForConditionalGeneration": "Kimi_K25ForConditionalGeneration",
    "MiniMaxM3ForCausalLM": "MiniMaxM3VLForCausalLM",
    "ExaoneForCausalLM": "LlamaForCausalLM",
    "InternLM3ForCausalLM": "LlamaForCausalLM",
    "IQuestCoderForCausalLM": "LlamaForCausalLM",
    "SarvamMoEForCausalLM": "Glm4MoeForCausalLM",
    "SarvamMLAForCausalLM": "DeepseekV3ForCausalLM",
}

# Model types with a configuration of their own whose models are another type's class.
BORROWED_CLASSES = {"exaone", "internlm3", "iquestcoder", "sarvam_moe", "sarvam_mla"}

# Classes that only the repository of their weights holds, though Transformers has one of the same name or model type.
# Its keys and its modules are others.
REMOTE_CODE = {
    "MPTForCausalLM",  # llm-foundry's
    "RWForCausalLM",
    "MixFormerSequentialForCausalLM",
    "ChatGLMModel",
}
REMOTE_FAMILIES = {"phi-msft", "rwkv5"}


@dataclasses.dataclass
class Tensors:
    """The tensors of one model, by name."""

    shapes: dict[str, tuple[int, ...]]
    frozen: frozenset[str]
    tied: frozenset[frozenset[str]]
    stored: dict[str, tuple[int, ...]] | None = None  # as in a published file; None: not known

    def total(self) -> int:
        """Parameters, a storage with several names counted once."""
        own = {min(names) for names in self.tied}
        shared = {name for names in self.tied for name in names} - own
        return sum(elements(shape) for name, shape in self.shapes.items() if name not in shared)


@dataclasses.dataclass(frozen=True)
class Explained:
    """A difference that is right: with `change` applied to the config or to the class's tensors, nothing differs."""

    architectures: str  # a regular expression
    why: str
    config: Callable[[Json], Json] | None = None
    tensors: Callable[[Json, Tensors], Tensors] | None = None


def without_aliases(_: Json, theirs: Tensors) -> Tensors:
    """The two stacks' names of the one embedding module."""
    aliases = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}
    tied = frozenset(group - aliases for group in theirs.tied)

    def own(shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return {name: shape for name, shape in shapes.items() if name not in aliases}

    return dataclasses.replace(
        theirs,
        shapes=own(theirs.shapes),
        stored=own(theirs.stored or {}),
        tied=frozenset(group for group in tied if len(group) > 1),
    )


def as_loaded(config: Json, theirs: Tensors) -> Tensors:
    """As `from_pretrained` makes it of a file that holds both matrices."""
    if config.get("tie_word_embeddings", config["model_type"] != "mt5") or "lm_head.weight" not in theirs.shapes:
        return theirs
    return dataclasses.replace(theirs, tied=frozenset())


EXPLAINED = (
    Explained(
        r"^(M|UM)?T5(Model|ForConditionalGeneration|EncoderModel)$",
        "encoder and decoder look up in one table: one tensor, listed once",
        tensors=without_aliases,
    ),
    Explained(
        r"^(M|UM)?T5ForConditionalGeneration$",
        "the class ties always, and from_pretrained unties where the file holds both matrices, as the published "
        "files with tie_word_embeddings false do",
        tensors=as_loaded,
    ),
    Explained(
        r"^(Mistral3|InternVL)ForConditionalGeneration$",
        "the class ties unless the config says otherwise, and from_pretrained unties where the file holds both "
        "matrices, as the published files do; the decoder's own default decides",
        config=lambda config: {"tie_word_embeddings": False, **config},
    ),
    Explained(
        r"^(KimiK25|Kimi_K25)ForConditionalGeneration$|^DeepseekV4ForCausalLM$",
        "the conversion of names has rules that files need in one direction only: reversed, they rename more",
        tensors=lambda _, theirs: dataclasses.replace(theirs, stored=None),
    ),
    Explained(
        r"^(OlmoHybrid|KimiLinear)(ForCausalLM|Model)$",
        "files hold the convolution in three parts, which no rule of names says",
        tensors=lambda _, theirs: dataclasses.replace(theirs, stored=None),
    ),
)


def elements(shape: tuple[int, ...]) -> int:
    """Product of the extents."""
    product = 1
    for extent in shape:
        product *= extent
    return product


class Refused(Exception):
    """The class or the program does not take this config."""


def framework_class(architecture: str) -> type | None:
    """The class of that name, in Transformers or in diffusers."""
    name = RENAMED_CLASSES.get(architecture, architecture)
    found = getattr(transformers, name, None)
    if found is None:
        try:
            import diffusers
        except ImportError:
            return None
        found = getattr(diffusers, name, None)
    return found if isinstance(found, type) else None


def build(model_class: type, config: Json) -> torch.nn.Module:
    """The model of `config`, without data."""
    config = {key: value for key, value in config.items() if key != "quantization_config"}
    try:
        with torch.device("meta"):
            if hasattr(model_class, "config_class"):
                borrowed = config.get("model_type") in BORROWED_CLASSES
                config_class = CONFIG_MAPPING[config["model_type"]] if borrowed else model_class.config_class
                return model_class(config_class.from_dict(config))
            return model_class.from_config(config)
    except Exception as error:
        raise Refused(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}") from error


def published_conversions(model: transformers.PreTrainedModel) -> list[WeightTransform] | None:
    """How the names of published files become those of the class.

    `save_pretrained` leaves out changes of a prefix, because a model that was not loaded does not tell whether its
    file had it. The files of CLIP, SigLIP and what contains them have theirs.
    """

    def applies(conversion: WeightTransform) -> bool:
        if not isinstance(conversion, PrefixChange):
            return True
        prefix = conversion.prefix_to_remove
        return prefix in ("text_model", "vision_model") and not any(
            name.startswith(f"{prefix}.") for name, _ in model.named_parameters()
        )

    return [c for c in get_model_conversion_mapping(model, add_legacy=False) if applies(c)] or None


def of_framework(model: torch.nn.Module) -> Tensors:
    """What the class made."""
    named = dict(model.named_parameters(remove_duplicate=False))
    names = collections.defaultdict(set)
    for name, parameter in named.items():
        names[id(parameter)].add(name)
    shapes = {name: tuple(parameter.shape) for name, parameter in named.items()}
    stored = None
    if isinstance(model, transformers.PreTrainedModel):
        model._weight_conversions = published_conversions(model)
        stored = {name: tuple(value.shape) for name, value in revert_weight_conversion(model, named).items()}
    return Tensors(
        shapes=shapes,
        frozen=frozenset(name for name, parameter in named.items() if not parameter.requires_grad),
        tied=frozenset(frozenset(group) for group in names.values() if len(group) > 1),
        stored=stored,
    )


def inspect(program: str, config: Json) -> Json:
    """The program's own account."""
    run = subprocess.run(
        [program, "inspect", "-", "--format", "json"], input=json.dumps(config), capture_output=True, text=True
    )
    report = json.loads(run.stdout)
    if run.returncode != 0:
        first = report["errors"][0]
        kind = "unsupported" if run.returncode == 3 else "invalid"
        raise Refused(f"{kind}: {first['pointer']}: {first['message']}")
    return report


def of_program(report: Json) -> Tensors:
    """The tensors that it lists."""
    tensors = report["tensors"]
    groups = collections.defaultdict(set)
    for tensor in tensors:
        if tensor["tied_to"] is not None:
            groups[tensor["tied_to"]] |= {tensor["tied_to"], tensor["name"]}
    shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in tensors}
    if len(shapes) != len(tensors):
        raise Refused("invalid: a tensor is listed twice")
    return Tensors(
        shapes=shapes,
        frozen=frozenset(tensor["name"] for tensor in tensors if not tensor["trainable"]),
        tied=frozenset(frozenset(group) for group in groups.values()),
        stored=stored_tensors(tensors),
    )


def stored_tensors(tensors: list[Json]) -> dict[str, tuple[int, ...]]:
    """The tensors of a published file: braces expand to the pieces of a tensor, and pieces of one name are joined."""
    stored: dict[str, tuple[int, ...]] = {}
    for tensor in tensors:
        written = tensor["checkpoint_name"] or tensor["name"]
        shape = tuple(tensor["shape"])
        names = list(expand(written))
        if ".." in written:  # experts, each with its slice, perhaps in parts
            shape = (shape[1] * shape[0] // len(names), *shape[2:])
        elif len(names) > 1:  # parts of a matrix, or of each matrix of a stack
            divided = len(shape) - 2
            shape = (*shape[:divided], shape[divided] // len(names), *shape[divided + 1 :])
        for name in names:
            stored[name] = (stored[name][0] + shape[0], *shape[1:]) if name in stored else shape
    return stored


def expand(name: str) -> Iterator[str]:
    """Brace expansion, as in a shell."""
    braces = re.search(r"\{([^{}]*)\}", name)
    if braces is None:
        yield name
        return
    run = re.fullmatch(r"(\d+)\.\.(\d+)", braces[1])
    parts = map(str, range(int(run[1]), int(run[2]) + 1)) if run else braces[1].split(",")
    for part in parts:
        yield from expand(name[: braces.start()] + part + name[braces.end() :])


def some(names: set[str] | frozenset[str]) -> str:
    """The first few of them."""
    first = sorted(names)[:3]
    return ", ".join(first) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def differences(ours: Tensors, theirs: Tensors) -> Iterator[str]:
    """All ways in which they differ."""
    missing = theirs.shapes.keys() - ours.shapes.keys()
    extra = ours.shapes.keys() - theirs.shapes.keys()
    if missing:
        yield f"not listed: {some(missing)}"
    if extra:
        yield f"not in the class: {some(extra)}"
    for name in sorted(ours.shapes.keys() & theirs.shapes.keys()):
        if ours.shapes[name] != theirs.shapes[name]:
            yield f"shape of {name}: {list(ours.shapes[name])} instead of {list(theirs.shapes[name])}"
            break
    if not missing and not extra:
        if ours.tied != theirs.tied:
            yield f"tied: {[sorted(g) for g in ours.tied]} instead of {[sorted(g) for g in theirs.tied]}"
        if ours.frozen != theirs.frozen:
            yield f"frozen: {some(ours.frozen)} instead of {some(theirs.frozen)}"
    if ours.total() != theirs.total():
        yield f"total: {ours.total()} instead of {theirs.total()}"


def stored_differences(ours: Tensors, theirs: Tensors) -> Iterator[str]:
    """The same for the names in published files."""
    if theirs.stored is None or ours.stored is None:
        return
    missing = theirs.stored.keys() - ours.stored.keys()
    extra = ours.stored.keys() - theirs.stored.keys()
    if missing:
        yield f"stored, not listed: {some(missing)}"
    if extra:
        yield f"listed, not stored: {some(extra)}"
    for name in sorted(theirs.stored.keys() & ours.stored.keys()):
        if sorted(theirs.stored[name]) != sorted(ours.stored[name]):  # some files hold a tensor transposed
            yield f"stored shape of {name}: {list(ours.stored[name])} instead of {list(theirs.stored[name])}"
            break


def check(program: str, case: Case) -> tuple[str, str]:
    """The verdict on one case and its details."""
    try:
        report = inspect(program, case.config)
    except Refused as refusal:
        if str(refusal).startswith("unsupported"):
            return "unsupported", str(refusal)
        return ("both refuse" if framework_refuses(case.config) else "refused"), str(refusal)
    architecture = report["architecture"]
    remote = architecture in REMOTE_CODE or report["family"] in REMOTE_FAMILIES
    model_class = None if remote else framework_class(architecture)
    if model_class is None:
        return "no class", f"{architecture} is not in the frameworks"
    ours = of_program(report)
    reasons: list[Explained] = []
    try:
        found = compare(ours, model_class, case.config)
        for entry in EXPLAINED:
            if found and re.search(entry.architectures, architecture):
                reasons.append(entry)
                found = compare(ours, model_class, case.config, reasons)
    except Refused as refusal:
        return "not built", f"{architecture}: {refusal}"
    if found:
        return "DIFFERS", "; ".join(found)
    if reasons:
        return "explained", "; ".join(entry.why for entry in reasons)
    return "agrees", f"{architecture}, {len(ours.shapes)} tensors"


def framework_refuses(config: Json) -> bool:
    """True when the class that the config names does not take it either."""
    names = config.get("architectures") or [config.get("_class_name", "")]
    model_class = framework_class(names[0])
    if model_class is None:
        return False
    try:
        build(model_class, config)
    except Refused:
        return True
    return False


def compare(ours: Tensors, model_class: type, config: Json, reasons: Sequence[Explained] = ()) -> list[str]:
    """What differs once the changes of `reasons` are made."""
    changed = config
    for entry in reasons:
        changed = entry.config(changed) if entry.config else changed
    theirs = of_framework(build(model_class, changed))
    for entry in reasons:
        theirs = entry.tensors(config, theirs) if entry.tensors else theirs
    return [*differences(ours, theirs), *stored_differences(ours, theirs)]


def corpus(folder: Path) -> Iterator[Case]:
    """The configs of a folder."""
    for path in sorted(folder.glob("*.json")):
        yield Case(path.name, json.loads(path.read_text(encoding="utf-8")))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="membudget", help="the membudget to check")
    parser.add_argument("--configs", type=Path, help="a folder of config.json files")
    parser.add_argument("--variations", type=int, default=0, metavar="N", help="combinations drawn for each family")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()

    sources = [corpus(arguments.configs)] if arguments.configs else []
    if arguments.variations:
        sources.append(variations(arguments.variations, arguments.seed))
    count: collections.Counter[str] = collections.Counter()
    for case in itertools.chain(*sources):
        if arguments.only not in case.name:
            continue
        verdict, text = check(arguments.program, case)
        count[verdict] += 1
        print(f"{case.name}: {verdict}: {text}", flush=True)
    print(", ".join(f"{number} {verdict}" for verdict, number in sorted(count.items())) or "no case")
    return 1 if not count or count["DIFFERS"] or count["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
