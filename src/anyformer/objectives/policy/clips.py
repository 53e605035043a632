"""How far a ratio may move before a policy loss has no gradient."""

from __future__ import annotations

from math import log, log1p
from typing import Annotated, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from anyformer.describe import NotNegative, Positive, Registry, Value
from anyformer.objectives.policy.scored import MOST, bounded_exp

Below = Annotated[float, Field(ge=0, lt=1)]
"""How far a ratio may fall below 1."""


class RatioClip(Value):
    """The base of clips, by which the loss of tokens is made of log r, A and log pi. Without a gradient a ratio is a weight."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def losses(self, log_r: Tensor, advantages_RT: Tensor, log_p_RT: Tensor) -> Tensor:
        """(R, T): the loss of tokens, from log r (R, T) or (R, 1)."""
        raise NotImplementedError

    def clipped(self, log_r: Tensor, advantages_RT: Tensor) -> Tensor:
        """(R, T) bool: the tokens whose loss is not that of the ratio as it is."""
        raise NotImplementedError


class NoClip(RatioClip):
    """l = -r A: the surrogate of conservative policy iteration (PPO, arXiv 1707.06347, equation 6)."""

    kind: Literal["none"] = "none"

    def losses(self, log_r: Tensor, advantages_RT: Tensor, log_p_RT: Tensor) -> Tensor:
        return -bounded_exp(log_r) * advantages_RT

    def clipped(self, log_r: Tensor, advantages_RT: Tensor) -> Tensor:
        return torch.zeros_like(advantages_RT, dtype=torch.bool)


class SymmetricClip(RatioClip):
    """l = -min(r A, clip(r, 1 - e, 1 + e) A), e = `within`: no gain from a ratio beyond (PPO, arXiv 1707.06347, equation 7)."""

    kind: Literal["symmetric"] = "symmetric"
    within: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """e, how far from 1 a ratio still has a gradient that moves it on."""

    def losses(self, log_r: Tensor, advantages_RT: Tensor, log_p_RT: Tensor) -> Tensor:
        return _lower(log_r, advantages_RT, self.within, self.within)

    def clipped(self, log_r: Tensor, advantages_RT: Tensor) -> Tensor:
        return _outside(log_r, advantages_RT, self.within, self.within)


class AsymmetricClip(RatioClip):
    """l = -min(r A, clip(r, 1 - low, 1 + high) A): with high above low, unlikely tokens have room to become likely ("clip
    higher"; DAPO, Yu et al. 2025, arXiv 2503.14476, section 3.1)."""

    kind: Literal["asymmetric"] = "asymmetric"
    low: Below = 0.2
    """How far a ratio may fall below 1."""
    high: Positive = 0.28
    """How far a ratio may rise above 1."""

    def losses(self, log_r: Tensor, advantages_RT: Tensor, log_p_RT: Tensor) -> Tensor:
        return _lower(log_r, advantages_RT, self.low, self.high)

    def clipped(self, log_r: Tensor, advantages_RT: Tensor) -> Tensor:
        return _outside(log_r, advantages_RT, self.low, self.high)


class DualClip(RatioClip):
    """l = -min(r A, clip(r, 1 - low, 1 + high) A), and at most -c A where A < 0: a bad token that became likely has a bounded
    loss (Ye et al. 2020, arXiv 1912.09729, section 4.4)."""

    kind: Literal["dual"] = "dual"
    low: Below = 0.2
    """How far a ratio may fall below 1."""
    high: Positive = 0.2
    """How far a ratio may rise above 1."""
    most: Annotated[float, Field(gt=1)] = 3.0
    """c, the largest ratio of a token with a negative advantage; above 1 + high."""

    @model_validator(mode="after")
    def _above(self) -> Self:
        if self.most <= 1 + self.high:
            raise ValueError(
                f"most = {self.most} should be above 1 + high = {1 + self.high}, where the first clip ends: raise it"
            )
        return self

    def losses(self, log_r: Tensor, advantages_RT: Tensor, log_p_RT: Tensor) -> Tensor:
        return _lower(log_r, advantages_RT, self.low, self.high, self.most)

    def clipped(self, log_r: Tensor, advantages_RT: Tensor) -> Tensor:
        bounded_RT = (advantages_RT < 0) & (log_r > log(self.most))
        return _outside(log_r, advantages_RT, self.low, self.high) | bounded_RT


class DetachedClip(RatioClip):
    """l = -sg(clip(r, 1 - low, 1 + high)) A log pi, sg: no gradient. A clipped ratio weighs its token and stops no gradient
    (CISPO, MiniMax 2025, arXiv 2506.13585, section 3.1). Without a bound the ratio is kept as it is on that side."""

    kind: Literal["detached"] = "detached"
    low: Below | None = None
    """How far a ratio may fall below 1."""
    high: NotNegative | None = None
    """How far a ratio may rise above 1."""

    def losses(self, log_r: Tensor, advantages_RT: Tensor, log_p_RT: Tensor) -> Tensor:
        return -bounded_exp(log_r.detach(), *self._bounds) * advantages_RT * log_p_RT

    def clipped(self, log_r: Tensor, advantages_RT: Tensor) -> Tensor:
        least, most = self._bounds
        return ((log_r < least) | (log_r > most)).expand_as(advantages_RT)

    @property
    def _bounds(self) -> tuple[float, float]:
        return -MOST if self.low is None else log1p(-self.low), MOST if self.high is None else log1p(self.high)


class SoftClip(RatioClip):
    """l = -(4 / t) sigmoid(t (r - 1)) A, t = `rising` where A > 0 and `falling` elsewhere: the gradient fades with the distance
    of r from 1, where it is that of r A, and is never cut off (SAPO, Gao et al. 2025, arXiv 2511.20347). No token counts as
    clipped.
    """

    kind: Literal["soft"] = "soft"
    rising: Positive = 1.0
    """t of tokens with a positive advantage: the larger, the sooner the gradient fades."""
    falling: Positive = 1.05
    """t of other tokens."""

    def losses(self, log_r: Tensor, advantages_RT: Tensor, log_p_RT: Tensor) -> Tensor:
        t_RT = self.falling + (self.rising - self.falling) * (advantages_RT > 0).to(log_r.dtype)
        return -4 / t_RT * torch.sigmoid(t_RT * (bounded_exp(log_r) - 1)) * advantages_RT

    def clipped(self, log_r: Tensor, advantages_RT: Tensor) -> Tensor:
        return torch.zeros_like(advantages_RT, dtype=torch.bool)


def _lower(log_r: Tensor, advantages_RT: Tensor, low: float, high: float, most: float | None = None) -> Tensor:
    """-min(r A, clip(r, 1 - low, 1 + high) A), r at most `most`."""
    ratio = bounded_exp(log_r, most=MOST if most is None else log(most))
    clipped = bounded_exp(log_r, log1p(-low), log1p(high))
    return -torch.minimum(ratio * advantages_RT, clipped * advantages_RT)


def _outside(log_r: Tensor, advantages_RT: Tensor, low: float, high: float) -> Tensor:
    """Where the clipped of both is the smaller."""
    return ((advantages_RT > 0) & (log_r > log1p(high))) | ((advantages_RT < 0) & (log_r < log1p(-low)))
