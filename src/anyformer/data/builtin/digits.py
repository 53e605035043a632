"""scikit-learn's 1,797 hand-written digits of 8 x 8 pixels (Alpaydin and Kaynak 1998), grey from 0 to 255."""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from anyformer.data.builtin.source import Builtin, Values
from anyformer.data.sources import SourceFile, find_sources
from anyformer.text.errors import DataError


def _file() -> list[SourceFile]:
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise DataError("digits: these images come with scikit-learn, which is not here: pip install 'anyformer[data]'")
    return find_sources([str(Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz")])


def _digits(source: SourceFile) -> Iterator[Values]:
    """Each line has 64 numbers from 0 to 16, row by row, then the digit."""
    with gzip.open(source.on_disk, "rt") as file:
        for line, numbers in enumerate(file, start=1):
            *pixels, digit = (int(float(number)) for number in numbers.split(","))
            image = np.array(pixels).reshape(1, 8, 8) * 255 // 16
            yield line, {"image": image.astype(np.uint8), "label": str(digit)}


DIGITS = Builtin("digits", "Images: scikit-learn's hand-written digits, 8 x 8, ten classes.", _digits, _file)
