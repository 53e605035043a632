"""Classification of images."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.data import Corpus, Data, Images, RecordBatch
from anyformer.describe import NotNegative
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.classes import ClassObjective
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, remade
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.one_image import OneImageObjective, classes_of, images_of
from anyformer.parts.call.noise import Noise, uniform
from anyformer.parts.embedding.head_module import at_last
from anyformer.requirements.usual import BY_KIND


class ImageClassificationObjective(OneImageObjective, ClassObjective):
    """Cross-entropy of the class of an image (ViT, Dosovitskiy et al. 2021, arXiv 2010.11929): -log softmax(logits)[class].

    A pixel p in 0 ... 255 enters as (p / 255 - mean) / deviation. In training an image may be moved and mirrored, by draws that
    depend on the seed and the sample's number alone.
    """

    reads: ClassVar[type[Data]] = Images
    kind: Literal["image_classification"] = "image_classification"
    shift: NotNegative = 0.0
    """Share of the side by which a training image is moved at most, per direction; its edge fills the gap."""
    flip: bool = False
    """Mirror every second training image, left to right."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not turn one image into a logit per class."""
        BY_KIND["image_classification"].check(architecture)

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        feed = super().feed(data, corpus, setting, batch, held_out=held_out)
        return feed if held_out else remade(feed, partial(self.examples, setting=setting, training=True))

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        """`tokens` (B, I, height, width) float32; moved and mirrored only in `training`."""
        images, targets = images_of(batch), classes_of(batch)
        rows = torch.from_numpy(batch.rows)
        if training:
            images = self._varied(images, Noise.at(setting.seed, 0, rows))
        counts = torch.ones(len(targets), dtype=torch.float64)
        return Examples(self.standardised(images), targets, None, rows, counts=counts)

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return {}

    def of_targets(self, outputs: Tensor, examples: Examples) -> Tensor:
        return outputs if outputs.dim() == 2 else at_last(outputs, None)

    def _varied(self, images: Tensor, noise: Noise) -> Tensor:
        """(B, I, height, width), moved and mirrored."""
        count, channels, height, width = images.shape
        draws_B3 = uniform(noise, 0, torch.Size((count, 3)))
        if self.flip:
            images = torch.where(draws_B3[:, 2, None, None, None] < 0.5, images.flip(-1), images)
        down, right = int(self.shift * height), int(self.shift * width)
        if not (down or right):
            return images
        padded = F.pad(images, (right, right, down, down), mode="replicate")
        rows = (draws_B3[:, 0] * (2 * down + 1)).long()[:, None] + torch.arange(height)
        columns = (draws_B3[:, 1] * (2 * right + 1)).long()[:, None] + torch.arange(width)
        each = torch.arange(count)[:, None, None, None]
        return padded[each, torch.arange(channels)[:, None, None], rows[:, None, :, None], columns[:, None, None, :]]
