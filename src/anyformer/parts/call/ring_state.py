"""Decode state of a window: a ring of slots, in which the latest positions overwrite the oldest."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.call.state import EMPTY, ChunkSlots, FullState, Keys, KeyValueState, StateError


class RingState(KeyValueState):
    """Keys and values of the latest W positions: (B, K, W, E) each, slot s at place s mod W.

    A chunk attends to the old ring and to itself *before* it overwrites any slot, so that chunks of any length are right.
    """

    allows_padding = False

    @property
    def size(self) -> int:
        return self.key.shape[2]

    def extend(self, key: Tensor, value: Tensor, chunk: ChunkSlots) -> tuple[Tensor, Tensor, Keys]:
        """(B, K, T, E) twice -> keys and values (B, K, W + T, E): the old ring, then the chunk."""
        key, value = key.to(self.key.dtype), value.to(self.value.dtype)
        slots = chunk.slots[-self.size :]
        if key.shape[2] == 1:
            # The one slot overwritten held the position that just left the window: write first, and copy nothing.
            self._write(key, value, slots)
            return self.key, self.value, Keys(self._positions(chunk, chunk.slots[0] + 1), ("ring", self.size))
        positions = torch.cat([self._positions(chunk, chunk.slots[0]), chunk.positions], 1)
        extended = torch.cat([self.key, key], 2), torch.cat([self.value, value], 2), Keys(positions, ("ring", self.size))
        self._write(key[:, :, -self.size :], value[:, :, -self.size :], slots)
        return extended

    def _write(self, key: Tensor, value: Tensor, slots: Tensor) -> None:
        self.key.index_copy_(2, slots % self.size, key)
        self.value.index_copy_(2, slots % self.size, value)

    def _positions(self, chunk: ChunkSlots, written: Tensor) -> Tensor:
        """The position at every place of the ring after `written` slots: place p holds the latest slot with slot mod W = p."""
        place = torch.arange(self.size, device=written.device)
        slot = written - 1 - (written - 1 - place) % self.size
        held = chunk.slot_positions.index_select(1, slot.clamp(min=0))
        return torch.where(slot >= 0, held, EMPTY)

    def put(self, rows: Tensor, other: RingState, start: int, count: int) -> None:
        # Slot s of the other becomes slot s + start, which has another place in the ring.
        self.key[rows], self.value[rows] = other.key.roll(start, 2), other.value.roll(start, 2)

    def shift(self, count: int, used: int) -> None:
        self.key.copy_(self.key.roll(count, 2))
        self.value.copy_(self.value.roll(count, 2))

    def check_trim(self, written: int, count: int) -> None:
        if written > self.size:
            raise StateError(
                f"a window of {self.size} has overwritten all slots before {written - self.size}: "
                f"the last {count} positions cannot be taken back; fork the state before you extend it"
            )

    def kept(self, start: int, count: int) -> tuple[Tensor, Tensor]:
        places = self._places(start, start + count)
        return self.key.index_select(2, places), self.value.index_select(2, places)

    def parts(self, count: int) -> bool:
        # Of more positions than it has slots, the later ones overwrite the earlier.
        return count <= self.size

    def restore(self, kept: tuple[Tensor, Tensor], start: int, first: int, stop: int) -> None:
        places = self._places(first, stop)
        for held, before in zip((self.key, self.value), kept, strict=True):
            held.index_copy_(2, places, before.narrow(2, first - start, len(places)))

    def _places(self, first: int, stop: int) -> Tensor:
        """The places of the slots from `first` to `stop`, each once."""
        return torch.arange(first, min(stop, first + self.size), device=self.key.device) % self.size


def empty_keys_and_values(
    batch: int, heads: int, features: tuple[int, int], kept: int, capacity: int, dtype: torch.dtype, device: torch.device
) -> FullState | RingState:
    """Keys (B, K, kept, E) and values (B, K, kept, U) of a layer that keeps so many positions: a ring of the latest, if these
    are fewer than the capacity."""
    key, value = (torch.zeros(batch, heads, kept, each, dtype=dtype, device=device) for each in features)
    return FullState(key, value) if kept == capacity else RingState(key, value)
