"""Decode state: a layer's memory of earlier positions. Preallocated, one protocol, its kind chosen by the part.

The stack has one table (`Slots`) of the position in every slot; each layer's state has only its tensors. Positions are
tensors, so one compiled graph serves every step.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from anyformer.describe import UserError

EMPTY = -1
"""The position of a slot that was never written, or written by padding."""


class StateError(UserError):
    """A decode state cannot hold the positions asked for, or cannot forget them."""


class State(Protocol):
    """The memory of a layer."""

    @property
    def nbytes(self) -> int:
        """Bytes held, all of them allocated up front."""
        ...

    @property
    def allows_padding(self) -> bool:
        """Whether padding may come between the positions of a row; a memory of a fixed number of slots allows none."""
        ...

    def fork(self, rows: Tensor) -> State:
        """A new state whose row i is a copy of row `rows[i]`: beams, or several samples of one prompt."""
        ...

    def take(self, other: Any) -> None:
        """Copy the contents of `other`, a state of the same layer that is no larger."""
        ...

    def put(self, rows: Tensor, other: Any, start: int, count: int) -> None:
        """Rows `rows` become those of `other`, a state of the same layer and size; its `count` slots begin at `start`."""
        ...

    def shift(self, count: int, used: int) -> None:
        """Move the contents of the first `used` slots by `count` slots, back where that is below 0, over what stands there."""
        ...

    def check_trim(self, written: int, count: int) -> None:
        """Raise `StateError` if the last `count` of `written` slots cannot be forgotten."""
        ...

    def kept(self, start: int, count: int) -> Any:
        """A copy of what `count` positions, read into the slots from `start` on, will overwrite."""
        ...

    def parts(self, count: int) -> bool:
        """Whether some of `count` positions that were read can be forgotten; else all of them or none."""
        ...

    def restore(self, kept: Any, start: int, first: int, stop: int) -> None:
        """Undo what was read into the slots from `first` to `stop`; `kept`: of those from `start` on, `start` <= `first`."""
        ...


def _number(value: int, device: torch.device) -> Tensor:
    """A 0-d tensor that a kernel fills: `torch.tensor` would copy from the host, which waits."""
    return torch.full((), value, dtype=torch.int64, device=device)


class Slots:
    """The slots of a stack's state: `positions` (B, C), the position held in every slot, EMPTY in a free one.

    `reserve` counts on the host; the graph of a step reads only tensors and `visible`, a bound on the slots in use that stays
    constant for many compiled steps.
    """

    def __init__(self, positions: Tensor, used: int = 0) -> None:
        self.positions, self.used = positions, used
        self.start = _number(used, positions.device)
        self.visible = used

    @staticmethod
    def allocate(batch: int, capacity: int, device: torch.device | str) -> Slots:
        return Slots(torch.full((batch, capacity), EMPTY, dtype=torch.int64, device=device))

    @property
    def nbytes(self) -> int:
        return self.positions.nbytes

    @property
    def capacity(self) -> int:
        return self.positions.shape[1]

    def reserve(self, count: int, multiple: int = 1) -> None:
        """Reserve slots for a chunk of `count` positions; `visible` is rounded up, so that it changes rarely.

        It is rounded to the multiple, and to twice, four times ... of it where that is at most an eighth of the slots in use;
        with a multiple of 1 it is exact.
        """
        if self.used + count > self.capacity:
            raise StateError(
                f"the decode state holds at most {self.capacity} positions: {self.used} are used and {count} more asked for; "
                f"allocate it with a larger capacity"
            )
        self.start = _number(self.used, self.positions.device)
        self.used += count
        step = multiple << max(0, (self.used // (8 * multiple)).bit_length() - 1) if multiple > 1 else 1
        self.visible = min(self.capacity, -(-self.used // step) * step)

    def enter(self, padding_BT: Tensor | None, length: int) -> ChunkSlots:
        """Write a reserved chunk's positions: each row counts on from its largest position, padding gets EMPTY."""
        first = self.positions.amax(1, keepdim=True) + 1
        if padding_BT is None:
            positions = first + torch.arange(length, device=first.device)
        else:
            valid = ~padding_BT
            positions = torch.where(valid, first + valid.cumsum(1) - 1, EMPTY)
        slots = self.start + torch.arange(length, device=first.device)
        self.positions.index_copy_(1, slots, positions)
        return ChunkSlots(slots, positions, self.positions[:, : self.visible])

    def take(self, other: Slots) -> None:
        """Hold the positions of `other`, which has no more slots."""
        self.positions[:, : other.capacity] = other.positions
        self.used, self.start, self.visible = other.used, other.start, other.visible

    def trim(self, count: int) -> None:
        """Forget the last `count` slots."""
        self.used -= count
        self.positions[:, self.used :] = EMPTY

    def put(self, rows: Tensor, other: Slots) -> None:
        """Rows `rows` hold the positions of `other`, which has no more slots in use: its last where the last of this one is."""
        self.clear(rows)
        self.positions[rows, self.used - other.used : self.used] = other.positions[:, : other.used]

    def clear(self, rows: Tensor) -> None:
        """Rows `rows` hold nothing; their next position is the first."""
        self.positions[rows] = EMPTY

    def shift(self, count: int) -> None:
        """Move all positions by `count` slots, back where that is below 0; those moved beyond the first are forgotten."""
        assert 0 <= self.used + count <= self.capacity, "asked for within the capacity"
        moved(self.positions, count, self.used, 1)
        self.used += count
        self.positions[:, : max(count, 0)] = EMPTY
        self.positions[:, self.used :] = EMPTY

    def fork(self, rows: Tensor) -> Slots:
        return Slots(self.positions[rows].clone(), self.used)


@dataclass(frozen=True)
class Keys:
    """The positions of a layer's keys, (B or 1, S); equal labels in one forward pass mean equal positions."""

    positions: Tensor
    label: Hashable


@dataclass(frozen=True)
class ChunkSlots:
    """The `slots` (T,) and `positions` (B, T) of the current chunk, and the position in every visible slot, (B, S)."""

    slots: Tensor
    positions: Tensor
    slot_positions: Tensor


def take_over(larger: Tensor, smaller: Tensor) -> None:
    """Copy `smaller` to the beginning of `larger`, along the slots (B, K, slots, E)."""
    larger[:, :, : smaller.shape[2]] = smaller


def moved(held: Tensor, count: int, used: int, dimension: int) -> None:
    """Move the first `used` places along a dimension by `count`, in place; those that leave at the beginning are lost."""
    first = max(-count, 0)
    length = used - first
    if length > 0:
        held.narrow(dimension, first + count, length).copy_(held.narrow(dimension, first, length).clone())


class KeyValueState:
    """Keys and values of slots, (B, K, slots, E) each."""

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self.key, self.value = key, value

    @property
    def nbytes(self) -> int:
        return self.key.nbytes + self.value.nbytes

    def take(self, other: KeyValueState) -> None:
        """Copy the contents of `other` to the same slots (right for a ring too, as long as none is overwritten)."""
        take_over(self.key, other.key)
        take_over(self.value, other.value)

    def fork(self, rows: Tensor) -> Self:
        return type(self)(self.key[rows].clone(), self.value[rows].clone())


class FullState(KeyValueState):
    """Keys and values of every position: (B, K, C, E) each. `extend` writes the chunk and returns the whole memory."""

    allows_padding = True

    def extend(self, key: Tensor, value: Tensor, chunk: ChunkSlots) -> tuple[Tensor, Tensor, Keys]:
        """(B, K, T, E) twice -> keys and values (B, K, S, E) of all visible slots."""
        self.key.index_copy_(2, chunk.slots, key.to(self.key.dtype))
        self.value.index_copy_(2, chunk.slots, value.to(self.value.dtype))
        visible = chunk.slot_positions.shape[1]
        return self.key[:, :, :visible], self.value[:, :, :visible], Keys(chunk.slot_positions, "full")

    def put(self, rows: Tensor, other: FullState, start: int, count: int) -> None:
        self.key[rows, :, start : start + count] = other.key[:, :, :count]
        self.value[rows, :, start : start + count] = other.value[:, :, :count]

    def shift(self, count: int, used: int) -> None:
        moved(self.key, count, used, 2)
        moved(self.value, count, used, 2)

    def check_trim(self, written: int, count: int) -> None:
        """Every position is stored, so any number can be forgotten."""

    def kept(self, start: int, count: int) -> None:
        """Free slots hold nothing."""

    def parts(self, count: int) -> bool:
        return True

    def restore(self, kept: None, start: int, first: int, stop: int) -> None:
        """What stands in a slot without a position is never read."""


class CrossState(KeyValueState):
    """Keys and values of the source, computed once: (B, K, S, E) each."""

    allows_padding = True

    def fill(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Hold those of the source that is read, and give what queries read in this call."""
        self.key.copy_(key)
        self.value.copy_(value)
        return key, value

    def put(self, rows: Tensor, other: CrossState, start: int, count: int) -> None:
        self.key[rows], self.value[rows] = other.key, other.value

    def shift(self, count: int, used: int) -> None:
        """The source has places of its own."""

    def check_trim(self, written: int, count: int) -> None:
        """The source does not grow with the target, so there is nothing to forget."""

    def kept(self, start: int, count: int) -> None:
        """Nothing is overwritten."""

    def parts(self, count: int) -> bool:
        return True

    def restore(self, kept: None, start: int, first: int, stop: int) -> None:
        """Nothing was."""
