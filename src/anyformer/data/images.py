"""Images as arrays of bytes of one size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from os.path import isfile  # which no name is too long for
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyformer.data.file_places import FilePlace
from anyformer.data.formats import Advance
from anyformer.data.media import file_row, medium_field, only_here
from anyformer.data.row import Bad, BadRecord, RecordRow, shown
from anyformer.files import read_text
from anyformer.images import ImageError, read_image
from anyformer.text.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's name of an image's channels, by their number."""
Image = NDArray[np.uint8]


def image_file(path: FilePlace, advance: Advance, bad: Bad) -> Iterator[RecordRow]:
    """One record per file, its class the name of its directory: `folder/CLASS/file.png`; with the `text` of a file of its name
    beside it, `file.txt`, if there is one."""
    row, size = file_row(path, "image", "images")
    advance(size)
    beside = only_here(path, "images").with_suffix(".txt")
    try:
        text = {"text": read_text(beside, DataError).strip()} if isfile(beside) else {}
    except DataError as error:
        bad(BadRecord(row.where, str(error), "save it as text in UTF-8"))
        return
    yield replace(row, values={**row.values, **text})


def image_field(row: RecordRow, name: str, channels: int, height: int, width: int) -> Image:
    """An image as (channels, height, width): a path within the data set, from the record's directory; the bytes of a
    file; both, as `{"bytes", "path"}`; or the array itself.

    Another size is cut to the shape from its middle, then scaled (bicubic); other channels are converted.
    """
    if channels not in MODES:
        raise ValueError(f"channels = {channels} should be one of {', '.join(map(str, MODES))}")
    value = medium_field(row, name, "the image")
    if isinstance(value, Path | bytes):
        return _read(row, name, value, channels, height, width)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 3:
        raise BadRecord(row.where, f"field {name!r} should be the path of an image, got {shown(value)}", "name a .png or .jpg")
    if value.shape == (channels, height, width):
        return value
    if value.shape[0] not in MODES:
        raise BadRecord(row.where, f"field {name!r} has the shape {value.shape}", "channels come first, and are 1, 3 or 4")
    from PIL import Image as Pillow

    grid = value[0] if len(value) == 1 else value.transpose(1, 2, 0)
    return _array(Pillow.fromarray(grid), channels, height, width)


def _read(row: RecordRow, name: str, source: Path | bytes, channels: int, height: int, width: int) -> Image:
    try:
        return _array(read_image(source, MODES[channels]), channels, height, width)
    except ImageError as error:
        reason = f"field {name!r}: {error.reason}" if error.path is None else f"{error.path}: {error.reason}"
        raise BadRecord(row.where, reason, error.remedy) from None


def _array(image: object, channels: int, height: int, width: int) -> Image:
    from PIL import Image as Pillow
    from PIL import ImageOps

    assert isinstance(image, Pillow.Image)
    mode = MODES[channels]
    converted = image if image.mode == mode else image.convert(mode)
    fitted = ImageOps.fit(converted, (width, height), Pillow.Resampling.BICUBIC)
    grid = np.asarray(fitted, dtype=np.uint8)
    return np.ascontiguousarray(grid[None] if channels == 1 else grid.transpose(2, 0, 1))
