"""`TranscriptFrame`: what stands around the transcript of a sound, and what a decoder reads before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from anyformer.describe import did_you_mean
from anyformer.text.beside import GENERATION
from anyformer.text.errors import DataError
from anyformer.text.sides import Sides
from anyformer.text.tokenizers import Tokenizer

SpeechTask = Literal["transcribe", "translate"]
START, SILENT, FIRST_TIME = "<|startoftranscript|>", "<|notimestamps|>", "<|0.00|>"
"""Whisper's tokens (Radford et al. 2022, arXiv 2212.04356, section 2.3): the begin, no times, and the first of the times."""
STEP = 0.02
"""Seconds between two of Whisper's tokens of times."""


@dataclass(frozen=True)
class TranscriptFrame:
    """`start`, which the decoder reads first, then `before`, the text, and `behind`; all but `start` are predicted.

    `times`: the token of second 0, which another one per 0.02 s follows; where it is given, the text stands between the times
    of its begin and its end.
    """

    start: int
    before: tuple[int, ...]
    behind: tuple[int, ...]
    times: int | None = None

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, language: str | None = None, task: SpeechTask = "transcribe", *, timestamps: bool = False
    ) -> TranscriptFrame:
        """Of a tokenizer with Whisper's tokens: begin, language and task if it knows several, no times unless `timestamps`.

        `language`: as in `en`; None: that of its `generation_config.json`, else English. Any other tokenizer has the frame of a
        target (`Sides`), and neither languages, tasks nor times: `DataError` says so.
        """
        if tokenizer.number(START) is None:
            asked = {"language": language is not None, "task": task != "transcribe", "timestamps": timestamps}
            if wrong := [name for name, given in asked.items() if given]:
                raise DataError(f"{wrong[0]}: this tokenizer has no {START}, which begins Whisper's prompts: leave it out")
            sides = Sides.of(tokenizer)
            last = sides.target.behind[-1]
            return cls(last if sides.start is None else sides.start, sides.target.before, sides.target.behind)
        prompt = _prompt(tokenizer, language, task)
        times = _number(tokenizer, FIRST_TIME) if timestamps else None
        return cls(
            _number(tokenizer, START),
            prompt if timestamps else (*prompt, _number(tokenizer, SILENT)),
            (tokenizer.end,),
            times,
        )

    @property
    def opening(self) -> tuple[int, ...]:
        """What the decoder reads before the first token that it says."""
        return (self.start, *self.before)

    @property
    def count(self) -> int:
        """Predicted tokens beside those of the text."""
        return len(self.before) + len(self.behind) + (0 if self.times is None else 2)

    def framed(self, text: Sequence[int], seconds: float) -> list[int]:
        """All that is predicted of a text; `seconds`: how long its sound is."""
        said = list(text)
        if self.times is not None:
            said = [self.times, *said, self.times + round(seconds / STEP)]
        return [*self.before, *said, *self.behind]


def _prompt(tokenizer: Tokenizer, language: str | None, task: SpeechTask) -> tuple[int, ...]:
    """Language and task; nothing of a model of English alone."""
    table = tokenizer.beside.table(GENERATION)
    if table.get("is_multilingual") is False:
        if (language or "en") != "en" or task != "transcribe":
            raise DataError(f"language = {language!r}, task = {task!r}: this model knows English alone: leave them out")
        return ()
    asked = language or str(table.get("language") or "en")
    known = {name[2:-2]: number for name, number in tokenizer.special_tokens.items() if name[:2] == "<|" and name[-2:] == "|>"}
    if asked not in known:
        raise DataError(f"language = {asked!r}: no language of this tokenizer{did_you_mean(asked, known)}; write it as 'en'")
    return known[asked], _number(tokenizer, f"<|{task}|>")


def _number(tokenizer: Tokenizer, name: str) -> int:
    found = tokenizer.number(name)
    if found is None:
        raise DataError(f"this tokenizer has {START} and no {name}: it is not whole; take the files of the published model")
    return found
