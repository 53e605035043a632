"""The base of objectives whose examples are sounds: as frames of a spectrum, as a picture of it, or as samples."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BeforeValidator
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from anyformer.data import Corpus, Data, RecordBatch, RecordTable, Sounds, SoundTexts
from anyformer.data.packing import Ints
from anyformer.describe import with_kind
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import Usual
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, remade
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.spec_augment import SpecAugment
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.embedding.embedding import Input
from anyformer.sound import LogMel, SoundFeatures

PICTURE, WAVE = 4, 2
"""Dimensions of an input of pictures (B, 1, I, frames), and of samples (B, samples)."""
_PARTS = 100
"""Of a second, by which the longest sound is found that a model hears."""
_REST = 10
"""Seconds within which a sound is long enough for a tower."""


class SoundObjective(RecordObjective):
    """An objective on sounds of at most `data.seconds`, which enter as the features that the model hears.

    `masked`: features are those of the sound alone, and what fills them up to the longest is hidden from the model. `silence`:
    the sound itself is filled with zeros, and the model hears them (Whisper, arXiv 2212.04356, which hears 30 s each time).
    """

    features: Annotated[SoundFeatures, BeforeValidator(with_kind("log_mel"))] = LogMel()
    """How a sound becomes frames of as many numbers as the embedding that hears it reads."""
    padding: Literal["masked", "silence"] = "masked"
    """What follows a sound that is shorter than `data.seconds`."""
    augment: SpecAugment | None = None
    """Bands and stretches of features that are hidden in training."""

    @property
    def usual(self) -> Usual:
        return replace(super().usual, data=self._usual_data, fields=heard_by)

    def _usual_data(self, architecture: Architecture, paths: tuple[str, ...]) -> Data:
        """Sounds as long as the position table of the model takes, if there is one and the kind's own limit is longer."""
        assert isinstance(self.reads, type), "one kind of data"
        data = self.reads.usual(architecture, paths).but(rate=self.features.rate)
        table = _table(architecture)
        assert isinstance(data, SoundTexts | Sounds), "the kinds that are read"
        if table is None or self.longest(architecture, data) <= table:
            return data
        counts = range(1, int(data.seconds * _PARTS))
        most = bisect_right(counts, table, key=lambda count: self.positions(architecture, count * data.rate // _PARTS))
        return data.but(seconds=max(1, most) / _PARTS)

    def positions(self, architecture: Architecture, samples: int) -> int:
        """Positions of a sound of so many samples."""
        blank = self.heard_as(self.blank(1, samples, architecture, "meta"), architecture)
        return hearing_of(architecture).check("the sound", blank, None)

    def positions_of_each(self, architecture: Architecture, table: RecordTable) -> Ints:
        """(records,): positions of every sound."""
        samples, places = np.unique(table.lengths("sound"), return_inverse=True)
        return np.array([self.positions(architecture, count) for count in samples.tolist()], dtype=np.int64)[places]

    def longest(self, architecture: Architecture, data: Data) -> int:
        """Positions of the longest sound of the data."""
        return self.positions(architecture, samples_of(data))

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        assert isinstance(data, SoundTexts | Sounds), "checked before"
        embedding, features = hearing_of(architecture), self.features
        if data.rate != features.rate:
            raise ValueError(
                f"data.rate = {data.rate}, and objective.features.rate = {features.rate}: a sound has one rate; make them equal"
            )
        if embedding.rank == PICTURE and (channels := embedding.example(1, 1).shape[1]) != 1:
            raise ValueError(
                f"a spectrum is a picture of one channel, and the embedding reads pictures of {channels}: set "
                "architecture.embedding.channels = 1"
            )
        if embedding.rank == PICTURE and self.padding == "masked":
            raise ValueError(
                "objective.padding = 'masked': a picture of a sound has no padding; set objective.padding = 'silence'"
            )
        if embedding.rank != PICTURE and features.inputs != numbers_of(embedding):
            raise ValueError(
                f"objective.features gives {features.inputs} numbers per frame, and the embedding reads "
                f"{numbers_of(embedding)}: make them equal"
            )
        positions, table = self.longest(architecture, data), _table(architecture)
        if table is not None and positions > table:
            raise ValueError(
                f"data.seconds = {data.seconds:g}: such a sound has {positions} positions, and the position table of what "
                f"hears it {table}: set data.seconds to {data.seconds * table / positions:.3g} or less"
            )

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        setting = replace(setting, samples=samples_of(data))
        feed = super().feed(data, corpus, setting, batch, held_out=held_out)
        return remade(feed, partial(self.examples, setting=setting, training=not held_out))

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        """The examples of a batch, augmented only in `training`."""
        raise NotImplementedError

    def heard(self, batch: RecordBatch, setting: Setting, training: bool) -> tuple[Tensor, Tensor | None]:
        """Features (B, frames, I) or pictures of them, float32, and padding (B, frames) bool where it is masked."""
        architecture, sounds = setting.architecture, [torch.from_numpy(record["sound"]) for (record,) in batch.records]
        frames_BTI, padding = self.frames_of(sounds, architecture, setting.samples)
        if training and self.augment is not None:
            lengths = None if padding is None else (~padding).sum(1)
            noise = Noise.at(setting.seed, 0, torch.from_numpy(batch.rows))
            frames_BTI = self.augment.apply(frames_BTI.mT, noise, lengths).mT
        return frames_BTI if architecture is None else self.heard_as(frames_BTI, architecture), padding

    def frames_of(
        self, sounds: Sequence[Tensor], architecture: Architecture | None, samples: int
    ) -> tuple[Tensor, Tensor | None]:
        """Frames (B, frames, I) of sounds (samples,), as many as the longest of them or one of `samples` has, and padding."""
        sounds = [self.enough(sound, architecture) for sound in sounds]
        longest = max(self.needed(samples, architecture), *map(len, sounds))
        if self.padding == "silence":
            sound_BY = pad_sequence([*sounds, torch.zeros(longest)], batch_first=True)[:-1]
            return self.features.spectrum(sound_BY).mT, None
        blank = self.blank(len(sounds), longest, architecture, "cpu")
        alone = [self.features.spectrum(sound[None])[0].mT for sound in sounds]
        padding = torch.arange(blank.shape[1]) >= torch.tensor([[len(frames)] for frames in alone])
        return pad_sequence([*alone, blank[0]], batch_first=True)[:-1], padding

    def needed(self, samples: int, architecture: Architecture | None) -> int:
        """The least number of samples, `samples` or more, that has features, and where a tower hears it whole tokens."""
        least = max(samples, self.features.least)
        if architecture is None or architecture.audio is None:
            return least
        frames = architecture.audio.whole(self.features.frames(least))
        longer = range(least, least + _REST * self.features.rate)
        return longer[bisect_left(longer, frames, key=self.features.frames)]

    def enough(self, sound_Y: Tensor, architecture: Architecture | None) -> Tensor:
        """The sound, with zeros behind it if it is too short, as `needed` says."""
        return torch.nn.functional.pad(sound_Y, (0, self.needed(len(sound_Y), architecture) - len(sound_Y)))

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        frames_BTI = self.blank(shape.batch, samples_of(data), architecture, "cpu")
        padding = torch.zeros(frames_BTI.shape[:2], dtype=torch.bool) if self.padding == "masked" else None
        tokens = self.heard_as(frames_BTI, architecture)
        return replace(super().made_up(architecture, data, shape), tokens=tokens, padding=padding)

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        """What the model reads beside the sound."""
        return {"padding": examples.padding}

    def blank(self, batch: int, samples: int, architecture: Architecture | None, device: str) -> Tensor:
        """(B, frames, I) of zeros, for sounds of so many samples."""
        frames = self.features.frames(self.needed(samples, architecture))
        return torch.zeros(batch, frames, self.features.inputs, device=device)

    def heard_as(self, frames_BTI: Tensor, architecture: Architecture) -> Tensor:
        """The frames, or a picture of them, or the samples, as the architecture hears them."""
        embedding = hearing_of(architecture)
        if embedding.rank == WAVE:
            return frames_BTI[..., 0]
        return _pictures(frames_BTI, embedding.example(1, 1).shape[2]) if embedding.rank == PICTURE else frames_BTI


class SoundPositions(SoundObjective):
    """An objective whose positions are those of the sound itself: T of the longest."""

    @property
    def usual(self) -> Usual:
        return replace(super().usual, length=self.longest)

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        positions = self.longest(architecture, data)
        if positions != length:
            raise ValueError(
                f"length = {length}, and the longest sound (data.seconds) has {positions} positions: set length = {positions}"
            )


def heard_by(architecture: Architecture) -> dict[str, Any]:
    """The fields of an objective whose sounds enter as an architecture hears them."""
    embedding = hearing_of(architecture)
    fields: dict[str, Any] = {"padding": "silence"} if embedding.rank == PICTURE else {}
    match embedding.sound:
        case "frames":
            fields["features"] = {"kind": "log_mel", "bins": numbers_of(embedding)}
        case "samples":
            fields["features"] = {"kind": "waveform"}
    return fields


def hearing_of(architecture: Architecture) -> Input:
    """The embedding that sounds enter by: that of the tower for sound, if there is one, else that of the input."""
    return architecture.embedding if architecture.audio is None else architecture.audio.embedding


def samples_of(data: Data) -> int:
    """Samples of the longest sound of the data."""
    assert isinstance(data, SoundTexts | Sounds), "the kinds that are read"
    return int(data.seconds * data.rate)


def numbers_of(embedding: Input) -> int:
    """I, numbers of a frame that an embedding reads."""
    return 1 if embedding.rank == WAVE else embedding.example(1, 1).shape[-1]


def _table(architecture: Architecture) -> int | None:
    """Positions that the tower or the stack which hears the sound has at most."""
    if architecture.audio is not None:
        return architecture.audio.positions
    return next(iter(architecture.stacks.values())).max_length


def _pictures(frames_BTI: Tensor, side: int) -> Tensor:
    """(B, 1, I, frames) with the least number of each sound behind its edges, up to a whole number of patches."""
    frames, inputs = frames_BTI.shape[1:]
    low_B = frames_BTI.amin((1, 2))[:, None, None]
    picture = low_B.expand(-1, -(-inputs // side) * side, -(-frames // side) * side).clone()
    picture[:, :inputs, :frames] = frames_BTI.mT
    return picture[:, None]
