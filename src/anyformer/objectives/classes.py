"""What objectives of classes share: loss, accuracy, F1 and calibration of one class for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from anyformer.data import Corpus, Data
from anyformer.describe import UserError
from anyformer.model import Architecture
from anyformer.model.transformer import Transformer
from anyformer.objectives.aspects import LossTraits
from anyformer.objectives.examples import Examples
from anyformer.objectives.objective import Partners, Totals, without_penalties
from anyformer.objectives.records import RecordObjective
from anyformer.objectives.token_loss import TokenObjective
from anyformer.operations import Shape
from anyformer.parts.call.reports import Auxiliary
from anyformer.text import DataError

BINS = 10
"""Bins of the confidence, of equal width, for the calibration error."""
CONFUSABLE = 256
"""Classes up to which each pair of them is counted."""


class ClassObjective(RecordObjective, TokenObjective):
    """Cross-entropy of the class of each row: -log softmax(logits)[class]. The base of such objectives."""

    @property
    def traits(self) -> LossTraits:
        return replace(super().traits, of_tokens=False, classes="label")

    def made_up(self, architecture: Architecture, data: Data, shape: Shape) -> Examples:
        made = super().made_up(architecture, data, shape)
        return replace(made, targets=torch.zeros(shape.batch, dtype=torch.int64))

    def statistics(self, model: Transformer, examples: Examples, auxiliary: Auxiliary, partners: Partners) -> dict[str, Tensor]:
        logits = self.logits(model, examples, None, auxiliary)
        return {"loss": without_penalties(self).token_loss(logits, examples)} | class_statistics(logits, examples.targets)

    def metrics(self, totals: Totals, names: Mapping[str, tuple[str, ...]]) -> dict[str, float]:
        return class_metrics(totals)


def check_classes(architecture: Architecture, corpus: Corpus, column: str) -> None:
    """Refuse data without classes, or with more than the architecture has logits."""
    classes = corpus.names[column]
    if not classes:
        raise DataError("the data has no class: every record needs a label")
    if len(classes) > architecture.outputs:
        shown = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
        raise UserError(
            f"the data has {len(classes)} classes ({shown}), and the head {architecture.outputs} logits: set "
            f"architecture.head.outputs = {len(classes)}"
        )


def class_statistics(logits_BV: Tensor, targets_B: Tensor) -> dict[str, Tensor]:
    """Sums over the rows for `class_metrics`; `confusion` (V, V): rows of class i that are taken for class j."""
    classes = logits_BV.shape[-1]
    confidence_B, said_B = torch.softmax(logits_BV.float(), -1).max(-1)
    right_B = said_B == targets_B
    # The bin (b / BINS, (b + 1) / BINS], as in Guo et al. 2017 (arXiv 1706.04599).
    bins_B = ((confidence_B * BINS).ceil().long() - 1).clamp(0, BINS - 1)
    sums = {
        "right": torch.bincount(targets_B[right_B], minlength=classes),
        "real": torch.bincount(targets_B, minlength=classes),
        "said": torch.bincount(said_B, minlength=classes),
        "confidence_by_bin": torch.bincount(bins_B, confidence_B.double(), minlength=BINS),
        "right_by_bin": torch.bincount(bins_B, right_B.double(), minlength=BINS),
    }
    if classes <= CONFUSABLE:
        pairs_B = targets_B * classes + said_B
        sums["confusion"] = torch.bincount(pairs_B, minlength=classes**2).view(classes, classes)
    return sums


def class_metrics(totals: Totals) -> dict[str, float]:
    """Accuracy; the mean of each class's F1 = 2 right / (real + said), of the classes that occur; and the expected calibration
    error, sum_bins |right - confidence| / rows."""
    right, real, said = totals["right"], totals["real"], totals["said"]
    rows = real.sum().clamp(min=1)
    gaps = (totals["right_by_bin"] - totals["confidence_by_bin"]).abs()
    return {
        "accuracy": float(right.sum() / rows),
        "macro_f1": macro_f1(right, real, said),
        "calibration_error": float(gaps.sum() / rows),
    }


def macro_f1(right: Tensor, real: Tensor, said: Tensor) -> float:
    """The mean over classes that occur of F1 = 2 right / (real + said); (V,) each."""
    occurs = real + said > 0
    f1 = 2 * right[occurs] / (real + said)[occurs]
    return float(f1.mean()) if len(f1) else 0.0
