"""Features of images by contrast: two views of an image are near, those of the batch's other images far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from anyformer.data import Corpus, Data, RecordBatch
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.contrast import ContrastObjective, own_candidates
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed, remade
from anyformer.objectives.objective import Partners, Setting, Totals
from anyformer.objectives.on_images import ImageObjective, classes_of, stacked
from anyformer.objectives.sequences import outputs
from anyformer.objectives.views import Views
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.parts.embedding.head_module import mean_behind
from anyformer.requirements.usual import BY_KIND

TWO = 2
"""Views of an image."""
ROWS = 1024
"""Images whose neighbours are looked for at a time."""


class ImageFeaturesObjective(ImageObjective, ContrastObjective):
    """Cross-entropy of the other view of an image, among all views of the batch (NT-Xent of SimCLR, arXiv 2002.05709).

    -log(exp(s_ij) / sum_k exp(s_ik)), s = cos / temperature: i and j are the two views of an image, k all views of the
    micro-batch but i, and the losses of i and j are averaged (Chen et al. 2020, section 2.1). No class is needed. Where
    held-out images have classes, `neighbour_accuracy` is the share whose nearest other one has the same, by the features of
    the images as they are. A projection in front of the loss is a head of the architecture, with `outputs = "features"` and a
    transform.
    """

    kind: Literal["image_features"] = "image_features"
    temperature: Annotated[float, Field(gt=0)] = 0.1
    """What the cosines are divided by; SimCLR 0.1, and 0.5 for CIFAR-10."""
    pool: Literal["first", "mean"] | None = None
    """What becomes an image's features where the head does not pool: the first position, or the mean of the patches; by default
    the first position where a learned vector stands in front of the patches, else the mean."""
    views: Views = Views()
    """How the views of an image differ from it."""

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not turn one image into features."""
        BY_KIND["image_features"].check(architecture)

    @property
    def traits(self) -> LossTraits:
        return LossTraits(each_row=frozenset({"each_feature", "each_class"}))

    def feed(self, data: Data, corpus: Corpus, setting: Setting, batch: int, *, held_out: bool = False) -> Feed:
        feed = super().feed(data, corpus, setting, batch, held_out=held_out)
        return remade(feed, partial(self.examples, setting=setting, held_out=True)) if held_out else feed

    def examples(self, batch: RecordBatch, setting: Setting, held_out: bool = False) -> Examples:
        """`tokens` (2 B, I, height, width) float32: the views of an image stand together; `held_out` (3 B, ...), the image as
        it is behind them. `targets` (B,): its class."""
        images, rows = stacked(batch), torch.from_numpy(batch.rows)
        noise = Noise.at(setting.seed, 0, rows).of_each(TWO)
        views = self.views.of(images.repeat_interleave(TWO, 0), noise)
        shown = views.view(len(images), TWO, *images.shape[1:])
        if held_out:
            shown = torch.cat([shown, images[:, None]], 1)
        counts = torch.ones(len(rows), dtype=torch.float64)
        return Examples(self.standardised(shown.flatten(0, 1)), classes_of(batch), None, rows, counts=counts)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, targets=torch.zeros(len(made.rows), dtype=torch.int64))

    def similarities(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """(2 B, 2 B) fp32: of each view with all others over the temperature, the other one of its image under its own number;
        -inf with itself."""
        return self._between(self._features(model, examples, noise, auxiliary))

    def summed(self, similar_QC: Tensor) -> Tensor:
        return own_candidates(similar_QC) / TWO

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        features_BND = self._features(model, examples, None, auxiliary)
        figures = self.ranked(self._between(features_BND))
        # Behind its views stands a held-out image as it is.
        return {**figures, "each_feature": features_BND[:, -1], "each_class": examples.targets}

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Of finding the other view of an image, and the share of images whose nearest one has their class, where there are
        several classes."""
        found = super().metrics(totals, names)
        classes = totals["each_class"]
        if bool((classes != classes[:1]).any()):
            found["neighbour_accuracy"] = neighbour_accuracy(totals["each_feature"].float(), classes)
        return found

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """log of the number of candidates: the loss where all are alike."""
        sizes = [len(examples.rows) for examples in held_out.once(windows)]
        if not sizes:
            return None
        return "all images of a batch alike", sum(size * math.log(TWO * size - 1) for size in sizes) / sum(sizes)

    def _features(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary) -> Tensor:
        """(B, N, D) fp32 of length 1: those of the N rows of every sample."""
        each = len(examples.tokens) // len(examples.rows)
        given = outputs(model, examples, noise and noise.of_each(each), auxiliary)
        if given.dim() == 3:
            front = front_of(model.architecture)
            first = self.pool == "first" or (self.pool is None and front > 0)
            given = given[:, 0] if first else mean_behind(given, None, front)
        return F.normalize(given.float(), dim=-1).view(len(examples.rows), each, -1)

    def _between(self, features_BND: Tensor) -> Tensor:
        """The similarities of the first two rows of every sample."""
        one, other = features_BND[:, 0], features_BND[:, 1]
        similar = torch.cat([one, other]) @ torch.cat([other, one]).mT / self.temperature
        itself = torch.eye(len(similar), dtype=torch.bool, device=similar.device).roll(len(one), 1)
        return similar.masked_fill(itself, -torch.inf)


def front_of(architecture: Architecture) -> int:
    """Learned vectors that stand before the patches."""
    return 0 if (cells := architecture.embedding.cells) is None else cells.front


def neighbour_accuracy(features_ND: Tensor, classes_N: Tensor) -> float:
    """The share of N vectors of length 1 whose nearest other one has their class."""
    right = 0
    for start in range(0, len(features_ND), ROWS):
        similar = features_ND[start : start + ROWS] @ features_ND.mT
        similar.diagonal(start).fill_(-torch.inf)
        right += int((classes_N[similar.argmax(1)] == classes_N[start : start + ROWS]).sum())
    return right / len(features_ND)
