"""Images with the class of every pixel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from anyformer.data.columns import ColumnType, Record
from anyformer.data.images import fitted, image_of, pixels_of
from anyformer.data.kinds.image_records import PlainImages
from anyformer.data.masks import mask_field
from anyformer.data.pictured import OUTSIDE, Pictured
from anyformer.data.records import Classed, Names
from anyformer.data.row import RecordRow
from anyformer.text.tokenizers import TokenArray, Tokenizer

if TYPE_CHECKING:
    from anyformer.model import Architecture

Label = Annotated[str, Field(min_length=1)]


class ImageMasks(PlainImages, Classed):
    """An image and its mask per record: an image of as many pixels, each with the number of its class.

    A mask is a grey image, or one of a palette, beside its image: its path is in the record, or of a folder of images it is the
    file of the same name in the directory `masks` beside that folder, `images/1.jpg` and `masks/1.png`. Another size is cut and
    scaled as the image is, to the nearest pixel.
    """

    kind: Literal["image_masks"] = "image_masks"
    classes: ClassVar[tuple[str, ...]] = ("mask",)
    mask: Annotated[str, Field(min_length=1)] = "mask"
    """The field that holds the path of a mask, or the mask itself."""
    masks: Annotated[str, Field(min_length=1)] = "masks"
    """The directory beside a folder of images that holds their masks."""
    labels: Annotated[tuple[Label, ...], Field(min_length=2, max_length=OUTSIDE)]
    """The names of all classes, in the order of the model's outputs; the first is usually the background."""
    values: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """What stands for each class in a mask; empty: 0, 1, ... For two classes often 0 and 255."""
    ignored: Annotated[int, Field(ge=0)] | None = None
    """What stands in a mask for pixels that count for nothing; often 255."""

    @model_validator(mode="after")
    def _each_its_value(self) -> ImageMasks:
        for name, given in (("labels", self.labels), ("values", self.values)):
            if len(set(given)) < len(given):
                raise ValueError(f"{name} has an entry twice: {', '.join(map(str, given))}")
        if self.values and len(self.values) != len(self.labels):
            raise ValueError(f"values has {len(self.values)} numbers, and labels {len(self.labels)} classes: give one for each")
        if self.ignored in self.written:
            raise ValueError(
                f"ignored = {self.ignored} is the value of the class {self.labels[self.written.index(self.ignored)]!r}"
            )
        return self

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """Of as many classes as the head has outputs, of two without one; the first is the background."""
        count = 2 if architecture.head is None else min(max(architecture.outputs, 2), OUTSIDE)
        names = ["background", *(f"class {number}" for number in range(1, count))]
        return cls.sized(architecture, paths, labels=names)

    @property
    def written(self) -> tuple[int, ...]:
        """What stands for each class in a mask."""
        return self.values or tuple(range(len(self.labels)))

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        given, size = image_of(row, self.image, self.channels), (self.height, self.width)
        mask = mask_field(self._with_mask(row), self.mask, pixels_of(given), size, self.written, self.ignored)
        return {"image": fitted(given, *size), "mask": mask}

    def _with_mask(self, row: RecordRow) -> RecordRow:
        """The row, or of a file in a folder of images one with the path of its mask."""
        image = row.values.get(self.image)
        if self.mask in row.values or not isinstance(image, str):
            return row
        above = row.folder.parent
        path = f"{self.masks}/{PurePath(image).with_suffix('.png')}"
        return replace(row, values={**row.values, self.mask: path}, folder=above, root=above)

    def pictured(self, record: Record) -> Pictured | None:
        return Pictured(record["image"], record["mask"], self.labels)

    def named(self, record: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        return {"mask": [self.labels[number] for number in np.unique(record["mask"]) if number != OUTSIDE]}

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"image": self.column, "mask": ColumnType("|u1", (self.height, self.width))}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {"image": record["image"], "mask": record["mask"]}
