"""The base of kinds of data that have a text beside an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from anyformer.data.columns import TOKENS, ColumnType
from anyformer.data.description import usual_tokenizer
from anyformer.data.kinds.image_records import ImageRecords
from anyformer.data.kinds.image_sizes import image_size
from anyformer.data.recognising import recognised_table
from anyformer.data.records import Names
from anyformer.data.row import RecordRow
from anyformer.text.tokenizers import TokenArray, Tokenizer

if TYPE_CHECKING:
    from anyformer.model import Architecture


class ImageTexts(ImageRecords):
    """An image (channels, height, width) per record, a text that asks something of it, which may be empty, and one to be
    predicted. The base of kinds of such data.

    The image is a path beside the file of records, as `file_name` of a data set's `metadata.jsonl`, or the array itself. One of
    another size is cut from its middle and scaled.
    """

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """Images of the size that suits an architecture; of the base, the kind that the first record is of."""
        channels, side = image_size(architecture)
        size = {"paths": list(paths), "channels": channels, "height": side, "width": side}
        plain = {**size, "tokenizer": usual_tokenizer(architecture).plain()}
        if cls is not ImageTexts:
            return cls.parse(plain)
        table = dict(recognised_table(cls, paths))
        made = ImageTexts.kinds[table.pop("kind")].parse({**plain, **table})  # type: ignore[attr-defined]
        assert isinstance(made, cls)
        return made

    def asked(self, row: RecordRow) -> str:
        """What is asked of the image."""
        return ""

    def said(self, row: RecordRow) -> str:
        """The text to be predicted."""
        raise NotImplementedError

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        return {"image": self.pixels(row), "prompt": self.asked(row), "text": self.said(row)}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return [record["prompt"], record["text"]]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"image": self.column, "prompt": TOKENS, "text": TOKENS}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        prompt, text = tokens
        return {"image": record["image"], "prompt": prompt, "text": text}
