"""Sets or sequences of vectors with a class each: as they are given, or made of an image's pixels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from anyformer.data.columns import LABEL, ColumnType
from anyformer.data.fields import choice_field, field_of
from anyformer.data.images import image_field
from anyformer.data.labels import number_of
from anyformer.data.records import Classed, Names, Records
from anyformer.data.row import BadRecord, RecordRow, shown
from anyformer.data.tokenizer_specs import Bytes, TokenizerSpec
from anyformer.describe import Count
from anyformer.text.tokenizers import TokenArray, Tokenizer

if TYPE_CHECKING:
    from anyformer.model import Architecture


class Vectors(Classed):
    """Vectors (T, I) and a class per record. The base of kinds of such data; without texts, `tokenizer` has no meaning."""

    tokenizer: TokenizerSpec = Bytes()
    features: Count
    """I, numbers of a vector."""
    label: Annotated[str, Field(min_length=1)] = "label"
    """The field that holds the name of the class."""

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """Vectors of as many numbers as the architecture reads, made of the pixels of images."""
        kind: type[Records] = Pixels if cls is Vectors else cls
        made = kind.parse({"paths": list(paths), "features": architecture.embedding.example(1, 1).shape[2]})
        assert isinstance(made, cls)
        return made

    @property
    def longest(self) -> int | None:
        """T of every record; None where they differ."""
        return None

    def named(self, record: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        return {"label": [record["label"]]}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return []

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"vectors": ColumnType("<f4"), "features": LABEL, "label": LABEL}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        label = number_of(record["label"], names["label"])
        return {"vectors": record["vectors"], "features": self.features, "label": label}


class Arrays(Vectors):
    """A list of vectors of one length and its class per record: points, sensor readings, frames."""

    kind: Literal["arrays"] = "arrays"
    array: Annotated[str, Field(min_length=1)] = "array"
    """The field that holds the list of vectors."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        value = field_of(row, self.array)
        try:
            vectors = np.asarray(value, dtype=np.float32)
        except (ValueError, TypeError):
            vectors = np.zeros(0, dtype=np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.features or not len(vectors) or not np.isfinite(vectors).all():
            reason = f"field {self.array!r} should be a list of vectors of {self.features} finite numbers, got {shown(value)}"
            raise BadRecord(row.where, reason, "write it as [[0.5, ...], ...], or set data.features")
        return {"vectors": vectors, "label": choice_field(row, self.label)}


class Pixels(Vectors):
    """The pixels of an image as a set of T = height * width vectors that say where they are (Perceiver, arXiv 2103.03206).

    A vector holds the channels (from -1 to 1), the row and the column (from -1 to 1), and as far as I goes on sin and cos of
    pi f row and pi f column for rising frequencies f, equally spaced from 1 to half of the larger side.
    """

    kind: Literal["pixels"] = "pixels"
    image: Annotated[str, Field(min_length=1)] = "image"
    """The field that holds the path of an image, or the image itself."""
    channels: Literal[1, 3, 4] = 1
    """1 (grey), 3 (red, green, blue) or 4 (and alpha)."""
    height: Count = 8
    """Pixels from top to bottom."""
    width: Count = 8
    """Pixels from left to right."""

    @property
    def longest(self) -> int | None:
        return self.height * self.width

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        image = image_field(row, self.image, self.channels, self.height, self.width)
        return {"vectors": placed(image, self.features), "label": choice_field(row, self.label)}


def placed(image: NDArray[np.uint8], features: int) -> NDArray[np.float32]:
    """(channels, height, width) -> (height * width, features): the channels, then where each pixel is."""
    channels, height, width = image.shape
    row, column = (grid.ravel() for grid in np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij"))
    parts = [*(image.reshape(channels, -1) / 127.5 - 1), row, column]
    bands = max(1, -(-(features - len(parts)) // 4))
    for frequency in np.linspace(1, max(height, width) / 2, bands):
        parts += [turn(math.pi * frequency * place) for place in (row, column) for turn in (np.sin, np.cos)]
    return np.stack(parts[:features], 1).astype(np.float32)
