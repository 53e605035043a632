"""Texts, or pairs of texts, with a real number each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import NUMBER, TOKENS, ColumnType
from anyformer.data.fields import number_field, text_field
from anyformer.data.records import Names, Records
from anyformer.data.row import RecordRow
from anyformer.text.tokenizers import TokenArray, Tokenizer


class Scored(Records):
    """A text and a number per record: a review and its stars; or two texts and how alike they are."""

    kind: Literal["scored"] = "scored"
    text: Annotated[str, Field(min_length=1)] = "text"
    """The field that holds the text."""
    text_pair: Annotated[str, Field(min_length=1)] | None = None
    """The field that holds a second text."""
    value: Annotated[str, Field(min_length=1)] = "value"
    """The field that holds the number."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        value = number_field(row, self.value)
        return {"texts": [text_field(row, name) for name in (self.text, self.text_pair) if name], "value": value}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return list(record["texts"])

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"text": TOKENS, **({"pair": TOKENS} if self.text_pair else {}), "value": NUMBER}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {**dict(zip(("text", "pair"), tokens, strict=False)), "value": record["value"]}
