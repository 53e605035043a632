"""Which of a sample's answers a model learns from, by their rewards."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor

from anyformer.describe import Count, Registry, Value
from anyformer.objectives.policy.scored import Rewarded


class RowSelection(Value):
    """The base of selections among rows. A row without a reward, NaN, is never selected."""

    kinds: ClassVar[Registry] = Registry()
    kind: str

    def check(self, group: int) -> None:
        """Refuse a number of members G among which nothing is to be selected."""

    def rows(self, rewarded: Rewarded) -> Tensor:
        """(R,) bool: the rows that learn."""
        raise NotImplementedError


class BestSelection(RowSelection):
    """The `count` members of a sample with the largest rewards, the first of equal ones (best of n; RAFT, Dong et al. 2023,
    arXiv 2304.06767; expert iteration, Anthony et al. 2017, arXiv 1705.08439)."""

    kind: Literal["best"] = "best"
    count: Count = 1
    """How many members learn."""
    least: float | None = None
    """The smallest reward that is good enough; without it the best learn, however bad."""

    def check(self, group: int) -> None:
        if group <= self.count:
            raise ValueError(f"the {self.count} best of group = {group} members are all of them: set group to more")

    def rows(self, rewarded: Rewarded) -> Tensor:
        rewards_BG = rewarded.totals.view(-1, rewarded.group)
        order = rewards_BG.nan_to_num(float("-inf")).argsort(dim=1, descending=True, stable=True)
        best_BG = torch.zeros_like(rewards_BG, dtype=torch.bool).scatter(1, order[:, : self.count], True)
        return (best_BG & _good_enough(rewards_BG, self.least)).flatten()


class AboveSelection(RowSelection):
    """Every member whose reward is at least `least` (rejection sampling; STaR, Zelikman et al. 2022, arXiv 2203.14465; ReST,
    Gulcehre et al. 2023, arXiv 2308.08998)."""

    kind: Literal["above"] = "above"
    least: float = 1.0
    """The smallest reward that is good enough."""

    def rows(self, rewarded: Rewarded) -> Tensor:
        return _good_enough(rewarded.totals, self.least)


class VariedSelection(RowSelection):
    """All members of samples whose rewards differ: of others every advantage is 0, and they take no part in the normaliser
    either (dynamic sampling, DAPO, Yu et al. 2025, arXiv 2503.14476, section 3.2)."""

    kind: Literal["varied"] = "varied"

    def check(self, group: int) -> None:
        if group < 2:
            raise ValueError(f"the rewards of one member never differ, and group = {group}: set it to 2 or more")

    def rows(self, rewarded: Rewarded) -> Tensor:
        rewards_BG = rewarded.totals.view(-1, rewarded.group)
        least = rewards_BG.nan_to_num(float("inf")).amin(1, keepdim=True)
        most = rewards_BG.nan_to_num(float("-inf")).amax(1, keepdim=True)
        return ((most > least) & ~rewards_BG.isnan()).flatten()


def _good_enough(rewards: Tensor, least: float | None) -> Tensor:
    """Rewards that are numbers, and not below the least."""
    return ~rewards.isnan() if least is None else rewards >= least
