"""Images with questions and answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anyformer.data.fields import full_text
from anyformer.data.kinds.image_texts import ImageTexts
from anyformer.data.row import RecordRow


class QuestionsAboutImages(ImageTexts):
    """An image, a question about it and the answer per record (VQA, arXiv 1505.00468); the answer is what is predicted."""

    kind: Literal["questions_about_images"] = "questions_about_images"
    question: Annotated[str, Field(min_length=1)] = "question"
    """The field that holds the question."""
    answer: Annotated[str, Field(min_length=1)] = "answer"
    """The field that holds the answer."""

    def asked(self, row: RecordRow) -> str:
        return full_text(row, self.question)

    def said(self, row: RecordRow) -> str:
        return full_text(row, self.answer)
