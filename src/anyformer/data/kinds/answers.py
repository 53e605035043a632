"""Questions whose answer is a part of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.columns import TOKENS, ColumnType
from anyformer.data.fields import text_field, whole_field
from anyformer.data.records import Names, Records
from anyformer.data.row import BadRecord, RecordRow, shown
from anyformer.text.tokenizers import TokenArray, Tokenizer


class AnswerSpans(Records):
    """A context, a question, the answer, and the character of the context at which it begins (SQuAD, arXiv 1606.05250).

    An empty answer says that the context has none (SQuAD 2.0).
    """

    kind: Literal["answers"] = "answers"
    context: Annotated[str, Field(min_length=1)] = "context"
    """The field that holds the text."""
    question: Annotated[str, Field(min_length=1)] = "question"
    """The field that holds the question."""
    answer: Annotated[str, Field(min_length=1)] = "answer"
    """The field that holds the answer, as it stands in the context."""
    start: Annotated[str, Field(min_length=1)] = "start"
    """The field that holds the character at which the answer begins, from 0; not read where the answer is empty."""

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        context, question, answer = (text_field(row, name) for name in (self.context, self.question, self.answer))
        start = whole_field(row, self.start) if answer else 0
        if start < 0 or context[start : start + len(answer)] != answer:
            found = context.find(answer)
            there = f"it begins at {found}" if found >= 0 else "it is nowhere in it"
            raise BadRecord(row.where, f"the answer {shown(answer)} is not at character {start} of the context", there)
        return {"context": context, "question": question, "answer": answer, "start": start}

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return [record["question"], record["context"]]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"question": TOKENS, "context": TOKENS, "answer": ColumnType("<i8", (2,))}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        """`answer`: its first and last token in the context; -1 and -1 where there is none."""
        question, context = tokens
        start, stop = record["start"], record["start"] + len(record["answer"])
        offsets = tokenizer.offsets(record["context"])
        assert len(offsets) == len(context), "offsets are those of the tokens"
        inside = np.flatnonzero((offsets[:, 1] > start) & (offsets[:, 0] < stop))
        answer = (int(inside[0]), int(inside[-1])) if len(inside) else (-1, -1)
        return {"question": question, "context": context, "answer": answer}
