"""Decode state of a branch: that of its sublayer, and the latest inputs of a filter behind it."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.call.state import State


class BranchState:
    """The state of a sublayer, if it has one, and of the convolution of what it gives."""

    def __init__(self, inner: State | None, convolution: ConvolutionState) -> None:
        self.inner, self.convolution = inner, convolution

    @property
    def held(self) -> tuple[State, ...]:
        """Both, or the one that there is."""
        return (self.convolution,) if self.inner is None else (self.inner, self.convolution)

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.held)

    @property
    def allows_padding(self) -> bool:
        return all(each.allows_padding for each in self.held)

    def fork(self, rows: Tensor) -> BranchState:
        return BranchState(None if self.inner is None else self.inner.fork(rows), self.convolution.fork(rows))

    def take(self, other: BranchState) -> None:
        for own, theirs in zip(self.held, other.held, strict=True):
            own.take(theirs)

    def put(self, rows: Tensor, other: BranchState, start: int, count: int) -> None:
        for own, theirs in zip(self.held, other.held, strict=True):
            own.put(rows, theirs, start, count)

    def shift(self, count: int, used: int) -> None:
        for each in self.held:
            each.shift(count, used)

    def check_trim(self, written: int, count: int) -> None:
        for each in self.held:
            each.check_trim(written, count)

    def kept(self, start: int, count: int) -> list[Any]:
        return [each.kept(start, count) for each in self.held]

    def parts(self, count: int) -> bool:
        return all(each.parts(count) for each in self.held)

    def restore(self, kept: list[Any], start: int, first: int, stop: int) -> None:
        for each, own in zip(self.held, kept, strict=True):
            each.restore(own, start, first, stop)


def opened(state: State | None) -> tuple[State | None, ConvolutionState | None]:
    """The state of a branch's sublayer, and of its convolution."""
    return (state.inner, state.convolution) if isinstance(state, BranchState) else (state, None)
