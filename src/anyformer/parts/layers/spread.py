"""Where a stack and its branches meet processes that divide positions or sublayers; in one process nothing stands there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn

from anyformer.parts.call.context import Context
from anyformer.parts.call.state import State


class Spread(Protocol):
    """The way of a stream into the layers of a stack and out of them, where each process has some positions between."""

    def enter(self, x: Tensor, context: Context) -> tuple[Tensor, Context]:
        """This process's positions of a stream that all have, (B, T, ...), and the context of its layers."""

    def leave(self, x: Tensor, length: int) -> Tensor:
        """The stream with all `length` positions."""

    def of(self, length: int) -> int:
        """The positions, of `length`, that this process has between; the last ones may be padding."""


class Relay(Protocol):
    """The way of a stream through the layers of a stack, of which a process has some."""

    def __call__(self, run: Callable[[range, Tensor], Tensor], x: Tensor, context: Context) -> Tensor:
        """The stream after all layers; `run` gives it after layers of these numbers, which this process has."""


class Crossing(Protocol):
    """The way of a branch through its sublayer: from what this process has to what the sublayer reads, and back."""

    def __call__(self, sublayer: nn.Module, x: Tensor, context: Context, state: State | None = None) -> Tensor: ...


def through(sublayer: nn.Module, x: Tensor, context: Context, crossing: Crossing | None, state: State | None = None) -> Tensor:
    """What a sublayer makes of x, by its crossing where it has one."""
    y: Tensor = sublayer(x, context, state) if crossing is None else crossing(sublayer, x, context, state)
    return y
