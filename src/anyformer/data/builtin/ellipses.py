"""Grey pictures of ellipses with the class of every pixel, as a slice through a body has them: a large one, smaller ones in it,
and in half of the pictures a small bright spot; blurred edges are left out, noise is not.

`image` (1, 32, 32) and `mask` (32, 32): 0 the background, 1 the body, 2 an organ, 3 a spot.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyformer.data.builtin.source import Builtin, Values
from anyformer.data.sources import SourceFile, find_sources

SIDE, PICTURES = 32, 1600
"""Pixels of a side, and the number of pictures."""
CLASSES = ("background", "body", "organ", "spot")
Grid = NDArray[np.float64]


def within(middle: tuple[float, float], radii: tuple[float, float], turn: float) -> NDArray[np.bool_]:
    """(SIDE, SIDE): the pixels whose middle lies in an ellipse; `turn` in radians, the rest in pixels."""
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    down, right = y - middle[0], x - middle[1]
    along, across = down * np.cos(turn) + right * np.sin(turn), right * np.cos(turn) - down * np.sin(turn)
    found: NDArray[np.bool_] = (along / radii[0]) ** 2 + (across / radii[1]) ** 2 <= 1
    return found


def picture_of(number: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The image (1, SIDE, SIDE) and the mask (SIDE, SIDE) of a picture; they depend on its number alone."""
    draws = np.random.default_rng([7, number])
    mask = np.zeros((SIDE, SIDE), dtype=np.uint8)
    middle = draws.uniform(14, 18, 2)
    mask[within(tuple(middle), tuple(draws.uniform(9, 14, 2)), draws.uniform(0, np.pi))] = 1
    for _ in range(int(draws.integers(1, 3))):
        place = middle + draws.uniform(-5, 5, 2)
        organ = within(tuple(place), tuple(draws.uniform(2.5, 5, 2)), draws.uniform(0, np.pi))
        mask[organ & (mask > 0)] = 2
    if draws.uniform() < 0.5:
        spot = within(tuple(middle + draws.uniform(-6, 6, 2)), tuple(draws.uniform(1.2, 2, 2)), 0.0)
        mask[spot & (mask > 0)] = 3
    # The grey of each class differs from picture to picture, and that of the body from side to side.
    grey = np.array([20, 100, 160, 225]) + draws.uniform(-15, 15, 4)
    slope = draws.uniform(-1.5, 1.5) * (np.arange(SIDE) - SIDE / 2)
    image = grey[mask] + slope * (mask == 1) + draws.normal(0, 14, mask.shape)
    return image.clip(0, 255).astype(np.uint8)[None], mask


def _files() -> list[SourceFile]:
    return find_sources([str(Path(__file__))])


def _ellipses(source: SourceFile) -> Iterator[Values]:
    for number in range(PICTURES):
        image, mask = picture_of(number)
        yield number + 1, {"image": image, "mask": mask}


ELLIPSES = Builtin(
    "ellipses",
    "Images with masks: grey ellipses, 32 x 32, every pixel of one of four classes.",
    _ellipses,
    _files,
)
