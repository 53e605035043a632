"""What a policy loss reads: sampled tokens with their probabilities, and their rewards. R rows: B samples of G members."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

MOST = 20.0
"""The largest log ratio whose exponential is taken: two probabilities that are further apart disagree by a fault."""


class ScoredTokens(NamedTuple):
    """Sampled tokens, (R, T) each, as a policy loss reads them; rows of a sample stand together.

    `log_p_RT`: log pi(y_t) of the model that learns, of the distribution that was sampled from, with a gradient; `sampled_RT`:
    the same at the time of sampling, as the sampler had it; `reference_RT`: of the reference or the teacher; `advantages_RT`:
    A, without a gradient; `mask_RT`: bool, the tokens that the model sampled and learns of (those of the environment and
    padding are False, and what stands there is never read); `entropy_RT`: that of the distribution, with a gradient;
    `before_RT`: log p by the model that learns before the first update on these rollouts, where it is not the sampler's;
    `divergence_RT`: KL(pi || reference) of the whole distributions, with a gradient.
    """

    log_p_RT: Tensor
    sampled_RT: Tensor
    reference_RT: Tensor | None
    advantages_RT: Tensor
    mask_RT: Tensor
    entropy_RT: Tensor | None = None
    before_RT: Tensor | None = None
    divergence_RT: Tensor | None = None

    @property
    def old(self) -> Tensor:
        """(R, T): log p of the policy that ratios are taken against."""
        return self.sampled_RT if self.before_RT is None else self.before_RT

    @property
    def log_ratio(self) -> Tensor:
        """(R, T): log pi(y_t) - log pi_old(y_t), 0 where no token learns."""
        return torch.where(self.mask_RT, self.log_p_RT - self.old, 0.0)


class Rewarded(NamedTuple):
    """Sampled tokens and their rewards, of which advantages are computed.

    `rewards_RT`: the reward that each token got, 0 at most of them (`at_the_end`); `mask_RT`: bool, the tokens that the model
    sampled; `group`: G, the members of a sample, whose rows stand together; `sampled_RT` and `reference_RT` as in
    `ScoredTokens`, for a penalty in the reward; `values_RT`: V of the state before each token, by a value head.
    """

    rewards_RT: Tensor
    mask_RT: Tensor
    group: int
    sampled_RT: Tensor | None = None
    reference_RT: Tensor | None = None
    values_RT: Tensor | None = None

    @property
    def totals(self) -> Tensor:
        """(R,): the sum of a row's rewards."""
        return torch.where(self.mask_RT, self.rewards_RT, 0.0).sum(1)


def at_the_end(rewards_R: Tensor, mask_RT: Tensor) -> Tensor:
    """(R, T): the reward of a row at its last sampled token, 0 elsewhere."""
    places_T = torch.arange(mask_RT.shape[1], device=mask_RT.device)
    last_R1 = torch.where(mask_RT, places_T, -1).amax(1, keepdim=True)
    return torch.where(places_T == last_R1, rewards_R[:, None], 0.0)


def row_means(x_RT: Tensor, mask_RT: Tensor) -> Tensor:
    """(R, 1): the mean of x over the tokens of a row that count; 0 where none does."""
    return torch.where(mask_RT, x_RT, 0.0).sum(1, keepdim=True) / mask_RT.sum(1, keepdim=True).clamp(min=1)


def bounded_exp(x: Tensor, least: float = -MOST, most: float = MOST) -> Tensor:
    """exp(x) with x held between two numbers: no infinity, of which a gradient of 0 makes NaN."""
    return x.clamp(least, most).exp()
