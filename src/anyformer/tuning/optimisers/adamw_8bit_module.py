"""AdamW with moments in 8 bits (Dettmers et al. 2021, arXiv 2110.02861), in plain operations that need no compiler."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from anyformer.tuning.optimisers.rule_module import Rule, State, counted, counter

AT_ONCE = 1 << 22
"""Numbers of a weight that are in fp32 at once, at least one block."""
LEAST_SCALE = 1e-12
"""The scale of a block of zeros."""
MOMENTS = {"mean": True, "mean_square": False}
"""The moments, and whether they have a sign."""


@cache
def codes(signed: bool, device: torch.device) -> Tensor:
    """The 256 numbers that a code stands for, in order: the paper's dynamic map (section 1.3), from -1 or 0 to 1.

    In each power of ten up to 1, twice as many as in the one below, in the middle of equal intervals; and 0 and 1.
    """
    numbers = [0.0, 1.0]
    for decade in range(7):
        edges = torch.linspace(0.1, 1, 2 ** (decade + (not signed)) + 1)
        middles = (10.0 ** (decade - 6) * ((edges[:-1] + edges[1:]) / 2)).tolist()
        numbers += [*middles, *(-x for x in middles)] if signed else middles
    return torch.tensor(sorted(numbers), device=device)


def quantised(x: Tensor, block: int, signed: bool) -> tuple[Tensor, Tensor]:
    """The code of each number and the scale of each block: of a vector (n,), codes (n,) and scales (ceil(n / block),)."""
    blocks = F.pad(x, (0, -len(x) % block)).view(-1, block)
    scale = blocks.abs().amax(-1).clamp_(min=LEAST_SCALE)
    known = codes(signed, x.device)
    nearest = torch.bucketize(blocks / scale[:, None], (known[:-1] + known[1:]) / 2, right=True)
    return nearest.view(-1)[: len(x)].to(torch.uint8), scale


def restored(code: Tensor, scale: Tensor, block: int, signed: bool) -> Tensor:
    """The numbers that codes and scales stand for."""
    return codes(signed, code.device)[code.int()] * scale.repeat_interleave(block)[: len(code)]


@dataclass(frozen=True)
class EightBitRule(Rule):
    """`AdamRule` with moments that are restored from 8 bits before each update and rounded to them after it."""

    betas: tuple[float, float]
    eps: float
    block: int

    def start(self, weight: Tensor) -> State:
        state = {"updates": counter()}
        for name, signed in MOMENTS.items():
            zero = torch.zeros(weight.numel(), device=weight.device)
            state[name], state[f"{name}_scale"] = quantised(zero, self.block, signed)
        return state

    def change(self, weight: Tensor, gradient: Tensor, state: State, rate: float, decay: float) -> None:
        count, block, flat = counted(state), self.block, gradient.reshape(-1)
        numbers = weight.view(-1)
        size = max(1, AT_ONCE // block) * block
        for at in range(0, len(numbers), size):
            here, scales = slice(at, at + size), slice(at // block, (at + size) // block)
            some = flat[here]
            moments = []
            for (name, signed), beta, new in zip(MOMENTS.items(), self.betas, (some, some.square()), strict=True):
                code, scale = state[name][here], state[f"{name}_scale"][scales]
                moments.append(restored(code, scale, block, signed).lerp_(new, 1 - beta))
                for kept, now in zip((code, scale), quantised(moments[-1], block, signed), strict=True):
                    kept.copy_(now)
            mean, square = (x / (1 - beta**count) for x, beta in zip(moments, self.betas, strict=True))
            numbers[here].mul_(1 - rate * decay).addcdiv_(mean, square.sqrt_().add_(self.eps), value=-rate)
