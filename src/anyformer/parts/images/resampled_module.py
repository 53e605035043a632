"""The module of a table of positions that is resampled to an image's size."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from anyformer.parts.images.resampled import ResampledPosition


class ResampledModule(nn.Module):
    """(rows, columns) -> (rows * columns, D), row by row."""

    def __init__(self, part: ResampledPosition, width: int) -> None:
        super().__init__()
        self.side, self.by, self.aligned = part.side, part.by, part.corners == "centres"
        self.antialias = part.antialias
        self.weight = nn.Parameter(torch.empty(part.side**2, width))

    def forward(self, rows: int, columns: int) -> Tensor:
        # In fp32, as transformers weights the rows of its table.
        exact = torch.promote_types(self.weight.dtype, torch.float32)
        square = self.weight.to(exact).reshape(self.side, self.side, -1).permute(2, 0, 1)[None]
        size = rows, columns
        x_DRC = interpolate(square, size, mode=self.by, align_corners=self.aligned, antialias=self.antialias)[0]
        return x_DRC.flatten(1).mT
