"""Tokens that another policy sampled than the one that learns: what their losses are multiplied by."""

from __future__ import annotations

from math import log
from typing import Annotated, ClassVar, Literal, Self

import torch
from pydantic import BeforeValidator, model_validator
from torch import Tensor

from anyformer.describe import NotNegative, Positive, Registry, Value, with_kind
from anyformer.objectives.policy.ratios import Ratio, TokenRatio
from anyformer.objectives.policy.scored import MOST, ScoredTokens, row_means


class Correction(Value):
    """The base of weights of tokens, by how the sampler's probabilities differ from the trainer's."""

    kinds: ClassVar[Registry] = Registry()
    reads: ClassVar[frozenset[str]] = frozenset()
    """The fields of `ScoredTokens` that may be None and are read."""
    kind: str

    def weights(self, scored: ScoredTokens) -> Tensor:
        """(R, T), or (R, 1): the factor of a token's loss, without a gradient."""
        raise NotImplementedError


class TruncatedCorrection(Correction):
    """w = min(pi_before / pi_sampled, c): the importance weight of the sampler against the trainer before its first update, c =
    `most` (truncated importance sampling, Ionides 2008, doi 10.1198/106186008X320456; for rollout engines Yao et al. 2025)."""

    kind: Literal["truncated"] = "truncated"
    reads: ClassVar[frozenset[str]] = frozenset({"before_RT"})
    ratio: Annotated[Ratio, BeforeValidator(with_kind("token"))] = TokenRatio()
    """Of what the weight is taken: `token`, a row's geometric mean (`sequence`) or `product`."""
    most: Positive = 2.0
    """c, the largest weight."""

    def weights(self, scored: ScoredTokens) -> Tensor:
        return _logs(self.ratio, scored).clamp(-MOST, log(self.most)).exp()


class MaskedCorrection(Correction):
    """w = pi_before / pi_sampled where least <= w <= most, and 0 elsewhere: what disagrees too much is not learnt (IcePop, Ling
    team 2025, arXiv 2510.18855, section 3)."""

    kind: Literal["masked"] = "masked"
    reads: ClassVar[frozenset[str]] = frozenset({"before_RT"})
    ratio: Annotated[Ratio, BeforeValidator(with_kind("token"))] = TokenRatio()
    """Of what the weight is taken: `token`, a row's geometric mean (`sequence`) or `product`."""
    least: NotNegative = 0.5
    """The smallest weight of a token that learns."""
    most: Positive = 5.0
    """The largest weight of a token that learns."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least = {self.least} is above most = {self.most}, which no weight is between: exchange them")
        return self

    def weights(self, scored: ScoredTokens) -> Tensor:
        found = _logs(self.ratio, scored).clamp(-MOST, MOST).exp()
        return torch.where((found >= self.least) & (found <= self.most), found, 0.0)


class DistantCorrection(Correction):
    """w = 0 for a row with A < 0 of which mean_t(log pi_sampled - log pi) > `most`, and 1 elsewhere: a bad answer that has
    become unlikely teaches nothing more (DeepSeek-V3.2, arXiv 2512.02556, section 3.1)."""

    kind: Literal["distant"] = "distant"
    most: NotNegative = 0.5
    """The divergence per token, in nats, from which on a bad row is left out."""

    def weights(self, scored: ScoredTokens) -> Tensor:
        apart_R1 = row_means(scored.sampled_RT - scored.log_p_RT.detach(), scored.mask_RT)
        return ((scored.advantages_RT >= 0) | (apart_R1 <= self.most)).to(scored.log_p_RT.dtype)


def _logs(ratio: Ratio, scored: ScoredTokens) -> Tensor:
    """log(pi_before / pi_sampled), of which a ratio is taken as of pi / pi_old."""
    assert scored.before_RT is not None, "checked before"
    return ratio.logs(scored._replace(log_p_RT=scored.before_RT, before_RT=None)).detach()
