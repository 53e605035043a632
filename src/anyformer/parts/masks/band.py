"""Bands: local attention by blocks of queries, each with the few blocks of keys that its window reaches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.parts.masks.mask import Mask

LEAST = 64
"""Positions of the smallest block: with smaller ones the kernel's calls cost more than the pairs that they leave out."""


@dataclass(frozen=True)
class Band:
    """T positions cut into n blocks of `size`, the last one filled up; a block sees itself and `before` blocks before it."""

    size: int
    before: int

    @property
    def keys(self) -> int:
        """The number of keys beside a block of queries."""
        return (self.before + 1) * self.size

    def blocks(self, x: Tensor, fill: int = 0) -> Tensor:
        """(B, T, ...) -> (B, n, size, ...)."""
        missing = -x.shape[1] % self.size
        if missing:
            x = F.pad(x, (*_untouched(x, 2), 0, missing), value=fill)
        return torch.unflatten(x, 1, (-1, self.size))

    def surroundings(self, x: Tensor, fill: int = 0) -> Tensor:
        """(B, T, ...) -> (B, n, keys, ...): every block, behind the blocks before it; `fill` stands before the first."""
        x = self.blocks(x, fill)
        if self.before == 0:
            return x
        count = x.shape[1]
        x = F.pad(x, (*_untouched(x, 2), self.before, 0), value=fill)
        return torch.cat([x[:, start : start + count] for start in range(self.before + 1)], 2)


def band_of(mask: Mask, length: int, *, aligned: bool) -> Band | None:
    """The band that holds every pair `mask` allows; None if there is none or it leaves out less than a third of all pairs.

    `aligned`: positions count from 0 in every row, so that blocks can end where chunks end. Blocks of a quarter of a window
    waste few pairs and copy no key more than five times.
    """
    if aligned and mask.chunk is not None:
        band = Band(-(-LEAST // mask.chunk) * mask.chunk, 0)
    elif mask.window is not None and not mask.looks_ahead:
        size = max(LEAST, -(-mask.window // 4))
        band = Band(size, -(-(mask.window - 1) // size))
    else:
        return None
    return band if 3 * band.keys <= 2 * length else None


def _untouched(x: Tensor, dims: int) -> tuple[int, ...]:
    """Padding of 0 for all dimensions after the first `dims`, as `F.pad` reads it."""
    return (0, 0) * (x.dim() - dims)
