"""Sounds with a class each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from numpy.typing import ArrayLike
from pydantic import Field

from anyformer.data.builtin import longest_sound
from anyformer.data.columns import LABEL, ColumnType, Record
from anyformer.data.fields import choice_field
from anyformer.data.kinds.sound_texts import SOUND
from anyformer.data.labels import number_of
from anyformer.data.records import Classed, Names
from anyformer.data.row import RecordRow
from anyformer.data.sound import sound_field
from anyformer.data.tokenizer_specs import Bytes, TokenizerSpec
from anyformer.describe import Count
from anyformer.sound import SUFFIXES
from anyformer.sound.heard import Heard
from anyformer.text.tokenizers import TokenArray, Tokenizer

if TYPE_CHECKING:
    from anyformer.model import Architecture


class Sounds(Classed):
    """A sound and its class per record; of a directory `CLASS/file.wav` every file is one.

    A sound has one channel and `rate` samples per second; others are mixed down and resampled. Of one that lasts longer than
    `seconds` the beginning is kept. Without texts there are no tokens, and `tokenizer` has no meaning.
    """

    kind: Literal["sounds"] = "sounds"
    tokenizer: TokenizerSpec = Bytes()
    glob: tuple[Annotated[str, Field(min_length=1)], ...] = tuple(f"*{suffix}" for suffix in SUFFIXES)
    """Which files of a directory are read."""
    sound: Annotated[str, Field(min_length=1)] = "sound"
    """The field that holds the path of a sound, or the sound itself."""
    label: Annotated[str, Field(min_length=1)] = "label"
    """The field that holds the name of its class; of a file in a directory, the directory's name."""
    rate: Count = 16_000
    """Samples per second."""
    seconds: Annotated[float, Field(gt=0)] = 10.0
    """How much of a sound is kept at most."""

    @classmethod
    def usual(cls, architecture: Architecture, paths: tuple[str, ...]) -> Self:
        """As the base says; built-in sounds no longer than they are."""
        made = super().usual(architecture, paths)
        return made.but(seconds=longest_sound(paths, made.seconds))

    def record(self, row: RecordRow) -> Mapping[str, Any]:
        sound = sound_field(row, self.sound, self.rate)
        kept = max(1, int(self.seconds * self.rate))
        return {"sound": sound[:kept], "label": choice_field(row, self.label)}

    def named(self, record: Mapping[str, Any]) -> Mapping[str, Sequence[str]]:
        return {"label": [record["label"]]}

    def heard(self, record: Record) -> Heard:
        return Heard(record["sound"], self.rate)

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        return []

    def types(self, names: Names) -> Mapping[str, ColumnType]:
        return {"sound": SOUND, "label": LABEL}

    def numbers(
        self, record: Mapping[str, Any], tokens: Sequence[TokenArray], tokenizer: Tokenizer, names: Names
    ) -> Mapping[str, ArrayLike]:
        return {"sound": record["sound"], "label": number_of(record["label"], names["label"])}
