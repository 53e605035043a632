"""Classification of images."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.data import Data, Images, RecordBatch
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.classes import ClassObjective
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Inputs, Setting
from anyformer.objectives.on_images import VariedImageObjective, classes_of, stacked
from anyformer.parts.embedding.head_module import at_last
from anyformer.requirements.usual import BY_KIND


class ImageClassificationObjective(VariedImageObjective, ClassObjective):
    """Cross-entropy of the class of an image (ViT, Dosovitskiy et al. 2021, arXiv 2010.11929): -log softmax(logits)[class].

    A pixel p in 0 ... 255 enters as (p / 255 - mean) / deviation. In training an image may be moved and mirrored, by draws that
    depend on the seed and the sample's number alone.
    """

    reads: ClassVar[type[Data]] = Images
    kind: Literal["image_classification"] = "image_classification"

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not turn one image into a logit per class."""
        BY_KIND["image_classification"].check(architecture)

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        images, rows = stacked(batch), torch.from_numpy(batch.rows)
        if training:
            images = self.varied(images, setting, rows)
        targets = classes_of(batch)
        counts = torch.ones(len(targets), dtype=torch.float64)
        return Examples(self.standardised(images), targets, None, rows, counts=counts)

    def inputs(self, model: Transformer, examples: Examples) -> Inputs:
        return {}

    def of_targets(self, outputs: Tensor, examples: Examples) -> Tensor:
        return outputs if outputs.dim() == 2 else at_last(outputs, None)
