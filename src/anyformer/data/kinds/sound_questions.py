"""Sounds with questions and answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anyformer.data.fields import full_text
from anyformer.data.kinds.sound_texts import SoundTexts
from anyformer.data.row import RecordRow


class QuestionsAboutSounds(SoundTexts):
    """A sound, a question about it and the answer per record (Clotho-AQA, arXiv 2204.09634); the answer is predicted."""

    kind: Literal["questions_about_sounds"] = "questions_about_sounds"
    question: Annotated[str, Field(min_length=1)] = "question"
    """The field that holds the question."""
    answer: Annotated[str, Field(min_length=1)] = "answer"
    """The field that holds the answer."""

    def asked(self, row: RecordRow) -> str:
        return full_text(row, self.question)

    def said(self, row: RecordRow) -> str:
        return full_text(row, self.answer)
