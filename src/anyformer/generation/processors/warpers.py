"""Distributions made flatter or steeper, and cut to the tokens that are likely enough to be drawn."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from anyformer.generation.processors.base import NEVER, Warper
from anyformer.generation.processors.kernels import ascending, without_least

Share = Annotated[float, Field(ge=0, le=1)]
CONSIDERED = 100
"""Tokens among which `TopHWarper` keeps some."""


class TemperatureWarper(Warper):
    """Divides the scores (transformers' TemperatureLogitsWarper)."""

    value: Annotated[float, Field(gt=0)]

    def warp(self, scores_BV: Tensor, keep: int = 1) -> Tensor:
        return scores_BV / self.value


class TopKWarper(Warper):
    """Keeps the k likeliest tokens (transformers' TopKLogitsWarper)."""

    count: Annotated[int, Field(ge=1)]

    def warp(self, scores_BV: Tensor, keep: int = 1) -> Tensor:
        return scores_BV.masked_fill(scores_BV < _least_of(scores_BV, max(self.count, keep)), NEVER)


class TopPWarper(Warper):
    """Keeps the likeliest tokens until they reach p (Holtzman et al. 2020, arXiv 1904.09751; TopPLogitsWarper)."""

    share: Share

    def warp(self, scores_BV: Tensor, keep: int = 1) -> Tensor:
        ordered = ascending(scores_BV)
        # Added up from the unlikeliest, as transformers does it, so that rounding leaves the same ones.
        unlikely = ordered.softmax(-1).cumsum(-1) <= 1 - self.share
        unlikely[:, -keep:] = False
        return without_least(scores_BV, ordered, unlikely.sum(-1, keepdim=True), NEVER)


class MinPWarper(Warper):
    """Keeps tokens with at least so great a share of the likeliest one's probability (arXiv 2407.01082; MinPLogitsWarper)."""

    share: Annotated[float, Field(ge=0, le=1)]

    def warp(self, scores_BV: Tensor, keep: int = 1) -> Tensor:
        shares = scores_BV.softmax(-1)
        unlikely = shares < self.share * shares.amax(-1, keepdim=True)
        likeliest = shares.topk(min(keep, shares.shape[-1]), -1).indices
        return scores_BV.masked_fill(unlikely.scatter(-1, likeliest, False), NEVER)


class TopHWarper(Warper):
    """Keeps the likeliest tokens while their entropy stays within a share of the whole (arXiv 2509.02510; TopHLogitsWarper)."""

    share: Share

    def warp(self, scores_BV: Tensor, keep: int = 1) -> Tensor:
        scores, order = scores_BV.topk(min(CONSIDERED, scores_BV.shape[-1]), -1)
        logs = scores - scores.logsumexp(-1, keepdim=True)
        shares = logs.softmax(-1)
        # A score of minus infinity has probability 0 and no entropy; its product would be no number.
        kept = (-shares * shares.log()).nan_to_num(nan=0.0).cumsum(-1) <= self.share * _entropy(logs, shares)
        kept[:, 0] = True
        return scores_BV.masked_fill(~torch.zeros_like(scores_BV, dtype=torch.bool).scatter(-1, order, kept), NEVER)


class TypicalPWarper(Warper):
    """Keeps the tokens with information nearest to the entropy, until they reach p (arXiv 2202.00666; TypicalLogitsWarper)."""

    share: Annotated[float, Field(gt=0, lt=1)]

    def warp(self, scores_BV: Tensor, keep: int = 1) -> Tensor:
        logs = scores_BV.log_softmax(-1)
        entropy = -(logs * logs.exp()).nansum(-1, keepdim=True)
        distance, order = (-logs - entropy).abs().sort(-1)
        reached = (scores_BV.gather(-1, order).softmax(-1).cumsum(-1) < self.share).sum(-1, keepdim=True)
        furthest = distance.gather(-1, reached.clamp(max=distance.shape[-1] - 1))
        far = distance > furthest
        far[:, :keep] = False
        return scores_BV.masked_fill(torch.zeros_like(far).scatter(-1, order, far), NEVER)


class EpsilonCutoffWarper(Warper):
    """Keeps tokens with at least so great a probability (arXiv 2210.15191; EpsilonLogitsWarper)."""

    least: Annotated[float, Field(gt=0, lt=1)]

    def warp(self, scores_BV: Tensor, keep: int = 1) -> Tensor:
        unlikely = scores_BV.softmax(-1) < self.least
        return scores_BV.masked_fill(unlikely & (scores_BV < _least_of(scores_BV, keep)), NEVER)


class EtaCutoffWarper(Warper):
    """Keeps tokens of probability min(e, sqrt(e) exp(-entropy)) or more (arXiv 2210.15191; EtaLogitsWarper)."""

    least: Annotated[float, Field(gt=0, lt=1)]

    def warp(self, scores_BV: Tensor, keep: int = 1) -> Tensor:
        logs = scores_BV - scores_BV.logsumexp(-1, keepdim=True)
        least = torch.tensor(self.least, device=logs.device)
        unlikely = scores_BV.softmax(-1) < torch.minimum(least, least.sqrt() * torch.exp(-_entropy(logs, logs.softmax(-1))))
        return scores_BV.masked_fill(unlikely & (scores_BV < _least_of(scores_BV, keep)), NEVER)


def _least_of(scores_BV: Tensor, count: int) -> Tensor:
    """The least of the greatest `count` scores of each row, (B, 1)."""
    return scores_BV.topk(min(count, scores_BV.shape[-1]), -1).values[:, -1:]


def _entropy(logs_BV: Tensor, shares_BV: Tensor) -> Tensor:
    """The entropy of each row's distribution in nats, (B, 1)."""
    return -(logs_BV.clamp(min=torch.finfo(logs_BV.dtype).min) * shares_BV).sum(-1, keepdim=True)
