"""How much likelier sampled tokens have become: of what the importance ratio of a policy loss is taken."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.describe import Registry, Value
from anyformer.objectives.policy.scored import ScoredTokens, row_means


class Ratio(Value):
    """The base of importance ratios r = pi / pi_old, as their logarithms."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def logs(self, scored: ScoredTokens) -> Tensor:
        """(R, T), or (R, 1) where a row has one ratio: log r, with a gradient."""
        raise NotImplementedError


class TokenRatio(Ratio):
    """r_t = pi(y_t) / pi_old(y_t), one per token (PPO, Schulman et al. 2017, arXiv 1707.06347, section 3; GRPO)."""

    kind: Literal["token"] = "token"

    def logs(self, scored: ScoredTokens) -> Tensor:
        return scored.log_ratio


class SequenceRatio(Ratio):
    """r = (pi(y) / pi_old(y))^(1 / |y|), one per row: the geometric mean of its tokens' ratios (GSPO, Zheng et al. 2025, arXiv
    2507.18071, equation 7)."""

    kind: Literal["sequence"] = "sequence"

    def logs(self, scored: ScoredTokens) -> Tensor:
        return row_means(scored.log_ratio, scored.mask_RT)


class ProductRatio(Ratio):
    """r = pi(y) / pi_old(y), one per row: the product of its tokens' ratios, as where an answer is one action (RLOO, Ahmadian
    et al. 2024, arXiv 2402.14740)."""

    kind: Literal["product"] = "product"

    def logs(self, scored: ScoredTokens) -> Tensor:
        return scored.log_ratio.sum(1, keepdim=True)


class NoRatio(Ratio):
    """r = 1 with the gradient of log pi(y_t): every token counts as one of the present policy (REINFORCE, Williams 1992, doi
    10.1007/BF00992696)."""

    kind: Literal["none"] = "none"

    def logs(self, scored: ScoredTokens) -> Tensor:
        log_p_RT = torch.where(scored.mask_RT, scored.log_p_RT, 0.0)
        return log_p_RT - log_p_RT.detach()
