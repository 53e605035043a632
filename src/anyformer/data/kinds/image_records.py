"""The bases of kinds of data that have an image in every record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import ColumnType, Record
from anyformer.data.images import SUFFIXES, Image, image_field
from anyformer.data.kinds.image_sizes import largest_square
from anyformer.data.pictured import Pictured
from anyformer.data.recognising import first_row
from anyformer.data.records import Names, Records
from anyformer.data.row import RecordRow
from anyformer.data.tokenizer_specs import Bytes, TokenizerSpec
from anyformer.describe import Count
from anyformer.text.tokenizers import TokenArray, Tokenizer

if TYPE_CHECKING:
    from anyformer.model import Architecture


class ImageRecords(Records):
    """An image (channels, height, width) per record, cut from its middle and scaled if it has another size.

    The base of kinds of such data.
    """

    image: Annotated[str, Field(min_length=1)] = "image"
    """The field that holds the path of an image, or the image itself."""
    channels: Literal[1, 3, 4] = 3
    """1 (grey), 3 (red, green, blue) or 4 (and alpha)."""
    height: Count
    """Pixels from top to bottom."""
    width: Count
    """Pixels from left to right."""

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """The largest square images that the position table takes; of `POSITIONS` positions at most, where there is none. Of
        the base, the kind with classes, unless the first record has none."""
        if cls is not ImageRecords:
            return cls.sized(architecture, paths)
        first = first_row(paths)
        kind = ImageRecords.kinds["images" if first is None or "label" in first.values else "unlabelled_images"]
        assert issubclass(kind, cls)
        return kind.sized(architecture, paths)

    @classmethod
    def sized(cls, architecture: Architecture, paths: tuple[str, ...], **others: Any) -> Self:
        """As `usual`, with `others` of its fields."""
        channels, side = largest_square(architecture)
        return cls.parse({"paths": list(paths), "channels": channels, "height": side, "width": side, **others})

    def pixels(self, row: RecordRow) -> Image:
        """The image of a row."""
        return image_field(row, self.image, self.channels, self.height, self.width)

    def pictured(self, record: Record) -> Pictured | None:
        return Pictured(record["image"])

    @property
    def column(self) -> ColumnType:
        """What the column of images holds."""
        return ColumnType("|u1", (self.channels, self.height, self.width))


class PlainImages(ImageRecords):
    """Images without texts: there are no tokens, and `tokenizer` has no meaning. The base of kinds of such data."""

    tokenizer: TokenizerSpec = Bytes()
    glob: tuple[Annotated[str, Field(min_length=1)], ...] = tuple(f"*{suffix}" for suffix in SUFFIXES)
    """Which files of a directory are read."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        return {"image": self.pixels(row)}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return []

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"image": self.column}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {"image": record["image"]}
