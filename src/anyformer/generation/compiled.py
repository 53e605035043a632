"""The calls of a recorded decode step, compiled together: what lies between two products becomes one kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from anyformer.generation.program import RecordedCall, RecordedTensor, program
from anyformer.generation.recorded_step import Bind
from anyformer.generation.recorder import Recorder
from anyformer.model.reductions import COMPILED
from anyformer.parts.experts.chosen import CHOSEN, chosen_product
from anyformer.parts.experts.grouped import PRODUCT, grouped_products
from anyformer.processor import compiler_options
from anyformer.quantising.tensor import PackedMatrix

LONG_JOB = 16_384
"""Tokens from which compiling pays: it takes tens of seconds and saves about a millisecond per token."""


def compiled(recorder: Recorder, result: Tensor) -> Bind:
    """As `Recorder.written`, compiled at the first call, or read from the compiler's cache on disk."""
    calls, matrices = _by_number(recorder)
    run = torch.compile(
        program([*recorder.views, *calls], [*recorder.held, *recorder.given], recorder.value(result)),
        dynamic=False,
        fullgraph=True,
        # What was recorded is of one model and one size of everything: a call has nothing to check.
        options={"guard_filter_fn": lambda guards: [False] * len(guards), **compiler_options()},
    )

    def repeat(*tensors: Tensor) -> Tensor:
        _HELD[:] = matrices
        logits: Tensor = run(*tensors)
        return logits

    return lambda *kept: partial(repeat, *kept)


def _by_number(recorder: Recorder) -> tuple[list[RecordedCall], list[Tensor]]:
    """The calls, and the matrices of products that a compiler should leave as they are, which calls have by number.

    It cannot look into matrices in a kernel's own order, and would add up a product with one row by loops of its own, which are
    slower.
    """
    kept = dict(zip(recorder.held, recorder.kept, strict=True))
    calls, matrices = list[RecordedCall](), list[Tensor]()
    for call in recorder.calls:
        function, args = call.function, call.args
        if function is torch.mv:
            args = args[::-1]  # the row before the matrix, as in all other products
        matrix = kept.get(args[1]) if len(args) > 1 and isinstance(args[1], RecordedTensor) else None
        if matrix is not None and (function is torch.mv or isinstance(matrix, PackedMatrix) or matrix.is_mkldnn):
            rest = args[2:] if function in _OF_HELD else ()
            function, args = _OF_HELD.get(function, _PRODUCT), (args[0], *rest, len(matrices), matrix.shape[-2])
            calls.append(RecordedCall(function, args, {}, call.reads, call.gives))
            matrices.append(matrix)
        else:
            calls.append(replace(call, function=_OPERATORS.get(function, function)))
    return calls, matrices


_HELD: list[Tensor] = []
"""The matrices of the step that runs."""
_LIBRARY = torch.library.Library("anyformer", "FRAGMENT")  # type: ignore[no-untyped-call]
for _schema in (
    "held_product(Tensor x, int number, int outputs) -> Tensor",
    "held_row(Tensor x, int number, int outputs) -> Tensor",
    "held_experts(Tensor rows, Tensor ends, bool whole, int number, int outputs) -> Tensor",
    "held_chosen(Tensor rows, Tensor expert, int number, int outputs) -> Tensor",
):
    _LIBRARY.define(_schema)  # type: ignore[no-untyped-call]
_PRODUCT, _EXPERTS = torch.ops.anyformer.held_product.default, torch.ops.anyformer.held_experts.default
_OWN, _ROW = torch.ops.anyformer.held_chosen.default, torch.ops.anyformer.held_row.default
_OPERATORS: dict[Any, Any] = {grouped_products: PRODUCT, chosen_product: CHOSEN, **COMPILED}
"""What a compiler takes as one call."""
_OF_HELD = {torch.mv: _ROW, grouped_products: _EXPERTS, chosen_product: _OWN}


def _product(x: Tensor, number: int, outputs: int) -> Tensor:
    y: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, _HELD[number], None, "none", [], "")
    return y


def _row(x: Tensor, number: int, outputs: int) -> Tensor:
    return torch.mv(_HELD[number], x)


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
    ("held_product", "CPU", _product), ("held_product", "Meta", _like_product),
    ("held_row", "CPU", _row), ("held_row", "Meta", _like_product),
    ("held_experts", "CPU", _experts), ("held_experts", "Meta", _like_experts),
    ("held_chosen", "CPU", _chosen), ("held_chosen", "Meta", _like_chosen),
):  # fmt: skip
    _LIBRARY.impl(_name, _kernel, _device)  # type: ignore[no-untyped-call]
