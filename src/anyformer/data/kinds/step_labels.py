"""Solutions step by step, with what is right of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.batches import IGNORED
from anyformer.data.columns import TOKENS, ColumnType
from anyformer.data.fields import field_of, text_field, texts_field
from anyformer.data.records import Names, Records
from anyformer.data.row import BadRecord, RecordRow, shown
from anyformer.text.tokenizers import TokenArray, Tokenizer


class StepLabels(Records):
    """A problem, the steps of a solution, and of every step whether it is right.

    Prompt and steps are tokenised alone and stand one after the other, a step with `separator` behind it; the last token of a
    step bears its label, the others none. The rows are those of TRL's `PRMTrainer`.
    """

    kind: Literal["step_labels"] = "step_labels"
    prompt: Annotated[str, Field(min_length=1)] = "prompt"
    """The field that holds the problem."""
    steps: Annotated[str, Field(min_length=1)] = "completions"
    """The field that holds the list of steps."""
    labels: Annotated[str, Field(min_length=1)] = "labels"
    """The field that holds a list of true and false, one for every step."""
    separator: Annotated[str, Field(min_length=1)] = "\n"
    """What is written behind every step; its last token is where the step is judged."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        steps, labels = texts_field(row, self.steps), field_of(row, self.labels)
        if not isinstance(labels, list) or not all(isinstance(label, bool) for label in labels):
            reason = f"field {self.labels!r} should be a list of true and false, got {shown(labels)}"
            raise BadRecord(row.where, reason, "write [true, false]")
        if len(steps) != len(labels):
            reason = f"{len(steps)} steps in {self.steps!r}, and {len(labels)} labels in {self.labels!r}"
            raise BadRecord(row.where, reason, "give every step its label")
        return {"prompt": text_field(row, self.prompt), "steps": steps, "labels": labels}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return [record["prompt"], *(step + self.separator for step in record["steps"])]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"tokens": TOKENS, "labels": ColumnType("<i8")}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        labels = [np.full(len(text), IGNORED) for text in tokens]
        for own, label in zip(labels[1:], record["labels"], strict=True):
            own[-1:] = int(label)
        return {"tokens": np.concatenate(tokens), "labels": np.concatenate(labels)}
