"""Writes readable event tables of tiny models into a folder, one file for each combination."""

from __future__ import annotations

import argparse
import sys
import traceback
from pathlib import Path
from typing import Any

from architectures import ARCHITECTURES, Dims, make_case
from run_case import run, write_table

PRECISIONS: dict[str, dict[str, Any]] = {
    "fp32": {"param_dtype": "float32"},
    "bf16": {"param_dtype": "bfloat16"},
    "autocast": {"param_dtype": "float32", "autocast": "bfloat16"},
}
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "gemma", "gemma2", "gpt2", "gpt-neox", "opt", "bert", "phi")
CHECKPOINTED = ("llama",)


def combinations(families: list[str]) -> list[tuple[str, str, Dims, dict[str, Any]]]:
    """(file name, architecture, sizes, training options) of every table."""
    result = []
    for family in families:
        row = ARCHITECTURES[family]
        variants = [(family, 0.0)]
        if row.dropout:
            variants.append((f"{family}_dropout", 0.1))
        for label, dropout in variants:
            for precision, options in PRECISIONS.items():
                for attention in row.attention:
                    modes = ["none"]
                    if family in CHECKPOINTED:
                        modes += ["non_reentrant", "reentrant"]
                    for mode in modes:
                        training = options | {"attn_implementation": attention, "checkpointing": mode}
                        name = f"{label}-{precision}-{attention}-{mode}"
                        result.append((name, family, Dims(dropout=dropout), training))
    return result


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("families", nargs="*", default=list(FAMILIES))
    parser.add_argument("--smallest", type=int, default=0, help="leave smaller storages out")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, family, dims, training in combinations(arguments.families):
        try:
            result, trace = run(make_case(family, dims, training))
        except Exception:  # one table that fails must not cost the others
            print(f"{name}: failed", file=sys.stderr)
            traceback.print_exc()
            continue
        with open(arguments.folder / f"{name}.txt", "w", encoding="utf-8") as out:
            write_table(result, trace, out, arguments.smallest)
        print(name, result["peak_dispatch_bytes"], result["peak_allocator_bytes"], result["cyclic_garbage_bytes"])


if __name__ == "__main__":
    main()
