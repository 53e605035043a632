"""How much better than expected a sampled token was: what a policy's rewards are compared with."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.describe import Registry, Value
from anyformer.objectives.policy.scored import Rewarded

LEAST = 1e-4
"""Added to a deviation that is divided by: rewards that are all alike give 0."""


class Advantage(Value):
    """The base of advantages A, from the rewards of tokens."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    @property
    def across_samples(self) -> bool:
        """Whether A depends on the rows of other samples, so that a batch may not be cut before."""
        return False

    def check(self, group: int) -> None:
        """Refuse a number of members G with which A says nothing."""

    def advantages(self, rewarded: Rewarded) -> Tensor:
        """(R, T) in fp32; its numbers where no token was sampled are not read."""
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
        rewards_BG = rewarded.totals.view(-1, rewarded.group)
        found_BG = rewards_BG - rewards_BG.mean(1, keepdim=True)
        if self.over_std:
            found_BG = found_BG / (rewards_BG.std(1, keepdim=True) + LEAST)
        return over_tokens(found_BG.flatten(), rewarded.mask_RT)


def over_tokens(advantages_R: Tensor, mask_RT: Tensor) -> Tensor:
    """(R, T): the advantage of a row at all of its tokens."""
    return torch.where(mask_RT, advantages_R[:, None], 0.0)


def _needs_others(kind: str, group: int) -> None:
    if group < 2:
        raise ValueError(f"the advantage {kind!r} compares the members of a sample, and group = {group}: set it to 2 or more")
