"""Decode state of attention that chooses blocks of keys by their means."""

from __future__ import annotations

from typing import Self

from torch import Tensor

from anyformer.parts.call.state import FullState, take_over


class BlockState(FullState):
    """A `FullState`, and the mean key of each block by number, (B, K, ceil(C / b) + 1, E), the last of which is no block's.

    Only whole blocks are written, and read where a later block is asked for: a block whose latest positions are forgotten is
    written again once it is whole.
    """

    def __init__(self, key: Tensor, value: Tensor, means: Tensor) -> None:
        super().__init__(key, value)
        self.means = means

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.means.nbytes

    def write(self, means_BKnE: Tensor, numbers_Bn: Tensor, whole_Bn: Tensor) -> None:
        """Hold the means of the blocks that are whole under their numbers."""
        at = numbers_Bn.masked_fill(~whole_Bn, self.means.shape[2] - 1)
        self.means.scatter_(2, at[:, None, :, None].expand(means_BKnE.shape), means_BKnE.to(self.means.dtype))

    def take(self, other: BlockState) -> None:  # type: ignore[override]
        super().take(other)
        take_over(self.means, other.means)

    def fork(self, rows: Tensor) -> Self:
        return type(self)(self.key[rows].clone(), self.value[rows].clone(), self.means[rows].clone())

    def put(self, rows: Tensor, other: BlockState, start: int, count: int) -> None:  # type: ignore[override]
        super().put(rows, other, start, count)
        self.means[rows] = other.means
