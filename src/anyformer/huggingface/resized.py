"""The sizes to which images are resized before they become pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from anyformer.huggingface.errors import HuggingFaceError

MOST = 16384
"""The longest side in pixels to which an image is enlarged."""
_NARROWEST = 200
"""The largest ratio of two sides of an image of any size."""


class Resize(Protocol):
    """A rule for the size of an image."""

    @property
    def alike(self) -> bool:
        """Whether it gives all images of a call one size, perhaps after a crop."""
        ...

    def __call__(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) that an image of a size gets."""
        ...


@dataclass(frozen=True)
class AsItIs:
    """No other size."""

    alike: bool = True

    def __call__(self, height: int, width: int) -> tuple[int, int]:
        return height, width


@dataclass(frozen=True)
class Exactly:
    """One size."""

    height: int
    width: int
    alike: bool = True

    def __call__(self, height: int, width: int) -> tuple[int, int]:
        return self.height, self.width


@dataclass(frozen=True)
class Shorter:
    """The shorter side gets so many pixels, the longer one as many as keep the ratio."""

    side: int
    alike: bool = True

    def __call__(self, height: int, width: int) -> tuple[int, int]:
        short, long = sorted((height, width))
        long = min(MOST, int(self.side * long / short))
        return (self.side, long) if height < width else (long, self.side)


@dataclass(frozen=True)
class Multiples:
    """Both sides become multiples of `unit`, near the ratio, of `least` to `most` pixels in all (Qwen2-VL).

    `frames`: the frames of a film that an image counts as, whose pixels these are, and an image smaller than a unit is enlarged
    first (GLM-4.1V); 0: it counts as itself.
    """

    unit: int
    least: int
    most: int
    frames: int = 0
    alike: bool = False

    def __call__(self, height: int, width: int) -> tuple[int, int]:
        if max(height, width) > _NARROWEST * min(height, width):
            raise HuggingFaceError(
                f"an image of {height} x {width} pixels is more than {_NARROWEST} times as long as wide: crop it"
            )
        if self.frames and min(height, width) < self.unit:
            grow = max(self.unit / height, self.unit / width)
            height, width = int(height * grow), int(width * grow)
        frames = self.frames or 1
        sides = [round(side / self.unit) * self.unit for side in (height, width)]
        if frames * math.prod(sides) > self.most:
            shrink = math.sqrt(frames * height * width / self.most)
            sides = [max(self.unit, math.floor(side / shrink / self.unit) * self.unit) for side in (height, width)]
        elif frames * math.prod(sides) < self.least:
            grow = math.sqrt(self.least / (frames * height * width))
            sides = [math.ceil(side * grow / self.unit) * self.unit for side in (height, width)]
        return sides[0], sides[1]


@dataclass(frozen=True)
class EnlargedMultiples(Multiples):
    """The same of an image of which a side smaller than `unit` becomes one first, by the ratio (PaddleOCR-VL)."""

    def __call__(self, height: int, width: int) -> tuple[int, int]:
        if height < self.unit:
            height, width = self.unit, round(width * self.unit / height)
        if width < self.unit:
            height, width = round(height * self.unit / width), self.unit
        return super().__call__(height, width)


@dataclass(frozen=True)
class NoLonger:
    """The longer side is at most `longest`, by the ratio, and both are rounded up to multiples of `unit` (Pixtral)."""

    unit: int
    longest: int
    alike: bool = False

    def __call__(self, height: int, width: int) -> tuple[int, int]:
        ratio = max(height, width) / self.longest
        if ratio > 1:
            height, width = math.floor(height / ratio), math.floor(width / ratio)
        if min(height, width) < 1:
            raise HuggingFaceError(f"an image becomes {height} x {width} pixels at a longest side of {self.longest}: crop it")
        return -(-height // self.unit) * self.unit, -(-width // self.unit) * self.unit
