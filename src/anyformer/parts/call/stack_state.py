"""The decode state of a stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from anyformer.parts.call.state import Slots, State, StateError


@dataclass(frozen=True)
class StackMark:
    """What `count` positions overwrite, read from slot `start` on: of each layer's branches by name."""

    start: int
    count: int
    layers: list[dict[str, Any]]


@dataclass
class StackState:
    """The decode state of a stack: its slots, and the state of each layer's branches by name.

    Padding of the source and prefix lengths are set by the first chunk and hold for all later ones.
    """

    slots: Slots
    layers: list[dict[str, State]]
    source_padding: Tensor | None = None
    """(B, S) bool; None without padding."""
    prefix: Tensor | None = None
    """(B,); None without a prefix."""
    offset: Tensor | None = None
    """(B,): what the position of a row's later tokens on several axes has beyond the one counted, behind images that advance a
    text by less than their tokens; None in a model without such images."""

    @property
    def nbytes(self) -> int:
        """Every byte allocated."""
        return self.slots.nbytes + sum(state.nbytes for layer in self.layers for state in layer.values())

    @property
    def allows_padding(self) -> bool:
        """Whether padding may come between the positions of a row."""
        return all(state.allows_padding for layer in self.layers for state in layer.values())

    def fork(self, rows: Tensor) -> StackState:
        """A new state whose row i copies row rows[i]; `rows` (B',) may repeat and reorder."""
        layers = [{name: state.fork(rows) for name, state in layer.items()} for layer in self.layers]
        padding = None if self.source_padding is None else self.source_padding[rows]
        prefix = None if self.prefix is None else self.prefix[rows]
        offset = None if self.offset is None else self.offset[rows]
        return StackState(self.slots.fork(rows), layers, padding, prefix, offset)

    def take(self, other: StackState) -> None:
        """Continue from the contents of `other`, a state of the same stack that is no larger."""
        self.slots.take(other.slots)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            for name, state in mine.items():
                state.take(theirs[name])
        self.source_padding, self.prefix, self.offset = other.source_padding, other.prefix, other.offset

    def put(self, rows: Tensor, other: StackState) -> None:
        """Rows `rows` (n,) become those of `other`, a state of the same stack and capacity with n rows, in the same memory.

        Its last slot comes to stand where the last of this one is, so it may have no more slots in use: `shift` makes room.
        """
        start, count = self.slots.used - other.slots.used, other.slots.used
        assert start >= 0, "there is room for it"
        self.slots.put(rows, other.slots)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            for name, state in mine.items():
                state.put(rows, theirs[name], start, count)
        both = (self.source_padding, other.source_padding), (self.prefix, other.prefix), (self.offset, other.offset)
        for held, given in both:
            if held is not None:
                assert given is not None, "all rows are read by calls of one form"
                held[rows] = given

    def shift(self, count: int) -> None:
        """Move all slots by `count`: forward, to put longer rows beside, or back, where no row holds the first ones."""
        for layer in self.layers:
            for state in layer.values():
                state.shift(count, self.slots.used)
        self.slots.shift(count)

    def mark(self, count: int) -> StackMark:
        """A mark to go back to after at most `count` more positions, which fit into this state."""
        start = self.slots.used
        kept = [{name: state.kept(start, count) for name, state in layer.items()} for layer in self.layers]
        return StackMark(start, count, kept)

    def back(self, mark: StackMark, keep: int) -> int:
        """Forget what was read after `mark` but its first `keep` positions, and give how many of these it still holds.

        That is `keep` or none: a sum over all positions, and a ring that was overwritten more than once, go back to the mark
        alone.
        """
        used, states = self.slots.used, [state for layer in self.layers for state in layer.values()]
        assert mark.start + keep <= used <= mark.start + mark.count, "read after the mark"
        if mark.start + keep == used:
            return keep
        held = keep if all(state.parts(used - mark.start) for state in states) else 0
        for layer, kept in zip(self.layers, mark.layers, strict=True):
            for name, state in layer.items():
                state.restore(kept[name], mark.start, mark.start + held, used)
        self.slots.trim(used - mark.start - held)
        return held

    def trim(self, count: int) -> None:
        """Forget the last `count` positions, as after a rejected draft; `StateError` if a layer's memory cannot."""
        if not 0 <= count <= self.slots.used:
            raise StateError(f"cannot forget {count} positions of {self.slots.used}")
        for layer in self.layers:
            for state in layer.values():
                state.check_trim(self.slots.used, count)
        self.slots.trim(count)
