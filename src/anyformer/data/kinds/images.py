"""Images with a class each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import LABEL, ColumnType
from anyformer.data.fields import choice_field
from anyformer.data.images import SUFFIXES, image_field
from anyformer.data.kinds.image_sizes import largest_square
from anyformer.data.labels import number_of
from anyformer.data.records import Classed, Names
from anyformer.data.row import RecordRow
from anyformer.data.tokenizer_specs import Bytes, TokenizerSpec
from anyformer.describe import Count
from anyformer.text.tokenizers import TokenArray, Tokenizer

if TYPE_CHECKING:
    from anyformer.model import Architecture


class Images(Classed):
    """An image (channels, height, width) and its class per record; of a directory `CLASS/file.png` every file is one.

    An image of another size is cut from its middle and scaled. Without texts there are no tokens, and `tokenizer` has no
    meaning.
    """

    kind: Literal["images"] = "images"
    tokenizer: TokenizerSpec = Bytes()
    glob: tuple[Annotated[str, Field(min_length=1)], ...] = tuple(f"*{suffix}" for suffix in SUFFIXES)
    """Which files of a directory are read."""
    image: Annotated[str, Field(min_length=1)] = "image"
    """The field that holds the path of an image, or the image itself."""
    label: Annotated[str, Field(min_length=1)] = "label"
    """The field that holds the name of its class; of a file in a directory, the directory's name."""
    channels: Literal[1, 3, 4] = 3
    """1 (grey), 3 (red, green, blue) or 4 (and alpha)."""
    height: Count
    """Pixels from top to bottom."""
    width: Count
    """Pixels from left to right."""

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """The largest square images that the position table takes; of `POSITIONS` positions at most, where there is none."""
        channels, side = largest_square(architecture)
        return cls.parse({"paths": list(paths), "channels": channels, "height": side, "width": side})

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        image = image_field(row, self.image, self.channels, self.height, self.width)
        return {"image": image, "label": choice_field(row, self.label)}

    def named(self, record: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        return {"label": [record["label"]]}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return []

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"image": ColumnType("|u1", (self.channels, self.height, self.width)), "label": LABEL}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {"image": record["image"], "label": number_of(record["label"], names["label"])}
