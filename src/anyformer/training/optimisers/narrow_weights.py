"""Rules for weights in bf16: an update of a copy in fp32 that is kept, or that is made and rounded by chance."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import torch
from torch import Tensor

from anyformer.parts.call.noise import mix
from anyformer.tuning.optimisers.rule_module import Rule, State, counter

MASTER, UPDATES = "master", "roundings"
AT_ONCE = 1 << 14
"""Numbers that are rounded at once: the chances of each take 8 bytes."""


@dataclass(frozen=True)
class Masters(Rule):
    """w <- round(m) after `rule` has changed m, the weight in fp32 (Micikevicius et al. 2018, arXiv 1710.03740)."""

    rule: Rule

    def start(self, weight: Tensor) -> State:
        return {MASTER: weight.detach().float().clone(), **self.rule.start(weight.detach().float())}

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        self.rule.change(state[MASTER], gradient.float(), state, rate, decay)
        weight.copy_(state[MASTER])

    def mean(self, weight: Tensor, state: State) -> Tensor:
        return self.rule.mean(state[MASTER], state).to(weight.dtype)


@dataclass(frozen=True)
class Stochastic(Rule):
    """w <- up or down from w', which `rule` makes of w in fp32, by chances whose mean is w' (Gupta et al. 2015, 1502.02551)."""

    rule: Rule
    key: int

    def start(self, weight: Tensor) -> State:
        return {UPDATES: counter(), **self.rule.start(weight.detach().float())}

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        state[UPDATES] += 1
        wide = weight.float()
        self.rule.change(wide, gradient.float(), state, rate, decay)
        rounded_by_chance(wide, weight, zlib.crc32(f"{self.key}/{int(state[UPDATES])}".encode()))

    def mean(self, weight: Tensor, state: State) -> Tensor:
        return self.rule.mean(weight.float(), state).to(weight.dtype)


def rounded_by_chance(x: Tensor, into: Tensor, key: int) -> None:
    """Put x, fp32, `into` a bf16 tensor, each number rounded to one of its two neighbours with a mean of x.

    A number between neighbours a < x < b becomes b with probability (x - a) / (b - a), drawn from (`key`, its place): 16
    random bits are added to the 16 that bf16 lacks, and those are cut off.
    """
    flat, target = x.reshape(-1), into.view(-1)
    for at in range(0, len(flat), AT_ONCE):
        numbers = flat[at : at + AT_ONCE]
        chances = mix(mix(torch.arange(at, at + len(numbers), device=x.device)) ^ key) >> 16
        lifted = (numbers.view(torch.int32) + chances.int()) & -0x10000
        # Infinity and NaN stay what they are.
        target[at : at + AT_ONCE] = torch.where(numbers.isfinite(), lifted.view(torch.float32), numbers)


def narrowed(rule: Rule, *, masters: bool, key: int) -> Rule:
    """The rule of a weight in bf16, from its rule in fp32; `key`: of its chances."""
    return Masters(rule) if masters else Stochastic(rule, key)
