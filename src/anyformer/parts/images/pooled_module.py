"""The module of a projector that averages squares of patches."""

from __future__ import annotations

import math

from torch import Tensor, nn

from anyformer.parts.images.pooled import PooledProjector


class PooledModule(nn.Module):
    """(n, S, I) -> (n, side * side, D)."""

    def __init__(self, part: PooledProjector, inputs: int, width: int) -> None:
        super().__init__()
        self.side = part.side
        self.norm = part.norm.build(inputs) if part.norm else nn.Identity()
        self.projection = nn.Linear(inputs, width, bias=part.bias)

    def forward(self, x_nSI: Tensor) -> Tensor:
        return self.projection(self.norm(means_of_squares(x_nSI, self.side)))  # type: ignore[no-any-return]


def means_of_squares(x_nSI: Tensor, side: int) -> Tensor:
    """The means of a square grid of positions, row by row, over side x side squares of it: (n, side * side, I)."""
    images, positions, features = x_nSI.shape
    each = math.isqrt(positions) // side
    return x_nSI.reshape(images, side, each, side, each, features).mean((2, 4)).flatten(1, 2)
