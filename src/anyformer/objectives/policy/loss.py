"""`PolicyLoss`: the loss of sampled tokens by their advantages; recipes of reinforcement learning are values of it."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import BeforeValidator
from torch import Tensor

from anyformer.describe import Value, with_kind
from anyformer.objectives.policy.advantages import Advantage, GroupMeanAdvantage
from anyformer.objectives.policy.clips import RatioClip, SymmetricClip
from anyformer.objectives.policy.normalisers import Normaliser, SequenceNormaliser
from anyformer.objectives.policy.ratios import Ratio, TokenRatio
from anyformer.objectives.policy.scored import Rewarded, ScoredTokens, bounded_exp


class PolicyLoss(Value):
    """L = sum_t w_t l(r_t, A_t) / counts: w and the counts of the normaliser, l of the clip, r the ratio, A the advantage.

    By default GRPO's without a penalty (Shao et al. 2024, arXiv 2402.03300, equation 3).
    """

    advantage: Annotated[Advantage, BeforeValidator(with_kind("group_mean"))] = GroupMeanAdvantage()
    """A, what a reward is compared with."""
    ratio: Annotated[Ratio, BeforeValidator(with_kind("token"))] = TokenRatio()
    """r, of what it is taken."""
    clip: Annotated[RatioClip, BeforeValidator(with_kind("symmetric"))] = SymmetricClip()
    """How far a ratio may move."""
    normaliser: Annotated[Normaliser, BeforeValidator(with_kind("sequence"))] = SequenceNormaliser()
    """What the losses of tokens are divided by."""

    @torch.no_grad()
    def advantages(self, rewarded: Rewarded) -> Tensor:
        """(R, T) in fp32: A of every sampled token, 0 elsewhere."""
        self.advantage.check(rewarded.group)
        return torch.where(rewarded.mask_RT, self.advantage.advantages(rewarded), 0.0)

    def losses(self, scored: ScoredTokens) -> Tensor:
        """(R, T) in fp32: losses of tokens, weighted, whose sum over a step divided by that of its `counts` is its loss."""
        mask_RT, advantages_RT = scored.mask_RT, torch.where(scored.mask_RT, scored.advantages_RT, 0.0)
        log_p_RT = torch.where(mask_RT, scored.log_p_RT, 0.0)
        losses_RT = self.clip.losses(self.ratio.logs(scored), advantages_RT, log_p_RT)
        return torch.where(mask_RT, losses_RT * self.normaliser.weights(mask_RT), 0.0)

    def counts(self, mask_RT: Tensor, group: int) -> Tensor:
        """(B,) float64: every sample's share of what the summed losses are divided by, of `group` rows each."""
        return self.normaliser.counts(mask_RT, group)

    @torch.no_grad()
    def figures(self, scored: ScoredTokens) -> dict[str, Tensor]:
        """Sums over tokens for the log, to be divided by `tokens`: the ratios, the share that is clipped."""
        mask_RT, log_r = scored.mask_RT, self.ratio.logs(scored)
        clipped_RT = self.clip.clipped(log_r, scored.advantages_RT)
        return {
            "tokens": mask_RT.sum(),
            "ratio": torch.where(mask_RT, bounded_exp(log_r), 0.0).sum(),
            "clipped": (clipped_RT & mask_RT).sum(),
        }
