"""Texts with a class each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import LABEL, TOKENS, ColumnType
from anyformer.data.fields import text_field
from anyformer.data.records import Names, Records
from anyformer.data.row import Row
from anyformer.data.tokenizers import TokenArray, Tokenizer


class Labelled(Records):
    """A text and its class in each record: a review and its opinion, a file and its language."""

    classes: ClassVar[tuple[str, ...]] = ("label",)
    kind: Literal["labelled"] = "labelled"
    text: Annotated[str, Field(min_length=1)] = "text"
    """The field that holds the text."""
    label: Annotated[str, Field(min_length=1)] = "label"
    """The field that holds the name of its class."""

    def record(self, row: Row) -> Mapping[str, Any]:
        return {"text": text_field(row, self.text), "label": text_field(row, self.label)}

    def labels(self, record: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        return {"label": [record["label"]]}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return [record["text"]]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"text": TOKENS, "label": LABEL}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {"text": tokens[0], "label": names["label"].index(record["label"])}
