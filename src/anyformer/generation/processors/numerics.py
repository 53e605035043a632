"""Scores that are no numbers, and scores as logarithms of probabilities."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from anyformer.generation.prefixes import Prefixes
from anyformer.generation.processors.base import Processor


class RemoveInvalid(Processor):
    """What is no number becomes 0, what is infinite the greatest or least number (InfNanRemoveLogitsProcessor)."""

    reads: ClassVar[bool] = False

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        bounds = torch.finfo(scores_BV.dtype)
        return torch.nan_to_num(scores_BV, nan=0.0, posinf=bounds.max, neginf=bounds.min)


class Normalise(Processor):
    """Scores become logarithms of probabilities again, after all else (transformers' LogitNormalization)."""

    reads: ClassVar[bool] = False

    def apply(self, scores_BV: Tensor, texts: Prefixes) -> Tensor:
        return scores_BV.log_softmax(-1)
