"""The base of objectives whose examples are sounds: as frames of a spectrum, as a picture of it, or as samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from anyformer.data import Corpus, Data, RecordBatch, Sounds, Speech
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, remade
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.records import RecordObjective
from anyformer.operations import Shape
from anyformer.parts.embedding.embedding import Input
from anyformer.sound import LogMel

Heard = Speech | Sounds
PICTURE = 4
"""Dimensions of an input of pictures (B, 1, bands, frames)."""


class SoundObjective(RecordObjective):
    """An objective on sounds of at most `data.seconds`, which enter as the log-mel spectrum that the model reads.

    `masked`: a spectrum is that of the sound alone, and what fills it up to the longest is hidden from the model. `silence`: the
    sound itself is filled with zeros, and the model hears them (Whisper, arXiv 2212.04356, which hears 30 s each time).
    """

    spectrum: LogMel = LogMel()
    """How a sound becomes frames; its bands are those that the embedding reads."""
    padding: Literal["masked", "silence"] = "masked"
    """What follows a sound that is shorter than `data.seconds`."""

    @classmethod
    def usual(cls, architecture: Architecture, fields: Mapping[str, Any]) -> Self:
        picture = architecture.embedding.rank == PICTURE
        own = {"padding": "silence"} if picture else {"spectrum": {"bins": bands_of(architecture.embedding)}}
        return cls.parse({**own, **fields})

    def usual_data(self, architecture: Architecture, paths: tuple[str, ...]) -> Data:
        """Sounds as long as the position table takes, if there is one and the kind's own limit is longer."""
        data = super().usual_data(architecture, paths)
        assert isinstance(data, Heard), "the kinds that are read"
        data = data.but(rate=self.spectrum.rate)
        table = list(architecture.stacks.values())[0].max_length
        if table is None or sound_positions(self, architecture, data) <= table:
            return data
        hops = int(data.seconds * data.rate) // self.spectrum.hop
        short = data.but(seconds=hops * self.spectrum.hop / data.rate)
        while sound_positions(self, architecture, short) > table:
            over = sound_positions(self, architecture, short) / table
            hops = min(hops - 1, int(hops / over) + 1)
            short = data.but(seconds=hops * self.spectrum.hop / data.rate)
        return short

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        assert isinstance(data, Heard), "checked before"
        embedding = architecture.embedding
        if data.rate != self.spectrum.rate:
            raise ValueError(
                f"data.rate = {data.rate}, and objective.spectrum.rate = {self.spectrum.rate}: a sound has one rate; make them "
                "equal"
            )
        if embedding.rank == PICTURE and self.padding == "masked":
            raise ValueError(
                "objective.padding = 'masked': a picture of a sound has no padding; set objective.padding = 'silence'"
            )
        if embedding.rank != PICTURE and self.spectrum.bins != bands_of(embedding):
            raise ValueError(
                f"objective.spectrum.bins = {self.spectrum.bins}, and the embedding reads {bands_of(embedding)} bands: make them "
                "equal"
            )
        positions, table = sound_positions(self, architecture, data), list(architecture.stacks.values())[0].max_length
        if table is not None and positions > table:
            raise ValueError(
                f"data.seconds = {data.seconds:g}: such a sound has {positions} positions, and the position table of the model "
                f"that hears it {table}: set data.seconds = {data.seconds * table / positions:.3g}"
            )

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        assert isinstance(data, Heard), "checked before"
        feed = super().feed(data, corpus, setting, batch, held_out=held_out)
        samples = int(data.seconds * data.rate)
        return remade(feed, partial(self.examples, setting=setting, samples=samples, training=not held_out))

    def examples(
        self, batch: RecordBatch, setting: Setting, samples: int | None = None, training: bool = False
    ) -> Examples:
        """The examples of a batch; `samples`: of the longest sound, by default of the batch; augmented only in `training`."""
        raise NotImplementedError

    def heard(
        self, batch: RecordBatch, setting: Setting, samples: int | None, training: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Spectra (B, frames, bands) or (B, 1, bands, frames) float32, and padding (B, frames) bool if it is masked."""
        sounds = [torch.from_numpy(record["sound"]) for (record,) in batch.records]
        longest = samples or max(map(len, sounds))
        if self.padding == "silence":
            sound_BN = pad_sequence([*sounds, torch.zeros(longest)], batch_first=True)[:-1]
            frames_BTI, padding = self.spectrum.spectrum(sound_BN).mT, None
        else:
            spectra = [self.spectrum.spectrum(sound[None])[0].mT for sound in sounds]
            whole = torch.zeros(self.spectrum.frames(longest), self.spectrum.bins)
            frames_BTI = pad_sequence([*spectra, whole], batch_first=True)[:-1]
            lengths = torch.tensor([len(spectrum) for spectrum in spectra])
            padding = torch.arange(len(whole)) >= lengths[:, None]
        if setting.architecture is None or setting.architecture.embedding.rank != PICTURE:
            return frames_BTI, padding
        return _pictures(frames_BTI, setting.architecture.embedding), padding

    def made_up_sound(self, architecture: Architecture, data: Data, shape: Shape) -> dict[str, Tensor | None]:
        """Tokens and padding as `heard` gives them, of any numbers."""
        assert isinstance(data, Heard), "checked before"
        frames_BTI = torch.zeros(shape.batch, self.spectrum.frames(int(data.seconds * data.rate)), self.spectrum.bins)
        if architecture.embedding.rank == PICTURE:
            return {"tokens": _pictures(frames_BTI, architecture.embedding), "padding": None}
        padding = torch.zeros(frames_BTI.shape[:2], dtype=torch.bool) if self.padding == "masked" else None
        return {"tokens": frames_BTI, "padding": padding}

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        """What the model reads beside the sound."""
        return {"padding": examples.padding}


class SoundPositions(SoundObjective):
    """An objective whose positions are those of the sound itself: T = `sound_positions`."""

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, usual_length=partial(sound_positions, self))

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        positions = sound_positions(self, architecture, data)
        if positions != length:
            raise ValueError(
                f"length = {length}, and a sound of data.seconds = {data.seconds:g} has {positions} positions: set length = "
                f"{positions}"
            )


def sound_positions(objective: SoundObjective, architecture: Architecture, data: Data) -> int:
    """Positions of the longest sound of the data."""
    assert isinstance(data, Heard), "checked before"
    made = objective.made_up_sound(architecture, data, Shape(batch=1))
    assert made["tokens"] is not None, "made above"
    return architecture.embedding.check("the sound", made["tokens"], None)


def bands_of(embedding: Input) -> int:
    """The bands of the frames that an embedding reads."""
    return embedding.example(1, 1).shape[-1]


def _pictures(frames_BTI: Tensor, embedding: Input) -> Tensor:
    """(B, 1, bands, frames), filled with the least number of each up to a whole number of patches."""
    side = embedding.example(1, 1).shape[2]
    bands, frames = frames_BTI.shape[2], frames_BTI.shape[1]
    low_B = frames_BTI.amin((1, 2))
    picture = low_B[:, None, None].expand(-1, -(-bands // side) * side, -(-frames // side) * side).clone()
    picture[:, :bands, :frames] = frames_BTI.mT
    return picture[:, None]
