"""Texts, or pairs of texts, with a class each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import LABEL, TOKENS, ColumnType
from anyformer.data.fields import choice_field, text_field
from anyformer.data.labels import number_of
from anyformer.data.records import Classed, Names
from anyformer.data.row import RecordRow
from anyformer.text.tokenizers import TokenArray, Tokenizer


class Labelled(Classed):
    """A text and its class per record: a review and its opinion; or two texts and their relation."""

    kind: Literal["labelled"] = "labelled"
    text: Annotated[str, Field(min_length=1)] = "text"
    """The field that holds the text."""
    text_pair: Annotated[str, Field(min_length=1)] | None = None
    """The field that holds a second text, as of a premise and a hypothesis."""
    label: Annotated[str, Field(min_length=1)] = "label"
    """The field that holds the name of its class."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        label = choice_field(row, self.label)
        return {"texts": [text_field(row, name) for name in (self.text, self.text_pair) if name], "label": label}

    def named(self, record: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        return {"label": [record["label"]]}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return list(record["texts"])

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"text": TOKENS, **({"pair": TOKENS} if self.text_pair else {}), "label": LABEL}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {**dict(zip(("text", "pair"), tokens, strict=False)), "label": number_of(record["label"], names["label"])}
