"""Runs one training step of one case and condenses it to facts.

A case is a JSON object; see README.md. ``python run_case.py case.json`` prints the facts as JSON,
``--events FILE`` writes every allocator event as JSON lines, ``--table FILE`` as readable text.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO

import accelerate
import peft
import torch
import transformers
from transformers.initialization import no_init_weights
from transformers.modeling_outputs import MoeCausalLMOutputWithPast

import losses
import memory_tracker as mt
from dispatch_tracker import DispatchRecorder, fake_tensors
from host_copies import copies_on_host

TRAINING_DEFAULTS: dict[str, Any] = {
    "param_dtype": "float32",
    "autocast": None,
    "attn_implementation": "eager",
    "batch": 2,
    "seq": 32,
    "checkpointing": "none",
    "optimizer": {"name": "AdamW", "implementation": "foreach", "options": {}},
    "accumulation": 1,
    "set_to_none": True,
    "clip": None,
    "frozen": [],
    "lora": None,
    "use_cache": False,
    "keep_outputs": True,
    "carry_outputs": False,
    "padding_mask": False,
    "step": "steady",
}

# Options that a case has only where it asks for them.
TRAINING_OPTIONAL = {"quantization", "loss", "offload"}

Labels = list[tuple[str, str, int, str]]
Key = Callable[[torch.Tensor], int]


def versions() -> dict[str, str]:
    """Versions of everything that decides what is allocated."""
    return {
        "accelerate": accelerate.__version__,
        "peft": peft.__version__,
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def complete(case: dict[str, Any]) -> dict[str, Any]:
    """The case with every training option spelled out; unknown options are errors."""
    unknown = set(case.get("training", {})) - set(TRAINING_DEFAULTS) - TRAINING_OPTIONAL
    if unknown:
        raise ValueError(f"unknown training options: {sorted(unknown)}")
    result = copy.deepcopy(case)
    result["training"] = copy.deepcopy(TRAINING_DEFAULTS) | copy.deepcopy(case.get("training", {}))
    return result


def build_model(case: dict[str, Any]) -> torch.nn.Module:
    """The model of a case with random weights, in training mode."""
    training = case["training"]
    model_class = getattr(transformers, case["model"])
    if case["model"] == "Llama4ForConditionalGeneration":
        # This version's forward reads a field that the outputs of its decoder lack, and fails without it.
        MoeCausalLMOutputWithPast.image_outputs = None
    config = model_class.config_class(**copy.deepcopy(case["config"]))
    for part in {id(c): c for c in (config, config.get_text_config())}.values():
        if hasattr(part, "use_cache"):
            part.use_cache = training["use_cache"]
    model = model_class._from_config(
        config,
        attn_implementation=training["attn_implementation"],
        dtype=getattr(torch, training["param_dtype"]),
    )
    model.tie_weights()  # done already, unless initializers are left out
    for name, parameter in model.named_parameters():
        if any(pattern in name for pattern in training["frozen"]):
            parameter.requires_grad_(False)
    if training.get("quantization") is not None:
        quantize(model, training)
    if training["lora"] is not None:
        model = peft.get_peft_model(model, peft.LoraConfig(**training["lora"]))
    if training["checkpointing"] != "none":
        reentrant = training["checkpointing"] == "reentrant"
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": reentrant}, offload=training.get("offload", False)
        )
        if training["lora"] is not None:
            model.enable_input_require_grads()
    model.train()
    return model


def quantize(model: torch.nn.Module, training: dict[str, Any]) -> None:
    """Linear modules but the output embedding in 4 bits, as ``from_pretrained`` and PEFT's preparation make them."""
    import bitsandbytes as bnb

    options = training["quantization"]
    compute = getattr(torch, options["compute"])
    kept = model.get_output_embeddings()
    for name, module in list(model.named_modules()):
        if type(module) is not torch.nn.Linear or module is kept:
            continue
        new = bnb.nn.Linear4bit(
            module.in_features, module.out_features, module.bias is not None, compute_dtype=compute,
            compress_statistics=options["double_quant"], quant_type=options["type"],
        )
        new.weight = bnb.nn.Params4bit(
            module.weight.data.to(compute), requires_grad=False, compress_statistics=options["double_quant"],
            quant_type=options["type"], module=new,
        )._quantize("cpu")
        new.bias = module.bias
        model.set_submodule(name, new)
    model.is_loaded_in_4bit = True  # by this PEFT chooses its own layers for them
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        if options["prepare"] and parameter.dtype in (torch.bfloat16, torch.float16):
            parameter.data = parameter.data.float()


def quantization_states(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors beside the codes of quantized weights."""
    for name, parameter in model.named_parameters():
        state = getattr(parameter, "quant_state", None)
        if state is None:
            continue
        tensors = {"absmax": state.absmax, "code": state.code, "offset": state.offset}
        if state.state2 is not None:
            tensors |= {"nested_absmax": state.state2.absmax, "nested_code": state.state2.code}
        for part, tensor in tensors.items():
            if tensor is not None:
                yield f"{name}.{part}", tensor


def build_batch(case: dict[str, Any], model: torch.nn.Module) -> dict[str, Any]:
    """The tensors of one micro-step; ``inputs`` of the case overrides the plain token batch."""
    training = case["training"]
    generator = torch.Generator().manual_seed(0)
    specs = case.get("inputs")
    if specs is None:
        shape = [training["batch"], training["seq"]]
        vocab = model.config.get_text_config().vocab_size
        specs = {name: {"shape": shape, "high": vocab} for name in ("input_ids", "labels")}
    batch: dict[str, Any] = {}
    for name, spec in specs.items():
        if not isinstance(spec, dict):
            batch[name] = spec
        elif "values" in spec:
            batch[name] = torch.tensor(spec["values"])
        elif "grid" in spec:  # (column, row) of the patches of each image, row by row
            count, rows, columns = spec["grid"]
            places = [[column, row] for row in range(rows) for column in range(columns)]
            batch[name] = torch.tensor(places).repeat(count, 1, 1)
        elif "high" in spec:
            tensor = torch.randint(spec.get("low", 0), spec["high"], spec["shape"], generator=generator)
            for start, stop, value in spec.get("fill", []):
                tensor[:, start:stop] = value
            batch[name] = tensor
        else:
            tensor = torch.randn(spec["shape"], generator=generator)
            batch[name] = tensor.to(getattr(torch, training["param_dtype"]))
    if training["padding_mask"]:
        mask = torch.ones_like(batch["input_ids"])
        mask[0, -max(1, mask.shape[1] // 4) :] = 0
        batch["attention_mask"] = mask
    return batch


def build_optimizer(case: dict[str, Any], model: torch.nn.Module) -> list[torch.optim.Optimizer]:
    """The optimizers of a case: one, except for Muon, which leaves all but hidden matrices to AdamW."""
    spec = case["training"]["optimizer"]
    options = dict(spec.get("options", {}))
    trainable = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    flags = implementation_flags(spec.get("implementation", "default"))
    if spec["name"] != "Muon":
        return [getattr(torch.optim, spec["name"])([p for _, p in trainable], **options, **flags)]
    outer = ("embed", "wte", "wpe", "head")
    matrices = [p for n, p in trainable if p.ndim == 2 and not any(word in n for word in outer)]
    chosen = {id(p) for p in matrices}
    rest = [p for _, p in trainable if id(p) not in chosen]
    return [torch.optim.Muon(matrices, **options), torch.optim.AdamW(rest, **flags)]


def implementation_flags(implementation: str) -> dict[str, bool]:
    """Keyword arguments that make torch.optim take one implementation."""
    return {
        "default": {},
        "for-loop": {"foreach": False},
        "foreach": {"foreach": True},
        "fused": {"fused": True},
    }[implementation]


@contextmanager
def _autocast(training: dict[str, Any]) -> Iterator[None]:
    if training["autocast"] is None:
        yield
    else:
        with torch.autocast("cpu", dtype=getattr(torch, training["autocast"])):
            yield


def train_step(
    model: torch.nn.Module,
    optimizers: list[torch.optim.Optimizer],
    batches: list[dict[str, Any]],
    training: dict[str, Any],
    carried: list[Any],
    labels: Labels | None,
    key: Key,
) -> None:
    """One step of the plain training loop. ``labels`` is given when the step is recorded."""
    with mt.phase("zero_grad"):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=training["set_to_none"])
    mt.mark("zeroed")
    out = loss = None
    for index, batch in enumerate(batches):
        with mt.micro_step(index):
            if not training["carry_outputs"]:
                out = loss = None
            with mt.phase("forward"), _autocast(training):
                out = losses.forward(model, batch, training.get("loss"))
                carried.clear()
                loss = out.loss
                if len(batches) > 1:
                    loss = loss / len(batches)
            if not training["keep_outputs"]:
                out = None
            mt.mark(f"forward_end_{index}")
            with mt.phase("backward"):
                loss.backward()
            mt.mark(f"backward_end_{index}")
    if labels is not None:
        instant = f"backward_end_{len(batches) - 1}"
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                labels.append((instant, "gradients", key(parameter.grad), name))
    with mt.phase("optimizer_step"):
        if training["clip"] is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), training["clip"])
        for optimizer in optimizers:
            optimizer.step()
    mt.mark("step_end")
    if training["carry_outputs"]:
        carried.extend([out, loss])


def state_labels(optimizers: list[torch.optim.Optimizer], instant: str, key: Key) -> Labels:
    """Labels of all tensors that the optimizers hold."""
    result: Labels = []
    for optimizer in optimizers:
        for state in optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, torch.Tensor):
                    result.append((instant, "optimizer_states", key(value), name))
    return result


def start_labels(
    model: torch.nn.Module, optimizers: list[torch.optim.Optimizer], batches: list[dict[str, Any]], key: Key
) -> Labels:
    """Labels of everything that is known before the step."""
    result: Labels = []
    for name, parameter in model.named_parameters():
        result.append(("start", "parameters", key(parameter), name))
        if parameter.grad is not None:
            result.append(("start", "gradients", key(parameter.grad), name))
    for name, tensor in quantization_states(model):
        result.append(("start", "parameters", key(tensor), name))
    for name, buffer in model.named_buffers():
        result.append(("start", "buffers", key(buffer), name))
    for batch in batches:
        for name, value in batch.items():
            if isinstance(value, torch.Tensor):
                result.append(("start", "inputs", key(value), name))
    return result + state_labels(optimizers, "start", key)


def record(
    case: dict[str, Any], recorder: mt.Recorder | DispatchRecorder | None = None
) -> tuple[dict[str, Any], mt.Trace]:
    """Runs the step of a completed case."""
    training = case["training"]
    torch.manual_seed(0)
    recorder = recorder or mt.Recorder()
    key = recorder.key
    carried: list[Any] = []
    with mt.loss_marks(), copies_on_host() as host:
        with recorder.background():
            model = build_model(case)
            batches = [build_batch(case, model) for _ in range(training["accumulation"])]
            optimizers = build_optimizer(case, model)
            if training["step"] == "steady":
                for _ in range(2):
                    train_step(model, optimizers, batches, training, carried, None, key)
        labels = start_labels(model, optimizers, batches, key)
        end_labels: Labels = []
        with mt.module_marks(model), recorder.step():
            train_step(model, optimizers, batches, training, carried, end_labels, key)
            mt.mark("returned")
            gc.collect()
            mt.mark("collected")
        labels += end_labels + state_labels(optimizers, "step_end", key)
    trace = recorder.trace(labels)
    parameters = list(model.parameters())
    counts = {
        "parameters": sum(p.numel() for p in parameters),
        "trainable_parameters": sum(p.numel() for p in parameters if p.requires_grad),
    }
    if training.get("offload"):
        counts["host_bytes"] = host.peak
    del model, optimizers, batches, parameters
    gc.collect()
    return counts, trace


def _where(trace: mt.Trace, event: int) -> dict[str, Any]:
    record_ = trace.events[event]
    return {
        "phase": record_.phase,
        "micro": record_.micro,
        "recompute": record_.recompute,
        "module": record_.module,
        "op": record_.op,
        "node": record_.node,
    }


def _view(trace: mt.Trace, accumulation: int, workspace: bool) -> dict[str, Any]:
    """Facts of one view of the step: with or without what lives only inside one operator."""
    peak = trace.peak(workspace)
    start = trace.categories_at(0, workspace)
    if peak is None or sum(start.values()) >= peak.bytes:
        peak_facts: dict[str, Any] = {"bytes": sum(start.values()), "where": None, "categories": start}
    else:
        peak_facts = {
            "bytes": peak.bytes,
            "where": _where(trace, peak.event),
            "categories": peak.categories,
        }
    last = accumulation - 1
    entries = {
        "forward": [trace.marks["zeroed"]] + [trace.marks[f"backward_end_{i}"] for i in range(last)],
        "loss": [],
        "backward": [trace.marks[f"forward_end_{i}"] for i in range(accumulation)],
        "optimizer_step": [trace.marks[f"backward_end_{last}"]],
    }
    phases: dict[str, Any] = {}
    for name in mt.PHASES:
        candidates = [(p.bytes, p.categories, _where(trace, p.event)) for p in [trace.peak(workspace, {name})] if p]
        for position in entries[name]:
            categories = trace.categories_at(position, workspace)
            candidates.append((sum(categories.values()), categories, None))
        if candidates:
            best = max(candidates, key=lambda c: c[0])
            phases[name] = {"bytes": best[0], "where": best[2], "categories": best[1]}
    instants = {
        "start": 0,
        "forward_end": trace.marks[f"forward_end_{last}"],
        "backward_end": trace.marks[f"backward_end_{last}"],
        "step_end": trace.marks["step_end"],
    }
    return {
        "peak": peak_facts,
        "phases": phases,
        "boundaries": {name: trace.categories_at(at, workspace) for name, at in instants.items()},
    }


def facts(case: dict[str, Any], counts: dict[str, Any], trace: mt.Trace) -> dict[str, Any]:
    """Everything of the step that a simulator can be held against."""
    accumulation = case["training"]["accumulation"]
    tensors = _view(trace, accumulation, workspace=False)
    allocator = _view(trace, accumulation, workspace=True)
    states: dict[str, int] = {}
    for storage in trace.live_at(trace.marks["step_end"], False):
        if storage.category == "optimizer_states":
            states[storage.name] = states.get(storage.name, 0) + storage.bytes
    cyclic = sum(s.bytes for s in trace.live_at(trace.marks["returned"], False)) - sum(
        s.bytes for s in trace.live_at(trace.marks["collected"], False)
    )
    return {
        "case": case,
        "versions": versions(),
        "counts": counts,
        "peak_dispatch_bytes": tensors["peak"]["bytes"],
        "peak_allocator_bytes": allocator["peak"]["bytes"],
        "tensors": tensors,
        "allocator": allocator,
        "optimizer_state_bytes": states,
        "cyclic_garbage_bytes": cyclic,
    }


@contextmanager
def unpacked_sequences() -> Iterator[None]:
    """Transformers looks at positions for packed sequences, and without data takes them to be packed."""
    look = transformers.masking_utils.find_packed_sequence_indices

    def find(position_ids: torch.Tensor) -> None:
        look(position_ids)

    transformers.masking_utils.find_packed_sequence_indices = find
    try:
        yield
    finally:
        transformers.masking_utils.find_packed_sequence_indices = look


def run(case: dict[str, Any], tracker: str = "profiler") -> tuple[dict[str, Any], mt.Trace]:
    """Completes a case, runs it and returns its facts and the whole trace.

    The tracker is ``profiler``, ``dispatch`` (a dispatch mode over real tensors) or ``fake`` (a dispatch
    mode over tensors without data, for models of any size).
    """
    whole = complete(case)
    with ExitStack() as around:
        if tracker == "fake":
            around.enter_context(fake_tensors())
            around.enter_context(no_init_weights())  # some initializers look at what they have drawn
            around.enter_context(unpacked_sequences())
        counts, trace = record(whole, mt.Recorder() if tracker == "profiler" else DispatchRecorder())
    return facts(whole, counts, trace), trace


def write_events(trace: mt.Trace, out: TextIO) -> None:
    """Writes what was alive before the step and every allocator event, as JSON lines."""
    for storage in trace.before:
        line = {"before": storage.id, "bytes": storage.bytes, "category": storage.category, "name": storage.name}
        out.write(json.dumps(line) + "\n")
    for number, live in trace.totals(workspace=True):
        event = trace.events[number]
        storage = event.storage
        line = {
            "seq": number,
            "bytes": event.sign * storage.bytes,
            "storage": storage.id,
            "live": live,
            "phase": event.phase,
            "micro": event.micro,
            "recompute": event.recompute,
            "module": event.module,
            "node": event.node,
            "op": event.op,
            "call": event.call,
            "category": storage.category,
            "shape": storage.shape,
            "dtype": storage.dtype,
        }
        out.write(json.dumps(line) + "\n")


SHORT_DTYPES = {
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float16": "f16",
    "int64": "i64",
    "int32": "i32",
    "uint8": "u8",
}


def _describe(storage: mt.Storage) -> str:
    shape = "?" if storage.shape is None else "x".join(str(n) for n in storage.shape) or "scalar"
    dtype = SHORT_DTYPES.get(storage.dtype or "", storage.dtype or "?")
    name = f" {storage.name}" if storage.name and storage.phase != "before" else ""
    return f"#{storage.id} {dtype}[{shape}] {storage.category}{name}"


def write_table(result: dict[str, Any], trace: mt.Trace, out: TextIO, smallest: int = 0) -> None:
    """Writes the step as text: one row for each operator or release that changes the total."""
    case = result["case"]
    out.write(f"model {case.get('model')}  config {json.dumps(case.get('config'))}\n")
    out.write(f"training {json.dumps(case.get('training'))}\n")
    out.write(f"versions {json.dumps(result['versions'])}  counts {json.dumps(result['counts'])}\n")
    for view in ("tensors", "allocator"):
        out.write(f"peak ({view}) {json.dumps(result[view]['peak'])}\n")
    out.write("boundaries (tensors)\n")
    for name, categories in result["tensors"]["boundaries"].items():
        out.write(f"  {name:<13} {sum(categories.values()):>12} {json.dumps(categories)}\n")
    for name, value in result["tensors"]["phases"].items():
        out.write(f"  peak of {name:<14} {value['bytes']:>12} {json.dumps(value['categories'])} {value['where']}\n")
    out.write(f"cyclic garbage at the end {result['cyclic_garbage_bytes']}\n")

    def listing(title: str, storages: list[mt.Storage]) -> None:
        out.write(f"\n{title}\n")
        for s in storages:
            if s.category in ("parameters", "buffers", "optimizer_states", "gradients", "inputs"):
                continue
            recompute = " (recompute)" if s.recompute else ""
            origin = f"{s.phase}{recompute}"
            out.write(f"  {s.bytes:>10} {_describe(s):<46} {origin:<20} {s.module:<42} {s.node} {s.op}\n")

    if "forward_end_0" in trace.marks:
        listing(
            "alive at the end of forward (micro-step 0), but for what lived before",
            trace.live_at(trace.marks["forward_end_0"], False),
        )
    peak = trace.peak(False)
    if peak is not None:
        listing("alive at the peak, but for what lived before", trace.live_at(peak.event + 1, False))

    out.write("\nevents: +bytes storage / -bytes storage; ws = only inside the operator; R = recompute\n")
    header = f"{'phase':<14} {'module':<42} {'node':<28} {'op':<44} {'change':>10} {'live':>11}  what\n"
    out.write(header)
    group: list[mt.Event] = []
    key: tuple[Any, ...] | None = None
    total = sum(s.bytes for s in trace.before)

    def flush() -> None:
        nonlocal total
        if not group:
            return
        change = sum(e.sign * e.storage.bytes for e in group)
        total += change
        first = group[0]
        if not any(e.storage.bytes >= smallest for e in group):
            return
        highest = running = 0
        for e in group:
            running += e.sign * e.storage.bytes
            highest = max(highest, running)
        words = []
        for e in group:
            if e.storage.bytes < smallest:
                continue
            sign = "+" if e.sign > 0 else "-"
            if e.storage.workspace:
                if e.sign > 0:
                    words.append(f"ws{e.storage.bytes}")
            else:
                words.append(f"{sign}{e.storage.bytes} {_describe(e.storage)}")
        if highest > max(0, change):
            words.append(f"(up to +{highest})")
        label = first.phase + (" R" if first.recompute else "")
        op = first.op or "(release)"
        out.write(
            f"{label:<14} {first.module:<42} {first.node:<28} {op:<44} {change:>+10} {total:>11}  {'; '.join(words)}\n"
        )

    for event in trace.events:
        this = (event.phase, event.module, event.node, event.call, event.recompute, event.call < 0 and event.sign)
        if this != key:
            flush()
            group.clear()
            key = this
        group.append(event)
    flush()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", help="JSON file of one case, - for standard input")
    parser.add_argument("--events", type=Path, help="write every allocator event here, as JSON lines")
    parser.add_argument("--table", type=Path, help="write the step here, as text")
    parser.add_argument("--smallest", type=int, default=0, help="leave smaller storages out of the table")
    parser.add_argument("--tracker", choices=("profiler", "dispatch", "fake"), default="profiler")
    arguments = parser.parse_args()
    with nullcontext(sys.stdin) if arguments.case == "-" else open(arguments.case, encoding="utf-8") as source:
        case = json.load(source)
    result, trace = run(case, arguments.tracker)
    with ExitStack() as stack:
        if arguments.events:
            write_events(trace, stack.enter_context(open(arguments.events, "w", encoding="utf-8")))
        if arguments.table:
            out = stack.enter_context(open(arguments.table, "w", encoding="utf-8"))
            write_table(result, trace, out, arguments.smallest)
    json.dump(result, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
