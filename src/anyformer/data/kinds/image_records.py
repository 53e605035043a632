"""The base of kinds of data that are images, with classes or without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import ColumnType
from anyformer.data.images import SUFFIXES, image_field
from anyformer.data.kinds.image_sizes import largest_square
from anyformer.data.recognising import first_row
from anyformer.data.records import Names, Records
from anyformer.data.row import RecordRow
from anyformer.data.tokenizer_specs import Bytes, TokenizerSpec
from anyformer.describe import Count
from anyformer.text.tokenizers import TokenArray, Tokenizer

if TYPE_CHECKING:
    from anyformer.model import Architecture


class ImageRecords(Records):
    """An image (channels, height, width) per record; of a directory every file is one. The base of such kinds.

    An image of another size is cut from its middle and scaled. Without texts there are no tokens, and `tokenizer` has no
    meaning.
    """

    tokenizer: TokenizerSpec = Bytes()
    glob: tuple[Annotated[str, Field(min_length=1)], ...] = tuple(f"*{suffix}" for suffix in SUFFIXES)
    """Which files of a directory are read."""
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
        channels, side = largest_square(architecture)
        plain = {"paths": list(paths), "channels": channels, "height": side, "width": side}
        if cls is not ImageRecords:
            return cls.parse(plain)
        first = first_row(paths)
        kind = "images" if first is None or "label" in first.values else "unlabelled_images"
        made = ImageRecords.kinds[kind].parse(plain)  # type: ignore[attr-defined]
        assert isinstance(made, cls)
        return made

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        return {"image": image_field(row, self.image, self.channels, self.height, self.width)}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return []

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"image": ColumnType("|u1", (self.channels, self.height, self.width))}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {"image": record["image"]}
