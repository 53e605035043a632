"""Pairs of a source and a target text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import TOKENS, ColumnType
from anyformer.data.fields import text_field
from anyformer.data.records import Names, Records
from anyformer.data.row import RecordRow
from anyformer.text.sides import Sides
from anyformer.text.tokenizers import TokenArray, Tokenizer


class TextPairs(Records):
    """A source and its target per record: a translation, a summary, a prompt and its answer.

    Around both stands what the tokenizer puts there, as `<s>`, `</s>` and the names of languages.
    """

    kind: Literal["pairs"] = "pairs"
    source: Annotated[str, Field(min_length=1)] = "source"
    """The field that holds the source."""
    target: Annotated[str, Field(min_length=1)] = "target"
    """The field that holds the target."""
    source_language: Annotated[str, Field(min_length=1)] | None = None
    """The language of the sources, for a tokenizer that names it, as `en_XX`; None: that of its configuration."""
    target_language: Annotated[str, Field(min_length=1)] | None = None
    """The language of the targets; None: that of its configuration."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        return {"source": text_field(row, self.source), "target": text_field(row, self.target)}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return [record["source"], record["target"]]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"source": TOKENS, "target": TOKENS}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        sides = Sides.of(tokenizer, self.source_language, self.target_language)
        around = (("source", sides.source), ("target", sides.target))
        return {name: each.framed([text.tolist()]).tokens for (name, each), text in zip(around, tokens, strict=True)}
