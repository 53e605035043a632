"""Images as arrays of bytes of one size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anyformer.data.file_places import FilePlace
from anyformer.data.formats import Advance
from anyformer.data.media import file_rows, medium_field
from anyformer.data.row import Bad, BadRecord, RecordRow, shown
from anyformer.images import ImageError, read_image

if TYPE_CHECKING:
    from PIL import Image as Pillow

SUFFIXES = (".png", ".jpg", ".jpeg")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's name of an image's channels, by their number."""
Image = NDArray[np.uint8]


def image_file(path: FilePlace, advance: Advance, bad: Bad) -> Iterator[RecordRow]:
    """One record per file, its class the name of its directory: `folder/CLASS/file.png`; with the `text` of a file of its name
    beside it, `file.txt`, if there is one."""
    yield from file_rows(path, "image", "images", advance, bad)


def image_field(row: RecordRow, name: str, channels: int, height: int, width: int) -> Image:
    """An image as (channels, height, width): a path within the data set, from the record's directory; the bytes of a
    file; both, as `{"bytes", "path"}`; or the array itself.

    Another size is cut to the shape from its middle, then scaled (bicubic); other channels are converted.
    """
    return fitted(image_of(row, name, channels), height, width)


def image_of(row: RecordRow, name: str, channels: int) -> Image:
    """As `image_field`, of its own size: (channels, rows, columns)."""
    if channels not in MODES:
        raise ValueError(f"channels = {channels} should be one of {', '.join(map(str, MODES))}")
    value = medium_field(row, name, "the image")
    if isinstance(value, Path | bytes):
        return _array(opened(row, name, value, MODES[channels]))
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 3:
        raise BadRecord(row.where, f"field {name!r} should be the path of an image, got {shown(value)}", "name a .png or .jpg")
    if value.shape[0] not in MODES:
        raise BadRecord(row.where, f"field {name!r} has the shape {value.shape}", "channels come first, and are 1, 3 or 4")
    return value if len(value) == channels else _array(_pillow(value).convert(MODES[channels]))


def pixels_of(image: Image) -> tuple[int, int]:
    """(rows, columns) of an image."""
    return image.shape[1], image.shape[2]


def opened(row: RecordRow, name: str, source: Path | bytes, mode: str | None) -> Pillow.Image:
    """The image of a file, its channels as Pillow's `mode` has them, None: as they are; `BadRecord` where it is none."""
    try:
        return read_image(source, mode)
    except ImageError as error:
        reason = f"field {name!r}: {error.reason}" if error.path is None else f"{error.path}: {error.reason}"
        raise BadRecord(row.where, reason, error.remedy) from None


def fitted(image: Image, height: int, width: int, *, smooth: bool = True) -> Image:
    """An image (channels, rows, columns), or numbers (rows, columns), cut from its middle to a shape and scaled to it: bicubic,
    or not `smooth`, to the nearest pixel."""
    if image.shape[-2:] == (height, width):
        return image
    from PIL import Image as Pillow
    from PIL import ImageOps

    how = Pillow.Resampling.BICUBIC if smooth else Pillow.Resampling.NEAREST
    found = ImageOps.fit(_pillow(image), (width, height), how)
    return _array(found) if image.ndim == 3 else np.asarray(found, dtype=np.uint8)


def _pillow(image: Image) -> Pillow.Image:
    from PIL import Image as Pillow

    return Pillow.fromarray(
        image[0] if image.ndim == 3 and len(image) == 1 else image.transpose(1, 2, 0) if image.ndim == 3 else image
    )


def _array(image: Pillow.Image) -> Image:
    grid = np.asarray(image, dtype=np.uint8)
    return np.ascontiguousarray(grid[None] if grid.ndim == 2 else grid.transpose(2, 0, 1))
