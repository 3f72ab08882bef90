"""Exact account of the CPU tensor memory of one training step.

The account is read from the memory events of ``torch.profiler``: every call of the CPU allocator,
with address and requested bytes, nested in the operator that made it. Nothing is intercepted, so
the run is the run that a user gets. A ``TorchDispatchMode`` would not do: it gives every tensor a
Python wrapper, which raises its reference count, and autograd then accumulates gradients of a
tensor with several readers into new buffers instead of in place (see ``dispatch_tracker.py``).

Use: one ``Recorder`` per process or per case.

    recorder = Recorder()
    with recorder.background():      # everything that exists before the step
        model = ...; optimizer = ...
    with recorder.step():
        with phase("forward"): ...
    trace = recorder.trace(labels)
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

PHASE = "membudget:phase:"
MODULE = "membudget:module:"
MICRO = "membudget:micro:"
MARK = "membudget:mark:"
SCALAR_BYTES = 8
NODE = "autograd::engine::evaluate_function: "

CATEGORIES = (
    "parameters",
    "buffers",
    "gradients",
    "optimizer_states",
    "inputs",
    "activations",
    "temporaries",
    "workspace",
    "other",
)
PHASES = ("forward", "loss", "backward", "optimizer_step")


# Called with (prefix, name, entered) when a marked stretch begins and ends.
Listener = Callable[[str, str, bool], None]
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Lets another tracker hear of the marks too."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def _scope(prefix: str, name: str) -> Iterator[None]:
    for listener in _listeners:
        listener(prefix, name, True)
    try:
        with record_function(prefix + name):
            yield
    finally:
        for listener in _listeners:
            listener(prefix, name, False)


def phase(name: str) -> AbstractContextManager[None]:
    """Marks what runs inside as one phase of the step; phases may nest, the innermost counts."""
    return _scope(PHASE, name)


def micro_step(index: int) -> AbstractContextManager[None]:
    """Marks one micro-step of gradient accumulation."""
    return _scope(MICRO, str(index))


def mark(name: str) -> None:
    """Marks one instant; ``Trace.marks`` then holds the number of events before it."""
    with _scope(MARK, name):
        pass


def storage_address(tensor: torch.Tensor) -> int:
    """Address of the storage of a tensor, without making a Python object of the storage.

    Such an object would raise the use count of the storage for as long as the storage lives.
    """
    if tensor.numel() == 0:
        return 0
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


@dataclass(slots=True)
class Storage:
    """One allocation, from its first byte to its free."""

    id: int
    bytes: int
    phase: str = "before"
    micro: int = 0
    recompute: bool = False
    module: str = ""
    op: str = ""
    leaf: str = ""
    node: str = ""
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    category: str = "other"
    workspace: bool = False
    name: str = ""
    first: int = -1
    last: int | None = None
    call: int = -1


@dataclass(slots=True)
class Event:
    """One call of the allocator; ``sign`` is 1 for an allocation and -1 for a free."""

    sign: int
    storage: Storage
    phase: str
    micro: int
    recompute: bool
    module: str
    op: str
    node: str
    call: int


@dataclass(slots=True)
class Peak:
    """The highest total of a stretch of the step and what it is made of."""

    bytes: int
    event: int
    categories: dict[str, int]


@dataclass
class Trace:
    """The allocator events of one step, with everything that was alive before it."""

    before: list[Storage]
    events: list[Event]
    storages: list[Storage]
    marks: dict[str, int]
    calls: list[str] = field(default_factory=list)

    def totals(self, workspace: bool) -> Iterator[tuple[int, int]]:
        """Yields (number of the event, total after it)."""
        live = sum(s.bytes for s in self.before)
        for number, event in enumerate(self.events):
            if workspace or not event.storage.workspace:
                live += event.sign * event.storage.bytes
            yield number, live

    def live_at(self, position: int, workspace: bool) -> list[Storage]:
        """Storages alive when ``position`` events have happened."""
        alive = {s.id: s for s in self.before}
        for event in self.events[:position]:
            if event.sign > 0:
                if workspace or not event.storage.workspace:
                    alive[event.storage.id] = event.storage
            else:
                alive.pop(event.storage.id, None)
        return list(alive.values())

    def categories_at(self, position: int, workspace: bool) -> dict[str, int]:
        """Bytes of each category when ``position`` events have happened."""
        result = dict.fromkeys(CATEGORIES, 0)
        for storage in self.live_at(position, workspace):
            result[storage.category] += storage.bytes
        return {name: size for name, size in result.items() if size}

    def peak(self, workspace: bool, phases: Iterable[str] | None = None) -> Peak | None:
        """The earliest highest total that an allocation reaches, in the whole step or in some phases."""
        wanted = None if phases is None else set(phases)
        best, where = -1, -1
        for number, live in self.totals(workspace):
            event = self.events[number]
            if event.sign < 0 or (wanted is not None and event.phase not in wanted):
                continue
            if live > best:
                best, where = live, number
        if where < 0:
            return None
        return Peak(best, where, self.categories_at(where + 1, workspace))


@functools.cache
def is_composite(name: str) -> bool:
    """Whether an operator only calls others, so that a dispatch mode never sees it."""
    namespace, _, base = name.partition("::")
    if namespace != "aten":
        return False
    packet = getattr(torch.ops.aten, base, None)
    if packet is None:
        return False
    names = [f"{name}.{overload}" if overload != "default" else name for overload in packet.overloads()]
    # Overloads that exist for TorchScript only have no kernel; those with out= are generated.
    real = [n for n in names if torch._C._dispatch_has_kernel(n) and not n.endswith("out")]
    key = "CompositeImplicitAutograd"
    return all(torch._C._dispatch_has_kernel_for_dispatch_key(full, key) for full in real)


@dataclass(slots=True)
class _Context:
    phase: str = "between"
    micro: int = 0
    module: str = ""
    node: str = ""
    node_module: str = ""
    op: str = ""
    call: int = -1
    leaf: str = ""
    recompute: bool = False


class _Reader:
    """Walks the event tree of the profiler in order of time."""

    def __init__(self, alive: dict[int, Storage], next_id: int, strict: bool) -> None:
        self.alive = alive
        self.strict = strict
        self.events: list[Event] = []
        self.storages: list[Storage] = []
        self.marks: dict[str, int] = {}
        self.labels: dict[str, dict[int, Storage]] = {}
        self.calls: list[str] = []
        self.modules_of_sequence: dict[int, str] = {}
        self.next_id = next_id

    def read(self, roots: list[Any]) -> None:
        stack: list[tuple[Any, _Context]] = [(r, _Context()) for r in sorted(roots, key=_start, reverse=True)]
        while stack:
            event, context = stack.pop()
            kind = type(event.extra_fields).__name__
            if kind == "_ExtraFields_Allocation":
                self._allocation(event.extra_fields, context)
            elif kind == "_ExtraFields_TorchOp":
                context = self._operator(event, context)
            stack.extend((child, context) for child in reversed(event.children))

    def _operator(self, event: Any, context: _Context) -> _Context:
        name: str = event.name
        inner = _Context(
            context.phase,
            context.micro,
            context.module,
            context.node,
            context.node_module,
            context.op,
            context.call,
            context.leaf,
            context.recompute,
        )
        if name.startswith(PHASE):
            inner.phase = name[len(PHASE) :]
        elif name.startswith(MICRO):
            inner.micro = int(name[len(MICRO) :])
        elif name.startswith(MARK):
            self.marks[name[len(MARK) :]] = len(self.events)
            self.labels[name[len(MARK) :]] = dict(self.alive)
        elif name.startswith(MODULE):
            inner.module = name[len(MODULE) :]
            inner.recompute = context.phase == "backward"
        elif name.startswith(NODE):
            inner.node = name[len(NODE) :].removeprefix("torch::autograd::")
            inner.node_module = self.modules_of_sequence.get(event.extra_fields.sequence_number, "")
            # A backward that runs inside another (reentrant checkpointing) is no recomputation.
            inner.module, inner.op, inner.call, inner.recompute = "", "", -1, False
        elif "::" in name:
            self._inputs(event.extra_fields.inputs)
            sequence = event.extra_fields.sequence_number
            if sequence >= 0 and context.module:
                self.modules_of_sequence[sequence] = context.module
            inner.leaf = name
            if not context.op and not is_composite(name):
                inner.op, inner.call = name, len(self.calls)
                self.calls.append(name)
        return inner

    def _inputs(self, inputs: Iterable[Any]) -> None:
        for value in inputs:
            if isinstance(value, list):
                self._inputs(value)
                continue
            address = getattr(value, "storage_data_ptr", None)
            if not address:
                continue
            storage = self.alive.get(address)
            if storage is not None and storage.shape is None:
                storage.shape = tuple(value.sizes)
                storage.dtype = str(value.dtype).removeprefix("torch.")

    def _allocation(self, fields: Any, context: _Context) -> None:
        module = context.module or context.node_module
        if fields.alloc_size > 0:
            storage = Storage(
                self.next_id,
                fields.alloc_size,
                context.phase,
                context.micro,
                context.recompute,
                module,
                context.op,
                context.leaf,
                context.node,
                first=len(self.events),
                call=context.call,
            )
            self.next_id += 1
            self.storages.append(storage)
            stale = self.alive.get(fields.ptr)
            if stale is not None and self.strict:
                raise RuntimeError(f"address {fields.ptr:#x} allocated twice")
            self.alive[fields.ptr] = storage
            sign = 1
        else:
            storage = self.alive.pop(fields.ptr, None)
            if storage is None:
                if not self.strict:
                    return
                raise RuntimeError(f"free of {-fields.alloc_size} bytes never allocated")
            storage.last = len(self.events)
            # An operator of another library calls operators itself: what those read and make are tensors.
            composed = storage.shape is not None and not storage.op.startswith("aten::")
            storage.workspace = storage.call >= 0 and storage.call == context.call and not composed
            sign = -1
        self.events.append(
            Event(
                sign,
                storage,
                context.phase,
                context.micro,
                context.recompute,
                module,
                context.op,
                context.node,
                context.call,
            )
        )


def _start(event: Any) -> int:
    return event.start_time_ns


@contextmanager
def module_marks(root: torch.nn.Module) -> Iterator[None]:
    """Marks every call of a module under ``root`` with its path, also when it ends in an exception.

    The marks replace ``Module._call_impl``: hooks would miss the calls that non-reentrant
    checkpointing stops early. The replaced frame holds no reference that the caller does not hold.
    """
    names = {id(module): name or "(root)" for name, module in root.named_modules()}
    original: Callable[..., Any] = torch.nn.Module._call_impl

    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        name = names.get(id(self))
        if name is None:
            return original(self, *args, **kwargs)
        with _scope(MODULE, name):
            return original(self, *args, **kwargs)

    def mark_function(name: str, checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        """Transformers checkpoints the forward of a layer inside its call, so recomputation skips the call."""

        def marked(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            def again(*inner: Any, **options: Any) -> Any:
                with _scope(MODULE, name):
                    return function(*inner, **options)

            return checkpoint(again, *args, **kwargs)

        return marked

    attribute = "_gradient_checkpointing_func"
    layers = [module for module in root.modules() if attribute in vars(module)]
    checkpoints = [vars(layer)[attribute] for layer in layers]
    for layer, checkpoint in zip(layers, checkpoints, strict=True):
        setattr(layer, attribute, mark_function(names[id(layer)], checkpoint))
    torch.nn.Module._call_impl = call  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer, checkpoint in zip(layers, checkpoints, strict=True):
            setattr(layer, attribute, checkpoint)
        torch.nn.Module._call_impl = original  # type: ignore[method-assign]


@contextmanager
def loss_marks() -> Iterator[None]:
    """Marks loss functions as the phase ``loss``: those of Transformers and of torch."""
    patched: list[tuple[Any, str, Any]] = []

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            with phase("loss"):
                return function(*args, **kwargs)

        return marked

    for name in ("cross_entropy", "mse_loss", "binary_cross_entropy_with_logits", "nll_loss"):
        patched.append((torch.nn.functional, name, getattr(torch.nn.functional, name)))
    saved_mapping: dict[str, Any] = {}
    mapping: dict[str, Any] = {}
    try:
        from transformers.loss import loss_utils

        mapping = loss_utils.LOSS_MAPPING
        saved_mapping = dict(mapping)
    except ImportError:
        pass
    try:
        for owner, name, function in patched:
            setattr(owner, name, wrap(function))
        for name, function in saved_mapping.items():
            if callable(function):
                mapping[name] = wrap(function)
        yield
    finally:
        for owner, name, function in patched:
            setattr(owner, name, function)
        mapping.update(saved_mapping)


class Recorder:
    """Records what exists before the step and then the step itself."""

    def __init__(self) -> None:
        self._alive: dict[int, Storage] = {}
        self._next_id = 0
        self._reader: _Reader | None = None

    @contextmanager
    def background(self) -> Iterator[None]:
        """Follows allocations before the step; may be used once, and all that lives must start here."""
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as session:
            yield
            gc.collect()
        reader = _Reader(self._alive, self._next_id, strict=False)
        reader.read(session.profiler.kineto_results.experimental_event_tree())
        self._next_id = reader.next_id
        for storage in self._alive.values():
            storage.phase, storage.op, storage.module, storage.node, storage.call = "before", "", "", "", -1

    @contextmanager
    def step(self) -> Iterator[None]:
        """Follows the step; the cyclic garbage collector is off, so that every free has its cause."""
        gc.collect()
        gc.disable()
        try:
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True) as session:
                yield
        finally:
            gc.enable()
        self._before = list(self._alive.values())
        self._addresses_before = dict(self._alive)
        self._reader = _Reader(self._alive, self._next_id, strict=True)
        self._reader.read(session.profiler.kineto_results.experimental_event_tree())

    def trace(self, labels: Iterable[tuple[str, str, int, str]]) -> Trace:
        """Closes the account. Each label is (instant, category, address, name).

        The instant is ``start`` or the name of a mark. What lives at the address at that instant has the
        category from its allocation on.
        """
        reader = self._reader
        if reader is None:
            raise RuntimeError("no step was recorded")
        rng_state = torch.get_rng_state().nbytes
        for storage in reader.storages:
            # Made outside of any operator and on the host whatever the device: a Python number that meets
            # a tensor becomes a tensor of its own, and checkpointing keeps the state of the generator.
            if storage.call < 0 and (storage.bytes <= SCALAR_BYTES or storage.bytes == rng_state):
                storage.workspace = True
        instants = reader.labels | {"start": self._addresses_before}
        categorize(reader.storages, instants, labels)
        return Trace(self._before, reader.events, reader.storages, reader.marks, reader.calls)

    @staticmethod
    def key(tensor: torch.Tensor) -> int:
        """What names the storage of a tensor in labels."""
        return storage_address(tensor)


def categorize(
    storages: Iterable[Storage],
    instants: dict[str, dict[int, Storage]],
    labels: Iterable[tuple[str, str, int, str]],
) -> None:
    """Gives every storage its category: by phase first, then by label."""
    for storage in storages:
        if storage.workspace:
            storage.category = "workspace"
        elif storage.phase in ("forward", "loss") and not storage.recompute:
            storage.category = "activations"
        else:
            storage.category = "temporaries"
    for instant, category, key, name in labels:
        storage = instants[instant].get(key)
        if storage is not None:
            storage.category = category
            storage.name = storage.name or name
        elif key:
            raise RuntimeError(f"{category} {name} is not alive at {instant}")
