"""The order in which the patches of an image of any size stand in a tower."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class GridOrder:
    """An image's patches in order: windows row by row, in each its squares row by row, in each its patches row by row.

    `patches` (S,): the number of each, counted row by row over the image; `positions` (S,): its position, where windows that
    the image does not fill leave out the positions of the patches that are not there, so that window w of n patches has the
    positions w n to w n + n - 1; `axes` (2, S): its row and column; `squares` (S / square^2,): the places of the squares in
    that order, counted row by row over the image.
    """

    patches: Tensor
    positions: Tensor
    axes: Tensor
    squares: Tensor
    filled: bool
    """Whether every window is full, so that positions count from 0."""


def grid_order(rows: int, columns: int, square: int, window: int | None, device: torch.device) -> GridOrder:
    """The order of rows x columns patches in squares and windows of so many a side; without a window the image is one."""
    # By numpy: shapes must not depend on values of tensors, which have none on the meta device.
    high, wide = (rows, columns) if window is None else (window, window)
    numbers = np.arange(rows * columns).reshape(rows, columns)
    padded = np.pad(numbers, ((0, -rows % high), (0, -columns % wide)), constant_values=-1)
    across = padded.shape[0] // high, high // square, square, padded.shape[1] // wide, wide // square, square
    ordered = padded.reshape(across).transpose(0, 3, 1, 4, 2, 5).ravel()
    (positions,) = np.nonzero(ordered >= 0)
    patches = ordered[positions]
    row, column = np.divmod(patches, columns)
    number = (row // square * (columns // square) + column // square)[:: square**2]

    def tensor(numbers: np.ndarray) -> Tensor:
        return torch.from_numpy(numbers).to(device)

    filled = len(patches) == len(ordered)
    return GridOrder(tensor(patches), tensor(positions), tensor(np.stack([row, column])), tensor(number.argsort()), filled)
