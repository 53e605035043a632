"""What objectives on images alone share: one image per row, and as many positions as it becomes."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from anyformer.data import Data, ImageRecords, RecordBatch, RecordTable
from anyformer.data.packing import Ints
from anyformer.model import Architecture
from anyformer.objectives.aspects import SampleSizes
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Setting
from anyformer.objectives.pixels import PixelObjective
from anyformer.operations import Shape


class OneImageObjective(PixelObjective):
    """An objective on images, whose model reads one at a time and nothing else. The base of such objectives."""

    reads: ClassVar[type[Data]] = ImageRecords

    def check_data(self, data: Data, architecture: Architecture, length: int) -> None:
        super().check_data(data, architecture, length)
        assert isinstance(data, ImageRecords), "checked before"
        self.check_channels(data.channels)
        positions = image_positions(architecture, data)
        if positions != length:
            raise ValueError(
                f"length = {length}, and an image of {data.height} x {data.width} pixels becomes {positions} positions: set "
                f"length = {positions}"
            )

    @property
    def sizes(self) -> SampleSizes:
        return replace(super().sizes, usual_length=image_positions)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return table.lengths("image") * 0 + setting.length

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        assert isinstance(data, ImageRecords), "checked before"
        images = torch.zeros(shape.batch, data.channels, data.height, data.width)
        return replace(super().made_up(architecture, data, shape), tokens=images, padding=None)


def images_of(batch: RecordBatch) -> Tensor:
    """(B, I, height, width) float32, in 0 ... 255."""
    return torch.from_numpy(np.stack([record["image"] for (record,) in batch.records])).float()


def classes_of(batch: RecordBatch) -> Tensor:
    """(B,) int64: the number of the class of every image; 0 of all where they have none."""
    return torch.tensor([int(record["label"]) if "label" in record else 0 for (record,) in batch.records])


def image_positions(architecture: Architecture, data: Data) -> int:
    """The positions of an image."""
    assert isinstance(data, ImageRecords), "checked before"
    image = torch.empty((1, data.channels, data.height, data.width), device="meta")
    return architecture.embedding.check("the images", image, None)
