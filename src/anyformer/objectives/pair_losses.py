"""The loss of a pair of answers, from how much each is valued."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from anyformer.describe import Registry, Value

Flipped = Annotated[float, Field(gt=0, lt=0.5)]
"""The share of pairs that are expected to be the wrong way round."""


class PairLoss(Value):
    """The base of losses l(m) of a pair, m = r(chosen) - r(rejected), r a reward."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def losses(self, margins_B: Tensor, beta: float) -> Tensor:
        """(B,): l(m); `beta`: the factor of the rewards that m are made of."""
        raise NotImplementedError

    def indifferent(self, beta: float) -> float:
        """l(0): the loss of a model that values both answers alike."""
        return float(self.losses(torch.zeros(1, dtype=torch.float64), beta))


class LogisticLoss(PairLoss):
    """l(m) = -log sigmoid(m), of Bradley and Terry's model, in which the first of two is preferred with probability sigmoid(m)
    (1952; DPO, Rafailov et al. 2023, arXiv 2305.18290, equation 7)."""

    kind: Literal["logistic"] = "logistic"

    def losses(self, margins_B: Tensor, beta: float) -> Tensor:
        return -F.logsigmoid(margins_B)


class SmoothedLoss(PairLoss):
    """l(m) = -(1 - s) log sigmoid(m) - s log sigmoid(-m), s = `flipped`: labels are smoothed, so that a margin stops
    growing where sigmoid(m) = 1 - s (cDPO, Mitchell 2023)."""

    kind: Literal["smoothed"] = "smoothed"
    flipped: Flipped = 0.1
    """The share of pairs that are expected to be the wrong way round."""

    def losses(self, margins_B: Tensor, beta: float) -> Tensor:
        return -(1 - self.flipped) * F.logsigmoid(margins_B) - self.flipped * F.logsigmoid(-margins_B)


class RobustLoss(PairLoss):
    """l(m) = (-(1 - s) log sigmoid(m) + s log sigmoid(-m)) / (1 - 2 s), s = `flipped`: where this share of pairs is exchanged
    at random, the mean over exchanges is the logistic loss of the pairs as they were (robust DPO, Chowdhury et al. 2024, arXiv
    2403.00409)."""

    kind: Literal["robust"] = "robust"
    flipped: Flipped = 0.1
    """The share of pairs that are expected to be the wrong way round."""

    def losses(self, margins_B: Tensor, beta: float) -> Tensor:
        kept_B, exchanged_B = F.logsigmoid(margins_B), F.logsigmoid(-margins_B)
        return (self.flipped * exchanged_B - (1 - self.flipped) * kept_B) / (1 - 2 * self.flipped)


class SquaredLoss(PairLoss):
    """l(m) = ((m - 1/2) / beta)^2: the margin has a goal, and is not driven beyond it (IPO, Azar et al. 2023, arXiv 2310.12036,
    equation 17, with beta for tau: (m / beta - 1 / (2 beta))^2). TRL's takes log-likelihoods per token."""

    kind: Literal["squared"] = "squared"

    def losses(self, margins_B: Tensor, beta: float) -> Tensor:
        return ((margins_B - 0.5) / beta).square()


class HingeLoss(PairLoss):
    """l(m) = max(0, 1 - m): a margin of 1 is enough (SLiC, Zhao et al. 2023, arXiv 2305.10425; on rewards of DPO's form Liu et
    al. 2024, RSO, arXiv 2309.06657)."""

    kind: Literal["hinge"] = "hinge"

    def losses(self, margins_B: Tensor, beta: float) -> Tensor:
        return F.relu(1 - margins_B)
