"""The calls of a recorded decode step, compiled together: what lies between two products becomes one kernel."""

from __future__ import annotations

import torch
from torch import Tensor, fx

from anyformer.generation.recorder import Calls, Recorder
from anyformer.parts.experts.chosen import CHOSEN, chosen_product
from anyformer.parts.experts.grouped import PRODUCT, grouped_products
from anyformer.quantising import Packed

LONG_JOB = 16_384
"""Tokens from which compiling pays: it takes tens of seconds and saves about a millisecond per token."""


def compiled(recorder: Recorder, result: Tensor) -> Calls:
    """As `Recorder.calls`, compiled at the first call, or read from the compiler's cache on disk."""
    held = _held(recorder)
    run: Calls = torch.compile(
        recorder.module(result),
        dynamic=False,
        fullgraph=True,
        # What was recorded is of one model and one size of everything: a call has nothing to check.
        options={"guard_filter_fn": lambda guards: [False] * len(guards)},
    )

    def calls(*tensors: Tensor) -> Tensor:
        _HELD[:] = held
        return run(*tensors)

    return recorder.in_order(calls)


def _held(recorder: Recorder) -> list[Tensor]:
    """The matrices in a kernel's own order, which a compiler cannot look into: their products become calls by number."""
    held: list[Tensor] = []
    matrices = {recorder.node(kept): kept for kept in recorder.kept if isinstance(kept, Packed) or kept.is_mkldnn}
    for node in list(recorder.graph.nodes):
        if node.target in (grouped_products, chosen_product):
            node.target = PRODUCT if node.target is grouped_products else CHOSEN
        if len(node.args) < 2 or not isinstance(node.args[1], fx.Node) or node.args[1] not in matrices:
            continue
        (x, of), rest = node.args[:2], node.args[2:4]
        matrix = matrices[of]
        with recorder.graph.inserting_before(node):
            if node.target is PRODUCT:
                made = recorder.graph.call_function(_EXPERTS, (x, *rest, len(held), matrix.shape[-2]))
            elif node.target is CHOSEN:
                made = recorder.graph.call_function(_OWN, (x, *rest, len(held), matrix.shape[-2]))
            else:
                made = recorder.graph.call_function(_PRODUCT, (x, len(held), matrix.shape[-2]))
        held.append(matrix)
        recorder.replace(node, made)
    return held


_HELD: list[Tensor] = []
"""The matrices of the step that runs."""
_LIBRARY = torch.library.Library("anyformer", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema in (
    "held_product(Tensor x, int number, int outputs) -> Tensor",
    "held_experts(Tensor rows, Tensor ends, bool whole, int number, int outputs) -> Tensor",
    "held_chosen(Tensor rows, Tensor expert, int number, int outputs) -> Tensor",
):
    _LIBRARY.define(_schema)  # type: ignore[no-untyped-call]
_PRODUCT, _EXPERTS = torch.ops.anyformer.held_product.default, torch.ops.anyformer.held_experts.default
_OWN = torch.ops.anyformer.held_chosen.default


def _product(x: Tensor, number: int, outputs: int) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, _HELD[number], None, "none", [], "")
    return y


def _experts(rows: Tensor, ends: Tensor, whole: bool, number: int, outputs: int) -> Tensor:
    return grouped_products(rows, _HELD[number], ends, whole)


def _chosen(rows: Tensor, expert: Tensor, number: int, outputs: int) -> Tensor:
    return chosen_product(rows, _HELD[number], expert)


def _like_product(x: Tensor, number: int, outputs: int) -> Tensor:
    return x.new_empty(*x.shape[:-1], outputs)


def _like_experts(rows: Tensor, ends: Tensor, whole: bool, number: int, outputs: int) -> Tensor:
    return rows.new_empty(len(rows), outputs)


def _like_chosen(rows: Tensor, expert: Tensor, number: int, outputs: int) -> Tensor:
    return rows.new_empty(len(rows), outputs)


for _name, _device, _kernel in (
    ("held_product", "CPU", _product), ("held_experts", "CPU", _experts),
    ("held_product", "Meta", _like_product), ("held_experts", "Meta", _like_experts),
    ("held_chosen", "CPU", _chosen), ("held_chosen", "Meta", _like_chosen),
):  # fmt: skip
    _LIBRARY.impl(_name, _kernel, _device)  # type: ignore[no-untyped-call]
