"""Segmentation: the class of every pixel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from anyformer.data import IGNORED, Data, ImageMasks, RecordBatch
from anyformer.data.pictured import OUTSIDE
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.feed import Feed
from anyformer.objectives.frequencies import chance, target_counts
from anyformer.objectives.objective import Partners, Penalty, Setting, Totals, without_penalties
from anyformer.objectives.on_images import VariedImageObjective, stacked
from anyformer.operations import Shape
from anyformer.parts.call.noise import Noise
from anyformer.parts.call.reports import Auxiliary
from anyformer.requirements.usual import BY_KIND


class SegmentationObjective(VariedImageObjective):
    """Cross-entropy of the class of every pixel: sum_i -log softmax(z_i)[class of pixel i].

    The head gives a logit per class for every patch, and z are these scaled bilinearly to the size of the image (Segmenter's
    linear decoder, Strudel et al. 2021, arXiv 2105.05633, section 3.2). With `dice` = w the loss of an image has
    w * pixels * (1 - mean_k 2 sum_i p_ik y_ik / sum_i (p_ik + y_ik)) beside it, the classes k being those that the image has
    (Milletari et al. 2016, arXiv 1606.04797, without squares). Pixels that the mask ignores count for nothing.
    """

    reads: ClassVar[type[Data]] = ImageMasks
    kind: Literal["segmentation"] = "segmentation"
    dice: Penalty = 0.0
    """Factor of the Dice loss, which counts small classes as much as large ones; 0: cross-entropy alone."""

    @property
    def traits(self) -> LossTraits:
        return LossTraits(classes="mask")

    def check(self, architecture: Architecture) -> None:
        """Refuse an architecture that does not give logits of classes for every patch of an image."""
        BY_KIND["segmentation"].check(architecture)

    def examples(self, batch: RecordBatch, setting: Setting, training: bool = False) -> Examples:
        """`targets` (B, height * width): the class of every pixel, row by row; moved and mirrored as its image is."""
        images, masks, rows = stacked(batch), stacked(batch, "mask")[:, None], torch.from_numpy(batch.rows)
        if training:
            images, masks = self.varied(images, setting, rows), self.varied(masks, setting, rows)
        classes = masks.flatten(1).long()
        return Examples(self.standardised(images), torch.where(classes == OUTSIDE, IGNORED, classes), None, rows)

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, targets=torch.zeros(made.tokens[:, 0].flatten(1).shape, dtype=torch.int64), counts=None)

    def signal(
        self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary, partners: Partners
    ) -> Tensor:
        return self.pixel_loss(self.pixel_logits(model, examples, noise, auxiliary), examples)

    def pixel_logits(self, model: Transformer, examples: Examples, noise: Noise | None, auxiliary: Auxiliary | None) -> Tensor:
        """(B, V, height, width) in fp32: the logits of every pixel."""
        cells = model.architecture.embedding.cells
        assert cells is not None, "refused by the check"
        height, width = examples.tokens.shape[-2:]
        logits_BTV: Tensor = model(examples.tokens, noise=noise, auxiliary=auxiliary)
        patches_BVN = logits_BTV[:, cells.front :].mT.float()
        small = patches_BVN.reshape(*patches_BVN.shape[:2], height // cells.size, width // cells.size)
        return F.interpolate(small, (height, width), mode="bilinear", align_corners=False)

    def pixel_loss(self, logits: Tensor, examples: Examples) -> Tensor:
        """The loss of the logits of all pixels, summed over the pixels that count."""
        flat_BVN, targets_BN = logits.flatten(2), examples.targets
        total = F.cross_entropy(flat_BVN, targets_BN, ignore_index=IGNORED, reduction="sum")
        if not self.dice:
            return total
        counts_BN = targets_BN != IGNORED
        real_BVN = F.one_hot(targets_BN.clamp(min=0), flat_BVN.shape[1]).mT * counts_BN[:, None]
        said_BVN = flat_BVN.softmax(1) * counts_BN[:, None]
        there_BV = real_BVN.sum(2) > 0
        both_BV, all_BV = (said_BVN * real_BVN).sum(2), (said_BVN + real_BVN).sum(2)
        share_B = torch.where(there_BV, 2 * both_BV / all_BV.clamp(min=1), 0.0).sum(1) / there_BV.sum(1).clamp(min=1)
        return total + self.dice * (counts_BN.sum(1) * (1 - share_B)).sum()

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        logits = self.pixel_logits(model, examples, None, auxiliary)
        targets_BN, classes = examples.targets, logits.shape[1]
        valid_BN = targets_BN != IGNORED
        pairs = (targets_BN * classes + logits.argmax(1).flatten(1))[valid_BN]
        return {
            "loss": without_penalties(self).pixel_loss(logits, examples),
            "confusion": torch.bincount(pairs, minlength=classes**2).view(classes, classes),
        }

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        """Of all pixels together: the share that is right; per class IoU = right / (real + said - right) and
        Dice = 2 right / (real + said), and their means over the classes that are there or are said to be."""
        confusion = totals["confusion"]
        right, real, said = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
        occurs = (real + said > 0).tolist()
        iou, dice = right / (real + said - right).clamp(min=1), 2 * right / (real + said).clamp(min=1)
        named = [*names.get("mask", ()), *map(str, range(len(occurs)))][: len(occurs)]
        each = [(name, i, d) for name, i, d, there in zip(named, iou.tolist(), dice.tolist(), occurs, strict=True) if there]
        count = max(len(each), 1)
        return {
            "miou": sum(i for _, i, _ in each) / count,
            "dice": sum(d for _, _, d in each) / count,
            "accuracy": float(right.sum() / real.sum().clamp(min=1)),
            **{f"iou of {name}": i for name, i, _ in each},
            **{f"dice of {name}": d for name, _, d in each},
        }

    def baseline(self, training: Feed, steps: int, held_out: Feed, windows: int, outputs: int) -> tuple[str, float] | None:
        """The cross-entropy of the classes' frequencies; in words also the mIoU of always saying the commonest class."""
        known_V, asked_V = target_counts(training, steps, held_out, windows, outputs)
        there = (asked_V > 0).sum().clamp(min=1)
        miou = float(asked_V[known_V.argmax()] / asked_V.sum().clamp(min=1) / there)
        return f"the frequencies of the classes alone (always the commonest: mIoU {miou:.3f})", chance(known_V, asked_V)
