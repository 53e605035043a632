"""Images with questions and answers."""

from __future__ import annotations

from typing import Literal

from anyformer.data.kinds.image_texts import ImageTexts
from anyformer.data.kinds.questions import QuestionRecords


class QuestionsAboutImages(QuestionRecords, ImageTexts):
    """An image, a question about it and the answer per record (VQA, arXiv 1505.00468); the answer is what is predicted."""

    kind: Literal["questions_about_images"] = "questions_about_images"
