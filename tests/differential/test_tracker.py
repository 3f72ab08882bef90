"""Tests of the instrument itself: ``python -m unittest`` in this folder."""

from __future__ import annotations

import unittest
from typing import Any

import torch

import memory_tracker as mt
from architectures import Dims, make_case
from run_case import run

KIB = 1024


def _step(body: Any) -> mt.Trace:
    recorder = mt.Recorder()
    with recorder.background():
        start = torch.zeros(256)
    with recorder.step():
        body(start)
    return recorder.trace([("start", "inputs", mt.storage_address(start), "start")])


def _changes(trace: mt.Trace) -> list[tuple[str, int]]:
    return [(e.op, e.sign * e.storage.bytes) for e in trace.events if not e.storage.workspace]


class Frees(unittest.TestCase):
    """Every free is seen where it happens."""

    def test_a_view_keeps_the_storage(self) -> None:
        def body(start: torch.Tensor) -> None:
            with mt.phase("forward"):
                base = start + start
                view = base[:2]
                del base
                mt.mark("base_gone")
                del view
                mt.mark("view_gone")

        trace = _step(body)
        self.assertEqual(_changes(trace), [("aten::add", KIB), ("", -KIB)])
        self.assertEqual(trace.marks["base_gone"], 1)
        self.assertEqual(trace.marks["view_gone"], 2)

    def test_a_saved_tensor_lives_until_its_node_has_run(self) -> None:
        def body(start: torch.Tensor) -> None:
            leaf = start.detach().requires_grad_()
            with mt.phase("forward"):
                loss = leaf.exp().sum()
            with mt.phase("backward"):
                loss.backward()
            leaf.grad = None

        trace = _step(body)
        exp = next(s for s in trace.storages if s.op == "aten::exp")
        freed = trace.events[exp.last or 0]
        self.assertEqual((freed.phase, freed.node, freed.op), ("backward", "ExpBackward0", ""))

    def test_a_temporary_of_an_expression_dies_after_its_reader(self) -> None:
        def body(start: torch.Tensor) -> None:
            with mt.phase("forward"):
                result = (start + start).exp()
                del result

        self.assertEqual(_changes(_step(body)), [("aten::add", KIB), ("aten::exp", KIB), ("", -KIB), ("", -KIB)])

    def test_a_resize_is_a_new_block(self) -> None:
        def body(start: torch.Tensor) -> None:
            with mt.phase("forward"):
                tensor = start.clone()
                tensor.resize_(512)
                tensor.untyped_storage().resize_(0)

        self.assertEqual([change for _, change in _changes(_step(body))], [KIB, 2 * KIB, -KIB, -2 * KIB])

    def test_workspace_is_what_lives_inside_one_operator(self) -> None:
        def body(start: torch.Tensor) -> None:
            with mt.phase("forward"):
                result = start.logcumsumexp(0)
                result = torch.nn.functional.conv1d(start.view(1, 1, 256), torch.ones(1, 1, 3))
                del result

        trace = _step(body)
        self.assertTrue(all(s.last is not None for s in trace.storages if s.workspace))
        self.assertEqual(trace.live_at(len(trace.events), True), trace.before)

    def test_fan_out_accumulates_in_place(self) -> None:
        def body(start: torch.Tensor) -> None:
            leaf = start.detach().requires_grad_()
            with mt.phase("forward"):
                hidden = leaf * leaf
                loss = (hidden.exp() + hidden.sin() + hidden.cos()).sum()
                del hidden
            with mt.phase("backward"):
                loss.backward()

        trace = _step(body)
        added = [s for s in trace.storages if s.phase == "backward" and s.op == "aten::add"]
        # Only the two gradients of leaf, which meet in one node, may need a sum of their own.
        self.assertLessEqual(len(added), 1)


class Books(unittest.TestCase):
    """The account agrees with the tensors that exist, and with the other tracker."""

    CASES: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
        ("llama", {}, {"param_dtype": "float32"}),
        ("llama", {}, {"param_dtype": "bfloat16", "attn_implementation": "sdpa"}),
        ("llama", {}, {"autocast": "bfloat16", "checkpointing": "non_reentrant"}),
        ("llama", {}, {"checkpointing": "reentrant", "accumulation": 2, "set_to_none": False}),
        ("gpt2", {"dropout": 0.1}, {"autocast": "bfloat16", "clip": 1.0}),
        ("bert", {}, {"optimizer": {"name": "AdamW", "implementation": "for-loop", "options": {}}}),
        ("t5", {}, {"optimizer": {"name": "Adafactor", "implementation": "for-loop", "options": {}}}),
        ("vit", {}, {"step": "first"}),
    )

    def test_states_are_counted(self) -> None:
        for architecture, dims, training in self.CASES:
            with self.subTest(architecture=architecture, training=training):
                result, _ = run(make_case(architecture, Dims(**dims), training))
                end = result["tensors"]["boundaries"]["step_end"]
                itemsize = 2 if training.get("param_dtype") == "bfloat16" else 4
                count = result["counts"]["parameters"]
                self.assertEqual(end["parameters"], itemsize * count)
                self.assertEqual(end["gradients"], itemsize * count)
                states = result["optimizer_state_bytes"]
                if "exp_avg" in states:
                    self.assertEqual(states["exp_avg"], itemsize * count)
                self.assertNotIn("temporaries", end)

    def test_both_trackers_agree(self) -> None:
        for architecture, dims, training in self.CASES:
            with self.subTest(architecture=architecture, training=training):
                case = make_case(architecture, Dims(**dims), training)
                ours, _ = run(case)
                theirs, _ = run(case, "dispatch")
                self.assertEqual(ours["tensors"]["boundaries"], theirs["tensors"]["boundaries"])
                for name, value in ours["tensors"]["phases"].items():
                    self.assertEqual(value["bytes"], theirs["tensors"]["phases"][name]["bytes"], name)

    def test_a_run_repeats(self) -> None:
        case = make_case("mixtral", Dims(), {"autocast": "bfloat16"})
        self.assertEqual(run(case)[0], run(case)[0])


if __name__ == "__main__":
    unittest.main()
