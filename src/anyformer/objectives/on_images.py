"""What objectives share that give a model one image and no text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.data import Corpus, Data, ImageRecords, RecordBatch, RecordTable
from anyformer.data.packing import Ints
from anyformer.describe import NotNegative
from anyformer.model import Architecture
from anyformer.objectives.aspects import Usual
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, remade
from anyformer.objectives.objective import Setting
from anyformer.objectives.pixels import PixelObjective
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise, uniform


class ImageObjective(PixelObjective):
    """An objective on one image per row: T is the number of its positions. The base of such objectives."""

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
        check_columns(architecture, data)

    @property
    def usual(self) -> Usual:
        return replace(super().usual, length=image_positions)

    def lengths(self, table: RecordTable, setting: Setting) -> Ints:
        return table.lengths("image") * 0 + setting.length

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        assert isinstance(data, ImageRecords), "checked before"
        images = torch.zeros(shape.batch, data.channels, data.height, data.width)
        return replace(super().made_up(architecture, data, shape), tokens=images, padding=None)


class VariedImageObjective(ImageObjective):
    """An objective on images that are moved and mirrored in training, by draws that depend on the seed and the sample's number
    alone. The base of such objectives."""

    shift: NotNegative = 0.0
    """Share of the side by which a training image is moved at most, per direction; its edge fills the gap."""
    flip: bool = False
    """Mirror every second training image, left to right."""

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        feed = super().feed(data, corpus, setting, batch, held_out=held_out)
        return feed if held_out else remade(feed, partial(self.examples, setting=setting, training=True))

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        """`tokens` (B, I, height, width) float32; moved and mirrored only in `training`."""
        raise NotImplementedError

    def varied(self, images: Tensor, setting: Setting, rows: Tensor) -> Tensor:
        """(B, I, height, width), moved and mirrored; other images of the same rows would be moved alike."""
        count, channels, height, width = images.shape
        draws_B3 = uniform(Noise.at(setting.seed, 0, rows), 0, torch.Size((count, 3)))
        if self.flip:
            images = torch.where(draws_B3[:, 2, None, None, None] < 0.5, images.flip(-1), images)
        down, right = int(self.shift * height), int(self.shift * width)
        if not (down or right):
            return images
        padded = F.pad(images, (right, right, down, down), mode="replicate")
        lines = (draws_B3[:, 0] * (2 * down + 1)).long()[:, None] + torch.arange(height)
        columns = (draws_B3[:, 1] * (2 * right + 1)).long()[:, None] + torch.arange(width)
        each = torch.arange(count)[:, None, None, None]
        return padded[each, torch.arange(channels)[:, None, None], lines[:, None, :, None], columns[:, None, None, :]]


def stacked(batch: RecordBatch, column: str = "image") -> Tensor:
    """The images of a batch's records, (B, I, height, width) float32 in 0 ... 255."""
    return torch.from_numpy(np.stack([record[column] for (record,) in batch.records])).float()


def classes_of(batch: RecordBatch) -> Tensor:
    """(B,) int64: the number of the class of every image; 0 of all where they have none."""
    return torch.tensor([int(record["label"]) if "label" in record else 0 for (record,) in batch.records])


def image_positions(architecture: Architecture, data: Data) -> int:
    """The positions of an image."""
    assert isinstance(data, ImageRecords), "checked before"
    image = torch.empty((1, data.channels, data.height, data.width), device="meta")
    return architecture.embedding.check("the images", image, None)


def check_columns(architecture: Architecture, data: ImageRecords) -> None:
    """Refuse images with more or fewer patches in a row than the positions of a stack are for."""
    found = data.width // architecture.embedding.example(1, 1).shape[-1]
    for name, stack in architecture.stacks.items():
        across = None if stack.position is None else stack.position.across
        if across not in (None, found):
            raise ValueError(
                f"an image of {data.width} pixels has {found} patches in a row, and the positions of the {name} are for "
                f"{across}: set architecture.{name}.position.columns = {found}"
            )
