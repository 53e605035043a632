"""Scans over time: x_t = links_{t-1} x_{t-1} + writes_t in 2 log2 T steps on all positions, whatever T.

Positions are combined in pairs, pairs in fours and so on (Blelloch 1990), each step in place: three passes over the numbers in
all. Links are multiplied and never divided, so that a strong decay loses no digits. The gradient of a scan is a scan the other
way round, so that only links and states are saved. Operators of their own, so that a compiler sees one step, not 2 log2 T.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Join = Callable[[Tensor, Tensor, Tensor], object]
"""join(x, links, before): lets x take in what comes before it, in place."""


def scan(links: Tensor, writes: Tensor) -> Tensor:
    """x_0 = writes_0, x_t = links_{t-1} x_{t-1} + writes_t: links (B, T - 1, ...) of sizes that fit writes (B, T, ...)."""
    return writes if writes.shape[1] == 1 else _scan(links, writes)


def running_largest(links: Tensor, entering: Tensor) -> Tensor:
    """x_0 = entering_0, x_t = max(x_{t-1} + links_{t-1}, entering_t), without a gradient: (B, T - 1, W), (B, T, W)."""
    links, entering = links.detach(), entering.detach()
    return entering if entering.shape[1] == 1 else _running_largest(links, entering)


def add_up(links: Tensor, x: Tensor) -> None:
    """x, the writes, become the states in place; links are used up."""
    _combine(links, x, lambda x, links, before: x.addcmul_(links, before), Tensor.mul_)


def _combine(links: Tensor, x: Tensor, join: Join, chain: Callable[[Tensor, Tensor], object]) -> None:
    """Every x joins all before it, in place; `chain` makes one link of two that follow one another."""
    length = x.shape[1]
    if length == 1:
        return
    first, second = links[:, 1::2], links[:, 2::2]
    join(x[:, 1::2], links[:, ::2], x[:, : length - length % 2 : 2])
    chain(second, first[:, : second.shape[1]])
    _combine(second, x[:, 1::2], join, chain)
    join(x[:, 2::2], first, x[:, 1 : length - 1 : 2])


@torch.library.custom_op("anyformer::scan", mutates_args=())
def _scan(links: Tensor, writes: Tensor) -> Tensor:
    states = writes.clone(memory_format=torch.contiguous_format)
    add_up(links.clone(), states)
    return states


@torch.library.custom_op("anyformer::running_largest", mutates_args=())
def _running_largest(links: Tensor, entering: Tensor) -> Tensor:
    largest = entering.clone(memory_format=torch.contiguous_format)
    _combine(links.clone(), largest, lambda x, links, before: torch.maximum(x, before + links, out=x), Tensor.add_)
    return largest


@_scan.register_fake
@_running_largest.register_fake
def _(links, writes):  # type: ignore[no-untyped-def]
    return torch.empty_like(writes, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], output)


def _gradients(ctx: Any, d_states: Tensor) -> tuple[Tensor, Tensor]:
    links, states = ctx.saved_tensors
    d_writes = scan(links.flip(1), d_states.flip(1)).flip(1)
    return (d_writes[:, 1:] * states[:, :-1]).sum_to_size(links.shape), d_writes


_scan.register_autograd(_gradients, setup_context=_keep)
