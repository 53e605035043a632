"""How much better than expected a sampled token was: what a policy's rewards are compared with."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from anyformer.describe import NotNegative, Positive, Registry, Value
from anyformer.objectives.policy.scored import Rewarded
from anyformer.objectives.policy.values import generalised_advantages

LEAST = 1e-4
"""Added to a deviation that is divided by: rewards that are all alike give 0."""
Share = Annotated[float, Field(ge=0, le=1)]
"""A factor of what comes later."""


class Advantage(Value):
    """The base of advantages A, from the rewards of tokens. A row without a reward, NaN, is left out of means and
    deviations."""

    kinds: ClassVar[Registry] = Registry()
    across_samples: ClassVar[bool] = False
    """Whether A depends on the rows of other samples, so that it is of a whole batch."""
    reads: ClassVar[frozenset[str]] = frozenset()
    """The fields of `Rewarded` that may be None and are read."""
    kind: str

    def check(self, group: int) -> None:
        """Refuse a number of members G with which A says nothing."""

    def advantages(self, rewarded: Rewarded) -> Tensor:
        """(R, T); its numbers where no token was sampled are not read."""
        raise NotImplementedError


class GroupMeanAdvantage(Advantage):
    """A = (r_i - mean(r)) / (std(r) + 1e-4) over the members of a sample, std with G - 1 (GRPO, Shao et al. 2024, arXiv
    2402.03300, section 4.1.2); without the division Dr. GRPO's (arXiv 2503.20783)."""

    kind: Literal["group_mean"] = "group_mean"
    over_std: bool = True
    """Divide by the deviation: samples whose members differ little count as much as others."""

    def check(self, group: int) -> None:
        _needs_others(self.kind, group)

    def advantages(self, rewarded: Rewarded) -> Tensor:
        rewards_BG = _by_sample(rewarded)
        found_BG = rewards_BG - _mean(rewards_BG)
        return _over_tokens(found_BG / (_std(rewards_BG) + LEAST) if self.over_std else found_BG)


class LeaveOneOutAdvantage(Advantage):
    """A = r_i - mean of the others' r in a sample: a baseline that does not depend on the answer itself, so that no gradient is
    biased (RLOO, Kool et al. 2019; Ahmadian et al. 2024, arXiv 2402.14740)."""

    kind: Literal["leave_one_out"] = "leave_one_out"

    def check(self, group: int) -> None:
        _needs_others(self.kind, group)

    def advantages(self, rewarded: Rewarded) -> Tensor:
        rewards_BG = _by_sample(rewarded)
        others_B1 = (~rewards_BG.isnan()).sum(1, keepdim=True) - 1
        # r_i - (sum - r_i) / (n - 1) = (r_i - mean) n / (n - 1); a row that is alone has no advantage.
        factor_B1 = torch.where(others_B1 > 0, (others_B1 + 1) / others_B1.clamp(min=1), 0.0)
        return _over_tokens((rewards_BG - _mean(rewards_BG)) * factor_B1)


class BatchStdAdvantage(Advantage):
    """A = (r_i - mean(r of the sample)) / (std(r of the batch) + 1e-4) (Liu et al. 2025, arXiv 2508.08221, section 4.1)."""

    kind: Literal["batch_std"] = "batch_std"
    across_samples: ClassVar[bool] = True

    def check(self, group: int) -> None:
        _needs_others(self.kind, group)

    def advantages(self, rewarded: Rewarded) -> Tensor:
        rewards_BG = _by_sample(rewarded)
        return _over_tokens((rewards_BG - _mean(rewards_BG)) / (_std(rewards_BG.view(1, -1)) + LEAST))


class BatchMeanAdvantage(Advantage):
    """A = (r_i - mean(r)) / (std(r) + 1e-4) over all rows of a batch (REINFORCE++, Hu et al. 2025, arXiv 2501.03262); without
    the division REINFORCE with the batch's mean as its baseline. A sample may have one row."""

    kind: Literal["batch_mean"] = "batch_mean"
    across_samples: ClassVar[bool] = True
    over_std: bool = True
    """Divide by the deviation."""

    def advantages(self, rewarded: Rewarded) -> Tensor:
        rewards_1R = _by_sample(rewarded).view(1, -1)
        found_1R = rewards_1R - _mean(rewards_1R)
        return _over_tokens(found_1R / (_std(rewards_1R) + LEAST) if self.over_std else found_1R)


class ReturnsAdvantage(Advantage):
    """A_t = sum_k g^k r_(t+k): what is still to come, with no baseline (REINFORCE, Williams 1992, doi 10.1007/BF00992696).
    With g = 0 a token's own reward alone."""

    kind: Literal["returns"] = "returns"
    discount: Share = 1.0
    """g, the factor of a reward per token in between."""

    def advantages(self, rewarded: Rewarded) -> Tensor:
        none_RT = torch.zeros_like(rewarded.rewards_RT)
        return generalised_advantages(rewarded.rewards_RT, none_RT, rewarded.mask_RT, self.discount, 1.0)


class ValuesAdvantage(Advantage):
    """Generalised advantage estimation: A_t = sum_k (g l)^k d_(t+k), d_t = r_t + g V_(t+1) - V_t, V of a value head (Schulman
    et al. 2016, arXiv 1506.02438, equation 16; PPO, arXiv 1707.06347)."""

    kind: Literal["values"] = "values"
    reads: ClassVar[frozenset[str]] = frozenset({"values_RT"})
    discount: Share = 1.0
    """g, the factor of a reward per token in between."""
    trace: Share = 0.95
    """l: 1 takes the rewards as they came, 0 the value of the next state for all of them."""
    within: Positive | None = 0.2
    """How far a value may move from what it was before its loss has no gradient (`value_losses`)."""
    weight: NotNegative = 0.5
    """The factor of the values' loss."""

    def advantages(self, rewarded: Rewarded) -> Tensor:
        assert rewarded.values_RT is not None, "checked before"
        return generalised_advantages(
            rewarded.rewards_RT, rewarded.values_RT, rewarded.mask_RT, self.discount, self.trace
        )  # fmt: skip


class EqualAdvantage(Advantage):
    """A = 1: every answer that learns is imitated, whatever its reward; which ones learn, a selection says."""

    kind: Literal["equal"] = "equal"

    def advantages(self, rewarded: Rewarded) -> Tensor:
        return torch.ones_like(rewarded.rewards_RT)


def _by_sample(rewarded: Rewarded) -> Tensor:
    """(B, G)."""
    return rewarded.totals.view(-1, rewarded.group)


def _mean(x: Tensor) -> Tensor:
    return x.nanmean(1, keepdim=True)


def _std(x: Tensor) -> Tensor:
    """The deviation with n - 1, of the numbers that are none; 0 of a single one."""
    squares = (x - _mean(x)).square().nansum(1, keepdim=True)
    return (squares / ((~x.isnan()).sum(1, keepdim=True) - 1).clamp(min=1)).sqrt()


def _over_tokens(x: Tensor) -> Tensor:
    """(R, 1): the advantage of a row, for all of its tokens."""
    return x.reshape(-1, 1)


def _needs_others(kind: str, group: int) -> None:
    if group < 2:
        raise ValueError(f"the advantage {kind!r} compares the members of a sample, and group = {group}: set it to 2 or more")
