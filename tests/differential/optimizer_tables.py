"""Records the step of every optimizer of torch.optim, in every implementation, on a few tensors.

Writes one readable table for each combination into a folder, and ``optimizers.json`` with the facts:
states, temporaries and peak, in bytes.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

import memory_tracker as mt
from run_case import SHORT_DTYPES, implementation_flags, state_labels, versions

SHAPES: list[list[int]] = [[1000, 300], [300], [50, 70], [4096]]
MATRICES: list[list[int]] = [[1000, 300], [50, 70], [64, 64]]
DTYPES = ("float32", "bfloat16")

# name of the row: class, options
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 1e-3}),
    "sgd-weight-decay": ("SGD", {"lr": 1e-3, "weight_decay": 0.1}),
    "sgd-maximize": ("SGD", {"lr": 1e-3, "maximize": True}),
    "sgd-momentum": ("SGD", {"lr": 1e-3, "momentum": 0.9}),
    "sgd-momentum-weight-decay": ("SGD", {"lr": 1e-3, "momentum": 0.9, "weight_decay": 0.1}),
    "sgd-nesterov": ("SGD", {"lr": 1e-3, "momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {}),
    "adam-weight-decay": ("Adam", {"weight_decay": 0.1}),
    "adam-maximize": ("Adam", {"maximize": True}),
    "adam-amsgrad": ("Adam", {"amsgrad": True}),
    "adam-capturable": ("Adam", {"capturable": True}),
    "adamw": ("AdamW", {}),
    "adamw-no-weight-decay": ("AdamW", {"weight_decay": 0.0}),
    "adamw-amsgrad": ("AdamW", {"amsgrad": True}),
    "adamax": ("Adamax", {}),
    "adamax-weight-decay": ("Adamax", {"weight_decay": 0.1}),
    "nadam": ("NAdam", {}),
    "nadam-decoupled": ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "radam": ("RAdam", {}),
    "radam-decoupled": ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "rmsprop": ("RMSprop", {}),
    "rmsprop-momentum": ("RMSprop", {"momentum": 0.9}),
    "rmsprop-centered": ("RMSprop", {"centered": True}),
    "rmsprop-centered-momentum": ("RMSprop", {"centered": True, "momentum": 0.9}),
    "rmsprop-weight-decay": ("RMSprop", {"weight_decay": 0.1}),
    "adagrad": ("Adagrad", {}),
    "adagrad-weight-decay": ("Adagrad", {"weight_decay": 0.1}),
    "adadelta": ("Adadelta", {}),
    "adadelta-weight-decay": ("Adadelta", {"weight_decay": 0.1}),
    "adafactor": ("Adafactor", {}),
    "adafactor-weight-decay": ("Adafactor", {"weight_decay": 0.1}),
    "asgd": ("ASGD", {}),
    "asgd-weight-decay": ("ASGD", {"weight_decay": 0.1}),
    "rprop": ("Rprop", {}),
    "muon": ("Muon", {}),
    "muon-no-nesterov": ("Muon", {"nesterov": False}),
    "muon-no-weight-decay": ("Muon", {"weight_decay": 0.0}),
    "lbfgs": ("LBFGS", {"max_iter": 4}),
}


def run_optimizer(
    variant: str, implementation: str, dtype: str, step: str, clip: float | None = None
) -> tuple[dict[str, Any], mt.Trace]:
    """Records ``optimizer.step()`` alone; gradients exist before it, as after a backward."""
    class_name, options = VARIANTS[variant]
    shapes = MATRICES if class_name == "Muon" else SHAPES
    torch.manual_seed(0)
    recorder = mt.Recorder()
    with recorder.background():
        parameters = [torch.nn.Parameter(torch.randn(shape, dtype=getattr(torch, dtype))) for shape in shapes]
        flags = {} if class_name in ("Muon", "LBFGS") else implementation_flags(implementation)
        optimizer: torch.optim.Optimizer = getattr(torch.optim, class_name)(parameters, **options, **flags)

        def gradients() -> None:
            for parameter in parameters:
                parameter.grad = torch.randn_like(parameter)

        def closure() -> float:
            return 1.0

        arguments = [closure] if class_name == "LBFGS" else []
        # RAdam takes its adaptive branch from the sixth step on.
        for _ in range(8 if step == "steady" else 0):
            gradients()
            optimizer.step(*arguments)
        gradients()
    labels: list[tuple[str, str, int, str]] = []
    for index, parameter in enumerate(parameters):
        labels.append(("start", "parameters", mt.storage_address(parameter), str(index)))
        labels.append(("start", "gradients", mt.storage_address(parameter.grad), str(index)))
    labels += state_labels([optimizer], "start", mt.storage_address)
    with recorder.step():
        with mt.phase("optimizer_step"):
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(parameters, clip, foreach=implementation == "foreach")
            optimizer.step(*arguments)
        mt.mark("step_end")
    trace = recorder.trace(labels + state_labels([optimizer], "step_end", mt.storage_address))
    numel = sum(p.numel() for p in parameters)
    start = trace.categories_at(0, False)
    end = trace.categories_at(trace.marks["step_end"], False)
    views: dict[str, Any] = {}
    for view, workspace in (("tensors", False), ("allocator", True)):
        peak = trace.peak(workspace)
        base = sum(trace.categories_at(0, workspace).values())
        if peak is None or peak.bytes <= base:
            views[view] = {"above_start_bytes": 0, "categories": trace.categories_at(0, workspace), "op": None}
        else:
            views[view] = {
                "above_start_bytes": peak.bytes - base,
                "categories": peak.categories,
                "op": trace.events[peak.event].op,
            }
    states: dict[str, int] = {}
    for storage in trace.live_at(trace.marks["step_end"], False):
        if storage.category == "optimizer_states":
            states[storage.name] = states.get(storage.name, 0) + storage.bytes
    result = {
        "variant": variant,
        "class": class_name,
        "options": options,
        "implementation": implementation,
        "dtype": dtype,
        "step": step,
        "clip": clip,
        "shapes": shapes,
        "parameter_bytes": start["parameters"],
        "state_bytes": states,
        "states_at_start_bytes": start.get("optimizer_states", 0),
        "left_over_bytes": sum(end.values())
        - start["parameters"]
        - end.get("gradients", 0)
        - end.get("optimizer_states", 0),
        **views,
    }
    extra = {
        "case": {"model": f"{class_name} {implementation}", "config": options, "training": shapes},
        "versions": versions(),
        "counts": {"parameters": numel},
    }
    return result | {"_table": extra}, trace


def implementations(class_name: str) -> list[str]:
    """Implementations that a class of torch.optim has."""
    if class_name in ("Muon", "LBFGS"):
        return ["for-loop"]
    if class_name in ("Adam", "AdamW", "SGD", "Adagrad"):
        return ["for-loop", "foreach", "fused"]
    return ["for-loop", "foreach"]


def write_optimizer_table(result: dict[str, Any], trace: mt.Trace, path: Path) -> None:
    """Writes the events of one optimizer step."""
    with open(path, "w", encoding="utf-8") as out:
        facts = {key: value for key, value in result.items() if key != "_table"}
        out.write(json.dumps(facts) + "\n")
        for event in trace.events:
            storage = event.storage
            shape = "?" if storage.shape is None else "x".join(map(str, storage.shape)) or "scalar"
            dtype = SHORT_DTYPES.get(storage.dtype or "", "?")
            kind = "workspace" if storage.workspace else f"{storage.category} {storage.name}".strip()
            change = event.sign * storage.bytes
            out.write(f"{event.op or '(python)':<40} {change:>+10}  #{storage.id} {dtype}[{shape}] {kind}\n")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder for the tables")
    parser.add_argument("--json", type=Path, help="write the facts here")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    rows: list[dict[str, Any]] = []
    for variant, (class_name, _) in VARIANTS.items():
        for implementation in implementations(class_name):
            for dtype in DTYPES:
                for step in ("first", "steady"):
                    name = f"{variant}-{implementation}-{dtype}-{step}"
                    try:
                        result, trace = run_optimizer(variant, implementation, dtype, step)
                    except Exception as error:  # some combinations do not exist
                        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
                        continue
                    write_optimizer_table(result, trace, arguments.folder / f"optimizer-{name}.txt")
                    del result["_table"], trace
                    gc.collect()
                    rows.append(result)
                    size = result["parameter_bytes"]
                    temporaries = result["tensors"]["categories"].get("temporaries", 0)
                    print(
                        f"{name:<52} states {sum(result['state_bytes'].values()) / size:7.4f}P  "
                        f"temporaries at peak {temporaries / size:7.4f}P {temporaries:>9}  "
                        f"above start {result['tensors']['above_start_bytes'] / size:7.4f}P  "
                        f"allocator {result['allocator']['above_start_bytes'] / size:7.4f}P  "
                        f"{result['tensors']['op']}"
                    )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"versions": versions(), "optimizers": rows}, out, sort_keys=True, indent=1)
            out.write("\n")


if __name__ == "__main__":
    main()
