"""How far a policy may go from a reference: penalties on KL(pi || reference), estimated from sampled tokens or exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.describe import Positive, Registry, Value
from anyformer.objectives.policy.scored import Rewarded, ScoredTokens, bounded_exp

ESTIMATORS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "k1": lambda d: d,
    "k2": lambda d: d.square() / 2,
    "k3": lambda d: bounded_exp(-d) - 1 + d,
}
"""KL(p || q) of d = log p(y) - log q(y), y ~ p (Schulman 2020, "Approximating KL divergence").

The means of k1 and k3 are the divergence, that of k2 nearly; k3 and k2 are never negative and vary less. As a loss, on tokens
of p itself: the gradient of k1 is 0 in the mean, that of k2 the divergence's, that of k3 the one of KL(q || p).
"""


class Divergence(Value):
    """The base of penalties on the divergence from a reference; by default none."""

    kinds: ClassVar[Registry] = Registry()
    kind: str
    beta: Positive

    @property
    def reads(self) -> frozenset[str]:
        """The fields of `ScoredTokens` and `Rewarded` that may be None and are read."""
        return frozenset({"reference_RT"})

    def rewards(self, rewarded: Rewarded) -> Tensor:
        """(R, T): the rewards with what is taken off them."""
        return rewarded.rewards_RT

    def losses(self, scored: ScoredTokens, log_r: Tensor) -> Tensor:
        """(R, T): what is added to losses; log r (R, T) or (R, 1) is the policy's ratio."""
        return torch.zeros_like(scored.log_p_RT)


class LossDivergence(Divergence):
    """beta k(log pi - log ref) is added to a token's loss (GRPO, Shao et al. 2024, arXiv 2402.03300, equation 4: k3).

    `weighted` multiplies k by the ratio pi / pi_old: with k3 the gradient is then that of KL(pi || ref), also on tokens of an
    older policy (DeepSeek-V3.2, arXiv 2512.02556, section 3.1). With `exact` k is the divergence of the whole distributions.
    """

    kind: Literal["loss"] = "loss"
    beta: Positive = 0.04
    """The factor of the divergence."""
    estimator: Literal["k1", "k2", "k3", "exact"] = "k3"
    """How the divergence is told from a token."""
    weighted: bool = False
    """Multiply by the ratio."""

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({"divergence_RT" if self.estimator == "exact" else "reference_RT"})

    def losses(self, scored: ScoredTokens, log_r: Tensor) -> Tensor:
        if self.estimator == "exact":
            assert scored.divergence_RT is not None, "checked before"
            found_RT = torch.where(scored.mask_RT, scored.divergence_RT, 0.0)
        else:
            assert scored.reference_RT is not None, "checked before"
            apart_RT = torch.where(scored.mask_RT, scored.log_p_RT - scored.reference_RT, 0.0)
            found_RT = ESTIMATORS[self.estimator](apart_RT)
        return self.beta * (found_RT * bounded_exp(log_r) if self.weighted else found_RT)


class RewardDivergence(Divergence):
    """beta k(log pi_old - log ref) is taken off a token's reward, before advantages are computed (Ziegler et al. 2019, arXiv
    1909.08593, equation 2; PPO of InstructGPT, RLOO)."""

    kind: Literal["reward"] = "reward"
    beta: Positive = 0.05
    """The factor of the divergence."""
    estimator: Literal["k1", "k2", "k3"] = "k1"
    """How the divergence is told from a token."""

    @property
    def reads(self) -> frozenset[str]:
        return super().reads | {"sampled_RT"}

    def rewards(self, rewarded: Rewarded) -> Tensor:
        sampled_RT, reference_RT = rewarded.sampled_RT, rewarded.reference_RT
        assert sampled_RT is not None, "checked before"
        assert reference_RT is not None, "checked before"
        apart_RT = torch.where(rewarded.mask_RT, sampled_RT - reference_RT, 0.0)
        return rewarded.rewards_RT - self.beta * ESTIMATORS[self.estimator](apart_RT)
