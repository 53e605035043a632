"""Decode state as values that enter and leave a graph: a memory that grows with every call, and is written nowhere."""

from __future__ import annotations

import torch
from torch import Tensor

from anyformer.parts.call.state import EMPTY, ChunkSlots, CrossState, FullState, Keys, Slots


class GrowingState(FullState):
    """Keys (B, K, P, E) and values (B, K, P, U) of P earlier positions; behind a call of T those of P + T.

    A layer with a window keeps all positions too: its mask leaves out the older ones.
    """

    def extend(self, key: Tensor, value: Tensor, chunk: ChunkSlots) -> tuple[Tensor, Tensor, Keys]:
        """(B, K, T, E) and (B, K, T, U) -> those of all P + T positions."""
        self.key = torch.cat([self.key, key.to(self.key.dtype)], 2)
        self.value = torch.cat([self.value, value.to(self.value.dtype)], 2)
        return self.key, self.value, Keys(chunk.slot_positions, "full")


class GrowingSource(CrossState):
    """Keys and values of the P positions of the source that earlier calls have read: all of them, or none."""

    def fill(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Those of the S - P positions that are left -> those of all S."""
        self.key = torch.cat([self.key, key.to(self.key.dtype)], 2)
        self.value = torch.cat([self.value, value.to(self.value.dtype)], 2)
        return self.key, self.value


class GrowingSlots(Slots):
    """A slot for every position of a row from its first call on, padding among them: `valid` (B, P + T), false on padding."""

    def __init__(self, valid: Tensor) -> None:
        super().__init__(torch.where(valid, valid.long().cumsum(1) - 1, EMPTY))

    def enter(self, padding_BT: Tensor | None, length: int) -> ChunkSlots:
        """The chunk is the last `length` slots, which `valid` tells of already."""
        slots = torch.arange(self.capacity, device=self.positions.device)[-length:]
        return ChunkSlots(slots, self.positions[:, -length:], self.positions)
