"""The first rows of a decode state, in the same memory: a step of fewer rows reads and writes these alone."""

from __future__ import annotations

from copy import copy
from typing import Any, TypeVar

from torch import Tensor

Held = TypeVar("Held")


def row_view(state: Held, rows: int) -> Held:
    """A state of the first `rows` rows of `state`, whose tensors are views (rows, ...) of its tensors.

    What a call writes into one, both hold. What is counted on the host, as the slots in use, each counts for itself. Every
    tensor of a state has its rows first, but for numbers.
    """
    return _viewed(state, rows)  # type: ignore[no-any-return]


def _viewed(value: Any, rows: int) -> Any:
    if isinstance(value, Tensor):
        return value[:rows] if value.ndim else value
    if isinstance(value, dict):
        return {key: _viewed(each, rows) for key, each in value.items()}
    if isinstance(value, list):
        return [_viewed(each, rows) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    made = copy(value)
    for name, each in vars(value).items():
        setattr(made, name, _viewed(each, rows))
    return made
