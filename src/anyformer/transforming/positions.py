"""Tables of positions: longer by copying or stretching, shorter by cutting."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.transforming.choices import TransformChoices
from anyformer.transforming.operation import Fresh, MadeWeight, judged, relative_error
from anyformer.transforming.resized import Resized


def stretched(change: Resized, choices: TransformChoices) -> FirstPositions | Tiled | Interpolated:
    """The rule from a table of `change.old` positions to one of `change.new`."""
    if not change.grows:
        return FirstPositions(change.old, change.new)
    return Tiled(change.old, change.new) if choices.positions == "copied" else Interpolated(change.old, change.new)


@dataclass(frozen=True)
class FirstPositions:
    """The first positions: texts that fit compute the same."""

    old: int
    new: int

    @property
    def words(self) -> str:
        return f"positions {self.new:,} to {self.old - 1:,} left out"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        return MadeWeight(x.narrow(dim, 0, self.new), "kept")


@dataclass(frozen=True)
class Tiled:
    """The old table again and again (Beltagy et al. 2020, arXiv 2004.05150, section 5): the same up to the old length."""

    old: int
    new: int

    @property
    def words(self) -> str:
        return f"positions {self.old:,} to {self.new - 1:,} repeat those from 0 on"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        return MadeWeight(x.index_select(dim, torch.arange(self.new, device=x.device) % self.old), "kept")


@dataclass(frozen=True)
class Interpolated:
    """The table stretched: position t of the new one lies at t * (old - 1) / (new - 1) of the old, between two rows.

    The interpolation of Dosovitskiy et al. 2020 (arXiv 2010.11929, section 3.2) along one line; the error is that of the first
    positions, which the old model knew.
    """

    old: int
    new: int

    @property
    def words(self) -> str:
        return f"{self.old:,} positions stretched to {self.new:,}"

    def __call__(self, x: Tensor, dim: int, fresh: Fresh) -> MadeWeight:
        place = torch.arange(self.new, dtype=torch.float64, device=x.device) * (self.old - 1) / (self.new - 1)
        low = place.floor().long().clamp(max=max(self.old - 2, 0))
        shape = [1] * x.dim()
        shape[dim] = self.new
        share = (place - low).view(shape)
        rows = x.double()
        high = (low + 1).clamp(max=self.old - 1)
        made = rows.index_select(dim, low) * (1 - share) + rows.index_select(dim, high) * share
        return judged(made.to(x.dtype), relative_error(made.narrow(dim, 0, self.old), x))
