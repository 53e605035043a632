"""Decode state of attention whose keys and values are convolved: those that were, and the latest inputs of the filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from torch import Tensor

from anyformer.parts.call.annotated_state import AnnotatedState
from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.call.ring_state import RingState
from anyformer.parts.call.state import FullState, KeyValueState

Convolutions = Mapping[str, ConvolutionState]


class _Convolved(KeyValueState):
    """The states of filters by name beside those of keys and values, which the other base class holds."""

    convolutions: Convolutions

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(each.nbytes for each in self.convolutions.values())

    def take(self, other: Any) -> None:
        super().take(other)
        for name, each in self.convolutions.items():
            each.take(other.convolutions[name])

    def fork(self, rows: Tensor) -> Self:
        made = super().fork(rows)
        made.convolutions = {name: each.fork(rows) for name, each in self.convolutions.items()}
        return made

    def put(self, rows: Tensor, other: Any, start: int, count: int) -> None:
        super().put(rows, other, start, count)  # type: ignore[misc]
        for name, each in self.convolutions.items():
            each.put(rows, other.convolutions[name], start, count)

    def check_trim(self, written: int, count: int) -> None:
        super().check_trim(written, count)  # type: ignore[misc]
        for each in self.convolutions.values():
            each.check_trim(written, count)

    def kept(self, start: int, count: int) -> Any:
        held = super().kept(start, count)  # type: ignore[misc]
        return held, {name: each.kept(start, count) for name, each in self.convolutions.items()}

    def parts(self, count: int) -> bool:
        return count <= 1

    def restore(self, kept: Any, start: int, first: int, stop: int) -> None:
        super().restore(kept[0], start, first, stop)  # type: ignore[misc]
        for name, each in self.convolutions.items():
            each.restore(kept[1][name], start, first, stop)


class ConvolvedState(_Convolved, FullState):
    """Of every position."""


class ConvolvedAnnotatedState(_Convolved, AnnotatedState):
    """Of every position, with some other numbers beside."""


class ConvolvedRing(_Convolved, RingState):
    """Of the latest positions."""


def with_convolutions(state: FullState | RingState, convolutions: Convolutions) -> FullState | RingState:
    """The state of keys and values, with those of filters."""
    made: ConvolvedState | ConvolvedAnnotatedState | ConvolvedRing
    if isinstance(state, RingState):
        made = ConvolvedRing(state.key, state.value)
    elif isinstance(state, AnnotatedState):
        made = ConvolvedAnnotatedState(state.key, state.value, state.beside)
    else:
        made = ConvolvedState(state.key, state.value)
    made.convolutions = convolutions
    return made
