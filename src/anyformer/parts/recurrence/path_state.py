"""The decode state of PaTH attention: keys that every step turns, values, and the latest inputs of a convolution."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from anyformer.parts.call.recurrent_state import ConvolutionState
from anyformer.parts.call.state import ChunkSlots, FullState, Keys, StateError


class PathState(FullState):
    """Keys (B, K, C, E) in fp32 as the latest position sees them, values (B, K, C, E), and `recent`, of a convolution."""

    def __init__(self, key: Tensor, value: Tensor, recent: ConvolutionState | None) -> None:
        super().__init__(key, value)
        self.recent = recent

    @staticmethod
    def empty(
        batch: int, groups: int, capacity: int, features: int, dtype: torch.dtype, device: torch.device,
        recent: ConvolutionState | None,
    ) -> PathState:  # fmt: skip
        shape = (batch, groups, capacity, features)
        key = torch.zeros(shape, dtype=torch.float32, device=device)
        return PathState(key, torch.zeros(shape, dtype=dtype, device=device), recent)

    def seen(self, chunk: ChunkSlots) -> Tensor:
        """The keys (B, K, S, E) of all visible slots."""
        return self.key[:, :, : chunk.slot_positions.shape[1]]

    def hold(self, keys: Tensor, value: Tensor, chunk: ChunkSlots) -> tuple[Tensor, Keys]:
        """Take over all keys (B, K, S, E), and the chunk's values (B, K, T, E): those of all visible slots."""
        visible = keys.shape[2]
        self.key[:, :, :visible] = keys
        self.value.index_copy_(2, chunk.slots, value.to(self.value.dtype))
        return self.value[:, :, :visible], Keys(chunk.slot_positions, "full")

    @property
    def nbytes(self) -> int:
        return super().nbytes + (0 if self.recent is None else self.recent.nbytes)

    def take(self, other: PathState) -> None:  # type: ignore[override]
        super().take(other)
        if self.recent is not None and other.recent is not None:
            self.recent.take(other.recent)

    def fork(self, rows: Tensor) -> Self:
        recent = None if self.recent is None else self.recent.fork(rows)
        return type(self)(self.key[rows].clone(), self.value[rows].clone(), recent)

    def put(self, rows: Tensor, other: PathState, start: int, count: int) -> None:  # type: ignore[override]
        super().put(rows, other, start, count)
        if self.recent is not None and other.recent is not None:
            self.recent.put(rows, other.recent, start, count)

    def check_trim(self, written: int, count: int) -> None:
        if count:
            raise StateError(
                f"each of the {written} positions so far has turned all keys before it: the last {count} cannot be taken "
                f"back; fork the state before you extend it"
            )

    def kept(self, start: int, count: int) -> tuple[Tensor, Tensor | None]:  # type: ignore[override]
        return self.key[:, :, :start].clone(), None if self.recent is None else self.recent.kept(start, count)

    def parts(self, count: int) -> bool:
        return count <= 1

    def restore(self, kept: tuple[Tensor, Tensor | None], start: int, first: int, stop: int) -> None:  # type: ignore[override]
        assert start == first, "none or all are forgotten"
        self.key[:, :, :start] = kept[0]
        if self.recent is not None and kept[1] is not None:
            self.recent.restore(kept[1], start, first, stop)
