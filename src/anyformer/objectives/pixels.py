"""Images as models read them: standardised pixels, or vectors that say where each pixel is."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from anyformer.data.kinds.vectors import placed
from anyformer.model import Architecture
from anyformer.objectives.records import RecordObjective

PerChannel = Annotated[tuple[float, ...], Field(min_length=1)]


class PixelObjective(RecordObjective):
    """An objective on images. The base of such objectives: a pixel p in 0 ... 255 enters as (p / 255 - mean) / deviation."""

    mean: PerChannel = (0.5,)
    """Subtracted from each channel, or one number for all; ImageNet's are 0.485, 0.456 and 0.406."""
    deviation: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = (0.5,)
    """What each channel is divided by, or one number for all; ImageNet's are 0.229, 0.224 and 0.225."""

    def check_channels(self, channels: int) -> None:
        """Refuse another number of means or deviations than images have channels."""
        for name, numbers in (("mean", self.mean), ("deviation", self.deviation)):
            if len(numbers) not in (1, channels):
                raise ValueError(
                    f"objective.{name} has {len(numbers)} numbers, and the images {channels} channels: give one for "
                    "each, or one for all"
                )

    def standardised(self, images: Tensor) -> Tensor:
        """(B, I, height, width) in 0 ... 255 -> the same, as they enter."""
        mean, deviation = (torch.tensor(numbers).view(-1, 1, 1) for numbers in (self.mean, self.deviation))
        return (images / 255 - mean) / deviation

    def entered(self, images: Tensor, architecture: Architecture) -> Tensor:
        """(B, I, height, width) in 0 ... 255 as the architecture reads them: standardised, or where it reads vectors, the
        pixels as vectors (B, height * width, I) from -1 to 1 with their places, as data of the kind `pixels` has them."""
        if (features := vector_size(architecture)) is not None:
            return torch.from_numpy(np.stack([placed(image, features) for image in images.byte().numpy()]))
        return self.standardised(images.float())


def vector_size(architecture: Architecture) -> int | None:
    """Numbers of a vector, of an architecture that reads images as vectors; None of one that reads pixels."""
    if architecture.images is not None or architecture.embedding.rank != 3:
        return None
    return int(architecture.embedding.example(1, 1).shape[2])


def blank(architecture: Architecture, batch: int, channels: int, height: int, width: int, device: str | None = None) -> Tensor:
    """Zeros of the shape that images have as `PixelObjective.entered` gives them."""
    features = vector_size(architecture)
    shape = (batch, channels, height, width) if features is None else (batch, height * width, features)
    return torch.zeros(shape, device=device)
