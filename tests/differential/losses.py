"""Losses of other libraries and of earlier versions, run over a causal language model.

Each is a few lines in our own words of what the library does with the hidden states; the tensors are
the same, the order of the operations too.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

import memory_tracker as mt

Batch = dict[str, Any]
Hidden = list[torch.Tensor]  # one, which its taker pops: the model has returned when the loss begins


def _shifted(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of all positions but the last; both sides are copied where they have gaps."""
    kept = logits[..., :-1, :].contiguous()
    wanted = labels[..., 1:].contiguous()
    return functional.cross_entropy(kept.view(-1, kept.shape[-1]), wanted.view(-1))


def inside(logits: torch.Tensor, labels: torch.Tensor, **_: Any) -> torch.Tensor:
    """transformers 4.46 to 4.49, loss/loss_utils.py ForCausalLMLoss: fp32 inside the loss."""
    logits = logits.float()
    return _shifted(logits, labels)


def _float_logits(logits: torch.Tensor, batch: Batch) -> SimpleNamespace:
    """transformers up to 4.45, LlamaForCausalLM.forward: the logits themselves are fp32."""
    logits = logits.float()
    return SimpleNamespace(loss=_shifted(logits, batch["labels"]), logits=logits)


def _torchtune(model: torch.nn.Module, hidden: Hidden, batch: Batch, chunks: int | None) -> SimpleNamespace:
    """torchtune 0.6.1, modules/loss/ce_chunked_output_loss.py with modules/transformer.py chunked_output."""
    logits = [model.lm_head(part) for part in hidden.pop().chunk(chunks or 8, dim=1)]
    ignored = torch.full((batch["labels"].shape[0], 1), -100)
    labels = torch.hstack((batch["labels"][..., 1:], ignored))
    wanted = [part.reshape(-1) for part in labels.chunk(chunks or 8, dim=1)]
    total: Any = 0.0
    for part, want in zip([part.reshape(-1, part.size(-1)) for part in logits], wanted, strict=True):
        total += functional.cross_entropy(part.float(), want, reduction="sum")
    return SimpleNamespace(loss=total / (labels != -100).sum(), logits=logits)


def _litgpt(model: torch.nn.Module, hidden: Hidden, batch: Batch, chunks: int | None) -> SimpleNamespace:
    """litgpt 0.5.13, litgpt/utils.py chunked_cross_entropy after litgpt/model.py's chunked head.

    Between them Lightning Fabric turns the outputs to fp32 (fabric/wrappers.py).
    """
    length = 128 if chunks is None else -(-hidden[0].shape[1] // chunks)
    logits = [model.lm_head(part) for part in hidden.pop().split(length, dim=1)]
    logits = [part.float() for part in logits]
    logits[-1] = logits[-1][..., :-1, :]
    labels = batch["labels"][..., 1:]
    wanted = [part.reshape(-1) for part in labels.split(logits[0].size(1), dim=1)]
    parts = [
        functional.cross_entropy(part.reshape(-1, part.size(-1)), want, reduction="none")
        for part, want in zip(logits, wanted, strict=True)
    ]
    return SimpleNamespace(loss=torch.cat(parts).sum() / (labels != -100).sum(), logits=logits)


CHUNKED: dict[str, Callable[[torch.nn.Module, Hidden, Batch, int | None], SimpleNamespace]] = {
    "torchtune-chunked": _torchtune,
    "litgpt-chunked": _litgpt,
}


def forward(model: torch.nn.Module, batch: Batch, loss: dict[str, Any] | None) -> Any:
    """The model's outputs, with the loss that a case names."""
    if loss is None:
        return model(**batch)
    if loss["name"] == "pooled-mean":  # of a class that computes none
        out = model(**batch)
        with mt.phase("loss"):
            return SimpleNamespace(loss=out.pooler_output.mean(), states=out)
    if loss["name"] == "transformers-4.46":
        model.loss_function = _marked
        return model(**batch)
    if loss["name"] == "transformers-4.44":
        hidden = model.model(batch["input_ids"]).last_hidden_state
        logits = [model.lm_head(hidden)]
        with mt.phase("loss"):
            return _float_logits(logits.pop(), batch)
    given = [model.model(batch["input_ids"]).last_hidden_state]
    with mt.phase("loss"):
        return CHUNKED[loss["name"]](model, given, batch, loss.get("chunks"))


def _marked(logits: torch.Tensor, labels: torch.Tensor, **rest: Any) -> torch.Tensor:
    with mt.phase("loss"):
        return inside(logits, labels, **rest)
