"""Decode state of attention that chooses its keys: keys and values of every position, and beside them the index keys."""

from __future__ import annotations

from typing import Self

from torch import Tensor

from anyformer.parts.call.state import Chunk, FullState, moved, take_over


class IndexedState(FullState):
    """A `FullState`, and the index keys (B, 1, C, E) by which the keys of each query are chosen."""

    def __init__(self, key: Tensor, value: Tensor, index: Tensor) -> None:
        super().__init__(key, value)
        self.index = index

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.index.nbytes

    def extend_index(self, index: Tensor, chunk: Chunk) -> Tensor:
        """(B, 1, T, E) -> the index keys (B, 1, S, E) of all visible slots."""
        self.index.index_copy_(2, chunk.slots, index.to(self.index.dtype))
        return self.index[:, :, : chunk.slot_positions.shape[1]]

    def take(self, other: IndexedState) -> None:  # type: ignore[override]
        super().take(other)
        take_over(self.index, other.index)

    def fork(self, rows: Tensor) -> Self:
        return type(self)(self.key[rows].clone(), self.value[rows].clone(), self.index[rows].clone())

    def put(self, rows: Tensor, other: IndexedState, start: int, count: int) -> None:  # type: ignore[override]
        super().put(rows, other, start, count)
        self.index[rows, :, start : start + count] = other.index[:, :, :count]

    def shift(self, count: int, used: int) -> None:
        super().shift(count, used)
        moved(self.index, count, used, 2)
