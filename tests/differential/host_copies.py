"""A stand-in for ``save_on_cpu`` that keeps its copies where the recorder does not look.

On the CPU both the device's tensors and the host's come from one allocator, and the original would hand back the
host's copy itself. Here the copies are NumPy arrays, which PyTorch's allocator knows nothing of, and each goes
back into a tensor of its own, as a copy to a device does.
"""

from __future__ import annotations

from contextlib import contextmanager
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from transformers import modeling_utils


class Host:
    """The memory of the host: bytes that are live, and their highest."""

    live = 0
    peak = 0


class _Copy:
    """One tensor on the host; its bytes count as long as it lives."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype = tensor.shape, tensor.dtype
        self.array: numpy.ndarray = tensor.contiguous().view(torch.uint8).numpy().copy()
        Host.live += self.array.nbytes
        Host.peak = max(Host.peak, Host.live)

    def __del__(self) -> None:
        Host.live -= self.array.nbytes

    def tensor(self) -> torch.Tensor:
        """A new tensor with the copy's content."""
        result = torch.empty(self.shape, dtype=self.dtype)
        result.view(torch.uint8).copy_(torch.from_numpy(self.array))
        return result


class HostCopies(torch.autograd.graph.saved_tensors_hooks):
    """Takes the arguments of ``save_on_cpu``."""

    def __init__(self, **_: Any) -> None:
        super().__init__(_Copy, _Copy.tensor)


@contextmanager
def copies_on_host() -> Iterator[type[Host]]:
    """Transformers offloads with ``HostCopies`` inside the context."""
    original = modeling_utils.save_on_cpu
    modeling_utils.save_on_cpu = HostCopies
    Host.live = Host.peak = 0
    try:
        yield Host
    finally:
        modeling_utils.save_on_cpu = original
