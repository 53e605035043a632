"""Decode state of attention that holds more of a position than its key and value: an index key, or a running sum of gates."""

from __future__ import annotations

from typing import Self

from torch import Tensor

from anyformer.parts.call.state import ChunkSlots, FullState, moved, take_over


class AnnotatedState(FullState):
    """A `FullState`, and `beside` the keys and values of each position some other numbers, (B, n, C, m)."""

    def __init__(self, key: Tensor, value: Tensor, beside: Tensor) -> None:
        super().__init__(key, value)
        self.beside = beside

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.beside.nbytes

    def extend_beside(self, beside: Tensor, chunk: ChunkSlots) -> Tensor:
        """(B, n, T, m) -> the numbers (B, n, S, m) of all visible slots."""
        self.beside.index_copy_(2, chunk.slots, beside.to(self.beside.dtype))
        return self.beside[:, :, : chunk.slot_positions.shape[1]]

    def before(self, chunk: ChunkSlots) -> Tensor:
        """The numbers (B, n, 1, m) in the slot before a chunk that is not yet written; before the first slot comes the last."""
        return self.beside.index_select(2, (chunk.slots[:1] - 1) % self.beside.shape[2])

    def take(self, other: AnnotatedState) -> None:  # type: ignore[override]
        super().take(other)
        take_over(self.beside, other.beside)

    def fork(self, rows: Tensor) -> Self:
        return type(self)(self.key[rows].clone(), self.value[rows].clone(), self.beside[rows].clone())

    def put(self, rows: Tensor, other: AnnotatedState, start: int, count: int) -> None:  # type: ignore[override]
        super().put(rows, other, start, count)
        self.beside[rows, :, start : start + count] = other.beside[:, :, :count]

    def shift(self, count: int, used: int) -> None:
        super().shift(count, used)
        moved(self.beside, count, used, 2)
