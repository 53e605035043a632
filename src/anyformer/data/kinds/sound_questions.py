"""Sounds with questions and answers."""

from __future__ import annotations

from typing import Literal

from anyformer.data.kinds.questions import QuestionRecords
from anyformer.data.kinds.sound_texts import SoundTexts


class QuestionsAboutSounds(QuestionRecords, SoundTexts):
    """A sound, a question about it and the answer per record (Clotho-AQA, arXiv 2204.09634); the answer is predicted."""

    kind: Literal["questions_about_sounds"] = "questions_about_sounds"
