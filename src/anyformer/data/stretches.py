"""Data in stretches, each of which any process makes into numbers at any time; they are kept, and joined once all are there."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anyformer.files import writing
from anyformer.text.errors import DataError

LEAST, MOST, MANY = 2**14, 2**25, 64
"""A stretch is a `MANY`-th of the data, but of `LEAST` characters at least and of `MOST` at most."""


@dataclass(frozen=True)
class WorkShare:
    """One of `parts` equal parts of some work, `part` from 0."""

    part: int = 0
    parts: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """`3/8` is the third of eight; `DataError` for anything else."""
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        part, parts = map(int, found.groups()) if found else (0, 0)
        if not 1 <= part <= parts:
            raise DataError(f"share {text!r} should be I/N, such as 3/8, with I from 1 to N")
        return cls(part - 1, parts)

    def of(self, count: int) -> range:
        """The numbers of this part, of `count` that all parts have."""
        return range(count * self.part // self.parts, count * (self.part + 1) // self.parts)


WHOLE = WorkShare()


@dataclass(frozen=True)
class Stretches:
    """Files `00000.npz` ... in `folder`; stretch s has what begins at s * size ... (s + 1) * size - 1 of `length` characters,
    or of another unit."""

    folder: Path
    length: int
    least: int = LEAST
    most: int = MOST

    @property
    def size(self) -> int:
        """Characters of a stretch, or of another unit: they follow from the data alone, so that all processes cut alike."""
        return min(max(self.length // MANY, self.least), self.most)

    @property
    def left(self) -> int:
        """How many are still to be made."""
        return len(self.missing(range(self.count)))

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-self.length // self.size)

    def number(self, place: int) -> int:
        """The stretch of what begins at a character."""
        return place // self.size

    def missing(self, numbers: Iterable[int]) -> frozenset[int]:
        """Those of some stretches that are not there yet."""
        return frozenset(number for number in numbers if not self._path(number).exists())

    def touched(self, numbers: frozenset[int], start: int, stop: int) -> bool:
        """Whether any of the characters `start` to `stop`, exclusive, is in one of these stretches."""
        return any(number in numbers for number in range(self.number(start), self.number(stop - 1) + 1))

    def write(self, number: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep the numbers of a stretch, whole or not at all."""
        self.folder.mkdir(exist_ok=True)
        with writing(self._path(number)) as path:
            np.savez(path, **dict[str, Any](arrays))

    def read(self, number: int) -> dict[str, NDArray[Any]]:
        """The numbers of a stretch; `DataError` names its file if it is damaged."""
        path = self._path(number)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise DataError(f"{path}: damaged ({error}); delete it, and run again to have it made") from None

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:05d}.npz"
