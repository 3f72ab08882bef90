"""The same account as ``memory_tracker.py``, seen from a ``TorchDispatchMode``.

It sees operators and their results, not what kernels allocate inside, and it works on tensors without
data (``FakeTensorMode``), so for models of any size.

A dispatch mode changes the run in one way: every tensor and storage it meets has a Python wrapper, which
counts as a reference. Autograd adds a second gradient of the same tensor in place only if it holds the
only reference, so under a mode it would allocate a new buffer each time. ``_accumulate`` undoes that:
it adds in place where the engine would have.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import memory_tracker as mt


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Tensors made inside have sizes but no data."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


class DispatchRecorder(TorchDispatchMode):
    """Takes the place of ``memory_tracker.Recorder``."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, mt.Storage] = {}
        self.references: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self.events: list[mt.Event] = []
        self.storages: list[mt.Storage] = []
        self.marks: dict[str, int] = {}
        self.instants: dict[str, dict[int, mt.Storage]] = {}
        self.calls: list[str] = []
        self.stack: list[tuple[str, str]] = []
        self.modules_of_sequence: dict[int, str] = {}
        self.before: list[mt.Storage] = []
        self.next_id = 0
        self.in_call = -1

    @staticmethod
    def key(tensor: torch.Tensor) -> int:
        """What names the storage of a tensor in labels."""
        storage = tensor.untyped_storage()
        return storage._cdata if storage.nbytes() else 0

    @contextmanager
    def background(self) -> Iterator[None]:
        """Follows allocations before the step."""
        with mt.listening(self._listen), self:
            yield
        gc.collect()
        for storage in self.alive.values():
            storage.phase, storage.op, storage.module, storage.node, storage.call = "before", "", "", "", -1
        self.before = list(self.alive.values())
        self.instants["start"] = dict(self.alive)
        self.events.clear()
        self.storages.clear()
        self.calls.clear()
        self.marks.clear()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Follows the step; the cyclic garbage collector is off, so that every free has its cause."""
        gc.collect()
        gc.disable()
        try:
            with mt.listening(self._listen), self:
                yield
        finally:
            gc.enable()

    def trace(self, labels: Iterable[tuple[str, str, int, str]]) -> mt.Trace:
        """Closes the account; see ``memory_tracker.Recorder.trace``."""
        events, storages = list(self.events), list(self.storages)
        mt.categorize(storages, self.instants, labels)
        return mt.Trace(self.before, events, storages, self.marks, self.calls)

    def _listen(self, prefix: str, name: str, entered: bool) -> None:
        if prefix == mt.MARK:
            if entered:
                self.marks[name] = len(self.events)
                self.instants[name] = dict(self.alive)
        elif entered:
            self.stack.append((prefix, name))
        else:
            self.stack.pop()

    def _innermost(self, prefix: str, otherwise: str) -> str:
        for kind, name in reversed(self.stack):
            if kind == prefix:
                return name
        return otherwise

    def _context(self) -> tuple[str, int, bool, str, str]:
        phase = self._innermost(mt.PHASE, "between")
        micro = int(self._innermost(mt.MICRO, "0"))
        module, node, recompute = self._innermost(mt.MODULE, ""), "", False
        if phase == "backward":
            recompute = bool(module)
            current = torch._C._current_autograd_node()
            if current is not None:
                node = current.name()
                if not module:
                    module = self.modules_of_sequence.get(current._sequence_nr(), "")
        return phase, micro, recompute, module, node

    def _event(self, sign: int, storage: mt.Storage) -> None:
        phase, micro, recompute, module, node = self._context()
        op = self.calls[self.in_call] if self.in_call >= 0 else ""
        if sign > 0:
            storage.first = len(self.events)
            storage.phase, storage.micro, storage.recompute = phase, micro, recompute
            storage.module, storage.node, storage.op, storage.call = module, node, op, self.in_call
            self.storages.append(storage)
        else:
            storage.last = len(self.events)
        self.events.append(mt.Event(sign, storage, phase, micro, recompute, module, op, node, self.in_call))

    def _freed(self, key: int) -> None:
        storage = self.alive.pop(key)
        del self.references[key]
        self._event(-1, storage)

    def _meet(self, tensor: torch.Tensor) -> None:
        untyped = tensor.untyped_storage()
        size = untyped.nbytes()
        key = untyped._cdata
        known = self.alive.get(key)
        if known is not None:
            if known.bytes == size:
                return
            # Resized in place: the old block goes, a new one comes.
            self.alive.pop(key)
            self.references.pop(key)
            self._event(-1, known)
        if not size:
            return
        storage = mt.Storage(self.next_id, size, shape=tuple(tensor.shape), dtype=str(tensor.dtype)[6:])
        self.next_id += 1
        self.alive[key] = storage
        self.references[key] = weakref.ref(untyped, lambda _, key=key: self._freed(key))
        self._event(1, storage)

    def _accumulate(self, func: Any, args: tuple[Any, ...]) -> bool:
        """Whether the engine, unobserved, would add in place: see ``can_accumulate_inplace`` of torch."""
        if func is not torch.ops.aten.add.Tensor or torch._C._current_graph_task_id() < 0:
            return False
        if self._innermost(mt.MODULE, "") or torch.is_grad_enabled():
            return False
        into, other = args[:2]
        if not isinstance(into, torch.Tensor) or not isinstance(other, torch.Tensor):
            return False
        if into.shape != other.shape or into.dtype != other.dtype or into._is_view():
            return False
        # Two Python objects (the wrapper and the storage) count; nothing else may hold the storage.
        return torch._C._storage_Use_Count(into.untyped_storage()._cdata) <= 2

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        module = self._innermost(mt.MODULE, "")
        if module:
            self.modules_of_sequence[torch.autograd._get_sequence_nr() - 1] = module
        before = self.in_call
        self.in_call = len(self.calls)
        self.calls.append(f"{func.namespace}::{func._schema.name.split('::')[-1]}")
        try:
            out = args[0].add_(args[1]) if self._accumulate(func, args) else func(*args, **(kwargs or {}))
            leaves = tree_leaves((args, kwargs, out)) if func._schema.is_mutable else tree_leaves(out)
            for leaf in leaves:
                if isinstance(leaf, torch.Tensor):
                    self._meet(leaf)
        finally:
            self.in_call = before
        return out
