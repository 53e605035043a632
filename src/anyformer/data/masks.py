"""Masks: the class of every pixel of an image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anyformer.data.images import fitted, opened
from anyformer.data.media import medium_field
from anyformer.data.pictured import OUTSIDE
from anyformer.data.row import BadRecord, RecordRow, shown

MODES = ("L", "P", "1", "I", "I;16")
"""Pillow's names of images with one whole number per pixel: grey, of a palette, black and white, and of more bits."""
Mask = NDArray[np.uint8]


def mask_field(
    row: RecordRow, name: str, image: tuple[int, int], size: tuple[int, int], values: Sequence[int], ignored: int | None
) -> Mask:
    """The number of the class of every pixel, (height, width) = `size`, `OUTSIDE` where the mask says `ignored`.

    The mask is the path of a file within the data set, the bytes of one, or the array (rows, columns) itself, of as many pixels
    as its `image`; `values`: what stands in it for each class. It is cut and scaled as its image is, to the nearest pixel.
    """
    raw = _numbers(row, name)
    if raw.shape != image:
        raise BadRecord(
            row.where,
            f"field {name!r} is a mask of {raw.shape[1]} x {raw.shape[0]} pixels, and its image has {image[1]} x {image[0]}",
            "give a mask of the image's size",
        )
    found, places = np.unique(raw, return_inverse=True)
    table = {value: number for number, value in enumerate(values)}
    if ignored is not None:
        table.setdefault(ignored, OUTSIDE)
    if unknown := [int(value) for value in found if int(value) not in table]:
        known = ", ".join(map(str, values[:8])) + (", ..." if len(values) > 8 else "")
        raise BadRecord(
            row.where,
            f"field {name!r} has the value {unknown[0]}, and the {len(values)} classes of data.labels are the values {known}",
            "name every class in data.labels, write in data.values what stands for each, or in data.ignored what counts for "
            "nothing",
        )
    classes: Mask = np.array([table[int(value)] for value in found], dtype=np.uint8)[places].reshape(raw.shape)
    return classes if classes.shape == size else fitted(classes, *size, smooth=False)


def _numbers(row: RecordRow, name: str) -> NDArray[np.int64]:
    """The whole numbers of a mask as they are written, (rows, columns)."""
    value = medium_field(row, name, "the mask")
    if isinstance(value, Path | bytes):
        image = opened(row, name, value, None)
        if image.mode not in MODES:
            raise BadRecord(
                row.where,
                f"field {name!r} is an image of the mode {image.mode}, and a mask has one whole number per pixel",
                "save it as a grey image, or one of a palette, whose pixels are the numbers of classes",
            )
        return np.asarray(image).astype(np.int64)
    grid = np.asarray(value) if isinstance(value, np.ndarray | list) else np.zeros(0)
    if grid.ndim != 2 or not (np.issubdtype(grid.dtype, np.integer) or grid.dtype == np.bool_) or not grid.size:
        raise BadRecord(
            row.where, f"field {name!r} should be the path of a mask, got {shown(value)}", "name a .png with a number per pixel"
        )
    return grid.astype(np.int64)
