"""Rows of one decode state, each a place for a text, all of which end at the same slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from anyformer.generation.memory import grown
from anyformer.model.transformer import Transformer
from anyformer.parts.call.stack_state import StackState

WASTE = 8
"""Slots that no row holds are given up when they are one in so many: moving the others costs as much as a step reads."""


@dataclass
class AlignedRows:
    """`count` rows of at most `longest` positions, whose sources have `source` positions; `multiple`: see `Slots`.

    A text that comes later is read into a state of its own, which is written so that its last position stands where the last of
    the others stands. `spans`: slots that each holds, up to the last one; 0 of one that is free.
    """

    model: Transformer
    count: int
    longest: int
    source: int = 0
    multiple: int = 1
    spans: list[int] = field(init=False)
    state: StackState | None = None

    def __post_init__(self) -> None:
        self.spans = [0] * self.count

    @property
    def most(self) -> int:
        """The most slots: those of the longest row, and those that wait to be given up."""
        return self.longest + self.longest // (WASTE - 1) + self.multiple

    def grow(self, count: int) -> StackState:
        """The state with room for `count` more slots."""
        self.state = grown(self.model, self.state, self.count, count, most=self.most, source=self.source)
        return self.state

    def make_room(self, length: int) -> StackState:
        """The state with as many slots in use as a text of `length` takes."""
        assert self.state is not None, "rows were read"
        missing = max(length - self.state.slots.used, 0)
        state = self.grow(missing)
        state.shift(missing)
        return state

    def put(self, at: Sequence[int], fresh: StackState, spans: Sequence[int]) -> None:
        """Rows `at`, which are free, become those of `fresh`, a state as large, which hold so many slots."""
        assert self.state is not None, "room was made"
        self.state.put(torch.tensor(list(at), device=self.model.device), fresh)
        self.hold(at, spans)

    def hold(self, at: Sequence[int], spans: Sequence[int]) -> None:
        """Rows `at` hold so many slots."""
        for place, span in zip(at, spans, strict=True):
            self.spans[place] = span

    def advanced(self) -> StackState:
        """The state with a slot reserved for one more token of each row."""
        assert self.state is not None, "rows were read"
        slots = self.state.slots
        waste = slots.used - max(self.spans)
        if slots.used % self.multiple == 0 and waste >= max(1, slots.used // WASTE):
            self.state.shift(-waste)
        state = self.grow(1)
        state.slots.reserve(1, self.multiple)
        self.spans = [span + (span > 0) for span in self.spans]
        return state

    def leave(self, at: Sequence[int]) -> None:
        """Free rows whose texts have ended; their positions count anew, so that they stay within a table's."""
        assert self.state is not None, "a row was read"
        self.hold(at, [0] * len(at))
        self.state.slots.clear(torch.tensor(list(at), device=self.model.device))
