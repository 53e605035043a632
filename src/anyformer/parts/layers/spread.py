"""Where a stack and its branches meet processes that divide positions or sublayers; in one process nothing stands there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn

from anyformer.parts.call.context import Context


class Spread(Protocol):
    """The way of a stream into the layers of a stack and out of them, where each process has some positions between."""

    def enter(self, x: Tensor, context: Context) -> tuple[Tensor, Context]:
        """This process's positions of a stream that all have, (B, T, ...), and the context of its layers."""

    def leave(self, x: Tensor, length: int) -> Tensor:
        """The stream with all `length` positions."""


class Relay(Protocol):
    """The way of a stream through the layers of a stack, of which each process has some."""

    def __call__(self, run: Callable[[range, Tensor], Tensor], x: Tensor, context: Context) -> Tensor:
        """The stream after all layers; `run` gives it after layers of these numbers, which this process has."""


class Crossing(Protocol):
    """The way of a branch through its sublayer: from this process's positions to all, and back."""

    def __call__(self, sublayer: nn.Module, x: Tensor, context: Context) -> Tensor: ...
