"""The base of kinds of data that have a text beside a sound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Self

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.builtin import longest_sound
from anyformer.data.columns import TOKENS, ColumnType, Record
from anyformer.data.recognising import recognised_table
from anyformer.data.records import Names, Records
from anyformer.data.row import RecordRow
from anyformer.data.sound import sound_field, within
from anyformer.describe import Count
from anyformer.sound.heard import Heard
from anyformer.text.tokenizers import TokenArray, Tokenizer

if TYPE_CHECKING:
    from anyformer.model import Architecture

SOUND = ColumnType("<f4")
"""Samples of a sound."""


class SoundTexts(Records):
    """A sound per record, a text that asks something of it, which may be empty, and one to be predicted. The base of kinds of
    such data.

    A sound has one channel and `rate` samples per second; others are mixed down and resampled. One that lasts longer than
    `seconds` cannot be used, since nobody knows which part of the text goes with a part of it.
    """

    glob: tuple[Annotated[str, Field(min_length=1)], ...] = ("*.jsonl", "*.json", "*.csv", "*.tsv", "*.parquet", "*.tar")
    """Which files of a directory are read."""
    sound: Annotated[str, Field(min_length=1)] = "sound"
    """The field that holds the path of a sound, or the sound itself."""
    rate: Count = 16_000
    """Samples per second."""
    seconds: Annotated[float, Field(gt=0)] = 30.0
    """The longest sound that can be used."""

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """As the base says, built-in sounds no longer than they are; of this base, the kind that the first record is of."""
        if cls is not SoundTexts:
            made = super().usual(architecture, paths)
            return made.but(seconds=longest_sound(paths, made.seconds))
        table = dict(recognised_table(cls, paths))
        kind = SoundTexts.kinds[table.pop("kind")]
        assert issubclass(kind, cls), "one of those that were asked for"
        return kind.usual(architecture, paths).but(**table)

    def asked(self, row: RecordRow) -> str:
        """What is asked of the sound."""
        return ""

    def said(self, row: RecordRow) -> str:
        """The text to be predicted."""
        raise NotImplementedError

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        sound = within(row, self.sound, sound_field(row, self.sound, self.rate), self.rate, self.seconds)
        return {"sound": sound, "prompt": self.asked(row), "text": self.said(row)}

    def heard(self, record: Record) -> Heard:
        return Heard(record["sound"], self.rate)

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return [record["prompt"], record["text"]]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"sound": SOUND, "prompt": TOKENS, "text": TOKENS}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        prompt, text = tokens
        return {"sound": record["sound"], "prompt": prompt, "text": text}
