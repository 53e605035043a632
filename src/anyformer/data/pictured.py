"""An image as a few lines of a screen show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

OUTSIDE = 255
"""The number of a pixel that counts for nothing, as masks are stored; classes have the numbers before it."""


@dataclass(frozen=True, eq=False)
class Pictured:
    """An image (channels, height, width), and the class of every pixel, (height, width), if they are known; `labels`: the names
    of the classes."""

    image: NDArray[np.uint8]
    mask: NDArray[np.uint8] | None = None
    labels: tuple[str, ...] = field(default=())

    @property
    def shares(self) -> Mapping[str, float]:
        """The share of the pixels that each class has, of those that occur."""
        if self.mask is None:
            return {}
        counts = np.bincount(self.mask.ravel(), minlength=OUTSIDE + 1) / self.mask.size
        return {name: float(share) for name, share in zip(self.labels, counts, strict=False) if share}

    def greys(self, rows: int, columns: int) -> NDArray[np.float64]:
        """(rows, columns) from 0, black, to 1, white: the means of the pixels' channels, at most one number per pixel."""
        grey = self.image[:3].mean(0) / 255
        lines = [part.mean(0) for part in np.array_split(grey, min(rows, len(grey)))]
        parts = np.array_split(np.stack(lines), min(columns, grey.shape[1]), axis=1)
        return np.stack([part.mean(1) for part in parts], 1)

    def classes(self, rows: int, columns: int) -> NDArray[np.uint8] | None:
        """(rows, columns): the class of the middle pixel of each part that `greys` shows, `OUTSIDE` where it is ignored."""
        if self.mask is None:
            return None
        places = (
            [int(part[len(part) // 2]) for part in np.array_split(np.arange(size), min(most, size))]
            for size, most in zip(self.mask.shape, (rows, columns), strict=True)
        )
        return self.mask[np.ix_(*places)]
