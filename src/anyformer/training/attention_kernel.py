"""Which kernel computes attention in a run on a processor: the one in C++ where a trial finds it faster."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from anyformer.costs.calibration import best_times
from anyformer.describe import UserError
from anyformer.native import problem
from anyformer.parts.attention.attend import attend
from anyformer.parts.attention.attend_native import SOURCE, TYPES
from anyformer.parts.attention.scores import by_group
from anyformer.parts.call.context import Visible
from anyformer.plan import Plan

ROWS, HEADS, LENGTH, WIDTH = 8, 4, 256, 64
"""Sizes of the trial."""
ROUNDS = 5
NUMBERS = {name: dtype for dtype, name in TYPES.items()}
"""The types that the kernel computes in, by the name of a plan's number format."""


def with_kernel(plan: Plan, device: torch.device, *, long: bool) -> tuple[Plan, list[str]]:
    """The plan whose attention is `native` instead of `auto` where that was faster just now, and a note that says so.

    `long`: whether the run is long enough for a trial, and for compiling the kernel once. Raises `UserError` where the plan
    says `native` and this machine cannot make it.
    """
    if device.type != "cpu" or plan.attention not in ("auto", "native"):
        return plan, []
    if plan.attention == "native":
        if reason := problem(SOURCE):
            raise UserError(f"plan.attention: 'native' was asked for, but {reason}; 'auto' takes torch's kernels")
        return plan, []
    dtype = NUMBERS.get(plan.number)
    if not long or dtype is None or problem(SOURCE):
        return plan, []
    gain = gain_of_native(dtype)
    if gain <= 1:
        return plan, []
    return plan.but(attention="native"), [
        f"attention by the kernel in C++, {gain:.1f} times as fast here as the fastest other way"
    ]


@cache
def gain_of_native(dtype: torch.dtype) -> float:
    """By what factor the kernel in C++ is faster than the fastest other way, forward and backward; the best of some rounds.

    Attention that is written out is counted with its products and one softmax, though mask and factor take time too.
    """
    draw = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(ROWS, LENGTH, HEADS, WIDTH, generator=draw).to(dtype).transpose(1, 2).requires_grad_() for _ in range(3)
    )

    def learnt(kernel: str) -> None:
        mixed = attend(q, k, v, Visible(causal=True), scale=WIDTH**-0.5, kernel=kernel)
        torch.autograd.grad(mixed, (q, k, v), mixed.detach())

    def written() -> None:
        mixed = _written(q, k, v)
        torch.autograd.grad(mixed, (q, k, v), mixed.detach())

    others = [lambda: learnt("sdpa"), written] if dtype.itemsize == 2 else [lambda: learnt("sdpa")]
    native, *rest = best_times(ROUNDS, lambda: learnt("native"), *others)
    return min(rest) / native


def _written(q_BHTE: Tensor, k_BHSE: Tensor, v_BHSU: Tensor) -> Tensor:
    """softmax(q k^T) v: the least that attention which is written out computes."""
    return (by_group(q_BHTE, k_BHSE.shape[1]) @ k_BHSE.transpose(2, 3)).softmax(-1) @ v_BHSU
