"""Captured operators as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from anyformer.generation.native.captured import Operator
from anyformer.generation.native.functions import OF_NUMBERS
from anyformer.generation.native.matrices import MATRICES
from anyformer.generation.native.moves import MOVES
from anyformer.generation.native.table import StepWriter, Table, UnknownError
from anyformer.generation.native.whole_rows import OF_ROWS
from anyformer.generation.program import found_in

WRITES = {**OF_NUMBERS, **OF_ROWS, **MOVES, **MATRICES}
"""What each operator puts down."""
CONSTANT = frozenset({"aten::arange", "aten::scalar_tensor", "aten::lift_fresh", "aten::eye", "aten::linspace"})
"""Operators that give the same numbers in every step."""
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
    for operator in operators:
        for tensor in found_in(operator.arguments, Tensor):
            if plain(tensor) and not writer.knows(tensor):
                writer.hold(tensor, tensor)  # such as a list of numbers of Python that became one
        _put(writer, operator)
    return writer.finished(result)


def plain(tensor: Any) -> bool:
    """Whether it is a tensor whose numbers lie in memory by its strides."""
    return (
        isinstance(tensor, Tensor)
        and tensor.layout is not None
        and not tensor.is_mkldnn
        and type(tensor).__name__ in ("Tensor", "Parameter")
    )


def _put(writer: StepWriter, operator: Operator) -> None:
    gives = [tensor for tensor in found_in(operator.gives, Tensor) if plain(tensor)]
    if operator.name in CONSTANT:
        for tensor in gives:
            writer.hold(tensor, tensor)
        return
    if operator.name in NOTHING or (not operator.writes and all(map(writer.knows, gives))):
        for tensor in gives:  # a view of what is known, or memory without numbers
            writer.make(tensor)
        return
    write = WRITES.get(operator.name)
    if write is None:
        raise UnknownError(operator.name)
    for tensor in found_in(operator.gives, Tensor):
        writer.make(tensor)
    write(writer, operator.arguments, operator.gives)
