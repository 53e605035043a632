"""Sounds of speech, and what is said."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anyformer.data.fields import text_field
from anyformer.data.kinds.sound_texts import SoundTexts
from anyformer.data.row import RecordRow


class Speech(SoundTexts):
    """A sound and its text per record: a recording of speech, and what is said in it.

    A sound has one channel and `rate` samples per second; others are mixed down and resampled. One that lasts longer than
    `seconds` cannot be used, since nobody knows which part of the text goes with a part of it.
    """

    kind: Literal["speech"] = "speech"
    text: Annotated[str, Field(min_length=1)] = "text"
    """The field that holds what is said."""

    def said(self, row: RecordRow) -> str:
        return text_field(row, self.text)
