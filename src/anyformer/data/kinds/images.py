"""Images with a class each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import LABEL, ColumnType
from anyformer.data.fields import choice_field
from anyformer.data.kinds.image_records import PlainImages
from anyformer.data.labels import number_of
from anyformer.data.records import Classed, Names
from anyformer.data.row import RecordRow
from anyformer.text.tokenizers import TokenArray, Tokenizer


class Images(PlainImages, Classed):
    """An image (channels, height, width) and its class per record; of a directory `CLASS/file.png` every file is one.

    An image of another size is cut from its middle and scaled. Without texts there are no tokens, and `tokenizer` has no
    meaning.
    """

    kind: Literal["images"] = "images"
    label: Annotated[str, Field(min_length=1)] = "label"
    """The field that holds the name of its class; of a file in a directory, the directory's name."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        return {**super().record(row), "label": choice_field(row, self.label)}

    def named(self, record: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        return {"label": [record["label"]]}

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {**super().types(names), "label": LABEL}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {"image": record["image"], "label": number_of(record["label"], names["label"])}
