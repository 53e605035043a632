"""The base of kinds of data that ask something in words."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from anyformer.data.fields import full_text
from anyformer.data.records import Records
from anyformer.data.row import RecordRow


class QuestionRecords(Records):
    """A question and its answer per record, which is predicted. Stands before the base that says what the question is about."""

    question: Annotated[str, Field(min_length=1)] = "question"
    """The field that holds the question."""
    answer: Annotated[str, Field(min_length=1)] = "answer"
    """The field that holds the answer."""

    def asked(self, row: RecordRow) -> str:
        return full_text(row, self.question)

    def said(self, row: RecordRow) -> str:
        return full_text(row, self.answer)
