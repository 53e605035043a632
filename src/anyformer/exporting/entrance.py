"""What a model reads, as inputs of a graph: token ids with their mask, pixels, frames or samples of sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt
from typing import Protocol

import torch
from torch import Tensor

from anyformer.exporting.port import BATCH, FRAMES, LENGTH, SAMPLES, Port
from anyformer.model.inputs import Call
from anyformer.parts.embedding.embedding import ImageCells, Input

_USUAL = 14
"""Squares along a side of an image where no table of positions says how many: 224 pixels in squares of 16."""


class GraphInput(Protocol):
    """The ports of an input, and the call that their tensors make."""

    @property
    def ports(self) -> tuple[Port, ...]: ...

    def call(self, given: Mapping[str, Tensor]) -> Call:
        """The call of the model, its padding among it."""
        ...


@dataclass(frozen=True)
class TextEntrance:
    """`input_ids` and `attention_mask` (B, T), and `token_type_ids` where the table of the embedding tells segments apart."""

    segments: bool

    @property
    def ports(self) -> tuple[Port, ...]:
        names = ("input_ids", "attention_mask", *(("token_type_ids",) if self.segments else ()))
        return tuple(Port(name, (BATCH, LENGTH), torch.int64) for name in names)

    def call(self, given: Mapping[str, Tensor]) -> Call:
        types = given["token_type_ids"] if self.segments else None
        return Call(given["input_ids"], padding=given["attention_mask"] == 0, types=types)


@dataclass(frozen=True)
class ImageEntrance:
    """`pixel_values` (B, channels, height, width), of one size."""

    channels: int
    side: int

    @property
    def ports(self) -> tuple[Port, ...]:
        return (Port("pixel_values", (BATCH, self.channels, self.side, self.side), torch.float32),)

    def call(self, given: Mapping[str, Tensor]) -> Call:
        return Call(given["pixel_values"])


@dataclass(frozen=True)
class FramesEntrance:
    """`input_features` (B, bands, frames), as Whisper's files have them."""

    bands: int

    @property
    def ports(self) -> tuple[Port, ...]:
        return (Port("input_features", (BATCH, self.bands, FRAMES), torch.float32),)

    def call(self, given: Mapping[str, Tensor]) -> Call:
        return Call(given["input_features"].mT)


@dataclass(frozen=True)
class SamplesEntrance:
    """`input_values` (B, samples)."""

    @property
    def ports(self) -> tuple[Port, ...]:
        return (Port("input_values", (BATCH, SAMPLES), torch.float32),)

    def call(self, given: Mapping[str, Tensor]) -> Call:
        return Call(given["input_values"])


@dataclass(frozen=True)
class VectorsEntrance:
    """`inputs_embeds` (B, T, features): vectors that the model projects itself."""

    features: int

    @property
    def ports(self) -> tuple[Port, ...]:
        return (Port("inputs_embeds", (BATCH, LENGTH, self.features), torch.float32),)

    def call(self, given: Mapping[str, Tensor]) -> Call:
        return Call(given["inputs_embeds"])


def entrance_of(embedding: Input, longest: int | None) -> GraphInput:
    """How what `embedding` reads enters a graph; `longest`: positions of the table behind it, None without one."""
    if embedding.symbols is not None:
        return TextEntrance(embedding.segments > 0)
    if embedding.cells is not None:
        return ImageEntrance(embedding.cells.channels, _side(embedding.cells, longest))
    features = embedding.example(1, 2).shape[-1]
    match embedding.sound:
        case "frames":
            return FramesEntrance(features)
        case "samples":
            return SamplesEntrance()
        case None:
            return VectorsEntrance(features)


def _side(cells: ImageCells, longest: int | None) -> int:
    """Pixels of a side of the square image that fills the table of positions."""
    return cells.size * (_USUAL if longest is None else isqrt(longest - cells.front))
