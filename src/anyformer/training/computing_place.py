"""Where models compute, whose weights may be divided among processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Within(Protocol):
    """Calls a function in which the models can compute, and gives what it gives: one whose tensors lead back to them."""

    def __call__(self, act: Callable[[], T]) -> T: ...


def directly(act: Callable[[], T]) -> T:
    """`Within` of models that are whole."""
    return act()
