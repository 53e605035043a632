"""What turns scores into attention weights in the place of the softmax.

Their scores are written out whatever the plan: torch's kernel knows the softmax alone.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.describe import Count, Positive, Registry, Value


class ScoreWeights(Value):
    """The base of functions from the scores of a query to the weights of its keys, both (B, H, T, S) in fp32."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    each: ClassVar[int]
    """Operations of one score, counted as in `operations/elementwise.py`."""

    def of(self, scores_BHTS: Tensor, allowed: Tensor | None) -> Tensor:
        """The weights; those of keys that are not `allowed`, bool (B or 1, 1 or H, T or 1, S), are 0."""
        raise NotImplementedError


class SigmoidWeights(ScoreWeights):
    """a_ij = sigmoid(s_ij + b), b = -log n: each key by itself, n keys of score 0 together about 1.

    Ramapuram et al. 2024 (arXiv 2409.04431), where n is the trained length. The weights of a query need not add up to 1, so
    keys do not compete, and there is no sink.
    """

    kind: Literal["sigmoid_weights"] = "sigmoid_weights"
    each: ClassVar[int] = 5
    length: Count | None = None
    """n; None: the number of keys that the query sees."""

    def of(self, scores_BHTS: Tensor, allowed: Tensor | None) -> Tensor:
        if allowed is None:
            return torch.sigmoid(scores_BHTS - math.log(self.length or scores_BHTS.shape[-1]))
        seen = allowed.sum(-1, keepdim=True).log() if self.length is None else math.log(self.length)
        return torch.sigmoid(scores_BHTS - seen).masked_fill(~allowed, 0.0)


class Softpick(ScoreWeights):
    """a_ij = relu(exp(s_ij) - 1) / (eps + sum over j of |exp(s_ij) - 1|): a key of score 0 or less has no weight.

    Zuhri et al. 2025 (arXiv 2504.20966): the negative ones still count in the sum, so that they get gradients. A query may
    leave all keys alone, so there is no sink.
    """

    kind: Literal["softpick"] = "softpick"
    each: ClassVar[int] = 6
    eps: Positive = 1e-6

    def of(self, scores_BHTS: Tensor, allowed: Tensor | None) -> Tensor:
        if allowed is not None:
            scores_BHTS = scores_BHTS.masked_fill(~allowed, 0.0)  # exp(0) - 1 adds nothing to either sum
        # Both sides of the quotient times exp(-m), m no less than any score: no exponential is above 1.
        largest_BHT1 = scores_BHTS.detach().amax(-1, keepdim=True).clamp(min=0)
        one_BHT1 = torch.exp(-largest_BHT1)
        beyond_BHTS = torch.exp(scores_BHTS - largest_BHT1) - one_BHT1
        return beyond_BHTS.relu() / (beyond_BHTS.abs().sum(-1, keepdim=True) + self.eps * one_BHT1)
