"""Where a patch stands in its image, as the numbers by which rotary positions along two axes turn it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

from anyformer.describe import Positive, Registry, Value

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Coordinates(Value):
    """The base of coordinates of patches, which rotary positions with `Axial` axes read.

    Learned vectors in front of the patches are at (0, 0), which does not turn them.
    """

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def grid(self, rows: int, columns: int, device: torch.device) -> Tensor:
        """(2, rows * columns), row by row, in fp32."""
        raise NotImplementedError


class Centred(Coordinates):
    """(y, x) = turns * 2 pi * (2 (row + 1/2) / rows - 1, 2 (column + 1/2) / columns - 1): the middle of the image is (0, 0).

    An image of any size spans the same angles (DINOv3, Siméoni et al. 2025, arXiv 2508.10104, section 3.2).
    """

    kind: Literal["centred"] = "centred"
    turns: Positive = 1.0
    """Turns of the fastest pair from the middle of an image to its edge."""

    def grid(self, rows: int, columns: int, device: torch.device) -> Tensor:
        import torch

        sides = (torch.arange(0.5, count, device=device, dtype=torch.float32) / count for count in (rows, columns))
        y, x = (self.turns * 2 * math.pi * (2 * side - 1) for side in sides)
        return torch.stack([y[:, None].expand(rows, columns).flatten(), x.repeat(rows)])


class Numbered(Coordinates):
    """(x, y) = (column + 1, row + 1): the tower of Llama 4 (Meta 2025), whose first axis is the column."""

    kind: Literal["numbered"] = "numbered"

    def grid(self, rows: int, columns: int, device: torch.device) -> Tensor:
        import torch

        x, y = (torch.arange(1, count + 1, device=device, dtype=torch.float32) for count in (columns, rows))
        return torch.stack([x.repeat(rows), y[:, None].expand(rows, columns).flatten()])
