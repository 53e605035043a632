"""`PolicyLoss`: the loss of sampled tokens by their advantages; recipes of reinforcement learning are values of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import torch
from pydantic import BeforeValidator
from torch import Tensor

from anyformer.describe import NotNegative, Value, with_kind
from anyformer.objectives.policy.advantages import Advantage, GroupMeanAdvantage
from anyformer.objectives.policy.clips import RatioClip, SymmetricClip
from anyformer.objectives.policy.corrections import Correction
from anyformer.objectives.policy.divergences import ESTIMATORS, Divergence
from anyformer.objectives.policy.normalisers import Normaliser, SequenceNormaliser
from anyformer.objectives.policy.ratios import Ratio, TokenRatio
from anyformer.objectives.policy.scored import Rewarded, ScoredTokens, bounded_exp
from anyformer.objectives.policy.selections import RowSelection


class PolicyLoss(Value):
    """L = sum_t n_t (w_t l(r_t, A_t) + beta k_t - c H_t) / counts: n and the counts of the normaliser, l of the clip, r the
    ratio, A the advantage, w of the correction, k the divergence, H the entropy.

    By default GRPO's without a divergence (Shao et al. 2024, arXiv 2402.03300, equation 3); `recipes` has others. In use:
    `check` once, `learnt` and `advantages` of a batch's rewards, `counts` of what learns, and `losses` of any part of it.
    """

    advantage: Annotated[Advantage, BeforeValidator(with_kind("group_mean"))] = GroupMeanAdvantage()
    """A, what a reward is compared with."""
    ratio: Annotated[Ratio, BeforeValidator(with_kind("token"))] = TokenRatio()
    """r, of what it is taken."""
    clip: Annotated[RatioClip, BeforeValidator(with_kind("symmetric"))] = SymmetricClip()
    """How far a ratio may move."""
    normaliser: Annotated[Normaliser, BeforeValidator(with_kind("sequence"))] = SequenceNormaliser()
    """What the losses of tokens are divided by."""
    selection: RowSelection | None = None
    """Which rows learn; without it all."""
    divergence: Annotated[Divergence | None, BeforeValidator(with_kind("loss"))] = None
    """How far the policy may go from a reference."""
    entropy: NotNegative = 0.0
    """c, the factor of the entropy that is rewarded, in nats; it is divided as the losses of tokens are."""
    correction: Annotated[Correction | None, BeforeValidator(with_kind("truncated"))] = None
    """Weights of tokens that were sampled by another policy, or by an engine of other numbers."""

    @property
    def reads(self) -> frozenset[str]:
        """The fields of `ScoredTokens` and `Rewarded` that may be None and are read."""
        found = self.advantage.reads
        if self.divergence is not None:
            found |= self.divergence.reads
        if self.correction is not None:
            found |= self.correction.reads
        return found | {"entropy_RT"} if self.entropy else found

    def check(self, group: int) -> None:
        """Refuse a number of members G that does not suit the advantage or the selection."""
        self.advantage.check(group)
        if self.selection is not None:
            self.selection.check(group)

    @torch.no_grad()
    def learnt(self, rewarded: Rewarded) -> Tensor:
        """(R, T) bool: the sampled tokens that learn."""
        if self.selection is None:
            return rewarded.mask_RT
        return rewarded.mask_RT & self.selection.rows(rewarded)[:, None]

    @torch.no_grad()
    def advantages(self, rewarded: Rewarded) -> Tensor:
        """(R, T): A of every sampled token, 0 elsewhere; 0 for rows without a reward, which is NaN."""
        self.check(rewarded.group)
        self._complete(rewarded, rewarded._fields)
        given = rewarded
        if self.divergence is not None:
            given = rewarded._replace(rewards_RT=self.divergence.rewards(rewarded))
        known_RT = rewarded.mask_RT & ~rewarded.totals.isnan()[:, None]
        return torch.where(known_RT, self.advantage.advantages(given), 0.0)

    def losses(self, scored: ScoredTokens) -> Tensor:
        """(R, T): losses of tokens, weighted, whose sum over a step divided by that of its `counts` is its loss."""
        self._complete(scored, scored._fields)
        mask_RT, advantages_RT = scored.mask_RT, torch.where(scored.mask_RT, scored.advantages_RT, 0.0)
        log_r = self.ratio.logs(scored)
        losses_RT = self.clip.losses(log_r, advantages_RT, scored.log_p_RT)
        if self.correction is not None:
            losses_RT = losses_RT * self.correction.weights(scored)
        if self.divergence is not None:
            losses_RT = losses_RT + self.divergence.losses(scored, log_r)
        if self.entropy:
            assert scored.entropy_RT is not None, "checked above"
            losses_RT = losses_RT - self.entropy * torch.where(mask_RT, scored.entropy_RT, 0.0)
        return torch.where(mask_RT, losses_RT * self.normaliser.weights(mask_RT), 0.0)

    def counts(self, mask_RT: Tensor, group: int) -> Tensor:
        """(B,) float64: every sample's share of what the summed losses are divided by, of the tokens that learn; a sample has
        `group` rows. All are 0 where no token learns: such a step has no loss."""
        return self.normaliser.counts(mask_RT, group)

    @torch.no_grad()
    def figures(self, scored: ScoredTokens) -> dict[str, Tensor]:
        """Sums over tokens for the log, to be divided by `tokens`: the ratio; the share that is `clipped`; `moved`, KL(pi_old
        || pi) since the ratio was 1, by k3; and where they are known `kl`, KL(pi || ref) by k1, `entropy`, and `correction`.
        """
        mask_RT, log_r = scored.mask_RT, self.ratio.logs(scored)
        tokens = {
            "tokens": torch.ones_like(mask_RT),
            "ratio": bounded_exp(log_r),
            "clipped": self.clip.clipped(log_r, scored.advantages_RT),
            "moved": ESTIMATORS["k3"](-scored.log_ratio),
        }
        if scored.reference_RT is not None:
            tokens["kl"] = scored.log_p_RT - scored.reference_RT
        if scored.entropy_RT is not None:
            tokens["entropy"] = scored.entropy_RT
        if self.correction is not None:
            tokens["correction"] = self.correction.weights(scored)
        return {name: torch.where(mask_RT, value, 0).sum(dtype=torch.float64) for name, value in tokens.items()}

    def _complete(self, given: Rewarded | ScoredTokens, fields: Collection[str]) -> None:
        """Refuse what lacks a field that is read."""
        missing = sorted(name for name in self.reads.intersection(fields) if given._asdict()[name] is None)
        if missing:
            raise ValueError(
                f"this policy loss reads {' and '.join(missing)}, and {type(given).__name__} has None there: give it, or "
                "leave out the divergence, the entropy, the correction or the values that need it"
            )
