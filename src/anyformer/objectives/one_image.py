"""Objectives that give a model one image per row."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from anyformer.data import Data, Images, RecordBatch, RecordTable
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.objectives.aspects import SampleSizes
from anyformer.objectives.objective import Setting
from anyformer.objectives.pixels import PixelObjective


class OneImageObjective(PixelObjective):
    """An objective on images alone, one per row. The base of such objectives."""

    reads: ClassVar[type[Data]] = Images

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        assert isinstance(data, Images), "checked before"
        self.check_channels(data.channels)
        positions = image_positions(architecture, data)
        if positions != length:
            raise ValueError(
                f"length = {length}, and an image of {data.height} x {data.width} pixels becomes {positions} positions: set "
                f"length = {positions}"
            )
        check_columns(architecture, data)

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, usual_length=image_positions)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return table.lengths("image") * 0 + setting.length


def images_of(batch: RecordBatch) -> Tensor:
    """(B, I, height, width) float32, from 0 to 255."""
    return torch.from_numpy(np.stack([record["image"] for (record,) in batch.records])).float()


def image_positions(architecture: Architecture, data: Data) -> int:
    """The positions of an image."""
    assert isinstance(data, Images), "checked before"
    image = torch.empty((1, data.channels, data.height, data.width), device="meta")
    return architecture.embedding.check("the images", image, None)


def check_columns(architecture: Architecture, data: Images) -> None:
    """Refuse images with more or fewer patches in a row than the positions of a stack are for."""
    found = data.width // architecture.embedding.example(1, 1).shape[-1]
    for name, stack in architecture.stacks.items():
        across = None if stack.position is None else stack.position.across
        if across not in (None, found):
            raise ValueError(
                f"an image of {data.width} pixels has {found} patches in a row, and the positions of the {name} are for "
                f"{across}: set architecture.{name}.position.columns = {found}"
            )
