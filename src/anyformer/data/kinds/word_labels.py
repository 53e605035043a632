"""Words with classes: part of speech, named entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.batches import IGNORED
from anyformer.data.columns import TOKENS, ColumnType
from anyformer.data.fields import field_of, texts_field
from anyformer.data.labels import number_of
from anyformer.data.records import Classed, Names
from anyformer.data.row import BadRecord, RecordRow, shown
from anyformer.text.tokenizers import TokenArray, Tokenizer


class WordLabels(Classed):
    """A text cut into words, with a class per word.

    Words are tokenised alone; the first token of a word bears its class, the others none.
    """

    classes: ClassVar[tuple[str, ...]] = ("labels",)
    kind: Literal["word_labels"] = "word_labels"
    words: Annotated[str, Field(min_length=1)] = "words"
    """The field that holds the list of words."""
    tags: Annotated[str, Field(min_length=1)] = "labels"
    """The field that holds the list of their classes, such as `B-PER`, `I-PER` and `O`."""
    space: bool = True
    """Put a space before every word but the first, as in running text."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        words, labels = texts_field(row, self.words), field_of(row, self.tags)
        if isinstance(labels, list):  # datasets often number the classes
            labels = [str(label) if isinstance(label, int) and not isinstance(label, bool) else label for label in labels]
        if not isinstance(labels, list) or not all(isinstance(label, str) and label.strip() for label in labels):
            raise BadRecord(
                row.where, f"field {self.tags!r} should be a list of classes, got {shown(labels)}", 'write ["O", "O"]'
            )
        if len(words) != len(labels):
            reason = f"{len(words)} words in {self.words!r}, and {len(labels)} classes in {self.tags!r}"
            raise BadRecord(row.where, reason, "give every word its class")
        return {"words": words, "labels": labels}

    def named(self, record: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        return {"labels": record["labels"]}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        first, *others = record["words"]
        return [first, *(f" {word}" if self.space else word for word in others)]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"tokens": TOKENS, "labels": ColumnType("<i8")}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        labels = [np.full(len(word), IGNORED) for word in tokens]
        for own, label in zip(labels, record["labels"], strict=True):
            own[:1] = number_of(label, names["labels"])
        return {"tokens": np.concatenate(tokens), "labels": np.concatenate(labels)}
