"""Texts that mean the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import TOKENS, ColumnType
from anyformer.data.fields import text_field
from anyformer.data.records import Names, Records
from anyformer.data.row import RecordRow
from anyformer.text.tokenizers import TokenArray, Tokenizer


class Similar(Records):
    """A text and one of like meaning per record, and perhaps one that only looks alike: a question and its answers."""

    kind: Literal["similar"] = "similar"
    text: Annotated[str, Field(min_length=1)] = "text"
    """The field that holds the text."""
    positive: Annotated[str, Field(min_length=1)] = "positive"
    """The field that holds the text of like meaning; the same field as `text` gives SimCSE's pairs, told apart by dropout."""
    negative: Annotated[str, Field(min_length=1)] | None = None
    """The field that holds a text of another meaning that is hard to tell apart."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The texts of a record by what they are."""
        return ("text", "positive", "negative") if self.negative else ("text", "positive")

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        return {name: text_field(row, getattr(self, name)) for name in self.columns}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return [record[name] for name in self.columns]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return dict.fromkeys(self.columns, TOKENS)

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return dict(zip(self.columns, tokens, strict=True))
