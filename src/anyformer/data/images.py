"""Images as arrays of bytes of one size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from os.path import isfile  # which no name is too long for
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyformer.data.fields import field_of, whole_text
from anyformer.data.file_places import FilePlace, StoredFile, size_of
from anyformer.data.formats import Advance
from anyformer.data.row import Bad, BadRecord, RecordRow, shown
from anyformer.data.sources import is_inside
from anyformer.files import read_text
from anyformer.images import ImageError, image_in, read_image
from anyformer.text.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
"""Pillow's name of an image's channels, by their number."""
Image = NDArray[np.uint8]


def image_file(path: FilePlace, advance: Advance, bad: Bad) -> Iterator[RecordRow]:
    """One record per file, its class the name of its directory: `folder/CLASS/file.png`; with the `text` of a file of its name
    beside it, `file.txt`, if there is one."""
    if isinstance(path, StoredFile):
        raise DataError(f"{path}: images are read from the disk of this machine; copy them to it, and name the copy")
    advance(size_of(path))
    beside = path.with_suffix(".txt")
    try:
        text = {"text": read_text(beside, DataError).strip()} if isfile(beside) else {}
    except DataError as error:
        bad(BadRecord(str(path), str(error), "save it as text in UTF-8"))
        return
    yield RecordRow(str(path), {"image": path.name, "label": path.parent.name, **text}, path.parent)


def image_field(row: RecordRow, name: str, channels: int, height: int, width: int) -> Image:
    """An image as (channels, height, width): a path within the data set, from the record's directory, the array itself, or
    `{"bytes": ...}`, a whole file in it, as Hugging Face's data sets keep images in Parquet.

    Another size is cut to the shape from its middle, then scaled (bicubic); other channels are converted.
    """
    if channels not in MODES:
        raise ValueError(f"channels = {channels} should be one of {', '.join(map(str, MODES))}")
    value = field_of(row, name)
    if isinstance(value, str):
        return _read(row, name, value, channels, height, width)
    if isinstance(value, Mapping) and isinstance(held := value.get("bytes"), bytes):
        with _of_record(row):
            return _array(image_in(BytesIO(held), Path(f"field {name!r}"), MODES[channels]), channels, height, width)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 3:
        raise BadRecord(row.where, f"field {name!r} should be the path of an image, got {shown(value)}", "name a .png or .jpg")
    if value.shape == (channels, height, width):
        return value
    if value.shape[0] not in MODES:
        raise BadRecord(row.where, f"field {name!r} has the shape {value.shape}", "channels come first, and are 1, 3 or 4")
    from PIL import Image as Pillow

    grid = value[0] if len(value) == 1 else value.transpose(1, 2, 0)
    return _array(Pillow.fromarray(grid), channels, height, width)


def _read(row: RecordRow, name: str, value: str, channels: int, height: int, width: int) -> Image:
    path = row.folder / whole_text(row, name, value)
    root = row.root or row.folder
    if not is_inside(path, root):
        raise BadRecord(
            row.where,
            f"field {name!r} is {shown(value)}, which leads out of the data set {root}",
            "copy the image into it, or name the directory that holds both in `paths`",
        )
    with _of_record(row):
        return _array(read_image(path, MODES[channels]), channels, height, width)


@contextmanager
def _of_record(row: RecordRow) -> Iterator[None]:
    """Within, an image that cannot be read makes its record bad."""
    try:
        yield
    except ImageError as error:
        raise BadRecord(row.where, f"{error.path}: {error.reason}", error.remedy) from None


def _array(image: object, channels: int, height: int, width: int) -> Image:
    from PIL import Image as Pillow
    from PIL import ImageOps

    assert isinstance(image, Pillow.Image)
    mode = MODES[channels]
    converted = image if image.mode == mode else image.convert(mode)
    fitted = ImageOps.fit(converted, (width, height), Pillow.Resampling.BICUBIC)
    grid = np.asarray(fitted, dtype=np.uint8)
    return np.ascontiguousarray(grid[None] if channels == 1 else grid.transpose(2, 0, 1))
