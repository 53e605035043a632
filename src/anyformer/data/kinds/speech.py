"""Sounds of speech, and what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.builtin import longest_sound
from anyformer.data.columns import TOKENS, ColumnType, Record
from anyformer.data.fields import text_field
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


class Speech(Records):
    """A sound and its text per record: a recording of speech, and what is said in it.

    A sound has one channel and `rate` samples per second; others are mixed down and resampled. One that lasts longer than
    `seconds` cannot be used, since nobody knows which part of the text goes with a part of it.
    """

    kind: Literal["speech"] = "speech"
    glob: tuple[Annotated[str, Field(min_length=1)], ...] = ("*.jsonl", "*.json", "*.csv", "*.tsv", "*.parquet", "*.tar")
    """Which files of a directory are read."""
    sound: Annotated[str, Field(min_length=1)] = "sound"
    """The field that holds the path of a sound, or the sound itself."""
    text: Annotated[str, Field(min_length=1)] = "text"
    """The field that holds what is said."""
    rate: Count = 16_000
    """Samples per second."""
    seconds: Annotated[float, Field(gt=0)] = 30.0
    """The longest sound that can be used."""

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """As the base says; built-in sounds no longer than they are."""
        made = super().usual(architecture, paths)
        return made.but(seconds=longest_sound(paths, made.seconds))

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        sound = sound_field(row, self.sound, self.rate)
        return {"sound": within(row, self.sound, sound, self.rate, self.seconds), "text": text_field(row, self.text)}

    def heard(self, record: Record) -> Heard:
        return Heard(record["sound"], self.rate)

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return [record["text"]]

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"sound": SOUND, "text": TOKENS}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {"sound": record["sound"], "text": tokens[0]}
