"""Images as arrays of bytes of one size, by Pillow (which matplotlib brings)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyformer.data.fields import field_of
from anyformer.data.formats import Advance
from anyformer.data.row import Bad, BadRecord, Row, shown

SUFFIXES = (".png", ".jpg", ".jpeg")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's name of an image's channels, by their number."""
Image = NDArray[np.uint8]


def image_file(path: Path, advance: Advance, bad: Bad) -> Iterator[Row]:
    """One record for each file, its class the name of its directory: `folder/CLASS/file.png`."""
    advance(path.stat().st_size)
    yield Row(str(path), {"image": path.name, "label": path.parent.name}, path.parent)


def image_field(row: Row, name: str, channels: int, height: int, width: int) -> Image:
    """An image as (channels, height, width): a path, from the record's directory, or the array itself.

    Another size is cut to the shape from its middle, then scaled (bicubic); other channels are converted.
    """
    if channels not in MODES:
        raise ValueError(f"channels = {channels} should be one of {', '.join(map(str, MODES))}")
    value = field_of(row, name)
    if isinstance(value, str):
        return _read(row, row.folder / value, channels, height, width)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 3:
        raise BadRecord(row.where, f"field {name!r} should be the path of an image, got {shown(value)}", "name a .png or .jpg")
    if value.shape == (channels, height, width):
        return value
    if value.shape[0] not in MODES:
        raise BadRecord(row.where, f"field {name!r} has the shape {value.shape}", "channels come first, and are 1, 3 or 4")
    from PIL import Image as Pillow

    grid = value[0] if len(value) == 1 else value.transpose(1, 2, 0)
    return _array(Pillow.fromarray(grid), channels, height, width)


def _read(row: Row, path: Path, channels: int, height: int, width: int) -> Image:
    from PIL import Image as Pillow
    from PIL import ImageOps

    try:
        with Pillow.open(path) as image:
            upright = ImageOps.exif_transpose(image)
            return _array(upright, channels, height, width)
    except FileNotFoundError:
        raise BadRecord(row.where, f"{path}: no such image", "mend the path, which begins at the record's directory") from None
    except (OSError, SyntaxError, Pillow.DecompressionBombError) as error:
        raise BadRecord(row.where, f"{path}: not an image that Pillow reads ({error})", "save it again as PNG") from None


def _array(image: object, channels: int, height: int, width: int) -> Image:
    from PIL import Image as Pillow
    from PIL import ImageOps

    assert isinstance(image, Pillow.Image)
    fitted = ImageOps.fit(image.convert(MODES[channels]), (width, height), Pillow.Resampling.BICUBIC)
    grid = np.asarray(fitted, dtype=np.uint8)
    return np.ascontiguousarray(grid[None] if channels == 1 else grid.transpose(2, 0, 1))
