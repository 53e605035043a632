"""Captured operators as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from anyformer.generation.native.captured import Operator
from anyformer.generation.native.choices import chosen_together
from anyformer.generation.native.conversions import converted_at_once
from anyformer.generation.native.functions import OF_NUMBERS
from anyformer.generation.native.matrices import MATRICES
from anyformer.generation.native.moves import MOVES
from anyformer.generation.native.norms import with_norms
from anyformer.generation.native.table import StepWriter, Table, UnknownError, plain
from anyformer.generation.native.whole_rows import OF_ROWS
from anyformer.generation.program import found_in
from anyformer.quantising.tensor import in_bfloat16

WRITES = {**OF_NUMBERS, **OF_ROWS, **MOVES, **MATRICES}
"""What each operator puts down."""
CONSTANT = frozenset({"aten::arange", "aten::scalar_tensor", "aten::lift_fresh", "aten::eye", "aten::linspace"})
"""Operators that give the same numbers in every step."""
CONVERSIONS = frozenset({"aten::_to_copy", "aten::to", "aten::type_as"})
"""Operators that convert numbers to another type."""
NOTHING = frozenset({"aten::detach", "aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided"})
"""Operators that compute no number."""


def translated(operators: Sequence[Operator], given: Sequence[Tensor], kept: Sequence[Any], result: Tensor) -> Table:
    """The table of a step. Raises `UnknownError` for what no operation of a table computes.

    `given`: tensors that are new in every step; `kept`: those that it reads and did not make. All captured ones are alive.
    """
    writer = StepWriter()
    for name, tensors in (("given", given), ("kept", kept)):
        for number, tensor in enumerate(tensors):
            if plain(tensor):
                writer.hold((name, number), tensor)
                if (half := in_bfloat16(tensor)) is not None:
                    writer.narrow(tensor, half)
    for operator in with_norms(operators):
        for tensor in found_in(operator.arguments, Tensor):
            if plain(tensor) and not writer.knows(tensor):
                writer.hold(tensor, tensor)  # such as a list of numbers of Python that became one
        _put(writer, operator)
    writer.give(result)
    writer.operations = chosen_together(converted_at_once(writer.operations))
    return writer.finished(result)


def _put(writer: StepWriter, operator: Operator) -> None:
    gives = [tensor for tensor in found_in(operator.gives, Tensor) if plain(tensor)]
    if operator.name in CONSTANT:
        for tensor in gives:
            writer.hold(tensor, tensor)
        return
    write = WRITES.get(operator.name)
    there = all(map(writer.knows, gives))
    # A view, or a conversion to the type that a tensor has; what gives nothing at all may do something to others.
    same = there and not operator.writes and (operator.views or (write is not None and bool(gives)))
    if operator.name in NOTHING or same:
        for tensor in gives:
            writer.make(tensor)
        return
    if write is None:
        raise UnknownError(operator.name)
    if operator.writes:
        for tensor in filter(plain, found_in(operator.arguments, Tensor)):
            writer.change(tensor)
    widens = operator.name in CONVERSIONS and operator.gives.dtype == torch.float32
    if widens and operator.arguments["self"].dtype == torch.bfloat16:
        writer.widen(operator.gives, operator.arguments["self"])
        return
    for tensor in gives:
        writer.make(tensor)
    write(writer, operator.arguments, operator.gives)
