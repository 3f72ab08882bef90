"""Runs every case of a seed and writes the facts into one JSON file; takes up where it stopped."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch

from cases import SEED, all_cases
from full_size import full_size
from run_case import complete, run, versions


def condense(result: dict[str, Any]) -> dict[str, Any]:
    """The part of the facts that the record keeps."""
    tensors = result["tensors"]
    return {
        "case": result["case"],
        "counts": result["counts"],
        "peak_dispatch_bytes": result["peak_dispatch_bytes"],
        "peak_allocator_bytes": result["peak_allocator_bytes"],
        "peak": tensors["peak"],
        "phases": tensors["phases"],
        "boundaries": tensors["boundaries"],
        "allocator_peak": result["allocator"]["peak"],
        "optimizer_state_bytes": result["optimizer_state_bytes"],
        "cyclic_garbage_bytes": result["cyclic_garbage_bytes"],
    }


def load(path: Path, seed: int) -> dict[str, dict[str, Any]]:
    """Records of an earlier run with the same seed and versions, by name."""
    if not path.exists():
        return {}
    document = json.loads(path.read_text(encoding="utf-8"))
    if document["seed"] != seed or document["versions"] != versions():
        return {}
    return {entry["case"]["name"]: entry for entry in document["records"]}


def save(path: Path, seed: int, records: dict[str, dict[str, Any]], failures: dict[str, str]) -> None:
    """Writes the document: one record a line, sorted by name."""
    head = {"seed": seed, "versions": versions(), "failures": dict(sorted(failures.items()))}
    lines = [json.dumps(records[name], sort_keys=True, separators=(",", ":")) for name in sorted(records)]
    body = json.dumps(head, sort_keys=True)[:-1] + ', "records": [\n' + ",\n".join(lines) + "\n]}\n"
    partial = path.with_suffix(".partial")
    partial.write_text(body, encoding="utf-8")
    partial.replace(path)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("records.json"))
    parser.add_argument("--only", help="run only the cases whose name contains this")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    done = load(arguments.output, arguments.seed)
    records: dict[str, dict[str, Any]] = {}
    failures: dict[str, str] = {}
    cases = [(case, case.get("tracker", "profiler")) for case in all_cases(arguments.seed)]
    cases += [(case, "fake") for case in full_size()]
    for number, (case, tracker) in enumerate(cases):
        name = case["name"]
        if name in done and done[name]["case"] == complete(case):
            records[name] = done[name]
            continue
        if arguments.only and arguments.only not in name:
            continue
        began = time.monotonic()
        try:
            result, _ = run(case, tracker)
        except Exception as error:  # a case that cannot run is itself a finding
            failures[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            print(f"{name}: {failures[name]}", file=sys.stderr)
            traceback.print_exc()
            continue
        records[name] = condense(result)
        peak = records[name]["peak"]
        print(
            f"{number + 1}/{len(cases)} {name} {time.monotonic() - began:.1f}s {peak['bytes']} "
            f"{(peak['where'] or {}).get('phase')} {(peak['where'] or {}).get('op')}",
            flush=True,
        )
        if number % 10 == 9:
            save(arguments.output, arguments.seed, records, failures)
    save(arguments.output, arguments.seed, records, failures)


if __name__ == "__main__":
    main()
