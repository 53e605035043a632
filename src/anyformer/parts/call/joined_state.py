"""Decode state of a part that has several memories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from anyformer.parts.call.state import State


class JoinedState:
    """States by name, each of which holds, forgets and forks by itself."""

    def __init__(self, states: Mapping[str, State]) -> None:
        self.states = dict(states)

    def __getitem__(self, name: str) -> Any:
        return self.states[name]

    @property
    def allows_padding(self) -> bool:
        return all(state.allows_padding for state in self.states.values())

    @property
    def nbytes(self) -> int:
        return sum(state.nbytes for state in self.states.values())

    def take(self, other: JoinedState) -> None:
        for name, state in self.states.items():
            state.take(other.states[name])

    def put(self, rows: Tensor, other: JoinedState, start: int, count: int) -> None:
        for name, state in self.states.items():
            state.put(rows, other.states[name], start, count)

    def shift(self, count: int, used: int) -> None:
        for state in self.states.values():
            state.shift(count, used)

    def check_trim(self, written: int, count: int) -> None:
        for state in self.states.values():
            state.check_trim(written, count)

    def kept(self, start: int, count: int) -> dict[str, Any]:
        return {name: state.kept(start, count) for name, state in self.states.items()}

    def parts(self, count: int) -> bool:
        return all(state.parts(count) for state in self.states.values())

    def restore(self, kept: dict[str, Any], start: int, first: int, stop: int) -> None:
        for name, state in self.states.items():
            state.restore(kept[name], start, first, stop)

    def fork(self, rows: Tensor) -> JoinedState:
        return JoinedState({name: state.fork(rows) for name, state in self.states.items()})
